/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deferred_close.c: ends over a network that were closed before all that they had asked for was done, because the deadline of their
 * rclose was shorter. The service thread drives them on, and says bye when there is proof, or after RPIPE_TIMEOUT_MS.
 *
 * Invariant: an end in the list is CLOSED, registered, and counted as in use (users), so that nobody else releases it; its line
 * belongs to the service thread.
 */
#include "rpipe/connect/close.h"

#include "rpipe/end/path.h"
#include "rpipe/end/state.h"

#include "control/control.h"
#include "util/settings.h"

#include <time.h>

#define LOOK_US 1000
#define FAILED_MOST_MS 1000 /* for the rest of what a channel that has failed had asked for */

static struct link deferred_close_lingering = {&deferred_close_lingering,
                                               &deferred_close_lingering}; /* store lock */

/*
 * Store lock held. `proven`: the result of path_ops.drained. Where a line has failed the other end must not wait for what bye promises: it is
 * told first (M_DEFER_MUTE in model/net.pml). Where only time has passed the line goes on until the other end has closed.
 */
static void deferred_close_member(struct rch *ch, int proven)
{
    struct error err = {"operations on its cells were in flight when it was closed"};

    list_remove(&ch->deferred);
    if (proven != 0 && proven != R_PENDING) {
        proven = ch->path->failure(ch, proven, &err);
        end_fail_locked(ch, proven, "%s", err.text);
    }
    close_post_locked(ch, ch->own_final);
    atomic_fetch_sub_explicit(&ch->users, 1, memory_order_seq_cst);
    end_release_locked(ch);
}

static void deferred_close_poll(void *unused)
{
    struct link *at, *after;

    rendezvous_lock();
    list_for_each (at, after, &deferred_close_lingering) {
        struct rch *ch = container_of(at, struct rch, deferred);
        int proven = ch->path->drained(ch);

        if (proven != R_PENDING || deadline_passed(ch->deferred_deadline))
            deferred_close_member(ch, proven);
    }
    if (!list_empty(&deferred_close_lingering))
        (void)control_watch(-1, LOOK_US, deferred_close_poll, unused);
    rendezvous_unlock();
}

void deferred_close_begin(struct rch *ch, uint64_t final)
{
    bool failed = (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_FAILED) != 0;

    rendezvous_lock();
    ch->own_final = final;
    ch->deferred_deadline =
        deadline_in_ms(failed ? FAILED_MOST_MS : (int)setting_number(SET_TIMEOUT_MS));
    atomic_fetch_add_explicit(&ch->users, 1, memory_order_seq_cst);
    close_set_closed_locked(ch);
    list_append(&deferred_close_lingering, &ch->deferred);
    (void)control_watch(-1, LOOK_US, deferred_close_poll, NULL);
    rendezvous_unlock();
}

void deferred_close_finish(int64_t deadline)
{
    const struct timespec backoff = {0, NS_PER_MS};
    bool empty;

    do {
        rendezvous_lock();
        empty = list_empty(&deferred_close_lingering);
        rendezvous_unlock();
        if (!empty)
            nanosleep(&backoff, NULL);
    } while (!empty && !deadline_passed(deadline));
    control_unwatch(deferred_close_poll, NULL);
    rendezvous_lock();
    while (!list_empty(&deferred_close_lingering))
        deferred_close_member(container_of(deferred_close_lingering.next, struct rch, deferred),
                              R_PENDING);
    rendezvous_unlock();
}
