/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph.h: the plan of one member of a collective operation: operations, and which of them must wait for which.
 *
 * There are five kinds of operations:
 *
 *     SEND   sends bytes of this member's memory, once, to one or more other members
 *     RECV   receives one message; its memory, the view, is read where it is and never written
 *     FOLD   combines bytes into memory of this member by an operator: into = into o from, or,
 *            reversed, into = from o into
 *     COPY   copies bytes into memory of this member
 *     CALL   calls a function; without a function it joins what it waits for
 *
 * Invariants:
 *
 * 1. A message is named by its sender and its slot. A sender uses a slot once in a plan; each of
 *    the receivers of a slot has one RECV of it, with the same number of bytes.
 * 2. A SEND takes a snapshot: an operation that waits for the SEND may change the memory. An
 *    executor that does not copy finds by graph_changes() that nothing does.
 * 3. An operation that refers to a view waits for its RECV without being asked to. All other order
 *    is explicit, by graph_after(): two operations of which one writes what the other accesses are
 *    ordered, which graph_find_race() checks.
 * 4. Of operations that can be executed the one that was added first is preferred: so what others wait
 *    for is added before copies of the own result.
 * 5. Each member has a graph of its own, which is made without communication.
 * 6. A SEND and its RECVs may be lent: then the bytes may stay where they are, in memory of the sender that its receivers read by COPYs. Nothing
 *    of the sender's graph writes them after the SEND, and the graph is over only when all receivers have reported, by messages, that
 *    their COPYs are over. The builder of both graphs takes care of it (alg_fetch.c).
 *
 * A function that adds an operation returns its number, which is 0 or more, or -errno. The first
 * failure is kept and returned by graph_finish(), and graph_after() ignores what is no number, so
 * code that adds operations checks nothing. A graph is changed until graph_finish() only.
 */
#ifndef COLL_GRAPH_H
#define COLL_GRAPH_H

#include "util/error.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum graph_kind { GRAPH_SEND, GRAPH_RECV, GRAPH_FOLD, GRAPH_COPY, GRAPH_CALL };
#define GRAPH_KINDS 5

/* Memory that a reference is relative to. A base of 0 or more is the view of that RECV. */
enum graph_base { GRAPH_FROM = -1, GRAPH_INTO = -2, GRAPH_SCRATCH = -3 };
#define GRAPH_SPACES 3
#define GRAPH_SLOTS_MAX 65536
/* One message reaches all receivers on other hosts, if there is a medium for that: of the SEND, and of the RECV of each of them. */
#define GRAPH_BY_CAST 1
/* Between members of a host: a message that is not to be taken for one without this mark, of the same length. Of the SEND, and of the RECV of each. */
#define GRAPH_MARKED 2
/* No operation: graph_after() ignores it. */
#define GRAPH_NONE (-1)

struct graph_ref {
    int32_t base; /* enum graph_base, or the number of a RECV */
    size_t at;    /* bytes from its beginning */
};

struct graph_node {
    uint8_t kind;
    bool reversed : 1; /* FOLD: from is the left operand */
    bool lent : 1;     /* SEND, RECV: see 6 */
    uint16_t
        op; /* FOLD: the operator, a number of the executor; 0: that of the plan. SEND, RECV: GRAPH_BY_CAST, GRAPH_MARKED, or 0 */
    uint32_t slot;      /* SEND, RECV */
    uint32_t peer;      /* RECV: the sender; SEND: index of its first receiver; CALL: index */
    uint32_t npeers;    /* SEND: number of receivers */
    int32_t into, from; /* bases: FOLD and COPY: both; SEND: from */
    size_t into_at, from_at;
    size_t bytes;
};
static_assert(sizeof(struct graph_node) == 48, "one of many: 16,384 members have 700,000 of them");

struct graph_edge {
    uint32_t node, of; /* node waits for of */
};

typedef int (*graph_function)(void *argument);

struct graph_call {
    graph_function function; /* NULL: nothing to call */
    void *argument;
};

struct graph {
    int size, me;               /* members of the team, and which one this is */
    size_t space[GRAPH_SPACES]; /* bytes of FROM, INTO and SCRATCH */
    struct graph_node *nodes;
    uint32_t count, nodes_allocated;
    int32_t *peers; /* receivers of all SENDs, one after the other */
    uint32_t npeers, peers_allocated;
    struct graph_edge *edges;
    uint32_t nedges, edges_allocated;
    struct graph_call *calls;
    uint32_t ncalls, calls_allocated;
    int failed; /* the first failure of an addition */

    /* since graph_finish */
    uint32_t *waits; /* of each node: for how many others it waits */
    uint32_t *first; /* the successors of node i are successors[first[i]] to [first[i + 1] - 1] */
    uint32_t *successors;
    uint32_t slots; /* 1 + the highest slot that is sent; 0: none */
};

static inline struct graph_ref graph_at(int32_t base, size_t at)
{
    return (struct graph_ref){.base = base, .at = at};
}

/* The reference `bytes` further on. */
static inline struct graph_ref graph_plus(struct graph_ref ref, size_t bytes)
{
    return graph_at(ref.base, ref.at + bytes);
}

void graph_init(struct graph *g, int size, int me, size_t from_bytes, size_t into_bytes);
void graph_free(struct graph *g);

/* Bytes of SCRATCH, aligned to 64. */
struct graph_ref graph_scratch(struct graph *g, size_t bytes);

/* Keeps a failure of the code that adds operations, as one of these functions. Returns it. */
int graph_fail(struct graph *g, int code);
/* One message to n receivers, which are copied from `to`. */
int graph_send(struct graph *g, const int *to, int n, uint32_t slot, struct graph_ref from,
               size_t bytes);
int graph_recv(struct graph *g, int from, uint32_t slot, size_t bytes);
/* A SEND or RECV that was just added is lent. Returns it. */
int graph_lend(struct graph *g, int node);
/* The SEND or RECV that was added is by cast; a negative number is ignored. Returns it. */
int graph_by_cast(struct graph *g, int node);
/* The SEND or RECV that was added is marked; as above. */
int graph_mark(struct graph *g, int node);
int graph_fold(struct graph *g, struct graph_ref into, struct graph_ref from, size_t bytes,
               bool reversed);
int graph_copy(struct graph *g, struct graph_ref into, struct graph_ref from, size_t bytes);
/* function may be NULL: the node joins what it waits for. */
int graph_call(struct graph *g, graph_function function, void *argument);
/* node waits for `of`; either may be negative, and then nothing is added. */
void graph_after(struct graph *g, int node, int of);

/*
 * Ends the additions and checks what one graph shows: members, slots, references, bounds, that
 * nothing is written but INTO and SCRATCH, and that no operation waits for itself. 0; the first
 * failure of an addition; -EINVAL; -ELOOP; -ENOMEM.
 */
int graph_finish(struct graph *g, struct error *err);

/* The numbers of all nodes in an order in which each follows what it waits for. `order` has
 * g->count elements. False: there is a cycle. */
bool graph_order(const struct graph *g, uint32_t *order);

/*
 * Two operations that access the same bytes, of which one writes, and that are not ordered. 0: there
 * are none; -EDEADLK: the first two are named; -ENOMEM. For user graphs and tests: it takes
 * count * count / 8 bytes, and as many steps as there are pairs.
 */
int graph_find_race(const struct graph *g, struct error *err);

/* Whether an operation of the graph writes any byte that the SEND sends, at any time. */
bool graph_changes(const struct graph *g, uint32_t send);

#endif
