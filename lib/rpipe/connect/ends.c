/* SPDX-License-Identifier: BSD-3-Clause */
/* ends.c: see ends.h. */
#include "rpipe/connect/ends.h"

#include "rpipe/connect/close.h"
#include "rpipe/connect/join.h"
#include "rpipe/data/holding.h"
#include "rpipe/end/connector.h"
#include "rpipe/end/feature.h"
#include "rpipe/end/state.h"
#include "rpipe/wait/event_message.h"

#include "control/control.h"

static bool ends_is_closed(const struct rch *ch)
{
    return (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CLOSED) != 0;
}

static struct rch *ends_end_of(struct link *link)
{
    return container_of(container_of(link, struct rendezvous_end, link), struct rch, end);
}

static const struct connector ends_connector = {
    .release_if_done = end_release_if_done,
    .release_locked = end_release_locked,
    .pending = join_pending,
    .complete = join_complete,
};

void ends_start(void)
{
    end_connector = &ends_connector;
    message_register(MESSAGE_HANDSHAKE, &join_handshake_handler);
    message_register(MESSAGE_CLOSE, &close_message_handler);
    message_register(MESSAGE_FAIL, &end_fail_handler);
    event_register_messages();
    message_register(MESSAGE_STARVED, &holding_starved_handler);
    features_register_messages();
}

/* ---- the end of a peer: on the service thread ---- */

/* An end that is opened now finds the peer gone, or that it had closed its end before. */
static void ends_entry_gone(struct rendezvous *m, uint32_t state)
{
    struct link *cursor, *after;

    list_for_each (cursor, after, &m->ends) {
        struct rch *ch = ends_end_of(cursor);

        end_state_set(ch, state);
        end_release_locked(ch);
    }
    rendezvous_set_gone(m);
}

void ends_peer_gone(int rank, bool died)
{
    struct rendezvous *m, *next;

    rendezvous_lock();
    for (m = rendezvous_next_of_peer(rank, NULL); m != NULL; m = next) {
        next = rendezvous_next_of_peer(rank, m); /* the last entry takes its peer along */
        rendezvous_pin(m);
        ends_entry_gone(m, died ? STATE_PEER_DIED : STATE_PEER_LEFT);
        rendezvous_unpin(m);
    }
    rendezvous_unlock();
    btl_peer_gone(rank);
}

/*
 * Every handshake of this peer has been received: an end that has none of it, and whose close message has not come, is never
 * joined. An end that is opened later finds that out under the same lock: join_open.
 */
void ends_peer_exiting(int rank)
{
    struct link *cursor, *after;
    struct rendezvous *m = NULL;

    rendezvous_lock();
    while ((m = rendezvous_next_of_peer(rank, m)) != NULL)
        list_for_each (cursor, after, &m->ends)
            join_peer_exiting(ends_end_of(cursor));
    rendezvous_unlock();
}

/* A dead writer signals no reader: ends in event mode poll its liveness word. */
void ends_tick(void)
{
    struct link *cursor, *after;
    struct rendezvous_peer *p = NULL;

    rendezvous_lock();
    while ((p = rendezvous_next_watched(p)) != NULL) {
        if (!liveness_died(control_liveness(p->peer)))
            continue;
        list_for_each (cursor, after, &p->watched) {
            struct rch *ch =
                container_of(container_of(cursor, struct rendezvous_end, watched), struct rch, end);

            if (liveness_died(ch->liveness))
                end_signal(ch);
        }
    }
    rendezvous_unlock();
}

void ends_leave(void)
{
    struct link *cursor, *after;
    struct rendezvous *m = NULL;

    rendezvous_lock();
    while ((m = rendezvous_next(m)) != NULL)
        list_for_each (cursor, after, &m->ends) {
            struct rch *ch = ends_end_of(cursor);

            if (!ends_is_closed(ch))
                end_state_set(ch, STATE_EXITING);
        }
    rendezvous_unlock();
}
