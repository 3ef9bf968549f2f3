/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.h: a graph, ready to be executed: steps in an order in which each follows what it waits for.
 *
 * A SEND becomes one step for all receivers on this host, and one for each of the others, or, by cast, for all of these. Memory is
 * addressed by a base and an offset: FROM, INTO, SCRATCH, or the view of a RECV.
 */
#ifndef COLL_ENGINE_PROGRAM_H
#define COLL_ENGINE_PROGRAM_H

#include "coll/graph.h"
#include "coll/shape.h"

enum step_kind {
    STEP_SEND,
    STEP_RECV,
    STEP_PIPE_SEND,
    STEP_PIPE_RECV,
    STEP_FOLD,
    STEP_COPY,
    STEP_CALL
};

enum program_base { BASE_FROM, BASE_INTO, BASE_SCRATCH, BASE_VIEWS };

struct step {
    uint8_t kind;
    bool reversed; /* FOLD */
    bool copies;   /* FOLD: of a copy of bytes at `copied`, which is made as they are folded */
    bool whole;    /* RECV: what waits for it needs all of the message */
    bool stays;    /* SEND: nothing of the graph changes what is sent */
    bool lent;     /* SEND, RECV: graph.h */
    bool marked;   /* the same */
    bool shows;    /* COPY of a message that is lent: it is left out where that is mapped */
    bool by_cast;  /* PIPE_SEND: to all receivers on other hosts; PIPE_RECV: from such a message */
    uint16_t op;   /* FOLD: the operator */
    uint32_t slot;
    int32_t peer;        /* RECV, PIPE_SEND: the member; by cast: this one; CALL: index */
    uint32_t into, from; /* bases; RECV: into is its view */
    size_t
        into_at; /* SEND of more than a cell has: where in the heap of the operation it is copied to */
    size_t from_at;
    size_t copied_at;
    size_t bytes;
    uint32_t copied;                /* a base that is no view */
    uint32_t first_before, nbefore; /* the steps that it waits for */
    /* what row_bind() finds */
    bool quick;          /* row.h */
    bool elsewhere;      /* RECV: its sender uses no processor of this member */
    bool in_cell;        /* SEND, RECV: the message is in its cell */
    bool in_second;      /* SEND, RECV: and also in the second line of it */
    uint32_t salt, mask; /* SEND, RECV: of bytes and mark, in checks; cells of the slot, less one */
    uint32_t pitch;      /* SEND, RECV: bytes from a cell of the slot to the next one */
    const struct cell *cells; /* SEND, RECV: of the slot, on the board of the sender */
};

/*
 * A COPY to INTO that is left out where the result is shown as views: bytes [into_at, into_at + bytes) are at from_at of a base. One of a
 * message that is lent is left out only where that is in memory of rcoll_alloc.
 */
struct program_view {
    size_t into_at, from_at, bytes;
    uint32_t from;
};

struct program {
    uint32_t count, nviews; /* steps; views are bases BASE_VIEWS to BASE_VIEWS + nviews - 1 */
    struct step *steps;
    uint32_t *before;
    struct graph_call *calls;
    int32_t *view_of;           /* of each view: its sender; by cast: -1 - its sender */
    size_t space[GRAPH_SPACES]; /* bytes of FROM, INTO, SCRATCH */
    size_t heap;                /* bytes of the messages that are copied into the heap */
    size_t shared;  /* of these, the last ones: not copied where FROM is memory of rcoll_alloc */
    bool has_pipes; /* sends or receives by pipes */
    bool
        in_order; /* what can be done behind a RECV that waits is short, and for this member alone */
    struct program_view *views; /* in the order of INTO */
    uint32_t nleft;             /* of them */
};

/*
 * 0; -ENOTSUP: slots are too many for a board; -ENOMEM. The graph is finished, and stays the caller's. views: COPYs to INTO
 * that nothing waits for are left out.
 */
int program_compile(struct program *p, const struct graph *g, const struct shape *shape, bool views,
                    struct error *err);
void program_free(struct program *p);

#endif
