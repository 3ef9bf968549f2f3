/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane.h: streams of whole messages between two ranks, with a window. Inside lib/control only.
 *
 * Two lanes lead to each peer and two come from it: one for network_send(3), one for barrier and allgather. A message
 * travels in pieces of one control message each. What is on its way or unreceived is charged to the window of its lane;
 * the receiver tells by a running sum what its user has taken. A message that fits into the window is sent whole or not at
 * all; a longer one as the window opens, and is cancelled if its sender gives up.
 *
 * All of it is guarded by one lock, that of collective.c; a waiter sleeps on one condition, in slices.
 */
#ifndef CONTROL_LANE_H
#define CONTROL_LANE_H

#include "control/wire.h"
#include "util/list.h"

#include <pthread.h>

enum lane_number { LANE_USER, LANE_COLLECTIVE, LANES };
enum chunk_kind { PIECE_MESSAGE, PIECE_BARRIER, PIECE_ALLGATHER, PIECE_LEAVE, PIECE_KINDS };

#define PIECE_CANCEL 1u /* flag: the message that has begun will not be finished */
#define PIECE_CHARGE                                                                               \
    64 /* what a piece costs the window besides its payload, so that empty ones are not free */
#define WINDOW_BYTES                                                                               \
    ((1u << 20) +                                                                                  \
     32 * PIECE_CHARGE) /* the largest message of network_send, 1 MiB, goes without waiting */

struct chunk { /* on the wire, followed by payload */
    uint32_t lane, kind, flags;
    int32_t code;    /* collectives: 0, or why its sender gives up */
    uint32_t epoch;  /* collectives: the number of the operation */
    uint32_t round;  /* of it */
    int32_t culprit; /* with code: the rank that is to blame, -1 */
    uint32_t spare;
    uint64_t total, offset; /* bytes of the message; of it, before this piece */
};

struct ack {              /* on the wire */
    uint64_t lane, taken; /* sum of the charges of all pieces that the user has taken, ever */
};

static_assert(sizeof(struct chunk) == 48 && sizeof(struct ack) == 16, "fixed on the wire");
#define PIECE_PAYLOAD (CONTROL_BODY_MAX - sizeof(struct chunk))
static_assert((1u << 20) / PIECE_PAYLOAD + 3 <= 32,
              "the pieces of the largest message, and two to cancel it");

struct arrived { /* a piece that waits for its receiver */
    struct link link;
    struct chunk head;
    uint32_t bytes;
    uint8_t payload[];
};

struct lane_out {
    uint64_t charged, taken; /* sums; the difference is at most the window */
    bool busy;               /* somebody sends */
};

struct lane_in {
    struct link chunks;
    uint64_t charged, taken; /* sums: of what arrived; of what the user took */
    uint64_t warned;         /* of that: what the sender has been told */
    uint64_t next_offset,
        total; /* of the message that arrives: its next piece must have this offset; 0: a new one */
    uint8_t *stash; /* the beginning of a message whose receiver gave up */
    uint64_t stashed, stash_total;
    bool discarding; /* the rest of a message that nobody wants is still to come */
    bool busy;       /* somebody receives */
};

struct pair { /* this rank and a peer */
    struct lane_out out[LANES];
    struct lane_in in[LANES];
    bool heeded; /* its end will be noticed: control_monitor() */
    bool leaves; /* has said that it is in collect_leave(), to all */
};

/* One transfer that is under way. */
struct transfer {
    int peer;
    enum lane_number lane;
    struct chunk
        head; /* of a send: what each piece says; of a receive: of the first piece, once it is here */
    uint32_t kind, epoch; /* receive: what is wanted */
    const uint8_t *from;  /* send */
    uint8_t *to;          /* receive */
    uint64_t bytes, done; /* bytes that have been sent, or received */
    bool begun;           /* the first piece has gone, or been taken */
    bool finished;
};

/* All with the lock held. 0, or -errno of control_post(). */
int lane_push(struct pair *pair, struct transfer *t);   /* sends what the window allows */
int lane_cancel(struct pair *pair, struct transfer *t); /* the sender gives up */
/* Takes what is here. A collective's transfer names its kind and epoch; messages of older epochs are discarded.
 * -EMSGSIZE: the message has another size (t->head.total), -EPROTO: another kind or a newer epoch; it stays. */
int lane_pull(struct pair *pair, struct transfer *t);
/* The receiver gives up. What it has taken of a user's message is kept for the next receive. */
void lane_giveback(struct pair *pair, struct transfer *t);
/* On the service thread. 0; -ENOMEM: it has to come again; -EPROTO and a sentence on what is wrong with it. */
int lane_arrive(struct pair *pair, const void *body, size_t bytes, const char **wrong);
const char *lane_acked(struct pair *pair, const void *body, size_t bytes);
void lane_init(struct pair *pair);
void lane_free(struct pair *pair);

#endif
