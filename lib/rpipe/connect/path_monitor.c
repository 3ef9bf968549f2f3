/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_monitor.c: connections that fail while no call is made. The backend reports that a connection has failed
 * (btl_host.connection_failed); the service thread finds the ends concerned, waits until the death of the peer cannot be the
 * reason any more (remote_grace_ns), and then:
 *
 *   a writer's pipe fails, and the failure is reported to its reader: what was in flight may be lost (a mutant in
 *   model/net.pml shows it);
 *   a reader is woken: it may still read what is complete; its next call detects the failure (remote_failed).
 *
 * Invariant: an end is accessed under the rendezvous lock, while it is registered and open; its connection lives as long.
 */
#include "rpipe/data/path_remote.h"

#include "rpipe/end/job_state.h"
#include "rpipe/end/state.h"

#include "control/control.h"

#include <errno.h>

/* Rendezvous lock held. Returns when to poll again, in ns; 0: not needed. */
static int64_t path_monitor_poll_one(struct rch *ch)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    struct error err = {""};
    int64_t news;
    int rc;

    if ((state & (STATE_REMOTE | STATE_JOINED)) != (STATE_REMOTE | STATE_JOINED) ||
        (state & (STATE_CLOSED | STATE_FAILED | STATE_PEER_DIED | STATE_PEER_LEFT)) != 0)
        return 0;
    rc = ch->ops->connection_state(ch->remote->connection, &err);
    if (rc == 0 || rc == -EAGAIN)
        return 0;
    news = remote_grace_ns(ch, rc);
    if (news > 0)
        return news;
    if ((state & STATE_READER) == 0) {
        if ((state & STATE_PEER_CLOSED) == 0) {
            rc = remote_reason(ch, &err);
            end_fail_locked(ch, rc, "%s", err.text);
        }
    } else if (!ch->remote->woken && ch->signal_fd >= 0) {
        ch->remote->woken = true;
        end_signal(ch);
    }
    return 0;
}

static void path_monitor_poll(void *unused)
{
    int64_t again = 0;
    struct rendezvous *m = NULL;

    rendezvous_lock();
    while ((m = rendezvous_next(m)) != NULL) {
        struct link *cursor, *after;

        list_for_each (cursor, after, &m->ends) {
            int64_t ns = path_monitor_poll_one(
                container_of(container_of(cursor, struct rendezvous_end, link), struct rch, end));

            if (ns > 0 && (again == 0 || ns < again))
                again = ns;
        }
    }
    rendezvous_unlock();
    if (again > 0)
        (void)control_watch(-1, again / 1000 + 1, path_monitor_poll, unused);
}

int path_monitor_start(void) { return control_watch_reserve(path_monitor_poll, NULL); }

void path_monitor_failed(void)
{
    if (job_is_open()) /* rexit closes all connections */
        (void)control_watch(-1, 0, path_monitor_poll, NULL);
}

void path_monitor_stop(void) { control_unwatch(path_monitor_poll, NULL); }
