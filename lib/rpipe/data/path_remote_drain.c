/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote_drain.c: before its close message an end waits until everything that it has requested is complete (path_remote.h).
 *
 * So a close message promises that all messages are in the reader's memory, and that no operation accesses what is given back.
 */
#include "rpipe/data/path_remote_drain.h"

#include "rpipe/data/path_remote_fetch.h"
#include "rpipe/data/path_remote_transfer.h"
#include "rpipe/end/feature.h"

#include "util/failpoint.h"

#include <errno.h>

/* A connection that was never up has carried nothing; and a writer that has closed before the join will not connect it. */
static bool remote_drain_has_never_connected(struct rch *ch, uint32_t state)
{
    struct error err = {""};

    return (state & STATE_PEER_CLOSED) != 0 &&
           ch->ops->connection_state(ch->remote->connection, &err) == -EAGAIN;
}

static int remote_drain_operations(struct rch *ch, uint64_t *since)
{
    const struct remote_path *n = ch->remote;
    int rc = ch->ops->progress(n->connection);

    if (rc != 0)
        return rc;
    if (!remote_releases_post(ch) || remote_fetches_pending(n) ||
        atomic_load_explicit(&n->credits.done.pending, memory_order_acquire) > 0)
        return R_PENDING;
    RPIPE_FAILPOINT("net: before the last flush");
    rc = remote_flush_since(ch, since);
    return rc == -EAGAIN ? R_PENDING : rc;
}

static int remote_drain_check(struct rch *ch, uint64_t *since)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    int rc;

    if ((state & STATE_JOINED) == 0 || (state & (STATE_PEER_DIED | STATE_PEER_LEFT)) != 0)
        return 0;
    rc = features_settled(ch);
    if (rc != 0)
        return rc;
    if (remote_drain_has_never_connected(ch, state))
        return 0;
    rc = remote_drain_operations(ch, since);
    if (rc != 0 && rc != R_PENDING && (state & (STATE_PEER_CLOSED | STATE_FAILED)) != 0)
        return 0; /* the peer does not need it any more, or the failure has been reported */
    return rc;
}

int remote_drained(struct rch *ch) { return remote_drain_check(ch, &ch->remote->flushes.last); }

int remote_drain(struct rch *ch, uint64_t *since)
{
    int rc = remote_drain_check(ch, since);

    return rc == 0 || rc == R_PENDING ? rc : remote_failed(ch);
}
