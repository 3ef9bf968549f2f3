/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liveness.c: see liveness.h.
 *
 * The list of robust futexes that glibc keeps for each thread is replaced by one of our own, with
 * one entry; the service thread never takes a robust pthread mutex. The entry is in private memory
 * and futex_offset leads to the word, so that the kernel reads nothing of the shared page but the
 * word itself.
 */
#include "control/liveness.h"

#include "util/fork_fds.h"
#include "util/limit.h"
#include "util/thread_id.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static_assert(LIVENESS_OWNER_DIED == FUTEX_OWNER_DIED, "the word is the kernel's");

static struct {
    int fd;
    _Atomic uint32_t *word;
    struct robust_list entry;
    struct robust_list_head head;
    struct robust_list_head *before; /* that of glibc */
    size_t before_bytes;
} liveness_own = {.fd = -1};

int liveness_create(struct error *err)
{
    void *page = MAP_FAILED;
    struct rlimit most;
    int result, fd;

    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < LIVENESS_PAGE_BYTES) {
        return error_set(err, -ENOMEM,
                         "shared memory counts as a file, and files are limited to "
                         "%llu bytes, less than %d "
                         "(see "
                         "ulimit -f)",
                         (unsigned long long)most.rlim_cur,
                         /* ftruncate(2) would add a signal that ends the process (SIGXFSZ) */
                         LIVENESS_PAGE_BYTES);
    }
    fd = memfd_create("rmalloc-life", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, LIVENESS_PAGE_BYTES) != 0)
        goto failed;
    page = mmap(NULL, LIVENESS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        goto failed;
    /* Linux before 5.1 lacks the second seal; there a peer could write, which would mislead that
     * peer alone. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) != 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        goto failed;
    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
    fork_fds_add(fd);
    liveness_own.fd = fd;
    liveness_own.word = page;
    return 0;

failed:
    result = -errno;
    error_note(err, "the liveness page of this process (memfd, 4096 bytes): %s%s", strerror(errno),
               limit_of(errno));
    if (page != MAP_FAILED)
        munmap(page, LIVENESS_PAGE_BYTES);
    if (fd >= 0)
        close(fd);
    return result;
}

int liveness_fd(void) { return liveness_own.fd; }
const _Atomic uint32_t *liveness_word(void) { return liveness_own.word; }

/* Without its number in the word the end of this thread is not marked; the end of its sockets shows
 * it then. */
void liveness_hold(void)
{
    long id = thread_id();

    liveness_own.head.list.next = &liveness_own.entry;
    liveness_own.entry.next = &liveness_own.head.list;
    liveness_own.head.futex_offset =
        (long)((intptr_t)liveness_own.word - (intptr_t)&liveness_own.entry);
    liveness_own.head.list_op_pending = NULL;
    syscall(SYS_get_robust_list, 0, &liveness_own.before, &liveness_own.before_bytes);
    atomic_store_explicit(liveness_own.word, id > 0 ? (uint32_t)id : LIVENESS_UNKNOWN_OWNER,
                          memory_order_relaxed);
    syscall(SYS_set_robust_list, &liveness_own.head, sizeof(liveness_own.head));
}

/* Release: a peer that sees that this process has left also sees its stores before. Relaxed
 * loads of peers need the value only. */
void liveness_leave(void)
{
    atomic_store_explicit(liveness_own.word, LIVENESS_LEFT, memory_order_release);
}

void liveness_release(void)
{
    syscall(SYS_set_robust_list, liveness_own.before,
            liveness_own.before != NULL ? liveness_own.before_bytes : sizeof(liveness_own.head));
}

void liveness_destroy(void)
{
    if (liveness_own.word != NULL)
        munmap((void *)liveness_own.word, LIVENESS_PAGE_BYTES);
    liveness_own.word = NULL;
    fork_fds_close(liveness_own.fd);
    liveness_own.fd = -1;
}

int liveness_map(int fd, const _Atomic uint32_t **word, struct error *err)
{
    const int needed = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    void *page;

    /* Without the seal a load could end in SIGBUS later. */
    if (seals < 0 || (seals & needed) != needed || fstat(fd, &st) != 0 ||
        st.st_size != LIVENESS_PAGE_BYTES)
        return error_set(err, -EPROTO, "its liveness page is not a sealed memfd of %d bytes",
                         LIVENESS_PAGE_BYTES);
    page = mmap(NULL, LIVENESS_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        int error = errno;

        error_note(err, "its liveness page cannot be mapped: %s%s", strerror(error),
                   limit_of(error));
        return -error;
    }
    *word = page;
    return 0;
}

const _Atomic uint32_t *liveness_of_gone(bool died)
{
    static const _Atomic uint32_t word[2] = {LIVENESS_LEFT, LIVENESS_OWNER_DIED};

    return &word[died];
}

void liveness_unmap(const _Atomic uint32_t *word)
{
    if (word != NULL && word != liveness_of_gone(false) && word != liveness_of_gone(true))
        munmap((void *)(uintptr_t)word, LIVENESS_PAGE_BYTES);
}
