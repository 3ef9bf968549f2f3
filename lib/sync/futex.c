/* SPDX-License-Identifier: BSD-3-Clause */
/* futex.c: see futex.h. */
#include "sync/futex.h"

#include "util/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CALL_FUTEX_WAITV 449 /* on every architecture; the headers may be older than the kernel */

struct waitv {
    uint64_t value, address;
    uint32_t flags, zero;
};
#define WAITV_32 2u /* bits; not FUTEX_PRIVATE_FLAG: the other side is another process */

static _Atomic bool futex_no_waitv;

void futex_wait(const _Atomic uint32_t *word, uint32_t seen, int64_t ns)
{
    const struct timespec t = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};

    syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

void futex_wait_many(const struct futex_word *words, uint32_t n, int64_t until)
{
    const struct timespec t = {(time_t)(until / NS_PER_S), (long)(until % NS_PER_S)};
    struct waitv v[FUTEX_WORDS_MOST];

    for (uint32_t i = 0; i < n; i++)
        v[i] = (struct waitv){words[i].seen, (uint64_t)(uintptr_t)words[i].word, WAITV_32, 0};
    if (syscall(CALL_FUTEX_WAITV, v, n, 0, &t, CLOCK_MONOTONIC) < 0 && errno != EAGAIN &&
        errno != EINTR && errno != ETIMEDOUT)
        atomic_store_explicit(&futex_no_waitv, true, memory_order_relaxed);
}

bool futex_many_works(void) { return !atomic_load_explicit(&futex_no_waitv, memory_order_relaxed); }

void futex_wake(const _Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
