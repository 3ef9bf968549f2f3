/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c: see program.h. */
#include "coll/engine/program.h"

#include "coll/engine/cell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_SHORT 1024 /* bytes that take no longer than what a yield costs */
#define PROGRAM_LONG 65536 /* bytes that are not copied while a message is awaited */

/* While a graph is compiled: the steps of node i are [first[i], first[i] + count[i]). */
struct compiler {
    struct program *p;
    const struct graph *g;
    const struct shape *shape;
    uint32_t *order, *first, *count;
    uint32_t *view;  /* of a RECV: the base of its view */
    uint32_t *joins; /* of a COPY: 1 + the FOLD that makes it, or 0; of such a FOLD: 1 + the COPY */
    uint32_t nbefore;
    bool views;
};

/* A COPY whose source is a message that is lent. */
static bool compile_is_of_lent(const struct compiler *c, const struct graph_node *node)
{
    return node->kind == GRAPH_COPY && node->from >= 0 && c->g->nodes[node->from].lent;
}

static bool compile_leaves_out(const struct compiler *c, uint32_t i)
{
    const struct graph_node *node = &c->g->nodes[i];

    return c->views && node->kind == GRAPH_COPY && node->into == GRAPH_INTO &&
           !compile_is_of_lent(c, node) && (node->from >= 0 || node->from == GRAPH_FROM) &&
           c->g->first[i] == c->g->first[i + 1];
}

/* Such a COPY to INTO, whose result may be shown as a view. */
static bool compile_may_show(const struct compiler *c, uint32_t i)
{
    const struct graph_node *node = &c->g->nodes[i];

    return c->views && node->into == GRAPH_INTO && compile_is_of_lent(c, node);
}

/* A node that joins others, and that none waits for: an operation is over when all of its steps are. */
static bool compile_is_end(const struct compiler *c, uint32_t i)
{
    const struct graph_node *node = &c->g->nodes[i];

    return node->kind == GRAPH_CALL && c->g->calls[node->peer].function == NULL &&
           c->g->first[i] == c->g->first[i + 1];
}

/*
 * A long COPY, and the FOLD that alone waits for it and folds into all of it, are one pass over their memory: one step, which waits for
 * what both wait for.
 */
static bool compile_may_join(const struct graph *g, uint32_t i)
{
    const struct graph_node *copy = &g->nodes[i], *fold;

    if (copy->kind != GRAPH_COPY || copy->from >= 0 || copy->from == copy->into ||
        copy->bytes <= PROGRAM_LONG || g->first[i + 1] - g->first[i] != 1)
        return false;
    fold = &g->nodes[g->successors[g->first[i]]];
    return fold->kind == GRAPH_FOLD && fold->into == copy->into && fold->into_at == copy->into_at &&
           fold->bytes == copy->bytes;
}

static void compile_join(struct compiler *c)
{
    const struct graph *g = c->g;

    for (uint32_t i = 0; i < g->count; i++) {
        uint32_t fold;

        if (!compile_may_join(g, i))
            continue;
        fold = g->successors[g->first[i]];
        if (c->joins[fold] != 0)
            continue;
        c->joins[i] = fold + 1;
        c->joins[fold] = i + 1;
    }
}

/* Whether the COPY is a part of a FOLD. */
static bool compile_is_joined(const struct compiler *c, uint32_t i)
{
    return c->joins[i] != 0 && c->g->nodes[i].kind == GRAPH_COPY;
}

/* The node whose steps wait for what node i waits for. */
static uint32_t compile_waiting(const struct compiler *c, uint32_t i)
{
    return compile_is_joined(c, i) ? c->joins[i] - 1 : i;
}

static bool compile_is_here(const struct compiler *c, int member)
{
    return c->shape->host[member] == c->shape->host[c->g->me];
}

static uint32_t compile_base(const struct compiler *c, int32_t base)
{
    return base >= 0 ? c->view[base] : (uint32_t)(-1 - base);
}

/* How many steps a SEND becomes. */
static uint32_t compile_sends(const struct compiler *c, const struct graph_node *node)
{
    uint32_t others = 0;

    for (uint32_t k = 0; k < node->npeers; k++)
        others += !compile_is_here(c, c->g->peers[node->peer + k]);
    return (node->op == GRAPH_BY_CAST && others > 0 ? 1 : others) + (others < node->npeers);
}

/* Sizes of the arrays, and which steps a node becomes. */
static int compile_count(struct compiler *c, struct error *err)
{
    const struct graph *g = c->g;
    uint32_t steps = 0, views = 0, before = 0;

    for (uint32_t o = 0; o < g->count; o++) {
        uint32_t i = c->order[o];
        const struct graph_node *node = &g->nodes[i];

        c->first[i] = steps;
        c->count[i] =
            node->kind == GRAPH_SEND
                ? compile_sends(c, node)
                : !compile_leaves_out(c, i) && !compile_is_joined(c, i) && !compile_is_end(c, i);
        steps += c->count[i];
        if (node->kind == GRAPH_RECV)
            c->view[i] = BASE_VIEWS + views++;
    }
    for (uint32_t e = 0; e < g->nedges; e++)
        before += c->count[compile_waiting(c, g->edges[e].node)] * c->count[g->edges[e].of];
    c->p->steps = calloc((size_t)steps + 1, sizeof(*c->p->steps));
    c->p->before = calloc((size_t)before + 1, sizeof(*c->p->before));
    c->p->view_of = calloc((size_t)views + 1, sizeof(*c->p->view_of));
    c->p->calls = calloc((size_t)g->ncalls + 1, sizeof(*c->p->calls));
    c->p->views = calloc((size_t)(c->views ? g->count : 0) + 1, sizeof(*c->p->views));
    if (c->p->views == NULL || c->p->steps == NULL || c->p->before == NULL ||
        c->p->view_of == NULL || c->p->calls == NULL)
        return error_set(err, -ENOMEM, "no memory for %u steps", steps);
    c->p->count = steps;
    c->p->nviews = views;
    if (g->ncalls > 0)
        memcpy(c->p->calls, g->calls, (size_t)g->ncalls * sizeof(*g->calls));
    memcpy(c->p->space, g->space, sizeof(g->space));
    return 0;
}

static void compile_send(struct compiler *c, uint32_t i)
{
    const struct graph_node *node = &c->g->nodes[i];
    struct step step = {.slot = node->slot,
                        .from = compile_base(c, node->from),
                        .from_at = node->from_at,
                        .lent = node->lent,
                        .marked = node->op == GRAPH_MARKED,
                        .bytes = node->bytes};
    struct step *to = &c->p->steps[c->first[i]];
    bool here = false, by_cast = node->op == GRAPH_BY_CAST, cast = false;

    for (uint32_t k = 0; k < node->npeers; k++) {
        int member = c->g->peers[node->peer + k];

        if (compile_is_here(c, member)) {
            here = true;
            continue;
        }
        if (cast)
            continue;
        cast = by_cast;
        step.kind = STEP_PIPE_SEND;
        step.by_cast = by_cast;
        step.peer = by_cast ? c->g->me : member;
        *to++ = step;
        c->p->has_pipes = true;
    }
    step.by_cast = false;
    if (!here)
        return;
    step.kind = STEP_SEND;
    step.peer = -1;
    step.stays = node->from == GRAPH_FROM && !graph_changes(c->g, i);
    if (node->bytes > cell_bytes(node->slot) && !node->lent) {
        size_t *heap = step.stays ? &c->p->shared : &c->p->heap;

        step.into_at = *heap;
        *heap += (node->bytes + CELL_ALIGNMENT - 1) / CELL_ALIGNMENT * CELL_ALIGNMENT;
    }
    *to = step;
}

/* Steps that use the view as it grows are FOLDs, COPYs and SENDs of it; anything else needs all of it. */
static bool compile_needs_whole(const struct compiler *c, uint32_t i)
{
    const struct graph *g = c->g;

    for (uint32_t k = g->first[i]; k < g->first[i + 1]; k++) {
        const struct graph_node *node = &g->nodes[g->successors[k]];

        if (node->kind == GRAPH_CALL || node->kind == GRAPH_RECV || node->from != (int32_t)i ||
            compile_leaves_out(c, g->successors[k]))
            return true;
    }
    return g->first[i] == g->first[i + 1];
}

static void compile_recv(struct compiler *c, uint32_t i)
{
    const struct graph_node *node = &c->g->nodes[i];
    bool here = compile_is_here(c, (int)node->peer), cast = !here && node->op == GRAPH_BY_CAST;

    c->p->steps[c->first[i]] = (struct step){.kind = here ? STEP_RECV : STEP_PIPE_RECV,
                                             .by_cast = cast,
                                             .whole = compile_needs_whole(c, i),
                                             .lent = node->lent,
                                             .marked = node->op == GRAPH_MARKED,
                                             .slot = node->slot,
                                             .peer = (int32_t)node->peer,
                                             .into = c->view[i],
                                             .bytes = node->bytes};
    c->p->view_of[c->view[i] - BASE_VIEWS] = cast ? -1 - (int32_t)node->peer : (int32_t)node->peer;
    c->p->has_pipes |= !here;
}

static void compile_work(struct compiler *c, uint32_t i)
{
    const struct graph_node *node = &c->g->nodes[i];
    struct step *s = &c->p->steps[c->first[i]];

    if (compile_is_end(c, i))
        return;
    if (compile_leaves_out(c, i) || compile_may_show(c, i))
        c->p->views[c->p->nleft++] = (struct program_view){.into_at = node->into_at,
                                                           .from_at = node->from_at,
                                                           .bytes = node->bytes,
                                                           .from = compile_base(c, node->from)};
    if (compile_leaves_out(c, i) || compile_is_joined(c, i))
        return;
    if (node->kind == GRAPH_CALL) {
        *s = (struct step){.kind = STEP_CALL, .peer = (int32_t)node->peer};
        return;
    }
    *s = (struct step){.kind = node->kind == GRAPH_FOLD ? STEP_FOLD : STEP_COPY,
                       .reversed = node->reversed,
                       .shows = compile_may_show(c, i),
                       .op = node->op,
                       .into = compile_base(c, node->into),
                       .from = compile_base(c, node->from),
                       .into_at = node->into_at,
                       .from_at = node->from_at,
                       .bytes = node->bytes};
    if (c->joins[i] != 0) {
        const struct graph_node *copy = &c->g->nodes[c->joins[i] - 1];

        s->copies = true;
        s->copied = compile_base(c, copy->from);
        s->copied_at = copy->from_at;
    }
}

/* The steps before each step. An edge between nodes is one between all of their steps. */
static void compile_edges(struct compiler *c)
{
    const struct graph *g = c->g;
    struct program *p = c->p;

    for (uint32_t e = 0; e < g->nedges; e++) {
        uint32_t node = compile_waiting(c, g->edges[e].node);

        for (uint32_t k = 0; k < c->count[node]; k++)
            p->steps[c->first[node] + k].nbefore += c->count[g->edges[e].of];
    }
    for (uint32_t i = 0; i < p->count; i++) {
        p->steps[i].first_before = c->nbefore;
        c->nbefore += p->steps[i].nbefore;
        p->steps[i].nbefore = 0;
    }
    for (uint32_t e = 0; e < g->nedges; e++) {
        uint32_t node = compile_waiting(c, g->edges[e].node);

        for (uint32_t k = 0; k < c->count[node]; k++) {
            struct step *s = &p->steps[c->first[node] + k];

            for (uint32_t of = 0; of < c->count[g->edges[e].of]; of++)
                p->before[s->first_before + s->nbefore++] = c->first[g->edges[e].of] + of;
        }
    }
}

/* The order of addition where that is one, which prefers what others wait for (graph.h). */
static int compile_order(const struct graph *g, uint32_t *order, struct error *err)
{
    bool backward = false;

    for (uint32_t e = 0; e < g->nedges; e++)
        backward |= g->edges[e].of >= g->edges[e].node;
    if (backward)
        return graph_order(g, order)
                   ? 0
                   : error_set(err, -ENOMEM, "no memory for the order of a graph");
    for (uint32_t i = 0; i < g->count; i++)
        order[i] = i;
    return 0;
}

static int compile_nodes(struct compiler *c, struct error *err)
{
    int rc = compile_order(c->g, c->order, err);

    if (rc == 0)
        rc = compile_count(c, err);
    for (uint32_t i = 0; i < c->g->count && rc == 0; i++) {
        switch (c->g->nodes[i].kind) {
        case GRAPH_SEND:
            compile_send(c, i);
            break;
        case GRAPH_RECV:
            compile_recv(c, i);
            break;
        default:
            compile_work(c, i);
        }
    }
    if (rc != 0)
        return rc;
    compile_edges(c);
    for (uint32_t i = 0; i < c->p->count; i++)
        if (c->p->steps[i].kind == STEP_SEND && c->p->steps[i].stays)
            c->p->steps[i].into_at += c->p->heap;
    c->p->heap += c->p->shared;
    return 0;
}

/*
 * Messages are short, all are on this host, and each SEND follows all RECVs before it, directly or not. Then a member that
 * shares its processor does not poll behind a RECV that waits: each other line is polled once, when its turn comes.
 */
static bool program_is_in_order(const struct program *p)
{
    uint64_t follows[64] = {0}, received = 0;

    for (uint32_t i = 0; i < p->count; i++) {
        const struct step *s = &p->steps[i];

        if (i >= 64 || s->bytes > PROGRAM_SHORT ||
            (s->kind != STEP_SEND && s->kind != STEP_RECV && s->kind != STEP_FOLD &&
             s->kind != STEP_COPY))
            return false;
        for (uint32_t k = 0; k < s->nbefore; k++) {
            uint32_t before = p->before[s->first_before + k];

            follows[i] |= follows[before] | UINT64_C(1) << before;
        }
        if (s->kind == STEP_SEND && (received & ~follows[i]) != 0)
            return false;
        if (s->kind == STEP_RECV)
            received |= UINT64_C(1) << i;
    }
    return true;
}

static int program_compare_views(const void *a, const void *b)
{
    const struct program_view *x = a, *y = b;

    return (x->into_at > y->into_at) - (x->into_at < y->into_at);
}

int program_compile(struct program *p, const struct graph *g, const struct shape *shape, bool views,
                    struct error *err)
{
    struct compiler c = {.p = p, .g = g, .shape = shape, .views = views};
    size_t n = (size_t)g->count + 1;
    int rc = 0;

    *p = (struct program){0};
    c.order = malloc(n * sizeof(*c.order));
    c.first = calloc(n, sizeof(*c.first));
    c.count = calloc(n, sizeof(*c.count));
    c.view = calloc(n, sizeof(*c.view));
    c.joins = calloc(n, sizeof(*c.joins));
    if (c.order == NULL || c.first == NULL || c.count == NULL || c.view == NULL || c.joins == NULL)
        rc = error_set(err, -ENOMEM, "no memory for %u operations", g->count);
    else {
        compile_join(&c);
        rc = compile_nodes(&c, err);
    }
    free(c.order);
    free(c.first);
    free(c.count);
    free(c.view);
    free(c.joins);
    for (uint32_t i = 0; i < p->count && rc == 0; i++)
        if ((p->steps[i].kind == STEP_SEND || p->steps[i].kind == STEP_RECV) &&
            p->steps[i].slot >= CELL_SLOTS)
            rc = error_set(err, -ENOTSUP, "slot %u is used within a host, which has %d slots",
                           p->steps[i].slot, CELL_SLOTS);
    p->in_order = rc == 0 && program_is_in_order(p);
    if (rc != 0)
        program_free(p);
    else if (p->nleft > 1)
        qsort(p->views, p->nleft, sizeof(*p->views), program_compare_views);
    return rc;
}

void program_free(struct program *p)
{
    free(p->steps);
    free(p->before);
    free(p->view_of);
    free(p->calls);
    free(p->views);
    *p = (struct program){0};
}
