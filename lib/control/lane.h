/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane.h: streams of whole messages between two ranks, with a window. Pure: messages go out through
 * a function that it is given. Inside lib/control only.
 *
 * Two lanes lead to each peer and two come from it: one for network_send(3), one for barrier and
 * allgather. A message travels in chunks of one control message each. A chunk that is in flight, or
 * that its receiver has not taken, is charged to the window of its lane; the receiver acknowledges
 * by a running sum what has been taken. A message that fits into the window is sent whole or not at
 * all; a longer one is sent as the window opens, and is cancelled if its sender gives up.
 *
 * The caller holds the lock of transfer.c.
 */
#ifndef CONTROL_LANE_H
#define CONTROL_LANE_H

#include "control/hooks.h"
#include "control/wire.h"
#include "util/list.h"

enum lane_number { LANE_USER, LANE_COLLECTIVE, LANES };
enum chunk_kind { CHUNK_MESSAGE, CHUNK_BARRIER, CHUNK_ALLGATHER, CHUNK_LEAVE, CHUNK_KINDS };

#define CHUNK_CANCEL 1u /* flag: the message that has begun will not be finished */
#define CHUNK_CHARGE                                                                               \
    64 /* of the window, besides the payload, so that empty chunks are not free  \
      */
/* The window that this build announces in its greeting: the largest message of network_send, 1
 * MiB, goes without waiting. Every version takes LANE_WINDOW_LEAST bytes, which may be sent
 * before its greeting has come. */
#define LANE_WINDOW_BYTES ((1u << 20) + 32 * CHUNK_CHARGE)
#define LANE_WINDOW_LEAST ((1u << 17) + 32 * CHUNK_CHARGE)

/* control_post() */
typedef int (*lane_post)(int to, uint32_t type, const void *body, size_t bytes, const int *fds,
                         int nfds);

struct chunk {      /* on the wire, followed by payload */
    uint32_t bytes; /* of this header */
    uint16_t lane, kind;
    uint32_t flags;
    int32_t code;    /* collectives: 0, or the error at which its sender gives up */
    uint32_t epoch;  /* collectives: the number of the operation */
    uint32_t round;  /* of it */
    int32_t culprit; /* with code: the rank where it failed, -1 */
    uint32_t spare;
    uint64_t total, offset; /* bytes of the message; of it, before this chunk */
};

struct ack {        /* on the wire */
    uint32_t bytes; /* of this structure */
    uint32_t lane;
    uint64_t taken; /* sum of the charges of all chunks that were ever taken */
};

static_assert(sizeof(struct chunk) == 48 && sizeof(struct ack) == 16, "fixed on the wire");
static_assert((int)LANES == WIRE_LANES, "a window of each is announced");
#define CHUNK_PAYLOAD (CONTROL_BODY_MAX - sizeof(struct chunk))
static_assert((1u << 20) / CHUNK_PAYLOAD + 3 <= 32,
              "the chunks of the largest message, and two to cancel it");

struct arrived { /* a chunk that waits for its receiver */
    struct link link;
    struct chunk head;
    uint32_t bytes;
    uint8_t payload[];
};

struct lane_out {
    uint64_t window; /* of the peer: LANE_WINDOW_LEAST until it has announced one */
    bool announced;
    uint64_t charged, taken; /* sums; the difference is at most the window */
    bool busy;               /* a thread sends */
};

struct lane_in {
    struct link chunks;
    uint64_t window;         /* of this process */
    uint64_t charged, taken; /* sums: of what arrived; of what its receiver took */
    uint64_t acknowledged;   /* of the latter: what the sender has been sent */
    uint64_t next_offset; /* of the next chunk of the message that arrives; 0: of a new message */
    uint64_t total;       /* bytes of the message that arrives */
    uint8_t *stash;       /* the beginning of a message whose receiver gave up */
    uint64_t stashed, stash_total;
    bool discarding; /* the rest of a message without a receiver is still to come */
    bool busy;       /* a thread receives */
};

struct pair { /* this rank and a peer */
    struct lane_out out[LANES];
    struct lane_in in[LANES];
    lane_post post;
    bool monitored; /* its end will be noticed: control_monitor() */
    bool leaves;    /* it has sent WIRE_LEAVE: it is in collect_leave() */
};

/* One message that is being sent, or received. */
struct transfer {
    int peer;
    enum lane_number lane;
    struct chunk head;    /* send: of each chunk; receive: of the first chunk, once it is here */
    uint32_t kind, epoch; /* receive: those that are expected */
    const uint8_t *from;  /* send */
    uint8_t *to;          /* receive */
    uint64_t bytes, done; /* bytes that have been sent, or received */
    bool begun;           /* the first chunk was sent, or taken */
    bool finished;
};

/* 0, or -errno of control_post(). */
int lane_push(struct pair *pair, struct transfer *t);   /* sends what the window allows */
int lane_cancel(struct pair *pair, struct transfer *t); /* the sender gives up */
/* The peer has announced its window. */
void lane_announced(struct pair *pair, enum lane_number lane, uint64_t window);
/* Whether this send has to wait for that. */
bool lane_needs_window(const struct pair *pair, const struct transfer *t);
/* Takes what has arrived. A collective's transfer names its kind and epoch; messages of older
 * epochs are discarded. -EMSGSIZE: the message has another size (t->head.total), -EPROTO:
 * another kind or a newer epoch; the message stays. */
int lane_pull(struct pair *pair, struct transfer *t);
/* The receiver gives up. What it has taken of a message of network_send is kept for the next
 * receive. */
void lane_giveback(struct pair *pair, struct transfer *t);
/* A chunk arrives. 0; -ENOMEM: it has to be delivered again; -EPROTO and the violation. */
int lane_arrive(struct pair *pair, const void *body, size_t bytes, const char **violation);
/* An acknowledgement arrives. NULL, or the violation. */
const char *lane_acked(struct pair *pair, const void *body, size_t bytes);
void lane_init(struct pair *pair, lane_post post);
void lane_free(struct pair *pair); /* and what arrived */

#endif
