/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_monitor.c: lines that fail while nobody calls. The backend says that some line has failed (btl_host.connection_failed); the service thread
 * finds the ends that are meant, waits until the peer's death is no explanation any more (remote_grace_ns), and then:
 *
 *   a writer's channel fails, and its reader is told: what was under way may be lost (M_NOBODY_LOOKS in model/net.pml);
 *   a reader is woken: it has a right to what is complete, and its next call finds the rest out for itself (remote_failed).
 *
 * Invariant: an end is looked at under the store's lock, while it is registered and open; its line lives as long.
 */
#include "rpipe/data/path_remote.h"

#include "rpipe/end/job_state.h"
#include "rpipe/end/state.h"

#include "control/control.h"

#include <errno.h>

/* Store lock held. When to look again, in ns; 0: there is nothing to wait for. */
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

void path_monitor_failed(void)
{
    if (job_is_open()) /* in rexit lines are closed, and nobody is told */
        (void)control_watch(-1, 0, path_monitor_poll, NULL);
}

void path_monitor_stop(void) { control_unwatch(path_monitor_poll, NULL); }
