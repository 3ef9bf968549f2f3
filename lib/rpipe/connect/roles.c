/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * roles.c: see roles.h. The service thread checks, ROLES_AFTER_US after a pair of ends of the same role was seen, and reports
 * each pair once: a program may also open both directions under one context, and its other end a little later.
 */
#include "rpipe/connect/roles.h"

#include "rpipe/connect/handshake.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/message.h"

#include "control/control.h"
#include "util/log.h"

#define ROLES_AFTER_US 1000000

static bool roles_scheduled; /* rendezvous lock */

/* An own end of this entry is open and waits for the other one. */
static bool roles_waits(const struct rendezvous *own)
{
    const struct rch *ch;

    if (own == NULL || list_empty(&own->ends))
        return false;
    ch = container_of(container_of(own->ends.prev, struct rendezvous_end, link), struct rch, end);
    return (atomic_load_explicit(&ch->state, memory_order_relaxed) &
            (STATE_JOINED | STATE_ATTACHED | STATE_FAILED | STATE_CLOSED)) == 0;
}

/* The peer has opened the end that this entry keeps the handshake of, and has not closed it. */
static bool roles_peer_waits(struct rendezvous *other)
{
    struct link *cursor, *after;

    list_for_each (cursor, after, &other->handshakes)
        if (!container_of(cursor, struct rendezvous_handshake, link)->close_message)
            return true;
    return false;
}

static void roles_report(struct rendezvous *own)
{
    const char *role = own->side == SIDE_WRITER ? "writer" : "reader";

    own->reported = true;
    log_warn(
        "rpipe: both ends of context %llu between rank %d and rank %d are %ss; one must be a %s",
        (unsigned long long)(own->context & ~CONTEXT_LIBRARY), job_own_rank(), own->peer, role,
        own->side == SIDE_WRITER ? "reader" : "writer");
}

static void roles_check(void *unused)
{
    struct rendezvous *other = NULL;

    (void)unused;
    rendezvous_lock();
    roles_scheduled = false;
    while ((other = rendezvous_next(other)) != NULL) {
        struct rendezvous *own =
            rendezvous_find(other->peer, side_other((enum side)other->side), other->context, false);

        if (other->peer != job_own_rank() && roles_waits(own) && !own->reported &&
            roles_peer_waits(other))
            roles_report(own);
    }
    rendezvous_unlock();
}

static void roles_schedule(void)
{
    if (!roles_scheduled)
        roles_scheduled = control_watch(-1, ROLES_AFTER_US, roles_check, NULL) == 0;
}

void roles_opened(const struct rch *ch)
{
    struct rendezvous *other =
        rendezvous_find(ch->peer, side_other(config_side(&ch->cfg)), ch->cfg.context, false);

    if (ch->peer != job_own_rank() && other != NULL && roles_peer_waits(other))
        roles_schedule();
}

void roles_kept(int peer, uint32_t role, uint64_t context)
{
    if (peer != job_own_rank() && roles_waits(rendezvous_find(peer, role, context, false)))
        roles_schedule();
}

void roles_stop(void) { control_unwatch(roles_check, NULL); }
