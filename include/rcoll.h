/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcoll.h: collective operations of teams: barrier, broadcast, reductions, gather, scatter, exchange of blocks.
 *
 * A team is an ordered list of ranks; a member is a position in it. A plan is one collective operation as this member
 * takes part in it: a graph of sends, receives, folds and copies. A plan is started, and waited for, any number of times.
 * rcoll_run() does all of that in one call. Within a host a message is one store into memory of the sender, which all
 * others read; between hosts it is a message of a pipe.
 *
 * All members of a team start the same operations in the same order; when each waits for them is up to it. A team
 * belongs to one thread at a time, unless it was opened with RCOLL_THREADS. Different threads may use different teams at
 * the same time. rerror(NULL) explains a failure; rcoll(7) is the overview.
 */
#ifndef RCOLL_H
#define RCOLL_H

#include <rpipe.h>

#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(                                                                       \
    default) /* the declarations of this header are exported, all others are hidden */

typedef struct rteam *rteam_t;   /* a team, as this member has it */
typedef struct rplan *rplan_t;   /* a collective operation that can be started again and again */
typedef struct rgraph *rgraph_t; /* a plan of the program's own, while it is being built */

/* ---- teams ---- */

#define RCOLL_THREADS 1u /* flags of a team: several threads use it; every call takes a lock */
#define RCOLL_ASYNC                                                                                \
    2u /* and a thread of the library advances its operations while no call does; takes the lock, too */

/* "Same": the same value at every member, which is verified. Zero is the default of every member. */
typedef struct rcoll_team_config {
    uint64_t
        context; /* same; which of the teams of these ranks, below 2^61 or from rcontext; default 0 */
    uint64_t
        heap_bytes; /* same; memory for messages of operations in flight, 64 KiB to 1 TiB; default RCOLL_HEAP, 1 MiB */
    uint64_t mem_bytes; /* same; memory for rcoll_alloc; default none */
    uint32_t depth;     /* same; operations in flight, a power of two, 4 to 64; default 64 */
    uint32_t flags;     /* RCOLL_THREADS, RCOLL_ASYNC */
    int timeout_ms;     /* deadline of calls, ms; R_FOREVER, R_AT_ONCE; default: RPIPE_TIMEOUT_MS */
    uint32_t zero;      /* 0 */
    const char *backend; /* same; of the pipes between hosts, as in rpipe_config_t */
    rstream_t stream;    /* of the pipes between hosts; not with flags; default: none */
} rcoll_team_config_t;

/* Opens a team of n ranks, this one among them, none twice; ranks NULL: 0 to n - 1. Collective over them; waits. */
int rcoll_team(rteam_t *team, const rcoll_team_config_t *cfg, const int *ranks, int n, size_t size);

/* Opens a team for each color, its members ordered by key, then by rank in `of`. color -1: in none, and *team is NULL. Collective. */
int rcoll_split(rteam_t *team, rteam_t of, int color, int key);

/* Position of this process in the team; number of members; rank (or peer number) of a member. */
int rcoll_rank(rteam_t team);
int rcoll_size(rteam_t team);
int rcoll_peer(rteam_t team, int member);

/* Deadline of later calls, ms, R_FOREVER or R_AT_ONCE. */
int rcoll_set_timeout(rteam_t team, int timeout_ms);

/* Closes the team here; frees its plans. Waits, up to the deadline, until living members have read what this one sent. */
int rcoll_close(rteam_t team);

/* ---- operations ---- */

typedef enum {
    RCOLL_BARRIER = 0,
    RCOLL_BCAST,
    RCOLL_REDUCE,
    RCOLL_ALLREDUCE,
    RCOLL_REDUCE_SCATTER,
    RCOLL_SCAN,   /* member i gets the contributions of members 0 to i */
    RCOLL_EXSCAN, /* member i gets those of members 0 to i - 1; member 0 gets nothing */
    RCOLL_GATHER,
    RCOLL_ALLGATHER,
    RCOLL_SCATTER,
    RCOLL_ALLTOALL
} rcoll_kind_t;

#define RCOLL_IN_PLACE                                                                             \
    1u /* flags: the contribution is in `into`, where the result goes; table in rcoll_run(3) */
#define RCOLL_ORDERED                                                                              \
    2u /* flags: the same bits whatever algorithm, hosts and arrival are: one fixed tree of members */
#define RCOLL_VIEWS 4u    /* flags: the result is not copied; rcoll_view shows it where it is */
#define RCOLL_COMMUTES 8u /* flags: `function` is commutative */

/*
 * What an operation is. Zero is the default of every member. All but from, into and the counts of an alltoall are the same at all members, and
 * the flag RCOLL_VIEWS, too, where messages are long (rcoll_plan(3)).
 */
typedef struct rcoll_params {
    rcoll_kind_t kind;
    uint32_t flags;   /* RCOLL_IN_PLACE, RCOLL_ORDERED, RCOLL_VIEWS, RCOLL_COMMUTES */
    int root;         /* bcast, reduce, gather, scatter: a member */
    uint32_t zero;    /* 0 */
    const void *from; /* what this member contributes; memory of rcoll_alloc is not copied */
    void *into;       /* where the result goes */
    size_t count;     /* elements that a member contributes, or of each block */
    size_t
        element; /* bytes of an element: where nothing is combined (default 1), or of `function` */
    const size_t *counts;    /* elements of block i instead of count; of an alltoall: of `from` */
    const size_t *offsets;   /* where block i begins, in elements; default: one after the other */
    const size_t *counts_in; /* alltoall: of `into` */
    const size_t *offsets_in;
    rgroup_type_t type; /* of elements that are combined */
    rgroup_op_t op;
    rgroup_function_t function; /* instead of type and op; associative */
    void *argument;             /* of function */
    const char
        *algorithm; /* "ring", "tree:4", ...; default: what the model of costs finds fastest */
} rcoll_params_t;

/* Does the operation: all of a plan in one call. Plans of equal parameters are kept, up to 64 of a team; buffers may differ. */
int rcoll_run(rteam_t team, const rcoll_params_t *params, size_t size);

/* Returns when all members have called it. */
int rcoll_barrier(rteam_t team);

/* Makes a plan; local: nothing is sent. Arrays of params are copied. */
int rcoll_plan(rplan_t *plan, rteam_t team, const rcoll_params_t *params, size_t size);

/* Starts the plan; does not wait. -EBUSY: it is running. Releases the views of the last start. */
int rcoll_start(rplan_t plan);

/* 0: the operation is over; R_PENDING: it is not, but has been advanced, like all others of the team; else its failure. */
int rcoll_test(rplan_t plan);

/* Waits until it is over, up to the deadline. -ETIMEDOUT names a member that has not come; the operation goes on. */
int rcoll_wait(rplan_t plan);

/* Waits until one of n plans of one team is over, which is stored. NULL plans and plans that do not run are left out; none: -ENOENT. */
int rcoll_wait_any(const rplan_t *list, int n, int *which, int timeout_ms);

/* RCOLL_ASYNC: a descriptor for poll(2), readable when a plan of the team has ended, until rcoll_test. The team owns it. Test all plans that are awaited. */
int rcoll_fd(rteam_t team);

/* Frees the plan; one that is running goes on until its operation is over, and is freed then. */
int rcoll_free(rplan_t plan);

/* ---- memory that the other members of the host read ---- */

/* Memory of this member: a contribution in it is not copied. NULL: none is left, or the team has no mem_bytes; errno. */
void *rcoll_alloc(rteam_t team, size_t bytes);
int rcoll_dealloc(rteam_t team, void *mem);

/* After a wait, with RCOLL_VIEWS: part i of the result. bcast: one part; allreduce, allgather, gather: in the order of members. -ENOENT: there is no part i. */
int rcoll_view(rplan_t plan, int i, const void **at, size_t *bytes);

/* Gives the views back to those that sent them. The next start and rcoll_free do it too. */
int rcoll_release(rplan_t plan);

/* Waits until all members have read the contribution of the last start: memory of rcoll_alloc may be changed again. R_NOWAIT: R_PENDING. */
int rcoll_settled(rplan_t plan, int flags);

/* ---- failures of members ---- */

/* 0, or the code of the first failure of the team, which stays, and the member that it is about. member may be NULL. */
int rcoll_lost(rteam_t team, int *member);

/* Combines flags of all living members by AND: *flags and the dead, in ascending order, are the same at all of them. Also after a failure. Returns how many are dead. */
int rcoll_agree(rteam_t team, uint64_t *flags, int *dead, int most);

/* Agrees on the dead, and opens a team of the living, in the same order. Collective over the living. */
int rcoll_shrink(rteam_t *living, rteam_t team);

/* ---- plans of the program's own: operations, and which of them waits for which ---- */

/* Memory that an operation refers to, `at` bytes from a base: RCOLL_FROM, RCOLL_INTO, RCOLL_SCRATCH, or the number of a receive: its message. */
typedef struct rcoll_ref {
    int base;
    uint32_t zero; /* 0 */
    size_t at;
} rcoll_ref_t;
#define RCOLL_FROM (-1)
#define RCOLL_INTO (-2)
#define RCOLL_SCRATCH (-3)
#define RCOLL_SLOTS 64 /* slots of a graph: a member sends one message by each, at most */

/* Begins a graph, with `scratch` bytes of memory of its own. */
int rcoll_graph(rgraph_t *graph, rteam_t team, size_t scratch);

/* Operations; each returns its number, 0 or more. The first failure is returned by rcoll_graph_plan, too. */
int rcoll_graph_send(rgraph_t graph, const int *to, int n, uint32_t slot, rcoll_ref_t from,
                     size_t bytes);
int rcoll_graph_recv(rgraph_t graph, int from, uint32_t slot, size_t bytes);
int rcoll_graph_fold(rgraph_t graph, rcoll_ref_t into, rcoll_ref_t from, size_t count,
                     rgroup_type_t type, rgroup_op_t op);
int rcoll_graph_copy(rgraph_t graph, rcoll_ref_t into, rcoll_ref_t from, size_t bytes);
int rcoll_graph_call(rgraph_t graph, int (*function)(void *argument), void *argument);

/* Operation `node` waits for operation `of`. */
int rcoll_graph_after(rgraph_t graph, int node, int of);

/* The graph becomes a plan, with memory of the program, and is freed, whatever is returned. -ELOOP, -EDEADLK: operations that wait for each other, or access the same memory unordered. */
int rcoll_graph_plan(rplan_t *plan, rgraph_t graph, const void *from, size_t from_bytes, void *into,
                     size_t into_bytes);

typedef enum { RCOLL_TEXT = 0, RCOLL_JSON, RCOLL_DOT, RCOLL_GOAL } rcoll_format_t;

/* Prints the graph of this member. */
int rcoll_dump(rplan_t plan, rcoll_format_t format, FILE *to);

#pragma GCC visibility pop

/* A macro adds the size that a structure has in this header; see "Sizes" in rmalloc.h. */
#define rcoll_team(...) rcoll_team(__VA_ARGS__, sizeof(rcoll_team_config_t))
#define rcoll_run(...) rcoll_run(__VA_ARGS__, sizeof(rcoll_params_t))
#define rcoll_plan(...) rcoll_plan(__VA_ARGS__, sizeof(rcoll_params_t))

/* ---- the usual operations in one line each; everything else by rcoll_run ---- */

/* What all of these have; the rest is zero. from and into may be the same where that means in place. */
static inline rcoll_params_t rcoll_params_of(rcoll_kind_t kind, const void *from, void *into,
                                             size_t count)
{
    rcoll_params_t p;

    memset(&p, 0, sizeof(p));
    p.kind = kind;
    p.flags = from == into && kind != RCOLL_BCAST ? RCOLL_IN_PLACE : 0;
    p.from = from;
    p.into = into;
    p.count = count;
    return p;
}

/* `bytes` at buf of member root come to buf of all. */
static inline int rcoll_bcast(rteam_t team, void *buf, size_t bytes, int root)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_BCAST, buf, buf, bytes);

    p.root = root;
    return rcoll_run(team, &p);
}

/* The contributions of all, combined, come to `into` of member root. */
static inline int rcoll_reduce(rteam_t team, const void *from, void *into, size_t count,
                               rgroup_type_t type, rgroup_op_t op, int root)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_REDUCE, from, into, count);

    p.root = root;
    p.type = type;
    p.op = op;
    return rcoll_run(team, &p);
}

/* They come to all. */
static inline int rcoll_allreduce(rteam_t team, const void *from, void *into, size_t count,
                                  rgroup_type_t type, rgroup_op_t op)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_ALLREDUCE, from, into, count);

    p.type = type;
    p.op = op;
    return rcoll_run(team, &p);
}

/* Of blocks of count elements, one for each member, member i gets block i, combined. */
static inline int rcoll_reduce_scatter(rteam_t team, const void *from, void *into, size_t count,
                                       rgroup_type_t type, rgroup_op_t op)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_REDUCE_SCATTER, from, into, count);

    p.type = type;
    p.op = op;
    return rcoll_run(team, &p);
}

/* Member i gets those of members 0 to i, combined. */
static inline int rcoll_scan(rteam_t team, const void *from, void *into, size_t count,
                             rgroup_type_t type, rgroup_op_t op)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_SCAN, from, into, count);

    p.type = type;
    p.op = op;
    return rcoll_run(team, &p);
}

/* Member i gets those of members 0 to i - 1, combined; member 0 gets nothing. */
static inline int rcoll_exscan(rteam_t team, const void *from, void *into, size_t count,
                               rgroup_type_t type, rgroup_op_t op)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_EXSCAN, from, into, count);

    p.type = type;
    p.op = op;
    return rcoll_run(team, &p);
}

/* `bytes` of each member come to `into` of member root, one block after the other. */
static inline int rcoll_gather(rteam_t team, const void *from, void *into, size_t bytes, int root)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_GATHER, from, into, bytes);

    p.root = root;
    return rcoll_run(team, &p);
}

/* They come to all. */
static inline int rcoll_allgather(rteam_t team, const void *from, void *into, size_t bytes)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_ALLGATHER, from, into, bytes);

    return rcoll_run(team, &p);
}

/* Block i, of `bytes`, at `from` of member root comes to `into` of member i. */
static inline int rcoll_scatter(rteam_t team, const void *from, void *into, size_t bytes, int root)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_SCATTER, from, into, bytes);

    p.root = root;
    return rcoll_run(team, &p);
}

/* Block j, of `bytes`, at `from` of member i comes to block i at `into` of member j. */
static inline int rcoll_alltoall(rteam_t team, const void *from, void *into, size_t bytes)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_ALLTOALL, from, into, bytes);

    return rcoll_run(team, &p);
}

#ifdef __cplusplus
}
#endif
#endif
