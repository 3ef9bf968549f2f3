/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cells.h: an array of 64-bit cells in the passive end's memory, on which active ends operate (doc/cells.md).
 *
 *   cells.c          rcells_atomic, and the ways in which it is done
 *   cells_service.c  the way by which the passive end's service thread does it
 *
 * The passive end decides the way when it opens, and sends it in its part of the handshake: all that reach the same cells must be in one
 * domain, that is, be atomic with each other. Processors are one, together with devices that are coherent with them; a device
 * that is not is another.
 */
#ifndef CELLS_CELLS_H
#define CELLS_CELLS_H

#include "btl/btl.h"
#include "rpipe/end/rch.h"
#include "rpipe/end/feature.h"
#include "rpipe/end/message.h"
#include "util/error.h"

enum cells_way {
    CELLS_CPU = 1, /* memory is mapped: the processor's own instructions */
    CELLS_DEVICE,  /* the network's operations; what it lacks by compare-swap */
    CELLS_SERVICE, /* messages to the service thread of the passive end */
};
#define CELLS_PENDING_MOST 256 /* requests to a service thread that are not answered */

struct cells {
    enum cells_way way;
    bool processors; /* this process's own instructions are in the domain; passive end */
    uint64_t *cell;  /* passive end, and CELLS_CPU */
    uint64_t count;
    /* passive end: the end whose cells these are, which counts this one in `users`; NULL: its own */
    struct rch *master;
    /* active end */
    struct btl_done done; /* CELLS_DEVICE */
    const void *
        fetching; /* the call that waits for an old value, for which there is one place; NULL: none */
    _Atomic uint64_t asked;    /* CELLS_SERVICE: requests sent, */
    _Atomic uint64_t answered; /* and answered, in their order; service thread */
    _Atomic uint64_t
        wanted;   /* number of the request of `fetching`: the values of other answers are dropped */
    uint64_t old; /* of its answer; before `answered`, by its release */
    int32_t code;
};

/* ---- cells.c ---- */
extern const struct end_feature cells_feature;
uint64_t cells_apply(uint64_t *cell, rcells_op_t op, uint64_t operand,
                     uint64_t compare); /* the old value */

/* ---- cells_service.c ---- */
/* On the wire, in both directions. head.number: of the request, from 1. */
struct cells_message {
    struct end_message_head head;
    uint64_t op, cell, operand, compare;
    uint64_t old; /* of the reply */
};
static_assert(sizeof(struct cells_message) == 72, "on the wire");

int cells_request(struct rch *ch, rcells_op_t op, size_t cell, uint64_t operand, uint64_t compare,
                  bool wanted);
extern const struct feature_message cells_messages[];

#endif
