/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deferred_close.c: ends over a network that were closed while their operations were in flight, because the deadline of
 * rclose was shorter. The service thread drives them and posts the close message when they are complete, or after
 * RPIPE_TIMEOUT_MS.
 *
 * Invariant: an end in the list is CLOSED, registered, and counted in `users`, so that it is not released; its connection
 * belongs to the service thread.
 */
#include "rpipe/connect/close.h"

#include "rpipe/end/path.h"
#include "rpipe/end/state.h"

#include "control/control.h"
#include "sync/wait.h"
#include "util/settings.h"

#define POLL_US 1000
#define FAILED_MOST_MS 1000 /* deadline for the outstanding operations of a failed pipe */

static struct link deferred_close_list = {&deferred_close_list,
                                          &deferred_close_list}; /* rendezvous lock */

/*
 * Rendezvous lock held. `proven`: the result of path_ops.drained. Where a connection has failed the failure is reported before
 * the close message, whose promise does not hold (M_DEFER_MUTE in model/net.pml). Where only time has passed the connection
 * stays until the other end is closed.
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
    list_for_each (at, after, &deferred_close_list) {
        struct rch *ch = container_of(at, struct rch, deferred);
        int proven = ch->path->drained(ch);

        if (proven != R_PENDING || deadline_passed(ch->deferred_deadline))
            deferred_close_member(ch, proven);
    }
    if (!list_empty(&deferred_close_list))
        (void)control_watch(-1, POLL_US, deferred_close_poll, unused);
    rendezvous_unlock();
}

/* Later no memory is needed: an end that could not be polled would stay until the deadline of rexit. */
int deferred_close_start(void) { return control_watch_reserve(deferred_close_poll, NULL); }

void deferred_close_begin(struct rch *ch, uint64_t final)
{
    bool failed = (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_FAILED) != 0;

    rendezvous_lock();
    ch->own_final = final;
    ch->deferred_deadline =
        deadline_in_ms(failed ? FAILED_MOST_MS : (int)setting_number(SET_TIMEOUT_MS));
    atomic_fetch_add_explicit(&ch->users, 1, memory_order_seq_cst);
    close_set_closed_locked(ch);
    list_append(&deferred_close_list, &ch->deferred);
    (void)control_watch(-1, POLL_US, deferred_close_poll, NULL);
    rendezvous_unlock();
}

static int deferred_close_finish_attempt(void *unused)
{
    bool empty;

    (void)unused;
    rendezvous_lock();
    empty = list_empty(&deferred_close_list);
    rendezvous_unlock();
    return empty ? 0 : R_PENDING;
}

void deferred_close_finish(int64_t deadline)
{
    (void)wait_by_sleeps(deadline, deferred_close_finish_attempt, NULL);
    control_unwatch(deferred_close_poll, NULL);
    rendezvous_lock();
    while (!list_empty(&deferred_close_list))
        deferred_close_member(container_of(deferred_close_list.next, struct rch, deferred),
                              R_PENDING);
    rendezvous_unlock();
}
