/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_alloc.c: scatter: which member gets a message: a given one, the next in turn, or the first that has memory and a slot.
 *
 * The member is chosen when memory is allocated, because the memory is that member's: nothing is copied from pipe to pipe. From
 * there on it is a message of a plain pipe. rroom counts what the caller has allocated and not sent. With RGROUP_ANY the member
 * that was served last is tried last, so that members that all have memory are served in turn.
 */
#include "group/group.h"

#include "rpipe/wait/many.h"
#include "util/clock.h"

#include <errno.h>

struct group_request {
    size_t bytes;
    bool wait;
    int member; /* result */
    raddr_t d;  /* result */
};

static int group_alloc_none_left(struct rgroup *g)
{
    g->lost = -1;
    return call_error(NULL, -EPIPE, "all %d members have closed, or are lost", g->n);
}

static int group_alloc_message(struct group_member *m, struct group_request *r)
{
    if (!r->wait)
        return rmalloc_nb(m->ch, r->bytes, &r->d);
    r->d = rmalloc_alloc(m->ch, r->bytes);
    return r->d != ADDR_NULL ? 0 : -errno;
}

/* Of the given member. A lost one is reported each time that it is given. */
static int group_alloc_of(struct rgroup *g, struct group_request *r)
{
    struct group_member *m;
    int rc;

    if (r->member < 0 || r->member >= g->n)
        return call_error(NULL, -EINVAL,
                          "`to` is %d; it must be a member, 0 to %d, RGROUP_NEXT or RGROUP_ANY",
                          r->member, g->n - 1);
    m = &g->member[r->member];
    if (!group_member_is_open(m)) {
        group_drop(g, r->member);
        g->lost = r->member;
        return call_error(NULL, -ENOTCONN, "the pipe of member %d, rank %d, has been closed",
                          r->member, m->peer);
    }
    rc = m->gone ? rpipe_room(m->ch, r->bytes) : 0; /* also where memory is free */
    if (rc == 0 || rc == R_PENDING)
        rc = group_alloc_message(m, r);
    return rc == 0 || rc == R_PENDING ? rc : group_failed(g, r->member, rc);
}

static int group_after(const struct rgroup *g, int member)
{
    return member + 1 < g->n ? member + 1 : 0;
}

/* The member is skipped: it is gone, or its loss was reported, or the program has closed it. */
static bool group_skips(struct rgroup *g, int member)
{
    struct group_member *m = &g->member[member];

    if (m->gone)
        return true;
    if (group_member_is_open(m) && !group_member_is_reported(m))
        return false;
    group_drop(g, member);
    return true;
}

/* Of the next live member in turn. A turn that fails because no memory is free is not over. */
static int group_alloc_next(struct rgroup *g, struct group_request *r)
{
    for (int i = 0; i < g->n; i++, g->turn = group_after(g, g->turn)) {
        int rc;

        if (group_skips(g, g->turn))
            continue;
        r->member = g->turn;
        rc = group_alloc_of(g, r);
        if (rc == 0 || g->member[g->turn].gone)
            g->turn = group_after(g, g->turn);
        return rc;
    }
    return group_alloc_none_left(g);
}

/* One attempt with every live member. */
static int group_alloc_any(struct rgroup *g, struct group_request *r)
{
    int at = g->first, last = -1, hopeless = 0;

    for (int i = 0; i < g->n; i++, at = group_after(g, at)) {
        rch_t ch = g->member[at].ch;
        int rc;

        if (group_skips(g, at))
            continue;
        rc = rpipe_room(ch, r->bytes);
        if (rc == 0)
            rc = rmalloc_nb(ch, r->bytes, &r->d);
        if (rc == 0) {
            r->member = at;
            g->first = group_after(g, at);
            return 0;
        }
        if (rc == R_PENDING)
            continue;
        if (rc != -ENOBUFS)
            return group_failed(g, at, rc);
        hopeless++; /* only this end's own unsent messages are in the way */
        last = at;
    }
    if (g->live == 0)
        return group_alloc_none_left(g);
    return hopeless == g->live ? group_failed(g, last, -ENOBUFS) : R_PENDING;
}

struct group_wait {
    struct rgroup *g;
    struct group_request *r;
};

static int group_alloc_attempt(void *of)
{
    struct group_wait *w = of;

    return group_alloc_any(w->g, w->r);
}

/* The member is left, and its other end is not open yet. */
static bool group_alloc_unjoined(const struct group_member *m)
{
    return !m->gone && group_member_is_open(m) &&
           (atomic_load_explicit(&m->ch->state, memory_order_relaxed) &
            (STATE_JOINED | STATE_ATTACHED)) == 0;
}

static int group_alloc_count_unjoined(const struct rgroup *g)
{
    int n = 0;

    for (int i = 0; i < g->n; i++)
        n += group_alloc_unjoined(&g->member[i]);
    return n;
}

/* Sleeps on the wake words of all members that are left. */
static int group_alloc_wait_any(struct rgroup *g, struct group_request *r)
{
    struct group_wait w = {g, r};
    int n = 0, rc = group_alloc_any(g, r);

    if (rc != R_PENDING)
        return rc;
    for (int i = 0; i < g->n; i++)
        if (!group_skips(g, i))
            g->ends[n++] = g->member[i].ch;
    rc = many_await(g->ends, n, deadline_in_ms(g->timeout_ms), group_alloc_attempt, &w);
    if (rc != -ETIMEDOUT)
        return rc;
    g->lost = -1;
    n = group_alloc_count_unjoined(g);
    if (n > 0)
        return call_error(NULL, rc,
                          "none of %d members had memory and a slot for %zu bytes within %d ms; %d "
                          "of them are not joined, because the peer has not opened its end",
                          g->live, r->bytes, g->timeout_ms, n);
    return call_error(NULL, rc,
                      "none of %d members had memory and a slot for %zu bytes within %d ms",
                      g->live, r->bytes, g->timeout_ms);
}

/*
 * "Not now" where a member has no memory or slot is no failure, and leaves the message as it is. Where there is no reader yet
 * repeating the call may be useless, so that the message is about that.
 */
static int group_alloc_pending(struct rgroup *g, int to, const struct group_request *r)
{
    if (to == RGROUP_ANY && group_alloc_count_unjoined(g) == g->live)
        return call_error(
            NULL, R_PENDING,
            "none of %d members is joined yet, so none can be out of memory or slots; "
            "rgroup_wait waits until the peers have opened their ends",
            g->live);
    if (to != RGROUP_ANY && group_alloc_unjoined(&g->member[r->member]))
        return call_error(NULL, R_PENDING,
                          "member %d, rank %d, is not joined yet; rgroup_wait waits until the peer "
                          "has opened its end",
                          r->member, g->member[r->member].peer);
    return R_PENDING;
}

static int group_alloc(struct rgroup *g, int to, int *member, raddr_t *d, int flags,
                       struct group_request *r)
{
    int rc = call_check_flags(NULL, flags);

    if (rc != 0)
        return rc;
    if (d == NULL || (member == NULL && to < 0))
        return call_error(NULL, -EINVAL, "%s is NULL", d == NULL ? "d" : "member");
    if (to == RGROUP_NEXT)
        return group_alloc_next(g, r);
    if (to == RGROUP_ANY)
        return r->wait ? group_alloc_wait_any(g, r) : group_alloc_any(g, r);
    return group_alloc_of(g, r);
}

int rgroup_alloc(rgroup_t group, int to, size_t bytes, int *member, raddr_t *d, int flags)
{
    struct group_request r = {bytes, (flags & R_NOWAIT) == 0, to, ADDR_NULL};
    struct call call;
    int rc = group_begin(&call, "rgroup_alloc", group, SIDE_WRITER);

    if (rc == 0)
        rc = group_alloc(group, to, member, d, flags, &r);
    if (rc == R_PENDING)
        rc = group_alloc_pending(group, to, &r);
    if (rc == 0) {
        if (member != NULL)
            *member = r.member;
        *d = r.d;
    }
    return call_end(&call, rc);
}
