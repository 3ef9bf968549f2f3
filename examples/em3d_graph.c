/* SPDX-License-Identifier: BSD-3-Clause */
/* em3d_graph.c: the graph, its proxies, and the kernel, see em3d_graph.h. */
#include "em3d_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 1e-3 /* of weights: values keep their size over many steps */

static uint32_t first_of(uint32_t process, uint32_t nodes, uint32_t nranks)
{
    return (uint32_t)((uint64_t)nodes * process / nranks);
}

static uint32_t owner_of(uint32_t node, uint32_t nodes, uint32_t nranks)
{
    uint32_t process = (uint32_t)((uint64_t)node * nranks / nodes);

    while (node >= first_of(process + 1, nodes, nranks)) /* the division may be one too low */
        process++;
    return process;
}

/* Edge k of a node: where it comes from, and its weight. */
static uint32_t edge_of(const struct em3d_shape *s, int phase, uint32_t node, uint32_t k,
                        double *weight)
{
    uint64_t dice =
        app_mix(((uint64_t)node << 24 | (uint64_t)k << 4 | (uint64_t)phase) + 0x9e3779b97f4a7c15u);
    uint64_t more = app_mix(dice);

    *weight = ((double)(more >> 40) / (1 << 24) - 0.5) * SMALL;
    if (dice % 100 < s->far)
        return (uint32_t)(more % s->nodes);
    return (uint32_t)(((uint64_t)node + s->nodes * (uint64_t)(s->span + 1) +
                       more % (2 * (uint64_t)s->span + 1) - s->span) %
                      s->nodes);
}

/*
 * Sets number[node] of every node that `process` needs in this phase to 1 + its index among the
 * needed nodes of the same owner, in the order of addresses, and of all others to 0. count[owner]
 * is the number of needed nodes.
 */
static void number_needed(const struct em3d_graph *g, int phase, uint32_t process, uint32_t *number,
                          uint32_t *count)
{
    const struct em3d_shape *s = &g->shape;
    uint32_t ranks = (uint32_t)g->nranks;
    double weight;

    memset(number, 0, s->nodes * sizeof(*number));
    memset(count, 0, ranks * sizeof(*count));
    for (uint32_t node = first_of(process, s->nodes, ranks);
         node < first_of(process + 1, s->nodes, ranks); node++)
        for (uint32_t k = 0; k < s->degree; k++)
            number[edge_of(s, phase, node, k, &weight)] = 1;
    for (uint32_t owner = 0; owner < ranks; owner++)
        for (uint32_t n = first_of(owner, s->nodes, ranks);
             n < first_of(owner + 1, s->nodes, ranks); n++)
            if (number[n] != 0)
                number[n] = ++count[owner];
}

static int exports_create(struct em3d_graph *g, int phase, uint32_t to, const uint32_t *number,
                          uint32_t count)
{
    struct em3d_phase *h = &g->phase[phase];
    uint32_t *at = malloc((count > 0 ? count : 1) * sizeof(*at));

    if (at == NULL)
        return -ENOMEM;
    h->exports[to] = count;
    h->export_at[to] = at;
    for (uint32_t i = 0; i < g->count; i++)
        if (number[g->first + i] != 0)
            at[number[g->first + i] - 1] = i;
    return 0;
}

static int phase_create(struct em3d_graph *g, int phase, uint32_t *number, uint32_t *count)
{
    const struct em3d_shape *s = &g->shape;
    struct em3d_phase *h = &g->phase[phase];
    size_t ranks = (size_t)g->nranks;

    h->edges = malloc(((size_t)g->count * s->degree + 1) * sizeof(*h->edges));
    h->imports = calloc(ranks, sizeof(*h->imports));
    h->exports = calloc(ranks, sizeof(*h->exports));
    h->export_at = calloc(ranks, sizeof(*h->export_at));
    if (h->edges == NULL || h->imports == NULL || h->exports == NULL || h->export_at == NULL)
        return -ENOMEM;
    for (uint32_t process = 0; process < ranks; process++) {
        number_needed(g, phase, process, number, count);
        if (process != (uint32_t)g->rank) {
            if (exports_create(g, phase, process, number, count[g->rank]) != 0)
                return -ENOMEM;
            continue;
        }
        memcpy(h->imports, count, ranks * sizeof(*count));
        h->imports[g->rank] = 0;
        for (uint32_t i = 0; i < g->count * s->degree; i++) {
            struct em3d_edge *e = &h->edges[i];
            uint32_t from = edge_of(s, phase, g->first + i / s->degree, i % s->degree, &e->weight);

            e->process = owner_of(from, s->nodes, (uint32_t)ranks);
            e->at = e->process == process ? from - g->first : number[from] - 1;
        }
    }
    return 0;
}

int em3d_create(struct em3d_graph *g, const struct em3d_shape *shape, int rank, int nranks)
{
    uint32_t *number, *count;
    int code = -ENOMEM;

    memset(g, 0, sizeof(*g));
    g->shape = *shape;
    g->rank = rank;
    g->nranks = nranks;
    g->first = first_of((uint32_t)rank, shape->nodes, (uint32_t)nranks);
    g->count = first_of((uint32_t)rank + 1, shape->nodes, (uint32_t)nranks) - g->first;
    number = malloc(shape->nodes * sizeof(*number));
    count = malloc((size_t)nranks * sizeof(*count));
    for (int kind = 0; kind < EM3D_KINDS; kind++) {
        g->value[kind] = malloc(((size_t)g->count + 1) * sizeof(double));
        if (g->value[kind] == NULL || number == NULL || count == NULL ||
            phase_create(g, kind, number, count) != 0)
            goto out;
        for (uint32_t i = 0; i < g->count; i++)
            g->value[kind][i] =
                (double)(app_mix(((uint64_t)(g->first + i) << 4 | (uint64_t)kind) + 1) >> 40) /
                (1 << 24);
    }
    code = 0;
out:
    free(number);
    free(count);
    if (code != 0)
        em3d_destroy(g);
    return code;
}

void em3d_destroy(struct em3d_graph *g)
{
    for (int kind = 0; kind < EM3D_KINDS; kind++) {
        struct em3d_phase *h = &g->phase[kind];

        for (int r = 0; h->export_at != NULL && r < g->nranks; r++)
            free(h->export_at[r]);
        free(h->export_at);
        free(h->exports);
        free(h->imports);
        free(h->edges);
        free(g->value[kind]);
    }
    memset(g, 0, sizeof(*g));
}

int em3d_neighbours(const struct em3d_graph *g, int other)
{
    for (int phase = 0; phase < EM3D_KINDS; phase++)
        if (other != g->rank &&
            (g->phase[phase].imports[other] > 0 || g->phase[phase].exports[other] > 0))
            return 1;
    return 0;
}

void em3d_collect(const struct em3d_graph *g, int phase, int to, double *out)
{
    const struct em3d_phase *h = &g->phase[phase];
    const double *value = g->value[1 - phase];

    for (uint32_t i = 0; i < h->exports[to]; i++)
        out[i] = value[h->export_at[to][i]];
}

/* The own values are base[rank], so that an edge is followed without asking whose it is. */
static void compute(const struct em3d_graph *g, int phase, const double *const *base)
{
    const struct em3d_edge *e = g->phase[phase].edges;
    double *value = g->value[phase];

    for (uint32_t i = 0; i < g->count; i++) {
        double sum = 0;

        for (uint32_t k = 0; k < g->shape.degree; k++, e++)
            sum += e->weight * base[e->process][e->at];
        value[i] -= sum;
    }
}

void em3d_compute(struct em3d_graph *g, int phase, const double *const *from)
{
    const double *base[64], **bases = base;

    if (g->nranks > 64 && (bases = malloc((size_t)g->nranks * sizeof(*bases))) == NULL)
        abort();
    for (int r = 0; r < g->nranks; r++)
        bases[r] = r == g->rank ? g->value[1 - phase] : from[r];
    compute(g, phase, bases);
    if (bases != base)
        free(bases);
}

uint64_t em3d_digest(const struct em3d_graph *g)
{
    return app_digest(app_digest(0, g->value[EM3D_E], g->count), g->value[EM3D_H], g->count);
}

int em3d_serial(const struct em3d_shape *shape, uint64_t *digest)
{
    const double *none[1] = {NULL};
    struct em3d_graph g;

    if (em3d_create(&g, shape, 0, 1) != 0)
        return -ENOMEM;
    for (uint32_t step = 0; step < shape->steps; step++)
        for (int phase = 0; phase < EM3D_KINDS; phase++)
            em3d_compute(&g, phase, none);
    *digest = em3d_digest(&g);
    em3d_destroy(&g);
    return 0;
}
