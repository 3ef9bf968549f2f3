/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cells_service.c: ATOMIC pipes by messages: the service thread of the passive end operates on the cells.
 *
 * Requests and answers are FIFO, so an answer needs no name: the n-th answers the n-th. At most CELLS_PENDING_MOST are under
 * way, so that a flood of them cannot fill the memory of either process.
 */
#include "cells/cells.h"

#include "control/control.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Answers that may lie here unsent: 256 for each of many pipes, and still no more memory than a heap of some size. */
#define BACKLOG_MOST 262144

/* On the wire, in both directions. */
struct cells_note {
    uint32_t ctx, incarnation, side; /* of the sender */
    int32_t code;                    /* of the answer */
    uint64_t op, cell, operand, compare;
    uint64_t number, old; /* of the request, from 1; of the answer */
};
static_assert(sizeof(struct cells_note) == 64, "on the wire");

int cells_request(struct rch *ch, rcells_op_t op, size_t cell, uint64_t operand, uint64_t compare,
                  bool wanted)
{
    struct cells_note n = {.ctx = (uint32_t)ch->cfg.context,
                           .incarnation = ch->end.incarnation,
                           .side = (uint32_t)config_side(&ch->cfg),
                           .op = (uint64_t)op,
                           .cell = cell,
                           .operand = operand,
                           .compare = compare,
                           .number =
                               atomic_load_explicit(&ch->cells->asked, memory_order_relaxed) + 1};
    int rc;

    /* before the request: the service thread, which hears the answer, lets nobody answer more than was asked */
    atomic_store_explicit(&ch->cells->asked, n.number, memory_order_relaxed);
    if (wanted) /* before it, too: pairs with the look of whoever hears the answer, which comes behind the request */
        atomic_store_explicit(&ch->cells->wanted, n.number, memory_order_relaxed);
    rc = control_post(ch->peer, MESSAGE_ATOMIC, &n, sizeof(n), NULL, 0);
    if (rc != 0)
        atomic_store_explicit(&ch->cells->asked, n.number - 1, memory_order_relaxed);
    return rc;
}

bool cells_identify(const void *body, size_t bytes, uint32_t *ctx, uint32_t *incarnation,
                    uint32_t *side)
{
    struct cells_note n;

    if (bytes != sizeof(n))
        return false;
    memcpy(&n, body, sizeof(n));
    *ctx = n.ctx;
    *incarnation = n.incarnation;
    *side = n.side;
    return n.side == SIDE_WRITER || n.side == SIDE_READER;
}

void cells_on_request(struct rch *ch, const void *body)
{
    struct cells *c = ch->cells;
    struct cells_note n;
    struct error err = {""};

    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_FAILED) != 0)
        return;
    memcpy(&n, body, sizeof(n));
    if (c == NULL || config_side(&ch->cfg) != SIDE_READER || c->way != CELLS_SERVICE ||
        c->cell == NULL || n.op > RCELLS_XOR || n.cell >= c->count) {
        error_note(&err,
                   "rank %d asks for operation %llu on cell %llu, which this pipe cannot have",
                   ch->peer, (unsigned long long)n.op, (unsigned long long)n.cell);
        join_fail_locked(ch, -EPROTO, err.text);
        return;
    }
    if (control_backlog(ch->peer) > BACKLOG_MOST) {
        error_note(&err, "rank %d asks for operations, and does not take the answers", ch->peer);
        join_fail_locked(ch, -EPROTO, err.text);
        return;
    }
    RPIPE_FAILPOINT("ratomic: request heard");
    n.old = cells_apply(&c->cell[n.cell], (rcells_op_t)n.op, n.operand, n.compare);
    RPIPE_FAILPOINT("ratomic: applied by the service thread");
    n.side = SIDE_READER;
    n.code = 0;
    (void)control_post(ch->peer, MESSAGE_ATOMIC_DONE, &n, sizeof(n), NULL,
                       0); /* a peer that is gone waits for nothing */
}

void cells_on_reply(struct rch *ch, const void *body)
{
    struct cells *c = ch->cells;
    struct cells_note n;

    memcpy(&n, body, sizeof(n));
    if (c == NULL || config_side(&ch->cfg) != SIDE_WRITER ||
        n.number != atomic_load_explicit(&c->answered, memory_order_relaxed) + 1 ||
        n.number > atomic_load_explicit(&c->asked, memory_order_relaxed)) {
        join_fail_locked(ch, -EPROTO, "the passive end answers a request that it was not asked");
        return;
    }
    RPIPE_FAILPOINT("ratomic: answer heard");
    if (n.number == atomic_load_explicit(&c->wanted, memory_order_relaxed))
        c->old = n.old;
    /* release: pairs with the acquire of whoever waits for this answer */
    atomic_store_explicit(&c->answered, n.number, memory_order_release);
    end_state_set(ch, 0); /* wakes who waits */
}
