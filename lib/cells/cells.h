/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cells.h: ATOMIC pipes: an array of 64-bit cells in the passive end's memory, operated on by the active end (doc/atomics.md).
 *
 *   cells.c          ratomic, and the ways in which it is done
 *   cells_service.c  the way by which the passive end's service thread does it
 *
 * The passive end decides the way when it opens, and tells it in its half: all who reach the same cells must be in one
 * domain, that is, be atomic with each other. Processors are one, together with devices that are coherent with them; a device
 * that is not is another.
 */
#ifndef CELLS_CELLS_H
#define CELLS_CELLS_H

#include "rpipe/end/end.h"
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
    struct rch *master; /* passive end: whose cells these are; NULL: its own */
    _Atomic uint32_t
        sharers; /* passive end: others that have these as theirs: it is released after them */
    /* active end */
    struct btl_done done; /* CELLS_DEVICE */
    const void *
        fetching; /* the call that waits for an old value, for which there is one place; NULL: none */
    _Atomic uint64_t asked;    /* CELLS_SERVICE: requests sent, */
    _Atomic uint64_t answered; /* and answered, in their order; service thread */
    _Atomic uint64_t
        wanted; /* number of the request of `fetching`: nobody wants the values of other answers */
    uint64_t old; /* of its answer; before `answered`, by its release */
    int32_t code;
};

static inline struct rch *cells_master(const struct rch *ch)
{
    return ch->cells != NULL ? ch->cells->master : NULL;
}
static inline bool cells_are_shared(const struct rch *ch)
{
    return ch->cells != NULL && atomic_load_explicit(&ch->cells->sharers, memory_order_relaxed) > 0;
}

/* ---- cells.c ---- */
int cells_open(struct rch *ch, struct error *err); /* passive: the cells, and the way */
int cells_attached(struct rch *ch, uint32_t way,
                   struct error *err); /* active: the other half is here */
void cells_release(struct rch *ch);    /* store lock held, or nobody else is there */
int cells_settled(struct rch *ch);     /* what was asked for is done: 0, R_PENDING, error */
uint64_t cells_apply(uint64_t *cell, rcells_op_t op, uint64_t operand,
                     uint64_t compare); /* the old value */

/* ---- cells_service.c ---- */
int cells_request(struct rch *ch, rcells_op_t op, size_t cell, uint64_t operand, uint64_t compare,
                  bool wanted);
/* store lock held */
bool cells_identify(const void *body, size_t bytes, uint32_t *ctx, uint32_t *incarnation,
                    uint32_t *side);
void cells_on_request(struct rch *ch, const void *body);
void cells_on_reply(struct rch *ch, const void *body);

#endif
