/* SPDX-License-Identifier: BSD-3-Clause */
/* direct.c: see direct.h. */
#include "msg/direct.h"

#include "msg/buffer.h"
#include "msg/link.h"
#include "msg/out.h"
#include "msg/request.h"
#include "util/clock.h"
#include "util/failpoint.h"

#include <errno.h>
#include <sched.h>

#define DIRECT_GROUP                                                                               \
    (1u << 20) /* bytes of fragments; two groups of a payload are in flight at most */
#define DIRECT_FRAGMENT                                                                            \
    (256u                                                                                          \
     << 10) /* bytes: other messages leave between two of them; a socket takes a group by one call */
#define DIRECT_STOP_NS 100000000 /* for what is posted when a call gives up */

/* ---- transfers ---- */

/* The group that a request waits for; 0: none. */
static inline uint64_t direct_awaits(const struct msg_request *r)
{
    return r->moved == r->total ? r->transfer : r->earlier;
}

/*
 * A group is done. They end in the order of posting. The request that waits for the oldest one drives the network for all; if there is none,
 * each does.
 */
static bool direct_is_done(struct msg_link *l, uint64_t group)
{
    struct msg_direct *d = l->direct;
    struct msg_transfer *oldest;
    int rc = 0;

    for (;; d->first++) {
        if (group - 1 < d->first)
            return true;
        oldest = &d->transfer[d->first % BUFFER_TRANSFERS];
        if (oldest->done != 1 && (group - 1 == d->first || oldest->r == NULL ||
                                  direct_awaits(oldest->r) != d->first + 1))
            rc = rpipe_done(l->out, &oldest->done, R_NOWAIT);
        if (rc != 0 && rc != R_PENDING)
            msg_out_broken(l, rc);
        if (rc != 0 || oldest->done != 1)
            return false;
    }
}

/* All fragments are posted. */
static void direct_posted(struct msg_link *l, struct msg_request *r)
{
    if (!r->send) {
        l->msg->counts.fetched++;
        RPIPE_FAILPOINT("net: rmsg payload requested from the sender");
        return;
    }
    l->msg->counts.written++;
    RPIPE_FAILPOINT("net: rmsg payload written, before WRITTEN");
    msg_out_say(l, MSG_WIRE_WRITTEN, 0, r->other, NULL);
}

/* 0; R_PENDING: not now; or a failure: of the pipe, or of what the peer has named. */
static int direct_post(struct msg_link *l, struct msg_request *r)
{
    struct msg_direct *d = l->direct;
    const size_t left = r->total - r->moved, most = d->by_address ? DIRECT_GROUP : DIRECT_FRAGMENT,
                 bytes = left < most ? left : most;
    const bool last = bytes == left, ends = last || (r->moved + bytes) % DIRECT_GROUP == 0;
    struct msg_transfer *group = &d->transfer[d->end % BUFFER_TRANSFERS];
    rremote_t remote = d->remote[r->window - 1];
    int *done = ends ? &group->done : NULL, rc;

    if (ends && d->end - d->first == BUFFER_TRANSFERS && !direct_is_done(l, d->first + 1))
        return R_PENDING;
    rc = remote == NULL ? -EINVAL
         : r->send      ? rwindow_write(remote, r->where + r->moved, r->buf + r->moved, bytes,
                                        r->lent->region, done, R_NOWAIT)
                        : rwindow_fetch(remote, r->where + r->moved, r->buf + r->moved, bytes,
                                        r->lent->region, done, R_NOWAIT);
    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("net: rmsg fragment of a payload posted");
    r->moved += bytes;
    if (ends) {
        group->r = r;
        r->earlier = r->transfer;
        r->transfer = ++d->end;
    }
    if (last)
        direct_posted(l, r);
    return 0;
}

static void direct_complete(struct msg_request *r)
{
    struct msg_link *l = r->link;
    const uint32_t other = r->other;

    if (r->send) {
        msg_request_sent(r, 0);
        return;
    }
    RPIPE_FAILPOINT("net: rmsg payload fetched, before FIN");
    msg_request_received(l->msg, r, 0);
    msg_out_say(l, MSG_WIRE_FIN, 0, other, NULL);
}

bool msg_direct_turn(struct msg_request *r)
{
    struct msg_link *l = r->link;
    const bool begins = r->send && r->moved == 0, ends = r->moved == r->total;
    const uint64_t group = direct_awaits(r);
    int rc;

    if (l->out_code != 0 || (group != 0 && !direct_is_done(l, group)))
        return false;
    if (ends) {
        direct_complete(r);
        return true;
    }
    r->earlier = 0;
    if (begins) /* PLACED or DATA (out.h), the payload and WRITTEN leave together */
        (void)rpipe_cork(l->out, 1);
    rc = direct_post(l, r);
    if (begins && l->out != NULL)
        (void)rpipe_cork(l->out, 0);
    if (rc == -EINVAL || rc == -EACCES)
        (void)msg_link_violation(l, "another window in place of one that is in use");
    else if (rc != 0 && rc != R_PENDING)
        msg_out_broken(l, rc);
    return rc == 0;
}

/* ---- the end of a call ---- */

/* What is posted is done, or does not end in time. */
static bool direct_stop(struct msg_link *l)
{
    const int64_t until = clock_now() + DIRECT_STOP_NS;
    int rc;

    if (l->out_code != 0)
        return false;
    while ((rc = rpipe_done(l->out, NULL, R_NOWAIT)) == R_PENDING && clock_now() < until)
        sched_yield();
    return rc == 0;
}

void msg_direct_give_up(struct msg_request *r)
{
    struct msg_link *l = r->lent->link;
    const uint32_t other = r->other;
    const bool send = r->send;

    if (!send && r->window == 0 && msg_buffer_revoke(r->lent))
        return;
    /* its window is open, or the network uses its buffer; if nothing is posted, it does not */
    if (r->window == 0 || (r->moved > 0 && !direct_stop(l))) {
        (void)msg_link_abort(l, MSG_WIRE_LATE,
                             "it did not finish to move a payload of a call that has ended");
        return;
    }
    if (r->moved == r->total) {
        direct_complete(r);
        return;
    }
    if (send)
        msg_request_sent(r, -ECANCELED);
    else
        msg_request_received(l->msg, r, -ECANCELED);
    msg_out_say(l, send ? MSG_WIRE_ABORT : MSG_WIRE_FIN, 0, other, NULL);
}
