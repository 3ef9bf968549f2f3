/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * redux.h: one reader, many writers: what reading (redux.c) and reducing (reduce.c) share.
 */
#ifndef GROUP_REDUX_H
#define GROUP_REDUX_H

#include "group/compose.h"

/*
 * Places in a ring, linked by rpipe_redux.next, so that a turn is one store. Every part that is not gone is in one of the two
 * rings; some that are gone still are.
 */
struct redux_ring {
    int before; /* the first one; that is, the last */
    int n;
};

/* A reduction that has begun, and has not got a message from everybody yet. */
struct redux_round {
    bool open;
    void *into;
    size_t bytes;
    rredux_function_t function;
    void *argument;
    int flags;
    int combined; /* messages */
    int left;     /* places in rpipe_redux.todo */
};

struct rpipe_redux {
    struct group c;
    struct redux_ring busy; /* gave a message when they were looked at last; in turn */
    struct redux_ring idle; /* did not; who has waited longest is first */
    int taken;              /* messages from the busy since the idle were looked at */
    int due;                /* idle ones to be looked at now */
    struct redux_round round;
    int *next, *todo, *ready; /* n of each */
    rch_t *ends;              /* for rpipe_poll */
};
static_assert(sizeof(struct rpipe_redux) <= COMPOSE_BYTES, "objects are of one size");

int redux_refuses(rredux_t rx, const char *call);
/*
 * Reads from one part, without waiting. R_PENDING: nothing there, or the part is over in order (then it is gone). Any other
 * error has its sentence; if it is about the partner the part is gone.
 */
int redux_look(struct rpipe_redux *rx, const char *call, int place, raddr_t *d, size_t *size);
/* Waits until one of the parts at `places` may have something. 0, or -ETIMEDOUT without a sentence. */
int redux_await(struct rpipe_redux *rx, const int *places, int n, int64_t deadline);

#endif
