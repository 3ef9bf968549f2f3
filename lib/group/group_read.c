/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_read.c: redux: the next message of any member, fair.
 *
 * Polling an empty pipe costs as much as a message, so members without messages are polled less often. There are two rings:
 * of `busy` the first is read and becomes the last; found empty, it becomes the last of `idle`. After each POLL_EVERY messages of
 * busy members the first POLL_EVERY idle ones are polled; one that has a message becomes the last of the busy ones.
 *
 * So busy members are read strictly in turn, one message each. With n members no message in a pipe waits for more than
 * 2n + POLL_EVERY others: each other member gives at most one before the turn of a busy one. An idle member with p others ahead
 * of it, p < n, is polled after at most ceil((p + 1) / POLL_EVERY) rounds of POLL_EVERY messages, and p messages of those that
 * turned out not to be idle.
 */
#include "group/group.h"

#include "util/clock.h"
#include "util/failpoint.h"

#include <errno.h>

#define POLL_EVERY 16

/* ---- rings ---- */

static inline int group_ring_first(const struct rgroup *g, const struct group_ring *q)
{
    return g->next[q->before];
}

static void group_ring_push(struct rgroup *g, struct group_ring *q, int member)
{
    if (q->n++ == 0) {
        g->next[member] = member;
    } else {
        g->next[member] = group_ring_first(g, q);
        g->next[q->before] = member;
    }
    q->before = member;
}

static void group_ring_remove_first(struct rgroup *g, struct group_ring *q)
{
    if (--q->n > 0)
        g->next[q->before] = g->next[group_ring_first(g, q)];
}

void group_readers_init(struct rgroup *g)
{
    g->ready = g->next + g->n;
    for (int i = 0; i < g->n; i++)
        group_ring_push(g, &g->idle, i);
}

/* ---- polling ---- */

static NOINLINE int group_no_message(struct rgroup *g, int member, int rc)
{
    if (rc == R_PENDING)
        return rc;
    if (rc == R_EOF || !group_member_is_open(&g->member[member])) {
        group_drop(g, member);
        return R_PENDING;
    }
    return group_failed(g, member, rc);
}

static inline int group_poll_member(struct rgroup *g, int member, raddr_t *d, size_t *size)
{
    struct group_member *m = &g->member[member];
    int rc = LIKELY(m->ch->id == m->id) ? rpipe_read_nb(m->ch, d, size) : -ENOTCONN;

    RPIPE_FAILPOINT("rgroup_read: member polled");
    return LIKELY(rc == 0) ? 0 : group_no_message(g, member, rc);
}

int group_poll(struct rgroup *g, int member, raddr_t *d, size_t *size)
{
    return group_poll_member(g, member, d, size);
}

/* The first of a ring, which then moves to where it belongs. */
static inline int group_poll_first(struct rgroup *g, struct group_ring *q, int *member, raddr_t *d,
                                   size_t *size)
{
    int at = group_ring_first(g, q),
        rc = UNLIKELY(g->member[at].gone) ? R_PENDING : group_poll_member(g, at, d, size);
    struct group_ring *to = rc == 0 ? &g->busy : rc == R_PENDING ? &g->idle : q;

    if (LIKELY(rc == 0))
        *member = at;
    if (LIKELY(to == q && !g->member[at].gone)) {
        q->before = at; /* the first one is the last one now */
        return rc;
    }
    group_ring_remove_first(g, q);
    if (!g->member[at].gone)
        group_ring_push(g, to, at);
    return rc;
}

static NOINLINE int group_poll_idle(struct rgroup *g, int *member, raddr_t *d, size_t *size)
{
    int rc = R_PENDING;

    while (rc == R_PENDING && g->due > 0 && g->idle.n > 0) {
        g->due--;
        rc = group_poll_first(g, &g->idle, member, d, size);
    }
    if (g->idle.n == 0)
        g->due = 0;
    return rc;
}

int group_all_closed(struct rgroup *g)
{
    g->lost = -1;
    return call_error(
        NULL, R_EOF,
        "all %d members have closed or are lost, and all their messages have been read", g->n);
}

static int group_read_once(struct rgroup *g, int *member, raddr_t *d, size_t *size)
{
    int rc;

    if (g->due > 0 && (rc = group_poll_idle(g, member, d, size)) != R_PENDING)
        return rc;
    while (g->busy.n > 0) {
        rc = group_poll_first(g, &g->busy, member, d, size);
        if (LIKELY(rc == 0) && ++g->taken >= POLL_EVERY) {
            g->taken = 0;
            g->due = g->idle.n < POLL_EVERY ? g->idle.n : POLL_EVERY;
        }
        if (rc != R_PENDING)
            return rc;
    }
    g->due =
        g->idle.n; /* no member is busy: each is polled once, the rest of them in the next calls */
    rc = group_poll_idle(g, member, d, size);
    if (rc != R_PENDING || g->live > 0)
        return rc;
    RPIPE_FAILPOINT("rgroup_read: all members gone");
    return group_all_closed(g);
}

/* ---- waiting ---- */

int group_await(struct rgroup *g, const int *members, int n, int64_t deadline)
{
    int64_t left = deadline == DEADLINE_NEVER ? 0 : deadline - clock_now();
    int ends = 0, rc;

    for (int i = 0; i < n; i++) {
        struct group_member *m = &g->member[members != NULL ? members[i] : i];

        if (m->gone)
            continue;
        if (!group_member_is_open(m))
            return 0; /* the next poll detects it */
        g->ends[ends++] = m->ch;
    }
    if (ends == 0)
        return 0;
    if (deadline == DEADLINE_NEVER)
        rc = rpipe_poll(g->ends, ends, g->ready, R_FOREVER);
    else if (left <= 0)
        rc = -ETIMEDOUT;
    else
        rc = rpipe_poll(g->ends, ends, g->ready, (int)((left - 1) / NS_PER_MS) + 1);
    return rc == -ETIMEDOUT ? rc : 0; /* any other result is found by the next poll */
}

static NOINLINE int group_read_wait(struct rgroup *g, int *member, raddr_t *d, size_t *size)
{
    int64_t deadline = deadline_in_ms(g->timeout_ms);
    int rc;

    do {
        if (group_await(g, NULL, g->n, deadline) != 0) {
            g->lost = -1;
            return call_error(NULL, -ETIMEDOUT, "no message of %d members within %d ms", g->live,
                              g->timeout_ms);
        }
        rc = group_read_once(g, member, d, size);
    } while (rc == R_PENDING);
    return rc;
}

/* ---- rgroup_read ---- */

static int group_check_read(const int *member, const raddr_t *d, int flags)
{
    int rc = call_check_flags(NULL, flags);

    if (rc == 0 && (member == NULL || d == NULL))
        rc = call_error(NULL, -EINVAL, "%s is NULL", member == NULL ? "member" : "d");
    return rc;
}

static NOINLINE int group_read_slow(rgroup_t g, int *member, raddr_t *d, size_t *size, int flags)
{
    struct call call;
    int rc = group_begin(&call, "rgroup_read", g, SIDE_READER);

    if (rc == 0)
        rc = group_check_read(member, d, flags);
    if (rc == 0) {
        rc = group_read_once(g, member, d, size);
        if (rc == R_PENDING && (flags & R_NOWAIT) == 0)
            rc = group_read_wait(g, member, d, size);
    }
    return call_end(&call, rc);
}

/* No check fails, and it is the turn of a busy member. */
static inline bool group_read_is_simple(const struct rgroup *g, const int *member, const raddr_t *d,
                                        int flags)
{
    return LIKELY(g != NULL && member != NULL && d != NULL && g->open && g->busy.n > 0 &&
                  g->due == 0 && (flags & ~R_NOWAIT) == 0 &&
                  (g->taken < POLL_EVERY - 1 || g->idle.n == 0));
}

static inline bool group_read_busy(struct rgroup *g, int *member, raddr_t *d, size_t *size)
{
    int at = group_ring_first(g, &g->busy);
    struct group_member *m = &g->member[at];

    if (UNLIKELY(m->gone || m->ch->id != m->id || rpipe_read_nb(m->ch, d, size) != 0))
        return false; /* the slow path reports why */
    g->busy.before = at;
    g->taken += g->idle.n > 0;
    *member = at;
    return true;
}

int rgroup_read(rgroup_t group, int *member, raddr_t *d, size_t *size, int flags)
{
    if (group_read_is_simple(group, member, d, flags) && group_read_busy(group, member, d, size))
        return 0;
    return group_read_slow(group, member, d, size, flags);
}
