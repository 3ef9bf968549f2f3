/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alg_reduce.c: a result at the root, and Rabenseifner's reduction, which allreduce shares.
 *
 * Only where any order is allowed can the root be index 0 of a tree: the members before it would be
 * folded last. In the other orders the tree ends at member 0, which sends the result to the root.
 */
#include "coll/alg_halving.h"
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

static struct coll_value alg_reduce_value(const struct coll_build *b)
{
    bool root = b->me == b->request->root;

    return value_of(b->from, root ? graph_at(GRAPH_INTO, 0) : graph_at(GRAPH_FROM, 0), b->bytes);
}

/* The index 0 of a tree. */
static int alg_reduce_top(const struct coll_build *b)
{
    return b->request->order == COLL_ANY_ORDER ? b->request->root : 0;
}

/* The result is at `top`; it goes to the root, if that is another member. */
static void alg_reduce_deliver(const struct coll_build *b, int top, uint32_t slot,
                               struct coll_value *v)
{
    int root = b->request->root;

    if (top != root && b->me == top)
        value_send(b, v, root, slot);
    if (top != root && b->me == root) {
        int view = graph_recv(b->g, top, slot, v->bytes);

        graph_after(b->g, view, v->last); /* INTO, in place, is sent before it is overwritten */
        v->at = graph_at(view, 0);
        v->last = view;
    }
    if (b->me == root)
        value_store(b, v, graph_at(GRAPH_INTO, 0));
}

int alg_reduce_tree(const struct coll_build *b)
{
    int top = alg_reduce_top(b);
    struct group all = group_all(b->shape, b->me, top);
    struct coll_value v = alg_reduce_value(b);

    part_fold_ordered(b, &all, b->radix, 0, &v);
    alg_reduce_deliver(b, top, 1, &v);
    return 0;
}

/* On each host, then among the root and the leaders of the other hosts. */
int alg_reduce_hosts(const struct coll_build *b)
{
    const struct shape *s = b->shape;
    int top = alg_reduce_top(b), host = s->host[b->me];
    struct group leaders = group_leaders(s, b->me, top);
    struct group mine =
        group_host(s, b->me, host, host == s->host[top] ? shape_index_on_host(s, top) : 0);
    struct coll_value v = alg_reduce_value(b);

    part_fold_ordered(b, &mine, b->request->order == COLL_FIXED_ORDER ? 2 : b->radix, 0, &v);
    part_fold_ordered(b, &leaders, 2, 1, &v);
    alg_reduce_deliver(b, top, 2, &v);
    return 0;
}

/* The root receives all contributions and folds them by itself. */
int alg_reduce_flat(const struct coll_build *b)
{
    struct coll_value v = alg_reduce_value(b);
    struct graph_ref *operand;
    int n = 0;

    if (b->me != b->request->root) {
        value_send(b, &v, b->request->root, 0);
        return 0;
    }
    operand = malloc((size_t)b->size * sizeof(*operand));
    if (operand == NULL)
        return -ENOMEM;
    if (b->request->order ==
        COLL_ANY_ORDER) /* the own one first: in place it is where the result goes */
        operand[n++] = b->from;
    else if (b->request->in_place && b->bytes > 0) {
        struct graph_ref copy = graph_scratch(b->g, b->bytes);

        v.last = graph_copy(b->g, copy, b->from, b->bytes);
        v.at = copy;
    }
    for (int i = 0; i < b->size; i++) {
        if (i != b->me)
            operand[n++] = graph_at(graph_recv(b->g, i, 0, b->bytes), 0);
        else if (b->request->order != COLL_ANY_ORDER)
            operand[n++] = v.at;
    }
    value_fold_all(b, &v, operand, n);
    free(operand);
    return 0;
}

/* Recursive halving; then each of its members sends what it has towards the root. */
int alg_reduce_rabenseifner(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct group_pairs pairs = group_pairs(&all);
    int root = b->request->root, slot = HALVING_SLOTS(pairs.rounds), top;
    struct coll_value v = alg_reduce_value(b);
    struct halving h = {.edges = NULL};

    halving_fold(b, &all, 0, &v, &h);
    /* the index that collects: the root, or the other member of its pair */
    top = root < 2 * pairs.even.pairs ? root / 2 : root - pairs.even.pairs;
    if (!pairs.extra)
        halving_collect(b, &h, (uint32_t)slot, top, &v);
    alg_reduce_deliver(b, group_rank(&pairs.even, top), (uint32_t)(slot + pairs.rounds), &v);
    return 0;
}
