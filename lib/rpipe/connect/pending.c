/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pending.c: rpipe_pending: which ends wait here for the other one to be opened. Connection on demand needs nothing more:
 * who wants to talk opens his end, and whose other end it is finds it in the exchange store.
 *
 * Nothing new travels: the halves that lie in the store are all there is to know. `arrivals` of the store grows whenever
 * there may be more to find than before, so that a look that finds nothing new is one load.
 */
#include "rpipe/end/end.h"
#include "rpipe/connect/handshake.h"
#include "rpipe/end/call_context.h"

#include <errno.h>

/* The store's lock is held. An end that is open, or a half that has been closed again, is nothing that waits. */
static bool pending_waits(const struct rendezvous *m)
{
    struct link *cursor, *after;

    if (!list_empty(&m->ends)) {
        const struct rendezvous_end *last = container_of(m->ends.prev, struct rendezvous_end, link);
        const struct rch *ch = container_of(last, struct rch, end);

        if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CLOSED) == 0)
            return false;
    }
    list_for_each (cursor, after, &m->handshakes)
        if (!container_of(cursor, struct rendezvous_handshake, link)->close_message)
            return true;
    return false;
}

static rpipe_pending_t pending_describe(const struct rendezvous *m)
{
    rpipe_pending_t p = {.peer = m->peer, .ctx = m->ctx, .writer = m->side == SIDE_READER};
    struct link *cursor, *after;
    struct handshake_id id;

    list_for_each (cursor, after, &m->handshakes) {
        const struct rendezvous_handshake *handshake =
            container_of(cursor, struct rendezvous_handshake, link);

        if (!handshake->close_message &&
            handshake_identify(handshake->blob, handshake->bytes, &id) && id.op <= RDMA_ATOMIC)
            p.op = (rdma_op_t)id.op;
    }
    return p;
}

static int pending_poll(uint32_t ctx, uint64_t *seen, rpipe_pending_t *list, int most)
{
    int rc = job_refuses("rpipe_pending"), n = 0;
    struct rendezvous *m;
    uint64_t arrivals;
    size_t at = 0;

    if (rc != 0)
        return rc;
    if (seen == NULL || list == NULL || most < 1) {
        last_error_set("rpipe_pending: needs a number that says what was seen, and places for at "
                       "least one end");
        return -EINVAL;
    }
    if (rendezvous_arrivals() == *seen)
        return 0;
    rendezvous_lock();
    arrivals = rendezvous_arrivals(); /* under the lock: what it counts can be found */
    while (n < most && (m = rendezvous_next(&at)) != NULL)
        if (m->ctx == ctx && pending_waits(m))
            list[n++] = pending_describe(m);
    rendezvous_unlock();
    if (n < most) /* else there may be more: the next call looks again */
        *seen = arrivals;
    return n;
}

int rpipe_pending(uint32_t ctx, uint64_t *seen, rpipe_pending_t *list, int most)
{
    struct active_call in;
    int rc;

    active_call_enter(&in);
    rc = pending_poll(ctx, seen, list, most);
    active_call_leave(&in);
    return rc;
}
