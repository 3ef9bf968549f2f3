/* SPDX-License-Identifier: BSD-3-Clause */
/* state.h: what a simulation consists of while it runs: members, their operations, cores, and hosts. */
#ifndef TOOLS_SIM_STATE_H
#define TOOLS_SIM_STATE_H

#include "tools/sim/data.h"
#include "tools/sim/events.h"
#include "tools/sim/sim.h"

#define SIM_NEVER UINT64_MAX
#define SIM_NONE UINT32_MAX

/* Operations of all members are numbered through: those of a member follow each other. */
struct sim_operation {
    uint64_t ready; /* when all that it waits for was over */
    uint64_t start, end;
    uint64_t arrived;   /* RECV: when its message was there */
    uint64_t announced; /* RECV: when a long message was announced; SIM_NEVER: not yet */
    uint64_t
        complete;     /* SEND on a host: when all of the message is there; it is read as it grows */
    struct data sent; /* SEND: what it has sent */
    uint32_t waits;   /* RECV: its message is one of those */
    uint32_t readers; /* SEND: a bit for each core of the host that has read its line, modulo 32 */
    size_t heap_at;   /* SEND that copies: where in the heap of its member */
    uint32_t cause;   /* the operation that it was executed after; SIM_NONE: none */
    uint32_t from;    /* RECV: the SEND; SIM_NONE: not yet sent */
    int32_t member;
    bool after_core; /* it was ready, and the core was not: cause is what the core did before */
    bool posted;     /* RECV: only its message is missing */
    bool taken;      /* SEND: its part of the heap was not in the cache of the core alone */
};

#define SIM_HEAP_BYTES 1048576 /* of a member, unless its team has another one */
#define SIM_CELL_BYTES 48      /* that a message on a host has in the line of its number */
#define SIM_PAIR_BYTES 112     /* and in the next line, which slot 0 has beside it */

/* Memory of a member that is in the cache of a core: see cache.c. */
struct sim_area {
    struct sim_part_held *held;
    uint32_t count, allocated;
};
enum { SIM_HEAP = GRAPH_SPACES, SIM_AREAS };

struct sim_member {
    const struct graph *g;
    uint32_t base; /* number of its first operation */
    uint32_t core;
    uint32_t
        *ready; /* a binary heap of its operations that can be executed, the first one on top */
    uint32_t nready;
    uint32_t left; /* operations that are not over */
    uint64_t ended, killed;
    uint32_t floor; /* operations of a loop that are over on the host, as far as it has read */
    struct data memory[GRAPH_SPACES];
    struct sim_area area[SIM_AREAS];
    size_t heap_at;    /* where its next message is copied to */
    size_t heap_bytes; /* of the messages of an operation of a loop */
    uint32_t expects;  /* the operation of a loop whose SEND has its line fetched */
    uint64_t expected; /* since when */
};

struct sim_core {
    const int *members; /* of the host; those of this core are each `stride`-th */
    uint32_t count, stride;
    uint32_t current; /* index of the member that runs */
    uint64_t since;   /* it has nothing to execute since */
    bool waits;       /* so it has nothing to execute */
    uint64_t wake;    /* waits: when it will have; SIM_NEVER */
    uint32_t last;    /* the operation before */
    uint32_t turn;    /* changes when the event of the wake is not the right one any more */
    uint64_t noise;   /* when it is lost the next time */
    uint32_t call;    /* the last end of an operation of a loop */
    uint32_t little;  /* the last operation that has missed a message, of which it read little */
    uint64_t brought; /* bytes that its cache did not have when they were read or written */
};

struct sim_host {
    uint64_t out, in; /* the interface is used until */
    uint64_t messages, bytes;
    uint32_t over; /* operations of a loop that are over at all members */
};

struct sim_block {
    size_t at, bytes;
};

struct sim {
    const struct shape *shape;
    bool crowded; /* members share cores */
    const struct coll_request *request;
    const struct sim_options *options;
    const struct coll_model *model;
    struct sim_result *result;
    struct error *err;
    struct sim_member *member;
    struct sim_operation *operation;
    uint32_t operations;
    uint32_t *ready;    /* memory of all heaps */
    uint32_t *receives; /* hash table of RECVs: number + 1; 0: empty */
    uint32_t receives_mask;
    struct sim_core *core;
    uint32_t cores;
    struct sim_host *host;
    struct events events;
    struct data buffer;             /* of what is moved */
    uint32_t slots;                 /* of one operation of a loop */
    uint32_t depth;                 /* operations of a loop in flight on a host; 0: no limit */
    uint32_t *over;                 /* of each host and operation: members that are over with it */
    size_t *block_at, *block_in_at; /* in elements: offsets of counts, see blocks.c */
    int failed;
};

enum sim_event {
    SIM_BEGIN,  /* member `at` */
    SIM_RUN,    /* core `at`, turn `what` */
    SIM_INJECT, /* message of RECV `at`: the interface of the sender */
    SIM_LAND,   /* and of the receiver */
    SIM_ARRIVE,
    SIM_CAST,  /* multicast of SEND `at`: the interface of the sender */
    SIM_CREDIT /* SEND `at` may write its cell; `what` was the last operation before */
};

static inline const struct graph_node *sim_node(const struct sim *s, uint32_t number)
{
    const struct sim_member *m = &s->member[s->operation[number].member];

    return &m->g->nodes[number - m->base];
}

/* Keeps the first failure. Returns its code. */
int sim_fail(struct sim *s, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- repeat.c ---- */

/* The graph of `times` operations, one after the other, each with `slots` slots of its own; released by
 * graph_free() in any case. 0; -EINVAL; -ENOMEM. */
int sim_repeat(struct graph *g, const struct graph *one, uint32_t slots, int times,
               struct error *err);

/* ---- blocks.c ---- */

struct coll_request sim_request_of(const struct sim_options *options,
                                   const struct coll_request *request, int member);
int sim_blocks_open(struct sim *s);
/* Block i of what a member contributes, and of what it gets. */
struct sim_block sim_block_of(const struct sim *s, int member, int i);
struct sim_block sim_block_in(const struct sim *s, int member, int i);

/* ---- window.c ---- */

int sim_window_open(struct sim *s);
/* An operation is over at time t. */
void sim_window_over(struct sim *s, uint32_t number, uint64_t t);
/* What a SEND to the own host costs before it: boards of mates that are read. */
uint64_t sim_window_cost(struct sim *s, uint32_t number);

/* Which operation of a loop it is of, and whether it is the last one of that; one operation: false. */
uint32_t sim_window_of(const struct sim *s, uint32_t number);
bool sim_window_ends(const struct sim *s, uint32_t number);

/* The slot of a SEND or RECV within its operation of a loop. */
static inline uint32_t sim_slot(const struct sim *s, const struct graph_node *node)
{
    return s->slots > 0 ? node->slot % s->slots : node->slot;
}

/* A message on a host that is not longer is in its cell. */
static inline size_t sim_cell_bytes(const struct sim *s, const struct graph_node *node)
{
    return sim_slot(s, node) == 0 ? SIM_PAIR_BYTES : SIM_CELL_BYTES;
}

/* ---- cache.c ---- */

/* What a COPY, a FOLD, or a SEND that copies takes beside its step; it moves memory between caches. */
uint64_t sim_bytes_cost(struct sim *s, uint32_t number);
void sim_cache_close(struct sim_member *m);

/* ---- start.c ---- */

int sim_open(struct sim *s, const struct graph *graph);
void sim_close(struct sim *s);
/* The RECV of member `to` for a slot of member `from`; SIM_NONE. */
uint32_t sim_find_receive(const struct sim *s, int to, int from, uint32_t slot);

/* ---- execute.c ---- */

/* Executes an operation from time t on. Returns when its core is free. */
uint64_t sim_execute(struct sim *s, uint32_t number, uint64_t t);
/* One that an operation has waited for is over. */
void sim_release(struct sim *s, uint32_t number, uint64_t t, uint32_t cause);
/* The message of a RECV on its way. */
void sim_inject(struct sim *s, uint32_t number, uint64_t t);
void sim_land(struct sim *s, uint32_t number, uint64_t t);

/* ---- cast.c ---- */

/* Whether a SEND leaves the host once, for all of its receivers there. */
bool sim_casts(const struct sim *s, uint32_t number);
/* Its packets leave the interface. */
void sim_cast(struct sim *s, uint32_t number, uint64_t t);

/* ---- run.c ---- */

/* An operation of the member can be executed from time t on. */
void sim_add_ready(struct sim *s, uint32_t number, uint64_t t);

/* ---- check.c ---- */

/* What a member contributes, into its memory. 0 or -ENOMEM. */
int sim_contribute(struct sim *s, int member);
/* What all members got; those that have ended, after a kill. */
int sim_check(struct sim *s);
/* Time, its parts, and what else is counted at the end. */
void sim_summarize(struct sim *s);

#endif
