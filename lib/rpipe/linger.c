/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * linger.c: ends over a network that were closed before all that they had asked for was done, because the deadline of their
 * rclose was shorter. The service thread drives them on, and says bye when there is proof, or after RPIPE_TIMEOUT_MS.
 *
 * Invariant: an end in the list is CLOSED, registered, and counted as in use (users), so that nobody else releases it; its line
 * belongs to the service thread.
 */
#include "rpipe/net.h"

#include "bootstrap/control.h"
#include "util/settings.h"

#include <time.h>

#define LOOK_US 1000

static struct link lingering = {&lingering, &lingering}; /* store lock */

/* Store lock held. */
static void part(struct rch *ch)
{
    list_remove(&ch->linger);
    join_say_bye_locked(ch, ch->bye_own);
    atomic_fetch_sub_explicit(&ch->users, 1, memory_order_seq_cst);
    join_release_locked(ch);
}

static void look(void *unused)
{
    struct link *at, *after;

    store_lock();
    list_for_each (at, after, &lingering) {
        struct rch *ch = container_of(at, struct rch, linger);

        if (net_settled(ch) != R_PENDING || deadline_passed(ch->linger_until))
            part(ch);
    }
    if (!list_empty(&lingering))
        (void)control_watch(-1, LOOK_US, look, unused);
    store_unlock();
}

void linger_begin(struct rch *ch, uint64_t final)
{
    store_lock();
    ch->bye_own = final;
    ch->linger_until = deadline_in_ms((int)setting_number(SET_TIMEOUT_MS));
    atomic_fetch_add_explicit(&ch->users, 1, memory_order_seq_cst);
    join_set_closed_locked(ch);
    list_append(&lingering, &ch->linger);
    (void)control_watch(-1, LOOK_US, look, NULL);
    store_unlock();
}

void linger_end(int64_t deadline)
{
    const struct timespec nap = {0, NS_PER_MS};
    bool empty;

    do {
        store_lock();
        empty = list_empty(&lingering);
        store_unlock();
        if (!empty)
            nanosleep(&nap, NULL);
    } while (!empty && !deadline_passed(deadline));
    control_unwatch(look, NULL);
    store_lock();
    while (!list_empty(&lingering))
        part(container_of(lingering.next, struct rch, linger));
    store_unlock();
}
