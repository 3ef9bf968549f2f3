/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board_fetch.c: rboard_fetch: private memory of a member of this host (doc/boards.md "Private memory"); see board.h.
 *
 * The kernel decides which processes may read another one: those of the same user, as far as Yama, namespaces and seccomp permit it.
 * The pid is that of the member's card, which no message of it changes. Behind the bytes the same system call reads the cookie in the last
 * line of the board where the member has it mapped, and here that is compared with the line itself: so what was read is of the process that
 * owns the board, and it had not closed the board, or called rexit, when all bytes had been read.
 */
#include "rpipe/board/board.h"

#include "control/peer_card.h"
#include "control/control.h"
#include "rpipe/end/call.h"
#include "util/failpoint.h"
#include "util/settings.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define FETCH_MOST ((size_t)1 << 30) /* of one system call, which moves 2 GiB at most */

static int board_fetch_refused(const struct board_member *m, int error)
{
    switch (error) {
    case EPERM:
    case ENOSYS:
        return call_error(NULL, -ENOTSUP,
                          "the kernel does not permit access to the memory of rank %d "
                          "(process_vm_readv: %s; kernel.yama.ptrace_scope, user namespaces or "
                          "seccomp)",
                          m->rank, strerror(error));
    case ESRCH:
        return call_error(NULL, -ECONNRESET, "rank %d has died", m->rank);
    case ENOMEM:
        return call_error(NULL, -ENOMEM, "the kernel has no memory for process_vm_readv");
    default:
        return call_error(NULL, -EPROTO, "rank %d has no memory there, or has closed the board: %s",
                          m->rank, strerror(error));
    }
}

/* The pid of a member, as this process sees it. */
static int board_fetch_pid(struct board_member *m, int *pid)
{
    struct control_process process;
    struct error err = {""};
    int rc;

    *pid = atomic_load_explicit(&m->pid, memory_order_relaxed);
    if (*pid != 0)
        return 0;
    if (setting_number(SET_CROSS) == 0)
        return call_error(NULL, -ENOTSUP, "RPIPE_CROSS is 0 here");
    rc = control_process(m->rank, &process, &err);
    if (rc == 0 && process.pid <= 0)
        rc = error_set(&err, -ENOTSUP, "rank %d is in another pid namespace", m->rank);
    if (rc != 0)
        return call_error(NULL, rc, "%s", err.text);
    *pid = process.pid;
    atomic_store_explicit(&m->pid, *pid, memory_order_relaxed);
    return 0;
}

/* Where the member has its last line, and the cookie of that: loaded once each, since it may change them at any time. */
static int board_fetch_line(struct rboard *b, int member, uint64_t *address, uint64_t *cookie)
{
    const struct board_member *m = &b->member[member];
    /* acquire: pairs with the release of the service thread, after the mapping */
    const char *mem = atomic_load_explicit(&m->mem, memory_order_acquire);
    const struct board_line *line;

    if (mem == NULL)
        return call_error(NULL, -EAGAIN, "the memory of member %d, rank %d, is not mapped%s",
                          member, m->rank, m->here ? "" : ": it is on another host");
    line = (const struct board_line *)(const void *)(mem + board_line(b, member));
    *address = *(const volatile uint64_t *)&line->address;
    *cookie = *(const volatile uint64_t *)&line->cookie;
    return 0;
}

/* At most FETCH_MOST bytes, and the cookie behind them. */
static int board_fetch_some(struct board_member *m, int pid, void *into, const void *from,
                            size_t bytes, uint64_t address, uint64_t cookie)
{
    uint64_t seen = 0;
    const struct iovec near[] = {{into, bytes}, {&seen, sizeof(seen)}},
                       there[] = {{(void *)(uintptr_t)from, bytes},
                                  {(void *)(uintptr_t)address, sizeof(seen)}};
    ssize_t n;

    RPIPE_FAILPOINT("rboard_fetch: before the bytes");
    n = process_vm_readv(pid, near, 2, there, 2, 0);
    if (n < 0)
        return board_fetch_refused(m, errno);
    if ((size_t)n < bytes + sizeof(seen) || seen != cookie)
        return board_fetch_refused(m, EFAULT);
    return 0;
}

static int board_fetch(struct rboard *b, int member, void *into, const void *from, size_t bytes)
{
    uint64_t address = 0, cookie = 0;
    struct board_member *m;
    int pid = 0, rc = board_check(b);

    if (rc != 0)
        return rc;
    if (member < 0 || member >= b->n || into == NULL || from == NULL)
        return call_error(NULL, -EINVAL, "member is %d of %d, into is %s, from is %s", member, b->n,
                          into == NULL ? "NULL" : "given", from == NULL ? "NULL" : "given");
    m = &b->member[member];
    if (member == b->me) {
        memmove(into, from, bytes);
        return 0;
    }
    rc = board_fetch_line(b, member, &address, &cookie);
    if (rc == 0)
        rc = board_fetch_pid(m, &pid);
    for (size_t at = 0, some; at < bytes && rc == 0; at += some) {
        some = bytes - at < FETCH_MOST ? bytes - at : FETCH_MOST;
        rc = board_fetch_some(m, pid, (char *)into + at, (const char *)from + at, some, address,
                              cookie);
    }
    return rc;
}

int rboard_fetch(rboard_t board, int member, void *into, const void *from, size_t bytes)
{
    struct call call;

    call_enter(&call, "rboard_fetch");
    return call_end(&call, board_fetch(board, member, into, from, bytes));
}
