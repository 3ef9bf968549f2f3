/* SPDX-License-Identifier: BSD-3-Clause */
/* graph.c: see graph.h: how a graph grows. Its checks are in graph_check.c. */
#include "coll/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GRAPH_ALIGNMENT 64 /* of parts of SCRATCH */

void graph_init(struct graph *g, int size, int me, size_t from_bytes, size_t into_bytes)
{
    *g = (struct graph){.size = size, .me = me, .space = {from_bytes, into_bytes, 0}};
}

void graph_free(struct graph *g)
{
    free(g->nodes);
    free(g->peers);
    free(g->edges);
    free(g->calls);
    free(g->waits);
    free(g->first);
    free(g->successors);
    *g = (struct graph){0};
}

int graph_fail(struct graph *g, int code)
{
    if (g->failed == 0)
        g->failed = code;
    return code;
}

/* Makes space for `more` elements after the first `used` of an array. 0 or -ENOMEM. */
static int graph_grow(void **array, uint32_t *allocated, uint32_t used, uint32_t more,
                      size_t element)
{
    size_t needed = (size_t)used + more, next = *allocated < 8 ? 8 : (size_t)*allocated * 2;
    void *larger;

    if (needed <= *allocated)
        return 0;
    if (next < needed)
        next = needed;
    if (next > INT32_MAX)
        return -ENOMEM;
    larger = realloc(*array, next * element);
    if (larger == NULL)
        return -ENOMEM;
    *array = larger;
    *allocated = (uint32_t)next;
    return 0;
}

static int graph_add(struct graph *g, struct graph_node node)
{
    void *nodes = g->nodes;

    if (g->failed != 0)
        return g->failed;
    if (graph_grow(&nodes, &g->nodes_allocated, g->count, 1, sizeof(*g->nodes)) != 0)
        return graph_fail(g, -ENOMEM);
    g->nodes = nodes;
    g->nodes[g->count] = node;
    return (int)g->count++;
}

/* Views are read after they have been received. */
static int graph_add_reader(struct graph *g, struct graph_node node)
{
    int added = graph_add(g, node);

    if (node.from >= 0)
        graph_after(g, added, node.from);
    return added;
}

struct graph_ref graph_scratch(struct graph *g, size_t bytes)
{
    size_t *end = &g->space[-1 - GRAPH_SCRATCH];
    size_t at = (*end + GRAPH_ALIGNMENT - 1) / GRAPH_ALIGNMENT * GRAPH_ALIGNMENT;

    if (bytes > SIZE_MAX / 4 || at > SIZE_MAX / 4) {
        graph_fail(g, -ENOMEM);
        return graph_at(GRAPH_SCRATCH, 0);
    }
    *end = at + bytes;
    return graph_at(GRAPH_SCRATCH, at);
}

int graph_send(struct graph *g, const int *to, int n, uint32_t slot, struct graph_ref from,
               size_t bytes)
{
    void *peers = g->peers;

    if (g->failed != 0)
        return g->failed;
    if (n < 1)
        return graph_fail(g, -EINVAL);
    if (graph_grow(&peers, &g->peers_allocated, g->npeers, (uint32_t)n, sizeof(*g->peers)) != 0)
        return graph_fail(g, -ENOMEM);
    g->peers = peers;
    for (int i = 0; i < n; i++)
        g->peers[g->npeers + (uint32_t)i] = to[i];
    g->npeers += (uint32_t)n;
    return graph_add_reader(g, (struct graph_node){.kind = GRAPH_SEND,
                                                   .slot = slot,
                                                   .peer = g->npeers - (uint32_t)n,
                                                   .npeers = (uint32_t)n,
                                                   .from = from.base,
                                                   .from_at = from.at,
                                                   .bytes = bytes});
}

int graph_recv(struct graph *g, int from, uint32_t slot, size_t bytes)
{
    return graph_add(
        g,
        (struct graph_node){
            .kind = GRAPH_RECV, .slot = slot, .peer = (uint32_t)from, .npeers = 1, .bytes = bytes});
}

int graph_lend(struct graph *g, int node)
{
    if (node >= 0 && g->failed == 0)
        g->nodes[node].lent = true;
    return node;
}

int graph_by_cast(struct graph *g, int node)
{
    if (node >= 0)
        g->nodes[node].op = GRAPH_BY_CAST;
    return node;
}

int graph_mark(struct graph *g, int node)
{
    if (node >= 0)
        g->nodes[node].op = GRAPH_MARKED;
    return node;
}

int graph_fold(struct graph *g, struct graph_ref into, struct graph_ref from, size_t bytes,
               bool reversed)
{
    return graph_add_reader(g, (struct graph_node){.kind = GRAPH_FOLD,
                                                   .reversed = reversed,
                                                   .into = into.base,
                                                   .into_at = into.at,
                                                   .from = from.base,
                                                   .from_at = from.at,
                                                   .bytes = bytes});
}

int graph_copy(struct graph *g, struct graph_ref into, struct graph_ref from, size_t bytes)
{
    return graph_add_reader(g, (struct graph_node){.kind = GRAPH_COPY,
                                                   .into = into.base,
                                                   .into_at = into.at,
                                                   .from = from.base,
                                                   .from_at = from.at,
                                                   .bytes = bytes});
}

int graph_call(struct graph *g, graph_function function, void *argument)
{
    void *calls = g->calls;

    if (g->failed != 0)
        return g->failed;
    if (graph_grow(&calls, &g->calls_allocated, g->ncalls, 1, sizeof(*g->calls)) != 0)
        return graph_fail(g, -ENOMEM);
    g->calls = calls;
    g->calls[g->ncalls] = (struct graph_call){.function = function, .argument = argument};
    return graph_add(g, (struct graph_node){.kind = GRAPH_CALL, .peer = g->ncalls++});
}

void graph_after(struct graph *g, int node, int of)
{
    void *edges = g->edges;

    if (node < 0 || of < 0 || g->failed != 0)
        return;
    if (graph_grow(&edges, &g->edges_allocated, g->nedges, 1, sizeof(*g->edges)) != 0) {
        graph_fail(g, -ENOMEM);
        return;
    }
    g->edges = edges;
    g->edges[g->nedges++] = (struct graph_edge){.node = (uint32_t)node, .of = (uint32_t)of};
}
