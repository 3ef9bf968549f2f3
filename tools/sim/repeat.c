/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * repeat.c: a loop of collective operations as one graph: see sim.h. Each begins at a member when the one before
 * is over there; so members are ahead of each other as far as the messages let them.
 */
#include "tools/sim/state.h"

#include <errno.h>

/* Adds a node of `one` with its slots and views moved on. */
static void repeat_node(struct graph *g, const struct graph *one, const struct graph_node *node,
                        uint32_t base, uint32_t slot)
{
    struct graph_ref from = graph_at(node->from, node->from_at);
    struct graph_ref into = graph_at(node->into, node->into_at);
    int added = GRAPH_NONE;

    if (from.base >= 0)
        from.base += (int32_t)base;
    switch (node->kind) {
    case GRAPH_SEND:
        added = graph_send(g, one->peers + node->peer, (int)node->npeers, node->slot + slot, from,
                           node->bytes);
        break;
    case GRAPH_RECV:
        added = graph_recv(g, (int)node->peer, node->slot + slot, node->bytes);
        break;
    case GRAPH_FOLD:
        graph_fold(g, into, from, node->bytes, node->reversed);
        break;
    case GRAPH_COPY:
        graph_copy(g, into, from, node->bytes);
        break;
    default:
        graph_call(g, one->calls[node->peer].function, one->calls[node->peer].argument);
        break;
    }
    if (node->lent)
        (void)graph_lend(g, added);
    if ((node->kind == GRAPH_SEND || node->kind == GRAPH_RECV) && node->op == GRAPH_BY_CAST)
        (void)graph_by_cast(g, added);
    if ((node->kind == GRAPH_SEND || node->kind == GRAPH_RECV) && node->op == GRAPH_MARKED)
        (void)graph_mark(g, added);
}

int sim_repeat(struct graph *g, const struct graph *one, uint32_t slots, int times,
               struct error *err)
{
    int before = GRAPH_NONE;

    graph_init(g, one->size, one->me, one->space[-1 - GRAPH_FROM], one->space[-1 - GRAPH_INTO]);
    graph_scratch(g, one->space[-1 - GRAPH_SCRATCH]);
    for (int k = 0; k < times; k++) {
        uint32_t base = g->count;
        int join;

        for (uint32_t i = 0; i < one->count; i++)
            repeat_node(g, one, &one->nodes[i], base, slots * (uint32_t)k);
        for (uint32_t i = 0; i < one->nedges; i++) {
            const struct graph_edge *edge = &one->edges[i];

            if (one->nodes[edge->node].from != (int32_t)edge->of ||
                one->nodes[edge->node].kind == GRAPH_RECV ||
                one->nodes[edge->node].kind == GRAPH_CALL)
                graph_after(g, (int)(base + edge->node), (int)(base + edge->of));
        }
        join = graph_call(g, NULL, NULL);
        for (uint32_t i = 0; i < one->count; i++) {
            if (one->first[i] == one->first[i + 1])
                graph_after(g, join, (int)(base + i));
            if (one->waits[i] == 0)
                graph_after(g, (int)(base + i), before);
        }
        graph_after(g, join, before);
        before = join;
    }
    return graph_finish(g, err);
}
