/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_reduce.c: one message of every member, combined by an operator as they arrive, or in the order of members.
 *
 * A round takes exactly one message of each live member; further messages wait in their pipes. What is taken is in the caller's
 * memory at once, and freed. So a round that ends early (deadline, loss, R_NOWAIT) stays open, and the next call with the same
 * arguments continues with the missing members.
 */
#include "group/group.h"

#include "util/clock.h"

#include <errno.h>
#include <string.h>

static void group_round_begin(struct rgroup *g)
{
    struct group_round *r = &g->round;

    r->open = true;
    r->combined = r->left = 0;
    for (int i = 0; i < g->n; i++)
        if (!g->member[i].gone)
            g->missing[r->left++] = i;
}

/* One message has been read: combines and frees it. */
static int group_round_take(struct rgroup *g, int member, raddr_t d, size_t size)
{
    struct group_round *r = &g->round;
    rch_t ch = g->member[member].ch;

    if (UNLIKELY(size != r->bytes)) {
        (void)rmalloc_free(ch, d);
        g->lost = member;
        return call_error(NULL, -EMSGSIZE,
                          "member %d, rank %d: the message has %zu bytes, not %zu; it is left out",
                          member, g->member[member].peer, size, r->bytes);
    }
    if (r->combined == 0 && (r->flags & RGROUP_OWN) == 0)
        memcpy(r->into, rmalloc_ptr(ch, d), size);
    else
        r->function(r->into, rmalloc_ptr(ch, d), size, r->argument);
    r->combined++;
    return rmalloc_free(ch, d);
}

/* missing[at] is done. The order stays that of members. */
static void group_round_strike(struct rgroup *g, int at)
{
    g->round.left--;
    memmove(&g->missing[at], &g->missing[at + 1],
            (size_t)(g->round.left - at) * sizeof(*g->missing));
}

/* Takes what has arrived. R_PENDING: messages are missing. With RGROUP_ORDERED only the first missing member is polled. */
static int group_round_continue(struct rgroup *g)
{
    struct group_round *r = &g->round;
    int at = 0, rc;

    while (at < r->left) {
        int member = g->missing[at];
        size_t size;
        raddr_t d;

        rc = g->member[member].gone ? R_PENDING : group_poll(g, member, &d, &size);
        if (rc == 0) {
            rc = group_round_take(g, member, d, size);
        } else if (!g->member[member].gone) {
            if (rc != R_PENDING)
                return rc;
            if ((r->flags & RGROUP_ORDERED) != 0)
                return R_PENDING;
            at++;
            continue;
        }
        group_round_strike(g, at);
        if (rc != 0 && rc != R_PENDING)
            return rc;
    }
    return r->left > 0 ? R_PENDING : 0;
}

static int group_round_run(struct rgroup *g, int *combined, bool wait)
{
    struct group_round *r = &g->round;
    int64_t deadline = deadline_in_ms(g->timeout_ms);
    bool ordered = (r->flags & RGROUP_ORDERED) != 0;
    int rc;

    while ((rc = group_round_continue(g)) == R_PENDING && wait) {
        if (group_await(g, g->missing, ordered ? 1 : r->left, deadline) == 0)
            continue;
        g->lost = g->missing[0];
        return call_error(
            NULL, -ETIMEDOUT,
            "the messages of %d of %d members, rank %d among them, are missing after %d ms",
            r->left, g->live, g->member[g->lost].peer, g->timeout_ms);
    }
    if (rc != 0)
        return rc;
    r->open = false;
    if (r->combined == 0)
        return group_all_closed(g);
    if (combined != NULL)
        *combined = r->combined;
    return 0;
}

static int group_apply(struct rgroup *g, void *into, size_t bytes, rgroup_function_t function,
                       void *argument, int *combined, int flags)
{
    struct group_round *r = &g->round;
    int kept = flags & ~R_NOWAIT;

    if (into == NULL || function == NULL)
        return call_error(NULL, -EINVAL, "%s is NULL", into == NULL ? "into" : "function");
    if ((flags & ~(R_NOWAIT | RGROUP_OWN | RGROUP_ORDERED)) != 0)
        return call_error(NULL, -EINVAL,
                          "flags is 0x%x; it may have R_NOWAIT, RGROUP_OWN and RGROUP_ORDERED",
                          (unsigned)flags);
    if (!r->open) {
        *r = (struct group_round){.into = into,
                                  .bytes = bytes,
                                  .function = function,
                                  .argument = argument,
                                  .flags = kept};
        group_round_begin(g);
    } else if (r->into != into || r->bytes != bytes || r->function != function ||
               r->argument != argument || r->flags != kept) {
        return call_error(NULL, -EBUSY,
                          "a reduction has begun and does not have all messages; repeat that call "
                          "with the same arguments");
    }
    return group_round_run(g, combined, (flags & R_NOWAIT) == 0);
}

int rgroup_apply(rgroup_t group, void *into, size_t bytes, rgroup_function_t function,
                 void *argument, int *combined, int flags)
{
    struct call call;
    int rc = group_begin(&call, "rgroup_apply", group, SIDE_READER);

    if (rc == 0)
        rc = group_apply(group, into, bytes, function, argument, combined, flags);
    return call_end(&call, rc);
}

int rgroup_reduce(rgroup_t group, void *into, size_t count, rgroup_type_t type, rgroup_op_t op,
                  int *combined, int flags)
{
    rgroup_function_t function;
    struct call call;
    size_t bytes;
    int rc = group_begin(&call, "rgroup_reduce", group, SIDE_READER);

    if (rc == 0)
        rc = group_operator(count, type, op, &function, &bytes);
    if (rc == 0)
        rc = group_apply(group, into, bytes, function, NULL, combined, flags);
    return call_end(&call, rc);
}
