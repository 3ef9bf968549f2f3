/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_loss.c: see peer_loss.h. */
#include "control/peer_loss.h"

#include "control/peer_end.h"
#include "control/state.h"
#include "util/clock.h"

void peer_retry_in(struct peer *p, int ms)
{
    p->retry_at = deadline_in_ms(ms);
    state_timer(p->retry_at);
    if (list_empty(&p->timed))
        list_append(&control.timed, &p->timed);
}

void peer_unreachable(struct peer *p, bool is_unix, const char *reason)
{
    if (is_unix) {
        peer_end_soon(p, reason);
        return;
    }
    if (p->card == NULL) /* it has ended */
        return;
    p->address++;
    if (p->address < p->card->addresses) {
        peer_retry_in(p, 1);
        return;
    }
    p->address = 0;
    if (!p->accepts) {
        peer_end_soon(p, reason);
        return;
    }
    p->accepts = false;
    p->rounds++;
    peer_retry_in(p, 100);
}

static void peer_loss_of_greeting(struct connection *c, const char *reason)
{
    struct peer *p = state_peer(c->peer);
    bool is_unix = c->is_unix, was_refused = c->state == CONNECTION_GREETING;

    p->out = NULL;
    state_drop(c);
    if (was_refused && ++p->refusals < PEER_REFUSALS_MAX)
        peer_retry_in(p, 20);
    else
        peer_unreachable(p, is_unix, reason);
}

void peer_lost(struct connection *c, const char *reason)
{
    struct peer *p = state_peer(c->peer);

    switch (c->state) {
    case CONNECTION_CLOSED:
        return;
    case CONNECTION_ACCEPTED:
        state_drop(c);
        return;
    case CONNECTION_DIALING:
    case CONNECTION_GREETING:
        peer_loss_of_greeting(c, reason);
        return;
    case CONNECTION_OPEN:
        break;
    }
    if (c->outgoing) {
        p->out = NULL;
        state_drop(c);
        peer_end_soon(p, reason);
    } else if (c->used || p->drain_until != NO_TIME ||
               liveness_died(atomic_load_explicit(&p->liveness, memory_order_relaxed))) {
        peer_end(p, p->fin_received ? PEER_LEFT : PEER_DIED,
                 p->drain_reason != NULL ? p->drain_reason : reason);
    } else {
        /* it closed a connection that it had not used: it will connect again, or its end is
         * noticed elsewhere */
        state_in_lost(p);
        state_drop(c);
    }
}
