/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote.c: the connection of an end: its state, its failure, progress (path_remote.h).
 *
 * Invariants
 * 1. ch->remote is set before the end is registered and is released with it; STATE_REMOTE is set exactly if it is.
 * 2. The connection belongs to the end's user. The service thread connects it (join), posts blocks that are still to be given back
 *    (under the end's lock), and drives it once the end is closed.
 */
#include "rpipe/data/path_remote.h"

#include "rpipe/end/job_state.h"
#include "rpipe/end/state.h"
#include "rpipe/grow/grow.h"

#include "control/control.h"
#include "sync/seal.h"

#include <errno.h>

/* A failing connection is often the first sign of a peer that has died or left; the control network reports which, in this time. */
#define GRACE_NS (2000 * NS_PER_MS)

/* Errors of connections, and those that a provider reports for the other side. */
static bool remote_peer_may_be_reason(int error)
{
    static const int of_connections[] = {EIO,          EPIPE,     ECONNRESET,   ECONNABORTED,
                                         ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH,
                                         ENETRESET,    ENETDOWN,  EHOSTDOWN,    ENOTCONN,
                                         ESHUTDOWN,    ECANCELED, EREMOTEIO};
    size_t i;

    for (i = 0; i < sizeof(of_connections) / sizeof(of_connections[0]); i++)
        if (error == -of_connections[i])
            return true;
    return false;
}

/* On this host: the kernel marks the liveness word before it closes what a process had open; rexit before it closes connections. */
static bool remote_peer_surely_lives(const struct rch *ch)
{
    uint32_t word;

    if (ch->peer == job_own_rank())
        return true;
    if (ch->liveness == NULL)
        return false;
    word = atomic_load_explicit(ch->liveness, memory_order_relaxed);
    return word != LIVENESS_LEFT && (word & LIVENESS_OWNER_DIED) == 0;
}

int64_t remote_grace_ns(struct rch *ch, int error)
{
    int64_t since = 0, now = clock_now();

    if (atomic_compare_exchange_strong_explicit(&ch->remote->failed_at, &since, now,
                                                memory_order_relaxed, memory_order_relaxed)) {
        since = now;
        control_monitor(ch->peer); /* the end of the peer is detected from now on */
        control_check_liveness();
    }
    if (!remote_peer_may_be_reason(error) || remote_peer_surely_lives(ch))
        return 0;
    return since + GRACE_NS > now ? since + GRACE_NS - now : 0;
}

int remote_reason(struct rch *ch, struct error *err)
{
    struct error cause = {"the backend gives no reason"};
    int rc = ch->ops->connection_state(ch->remote->connection, &cause);

    error_note(err, "the connection by %s to rank %d has failed: %.256s", ch->ops->name, ch->peer,
               cause.text);
    /* of a connection -ETIMEDOUT is final, and -ECONNRESET no death: of a pipe they mean something else */
    return rc == 0 || rc == -EAGAIN || remote_peer_may_be_reason(rc) ? -EIO : rc;
}

/*
 * Whether this memory has every message that the close message promises, read or not. What has to be fetched is not here, and a network
 * may have placed a later message before an earlier one.
 */
static bool remote_promised_is_here(const struct rch *ch)
{
    uint64_t number = ch->r.nread;
    struct slot copy;

    if (remote_delivered(ch) >= ch->peer_final)
        return true;
    if (ch->remote->fetches.most > 0 || ch->peer_final - number > ch->cfg.slots)
        return false;
    while (number < ch->peer_final && seal_open(end_slot(ch, number), number + 1, &copy))
        number++;
    return number == ch->peer_final;
}

/*
 * A close message explains to a writer why its connection has failed. To a reader it promises messages, which have to be here
 * (M_BYE_IS_NEWS in model/net.pml).
 */
static bool remote_close_explains(const struct rch *ch, uint32_t state)
{
    return (state & STATE_PEER_CLOSED) != 0 &&
           ((state & STATE_READER) == 0 || (state & STATE_CELLS) != 0 ||
            remote_promised_is_here(ch));
}

int remote_failed(struct rch *ch)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    struct error err = {""};
    int rc = remote_reason(ch, &err);
    int64_t grace = remote_grace_ns(ch, rc);

    if ((state & (STATE_FAILED | STATE_PEER_DIED | STATE_PEER_LEFT)) != 0 ||
        remote_close_explains(ch, state) || grace > 0)
        return R_PENDING;
    return end_fail(ch, rc, "%s", err.text);
}

bool remote_releases_post(struct rch *ch)
{
    struct remote_releases *p = &ch->remote->releases;

    while (p->pending > 0) {
        uint64_t offset = p->next.at * sizeof(struct slot);
        struct btl_transfer t = {&ch->reverse_remote, offset, &ch->remote->reverse, offset,
                                 sizeof(struct slot)};

        if (ch->ops->write(ch->remote->connection, NULL, &t) != 0)
            return false; /* the queues are full; or the connection has failed, which progress reports */
        ring_cursor_advance(&p->next);
        p->pending--;
    }
    return true;
}

int remote_progress(struct rch *ch)
{
    if (ch->ops->progress(ch->remote->connection) != 0)
        return remote_failed(ch);
    if (UNLIKELY(ch->remote->releases.pending > 0))
        (void)remote_releases_post(ch);
    return 0;
}

bool remote_locate(struct rch *ch, uint64_t offset, uint64_t bytes, struct btl_transfer *t)
{
    *t = (struct btl_transfer){&ch->heap_remote, offset, &ch->remote->heap, offset, bytes};
    return offset < ch->cfg.heap_bytes || grow_locate(ch, offset, t);
}
