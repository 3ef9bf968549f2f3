/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * roles.c: see roles.h. The service thread checks, ROLES_AFTER_US after an end was seen that may be one of such a pair, and reports
 * each pair once.
 *
 * Two ends of the same role are reported at the first check: a program may also open both directions under one context, and its
 * other end a little later. Two ends of different contexts are reported where each of the two processes has nothing else of this
 * role that waits for the other one, and at the second check: programs open several pipes in different orders.
 */
#include "rpipe/connect/roles.h"

#include "rpipe/connect/handshake.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/message.h"

#include "control/control.h"
#include "util/log.h"

#define ROLES_AFTER_US 1000000

static bool roles_scheduled; /* rendezvous lock */

static void roles_schedule(void);

/* An own end of this entry is open and waits for the other one. */
static bool roles_waits(const struct rendezvous *own)
{
    const struct rch *ch;

    if (own == NULL || list_empty(&own->ends))
        return false;
    ch = container_of(container_of(own->ends.prev, struct rendezvous_end, link), struct rch, end);
    return (atomic_load_explicit(&ch->state, memory_order_relaxed) &
            (STATE_JOINED | STATE_ATTACHED | STATE_FAILED | STATE_CLOSED | STATE_PEER_CLOSED |
             STATE_PEER_EXITING | STATE_PEER_LEFT | STATE_PEER_DIED)) == 0;
}

/* ---- the same role ---- */

static void roles_check_role(const struct rendezvous *other)
{
    struct rendezvous *own =
        rendezvous_find(other->peer, side_other((enum side)other->side), other->context, false);
    const char *role;

    if (!roles_waits(own) || own->reported)
        return;
    own->reported = true;
    role = own->side == SIDE_WRITER ? "writer" : "reader";
    log_warn(
        "rpipe: both ends of context %llu between rank %d and rank %d are %ss; one must be a %s",
        (unsigned long long)(own->context & ~CONTEXT_LIBRARY), job_own_rank(), own->peer, role,
        own->side == SIDE_WRITER ? "reader" : "writer");
}

/* ---- different contexts ---- */

/*
 * The own end that waits for this peer in the role that `other` is for, in another context. NULL: there is none, or more than one
 * of them, or more than one that the peer has opened: then none of them is the mistake with certainty.
 */
static struct rendezvous *roles_lone_end(const struct rendezvous *other)
{
    struct rendezvous *m = NULL, *own = NULL;

    if (rendezvous_waits(other) > 1) /* so the entries of a peer are walked once in a check */
        return NULL;
    while ((m = rendezvous_next_of_peer(other->peer, m)) != NULL) {
        if (m->side != other->side || !roles_waits(m))
            continue;
        if (own != NULL)
            return NULL;
        own = m;
    }
    return own;
}

static void roles_check_context(struct rendezvous *other)
{
    struct rendezvous *own = roles_lone_end(other);
    bool writer = other->side == SIDE_WRITER;

    if (own == NULL || own->reported || own == other ||
        ((own->context ^ other->context) & CONTEXT_LIBRARY) != 0)
        return;
    if (!own->suspected || own->suspect != other->context) {
        own->suspected = true;
        own->suspect = other->context;
        roles_schedule();
        return;
    }
    own->reported = true;
    log_warn("rpipe: rank %d waits for the %s of context %llu at rank %d, which has opened context "
             "%llu and not %llu; both ends must have the same context",
             job_own_rank(), writer ? "reader" : "writer",
             (unsigned long long)(own->context & ~CONTEXT_LIBRARY), own->peer,
             (unsigned long long)(other->context & ~CONTEXT_LIBRARY),
             (unsigned long long)(own->context & ~CONTEXT_LIBRARY));
}

/* ---- when ---- */

static void roles_check(void *unused)
{
    struct rendezvous *other = NULL;

    (void)unused;
    rendezvous_lock();
    roles_scheduled = false;
    while ((other = rendezvous_next_waiting(other)) != NULL) {
        if (other->peer == job_own_rank() || other->unclosed == NULL)
            continue;
        roles_check_role(other);
        roles_check_context(other);
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
    if (ch->peer != job_own_rank() && rendezvous_keeps(ch->peer))
        roles_schedule();
}

void roles_kept(int peer)
{
    if (peer != job_own_rank())
        roles_schedule();
}

void roles_stop(void) { control_unwatch(roles_check, NULL); }
