/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many.c: see many.h.
 *
 * A thread sleeps on the wake words of all ends at once where the kernel can do that (futex_waitv(2)), there are at most WAIT_WORDS of
 * them, and each has one. Else it backs off: for at most 1 ms, or as much longer as one attempt takes, so that a long wait uses
 * some 3 % of a processor, also with a thousand ends.
 */
#include "rpipe/wait/many.h"

#include "rpipe/end/call_context.h"
#include "rpipe/end/cork.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/path.h"

#include <errno.h>

#define BACKOFF_PER_ATTEMPT 32   /* the longest back-off is so many times an attempt, */
#define BACKOFF_LEAST_US 1000    /* at least this */
#define BACKOFF_LONGEST_US 20000 /* and at most this */

struct many {
    struct waiter waiter;
    const rch_t *ch;
    int n;
    int (*attempt)(void *of);
    void *of;
    bool again; /* attempts are repeated: their time sets the longest back-off */
};

/* 0 where one of them has no wake word: another thread may close an end with a lock, and a network wakes no thread. */
static uint32_t many_find_words(void *of, _Atomic uint32_t *word[WAIT_WORDS])
{
    const struct many *m = of;

    if (m->n > WAIT_WORDS)
        return 0;
    for (int i = 0; i < m->n; i++) {
        struct rch *ch = m->ch[i];
        uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);

        if ((state & (STATE_LOCKED | STATE_CLOSED)) != 0 || !ch->path->wakes || ch->died != 0)
            return 0; /* died: the result is known within milliseconds, and no store wakes */
        word[i] = end_wake_word(ch, state);
    }
    return (uint32_t)m->n;
}

static int many_attempt(void *of)
{
    struct many *m = of;
    int64_t begun = clock_now(), us;
    int rc = m->again && calls_ended() ? job_check() : m->attempt(m->of);

    m->again = true;
    cork_before_wait();
    us = (clock_now() - begun) * BACKOFF_PER_ATTEMPT / 1000;
    m->waiter.backoff_most_us = (uint32_t)(us < BACKOFF_LEAST_US     ? BACKOFF_LEAST_US
                                           : us > BACKOFF_LONGEST_US ? BACKOFF_LONGEST_US
                                                                     : us);
    return rc;
}

int many_await(const rch_t *ch, int n, int64_t deadline, int (*attempt)(void *of), void *of)
{
    struct many m;

    wait_begin(&m.waiter, NULL, deadline, false);
    m.waiter.words = many_find_words;
    m.waiter.of = &m;
    m.ch = ch;
    m.n = n;
    m.attempt = attempt;
    m.of = of;
    m.again = false;
    return wait_until(&m.waiter, many_attempt, &m);
}
