/* SPDX-License-Identifier: BSD-3-Clause */
/* graph_check.c: see graph.h: what makes a graph valid, its order, and races. */
#include "coll/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const graph_space_names[GRAPH_SPACES] = {"FROM", "INTO", "SCRATCH"};

/* ---- what one node shows ---- */

static int graph_check_range(const struct graph *g, uint32_t node, struct graph_ref ref,
                             size_t bytes, struct error *err)
{
    size_t space;

    if (ref.base >= 0 && ((uint32_t)ref.base >= g->count || g->nodes[ref.base].kind != GRAPH_RECV))
        return error_set(err, -EINVAL, "operation %u refers to the view of %d, which is no RECV",
                         node, (int)ref.base);
    if (ref.base < GRAPH_SCRATCH)
        return error_set(err, -EINVAL, "operation %u refers to the unknown base %d", node,
                         (int)ref.base);
    if (bytes == 0)
        return 0;
    space = ref.base >= 0 ? g->nodes[ref.base].bytes : g->space[-1 - ref.base];
    if (ref.at > space || bytes > space - ref.at)
        return error_set(err, -EINVAL,
                         "operation %u accesses %zu bytes at %zu of %s %d, which has %zu", node,
                         bytes, ref.at, ref.base >= 0 ? "view" : graph_space_names[-1 - ref.base],
                         (int)ref.base, space);
    return 0;
}

static int graph_check_peer(const struct graph *g, uint32_t node, int peer, struct error *err)
{
    if (peer < 0 || peer >= g->size || peer == g->me)
        return error_set(err, -EINVAL, "operation %u of member %d names member %d of %d", node,
                         g->me, peer, g->size);
    if (g->nodes[node].slot >= GRAPH_SLOTS_MAX)
        return error_set(err, -EINVAL, "operation %u uses slot %u; there are %d", node,
                         g->nodes[node].slot, GRAPH_SLOTS_MAX);
    return 0;
}

/* A fold whose operands overlap, and are not the same: its result would depend on the order in which elements are folded. */
static bool graph_check_overlap(const struct graph_node *node)
{
    size_t low = node->into_at < node->from_at ? node->into_at : node->from_at,
           high = node->into_at < node->from_at ? node->from_at : node->into_at;

    return node->kind == GRAPH_FOLD && node->into == node->from && high != low &&
           high - low < node->bytes;
}

static int graph_check_node(const struct graph *g, uint32_t i, struct error *err)
{
    const struct graph_node *node = &g->nodes[i];
    int rc = 0;

    if (node->kind == GRAPH_CALL)
        return 0;
    if (node->kind == GRAPH_RECV)
        return graph_check_peer(g, i, (int)node->peer, err);
    if (node->kind == GRAPH_SEND) {
        for (uint32_t k = 0; k < node->npeers && rc == 0; k++)
            rc = graph_check_peer(g, i, g->peers[node->peer + k], err);
    } else {
        if (node->into != GRAPH_INTO && node->into != GRAPH_SCRATCH)
            return error_set(err, -EINVAL, "operation %u writes base %d, which is read only", i,
                             (int)node->into);
        if (graph_check_overlap(node))
            return error_set(err, -EINVAL, "operation %u folds bytes into others that overlap them",
                             i);
        rc = graph_check_range(g, i, graph_at(node->into, node->into_at), node->bytes, err);
    }
    if (rc == 0)
        rc = graph_check_range(g, i, graph_at(node->from, node->from_at), node->bytes, err);
    return rc;
}

/* ---- slots ---- */

static int graph_compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Two SENDs of one slot, two RECVs of one message, or one receiver twice. */
static int graph_check_slots(const struct graph *g, struct error *err)
{
    size_t used = 0, most = (size_t)g->count + g->npeers;
    uint64_t *key = malloc((most == 0 ? 1 : most) * sizeof(*key)), twice;
    int rc = 0;

    if (key == NULL)
        return error_set(err, -ENOMEM, "no memory for %zu messages", most);
    for (uint32_t i = 0; i < g->count; i++) {
        const struct graph_node *node = &g->nodes[i];

        if (node->kind == GRAPH_RECV)
            key[used++] = UINT64_C(1) << 63 | (uint64_t)node->peer << 32 | node->slot;
        if (node->kind == GRAPH_SEND) /* a slot is used by one SEND: as if its receiver were none */
            key[used++] = UINT64_C(0x7fffffff) << 32 | node->slot;
        for (uint32_t k = 0; node->kind == GRAPH_SEND && k < node->npeers; k++)
            key[used++] = (uint64_t)g->peers[node->peer + k] << 32 | node->slot;
    }
    qsort(key, used, sizeof(*key), graph_compare_u64);
    for (size_t i = 1; i < used && rc == 0; i++)
        if (key[i] == key[i - 1]) {
            twice = key[i];
            rc = error_set(err, -EINVAL, "member %d %s slot %u twice", g->me,
                           twice >> 63 != 0 ? "receives" : "sends", (uint32_t)twice);
        }
    free(key);
    return rc;
}

/* ---- order ---- */

/* The edges by the node that others wait for; an edge that is there twice counts twice. */
static int graph_link(struct graph *g, struct error *err)
{
    g->waits = calloc((size_t)g->count + 1, sizeof(*g->waits));
    g->first = calloc((size_t)g->count + 2, sizeof(*g->first));
    g->successors = malloc(((size_t)g->nedges + 1) * sizeof(*g->successors));
    if (g->waits == NULL || g->first == NULL || g->successors == NULL)
        return error_set(err, -ENOMEM, "no memory for %u operations", g->count);
    for (uint32_t i = 0; i < g->nedges; i++) {
        const struct graph_edge *edge = &g->edges[i];

        if (edge->node >= g->count || edge->of >= g->count)
            return error_set(err, -EINVAL, "operation %u waits for %u; there are %u", edge->node,
                             edge->of, g->count);
        g->waits[edge->node]++;
        g->first[edge->of + 2]++;
    }
    for (uint32_t i = 2; i < g->count + 2; i++)
        g->first[i] += g->first[i - 1];
    for (uint32_t i = 0; i < g->nedges; i++)
        g->successors[g->first[g->edges[i].of + 1]++] = g->edges[i].node;
    return 0;
}

bool graph_order(const struct graph *g, uint32_t *order)
{
    uint32_t *waits = malloc(((size_t)g->count + 1) * sizeof(*waits)), done = 0, ready = 0;

    if (waits == NULL)
        return false;
    for (uint32_t i = 0; i < g->count; i++) {
        waits[i] = g->waits[i];
        if (waits[i] == 0)
            order[ready++] = i;
    }
    for (; done < ready; done++)
        for (uint32_t k = g->first[order[done]]; k < g->first[order[done] + 1]; k++)
            if (--waits[g->successors[k]] == 0)
                order[ready++] = g->successors[k];
    free(waits);
    return done == g->count;
}

static int graph_check_cycles(const struct graph *g, struct error *err)
{
    bool backward = false;
    uint32_t *order;
    int rc = 0;

    for (uint32_t i = 0; i < g->nedges; i++)
        backward |= g->edges[i].of >= g->edges[i].node;
    if (!backward)
        return 0; /* the order of addition is an order */
    order = malloc(((size_t)g->count + 1) * sizeof(*order));
    if (order == NULL)
        return error_set(err, -ENOMEM, "no memory for %u operations", g->count);
    if (!graph_order(g, order))
        rc = error_set(err, -ELOOP, "some of the %u operations of member %d wait for each other",
                       g->count, g->me);
    free(order);
    return rc;
}

int graph_finish(struct graph *g, struct error *err)
{
    int rc = 0;

    if (g->failed != 0)
        return error_set(err, g->failed, "an operation could not be added after the first %u",
                         g->count);
    for (uint32_t i = 0; i < g->count && rc == 0; i++) {
        rc = graph_check_node(g, i, err);
        if (g->nodes[i].kind == GRAPH_SEND && g->nodes[i].slot >= g->slots)
            g->slots = g->nodes[i].slot + 1;
    }
    if (rc == 0)
        rc = graph_check_slots(g, err);
    if (rc == 0)
        rc = graph_link(g, err);
    if (rc == 0)
        rc = graph_check_cycles(g, err);
    return rc;
}

/* ---- races ---- */

struct graph_access {
    int32_t base;
    size_t at, end;
};

/* What a node reads and what it writes; an empty range is none. */
static void graph_accesses(const struct graph_node *node, struct graph_access *reads,
                           struct graph_access *writes)
{
    *reads = *writes = (struct graph_access){0};
    if (node->kind == GRAPH_RECV || node->kind == GRAPH_CALL)
        return;
    *reads = (struct graph_access){node->from, node->from_at, node->from_at + node->bytes};
    if (node->kind != GRAPH_SEND)
        *writes = (struct graph_access){node->into, node->into_at, node->into_at + node->bytes};
}

static bool graph_overlap(const struct graph_access *a, const struct graph_access *b)
{
    return a->base == b->base && a->at < a->end && b->at < b->end && a->at < b->end &&
           b->at < a->end;
}

static bool graph_conflict(const struct graph_node *a, const struct graph_node *b)
{
    struct graph_access a_reads, a_writes, b_reads, b_writes;

    graph_accesses(a, &a_reads, &a_writes);
    graph_accesses(b, &b_reads, &b_writes);
    return graph_overlap(&a_writes, &b_writes) || graph_overlap(&a_writes, &b_reads) ||
           graph_overlap(&a_reads, &b_writes);
}

/* before[i * words ...]: the nodes that are over before i begins, one bit each. */
static void graph_fill_before(const struct graph *g, const uint32_t *order, size_t words,
                              uint64_t *before)
{
    for (uint32_t o = 0; o < g->count; o++) {
        uint32_t i = order[o];

        for (uint32_t k = g->first[i]; k < g->first[i + 1]; k++) {
            uint64_t *successor = &before[g->successors[k] * words];

            for (size_t w = 0; w < words; w++)
                successor[w] |= before[i * words + w];
            successor[i / 64] |= UINT64_C(1) << i % 64;
        }
    }
}

int graph_find_race(const struct graph *g, struct error *err)
{
    size_t words = g->count / 64 + 1;
    uint32_t *order = malloc(((size_t)g->count + 1) * sizeof(*order));
    uint64_t *before = calloc(((size_t)g->count + 1) * words, sizeof(*before));
    int rc = 0;

    if (order == NULL || before == NULL || !graph_order(g, order)) {
        rc = error_set(err, -ENOMEM, "no memory for %u operations", g->count);
        goto out;
    }
    graph_fill_before(g, order, words, before);
    for (uint32_t i = 0; i < g->count && rc == 0; i++)
        for (uint32_t k = 0; k < i && rc == 0; k++)
            if ((before[i * words + k / 64] >> k % 64 & 1) == 0 &&
                (before[k * words + i / 64] >> i % 64 & 1) == 0 &&
                graph_conflict(&g->nodes[i], &g->nodes[k]))
                rc = error_set(err, -EDEADLK,
                               "operations %u and %u of member %d access the same bytes, and "
                               "neither waits for the other",
                               k, i, g->me);
out:
    free(order);
    free(before);
    return rc;
}

bool graph_changes(const struct graph *g, uint32_t send)
{
    struct graph_access sent, reads, writes;

    graph_accesses(&g->nodes[send], &sent, &writes);
    for (uint32_t i = 0; i < g->count; i++) {
        graph_accesses(&g->nodes[i], &reads, &writes);
        if (graph_overlap(&sent, &writes))
            return true;
    }
    return false;
}
