/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cells_service.c: cells by messages: the service thread of the passive end operates on the cells.
 *
 * Requests and answers are FIFO, so an answer needs no name: the n-th answers the n-th. At most CELLS_PENDING_MOST are
 * pending, so that a flood of them cannot fill the memory of either process.
 */
#include "cells/cells.h"

#include "rpipe/end/config.h"
#include "rpipe/end/message.h"
#include "rpipe/end/state.h"

#include "control/control.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Answers that may be held unsent: 256 for each of many pipes, and still no more memory than a heap of some size. */
#define BACKLOG_MOST 262144

int cells_request(struct rch *ch, rcells_op_t op, size_t cell, uint64_t operand, uint64_t compare,
                  bool wanted)
{
    uint64_t number = atomic_load_explicit(&ch->cells->asked, memory_order_relaxed) + 1;
    struct cells_message n = {.head = message_head(ch, sizeof(n), number),
                              .op = (uint64_t)op,
                              .cell = cell,
                              .operand = operand,
                              .compare = compare};
    int rc;

    /* before the request: the service thread accepts no reply to a request that was not sent */
    atomic_store_explicit(&ch->cells->asked, number, memory_order_relaxed);
    if (wanted) /* before it, too: the service thread loads it when the reply arrives */
        atomic_store_explicit(&ch->cells->wanted, number, memory_order_relaxed);
    rc = message_post(ch->peer, MESSAGE_ATOMIC, &n.head, NULL);
    if (rc != 0)
        atomic_store_explicit(&ch->cells->asked, number - 1, memory_order_relaxed);
    return rc;
}

static void cells_on_request(struct rch *ch, const struct message *m)
{
    const struct cells_message *n = (const struct cells_message *)(const void *)m->head;
    struct cells_message reply = *n;
    struct cells *c = ch->cells;

    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_FAILED) != 0)
        return;
    if (c == NULL || config_side(&ch->cfg) != SIDE_READER || c->way != CELLS_SERVICE ||
        c->cell == NULL || n->op > RCELLS_XOR || n->cell >= c->count) {
        end_fail_locked(ch, -EPROTO,
                        "rank %d requests operation %llu on cell %llu; operations are 0 to %d, and "
                        "there are %llu cells",
                        ch->peer, (unsigned long long)n->op, (unsigned long long)n->cell,
                        (int)RCELLS_XOR, c != NULL ? (unsigned long long)c->count : 0ull);
        return;
    }
    if (control_backlog(ch->peer) > BACKLOG_MOST) {
        end_fail_locked(ch, -EPROTO,
                        "rank %d requests operations and does not receive the replies: %zu bytes "
                        "wait for it, at most %u",
                        ch->peer, control_backlog(ch->peer), BACKLOG_MOST);
        return;
    }
    RPIPE_FAILPOINT("rcells_atomic: request received");
    reply.old = cells_apply(&c->cell[n->cell], (rcells_op_t)n->op, n->operand, n->compare);
    RPIPE_FAILPOINT("rcells_atomic: applied by the service thread");
    reply.head = message_head(ch, sizeof(reply), n->head.number);
    (void)message_post(ch->peer, MESSAGE_ATOMIC_DONE, &reply.head,
                       NULL); /* a peer that is gone waits for nothing */
}

static void cells_on_reply(struct rch *ch, const struct message *m)
{
    const struct cells_message *n = (const struct cells_message *)(const void *)m->head;
    struct cells *c = ch->cells;

    if (c == NULL || config_side(&ch->cfg) != SIDE_WRITER ||
        n->head.number != atomic_load_explicit(&c->answered, memory_order_relaxed) + 1 ||
        n->head.number > atomic_load_explicit(&c->asked, memory_order_relaxed)) {
        end_fail_locked(ch, -EPROTO,
                        "rank %d replies to request %llu, which is not the next one that was sent",
                        ch->peer, (unsigned long long)n->head.number);
        return;
    }
    RPIPE_FAILPOINT("rcells_atomic: reply received");
    if (n->head.number == atomic_load_explicit(&c->wanted, memory_order_relaxed))
        c->old = n->old;
    /* release: pairs with the acquire of the thread that waits for this answer */
    atomic_store_explicit(&c->answered, n->head.number, memory_order_release);
    end_state_set(ch, 0); /* wakes the threads that wait */
}

const struct feature_message cells_messages[] = {
    {MESSAGE_ATOMIC, {.known = sizeof(struct cells_message), .of_open = cells_on_request}},
    {MESSAGE_ATOMIC_DONE, {.known = sizeof(struct cells_message), .of_open = cells_on_reply}},
    {0},
};
