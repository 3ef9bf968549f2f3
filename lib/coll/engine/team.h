/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * team.h: a team and a plan, as the engine has them (doc/collectives.md "The engine").
 *
 * Each operation of a team has a number, from 1; members count alike. A plan whose result is larger than the heap is done in
 * parts, each of which is an operation. Started plans are in the queue of the team, in the order of their numbers; one is
 * activated when fewer than depth - 1 operations of this member are in flight.
 *
 * Words of the board are in cell.h. What is private:
 *
 *     number  of the next operation
 *     done    the oldest operation that is not over, or whose views are held: what this member publishes
 *     history a hash of the checks of all operations that have been started: with it the check of an operation is that of all before it
 *     floor   the least `done` of the mates that has been seen: a cell of operation k may be written when floor > k - cell_depth()
 */
#ifndef COLL_ENGINE_TEAM_H
#define COLL_ENGINE_TEAM_H

#include "coll/choose.h"
#include "coll/coll.h"
#include "coll/engine/cell.h"
#include "coll/engine/program.h"
#include "coll/engine/ring.h"
#include "coll/operator.h"
#include "util/hash.h"
#include "util/list.h"

#include <pthread.h>
#include <rcoll.h>
#include <rvmem.h>

#define TEAM_CACHE 64
#define TEAM_DEPTH_MOST HEAD_STARTED

/* Probes of the oldest operation that runs (compare.c). */
struct team_probes {
    uint64_t number;   /* of the operation; 0: none has been waited for yet */
    uint32_t next;     /* its first step that is not done */
    int last;          /* the member that has been sent the last one; -1: a turn begins */
    int64_t at, pause; /* when the next ones are due, and what is between two turns, in ns */
};

struct rteam {
    rboard_t board;
    int size, me;
    int *rank; /* of each member */
    struct shape shape;
    struct coll_model model;
    struct coll_rules rules;
    bool explain;
    bool fetches;  /* this process may read the memory of those of its mates */
    bool crowded;  /* members of this host outnumber its processors */
    bool has_sent; /* crowded: since this member has begun its turn on its processor (engine.c) */
    _Atomic int contended; /* a yield has been long, and so many have not since (wait.c) */
    bool threads;          /* several threads: of the program, or that of async.h */
    bool with_async;
    _Atomic int timeout_ms;
    char *backend;
    uint64_t context; /* of the program */
    rstream_t
        stream; /* of the pipes, which are opened at any time: held until the team is closed; NULL: none */
    uint32_t depth;
    uint64_t heap_bytes, mem_bytes;
    uint64_t heap_ready; /* bytes of the own heap, from its beginning, that are allocated */
    /* the own board */
    struct head *head;
    struct cell *cells;
    char *heap;
    /* boards of this host */
    const char **board_of; /* of each member; NULL: on another host */
    int *mates, nmates;
    int nbeside; /* mates[0] to mates[nbeside - 1] may use processors that this member may use */
    uint64_t number, done, floor;
    uint64_t received; /* the last operation of which a message of this host has come */
    uint32_t history;
    struct ring ring;
    rvmem_t mem;
    struct hash blocks; /* of rcoll_alloc: descriptors by offset */
    struct link queue;  /* of plans that have been started */
    size_t weight;      /* of these: the sum (team_call.h) */
    struct link plans;  /* all */
    struct rplan *barrier;
    struct rplan *cache[TEAM_CACHE];
    struct edge **edges; /* pipes to and from each member of other hosts; NULL: none yet */
    rch_t driver; /* the first of them that is read: drives the stream; NULL: none, or no stream */
    bool driver_was_ready; /* its last poll found a message, or its end */
    struct edge **casts;   /* the cast of which each member is the writer; NULL: none yet */
    uint64_t name;         /* the same at all members, and different in each team of a process */
    uint64_t splits;       /* calls of rcoll_split */
    struct agree *agree;   /* NULL: before the first agreement */
    struct shrink *shrink; /* of a call of rcoll_shrink that is not over; NULL: none */
    _Atomic int lost;      /* stored after the two below, once */
    int lost_member;
    char lost_text[ERROR_TEXT_BYTES];
    pthread_mutex_t lock;           /* threads */
    struct async *async;            /* RCOLL_ASYNC */
    void (*ended)(struct rteam *t); /* RCOLL_ASYNC: an operation is over; lock held */
    struct team_probes probes;
};

enum plan_state {
    PLAN_IDLE,
    PLAN_QUEUED, /* the next part is not activated */
    PLAN_RUNS,
    PLAN_HELD /* over; its views are held */
};

/* The part of a plan that is an operation now. */
struct operation {
    const struct program *program;
    uint64_t number;
    uint32_t next; /* all steps before it are done */
    bool ahead;    /* a step after it has been done */
    uint32_t check;
    size_t heap_at;
    /* arrays for the largest program of the plan: of bases (those that are written are of this process), and of steps */
    const char **base;
    const _Atomic uint64_t **ready; /* of each view: the bytes that are there; NULL: all */
    raddr_t *held;                  /* of each view: a message of a pipe, or ADDR_NULL */
    char **copy;                    /* of each view: a copy of such a message, or NULL */
    uint64_t *is_done;              /* a bit for each step after `next`; 0 unless ahead */
    uint64_t *progress; /* of a step that is not done: bytes, or what it needs to remember */
    uint32_t bases_allocated, steps_allocated;
};

/*
 * How a plan is divided into operations. Each moves `count` elements of the contribution, or of each block; the last one moves what
 * is left. Blocks of different lengths need a program for each part, which is made when the part begins. In the first part of an alltoall
 * with counts each member gets from each other one the number of parts that this one needs: the largest is that of all.
 */
#define PARTS_MOST 65536

struct parts {
    uint64_t numbers; /* of operations that a start takes */
    uint64_t used;    /* counted: PARTS_MOST while it is not known */
    uint64_t count;
    bool counted;  /* the first part finds `used`, and then takes the other numbers */
    bool near;     /* small parts, in the part of the heap that was used last */
    bool remade;   /* a program for each part, and from then on for each start */
    uint64_t here; /* counted: parts that this member needs */
};

struct rplan {
    struct rteam *team;
    struct link in_plans, in_queue;
    enum plan_state state;
    bool free_at_end, synchronizes, of_graph;
    bool may_be_alone; /* engine_run_alone may execute it */
    bool is_row;       /* and all of its steps are quick (row.h), and executed in their order */
    bool
        in_call; /* of rcoll_run or rcoll_barrier, until that returns: no other thread may start it */
    rcoll_params_t params; /* with copies of its arrays */
    struct coll_choice choice;
    uint32_t check;   /* of the parameters */
    uint32_t history; /* of the team, with this start: what other members compare */
    size_t weight;    /* bytes that its steps move; WEIGHT_COUNTED: or more, or it may sleep */
    uint32_t noperators;
    struct coll_operator *operators;
    void *operator_scratch; /* for reversed folds */
    struct parts parts;
    struct program program, last; /* of a part; of the shorter last one */
    struct graph graph;           /* of the program, for rcoll_dump */
    const void *from;
    void *into;
    char *scratch;
    size_t scratch_bytes;
    char *hidden; /* RCOLL_VIEWS without `into`: what this member computes itself */
    size_t hidden_bytes;
    uint64_t number, part; /* of the operation now, or next */
    int result;
    struct operation op;
};

#endif
