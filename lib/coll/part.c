/* SPDX-License-Identifier: BSD-3-Clause */
/* part.c: see build.h: what most algorithms are made of. */
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

/* Ranks of the children of an index; NULL and a failed graph: no memory. Released by free(). */
static int *part_children(const struct coll_build *b, const struct group *group, int radix,
                          int *count)
{
    int n = tree_children(group->me, group->size, radix, NULL);
    int *child = malloc(((size_t)n + 1) * sizeof(*child));

    *count = 0;
    if (child == NULL) {
        graph_fail(b->g, -ENOMEM);
        return NULL;
    }
    *count = tree_children(group->me, group->size, radix, child);
    for (int i = 0; i < n; i++)
        child[i] = group_rank(group, child[i]);
    return child;
}

void part_fold(const struct coll_build *b, const struct group *group, int radix, uint32_t slot,
               struct coll_value *v)
{
    int n, *child;

    if (group->me < 0)
        return;
    child = part_children(b, group, radix, &n);
    for (int i = 0; i < n; i++)
        value_fold(b, v, graph_at(graph_recv(b->g, child[i], slot, v->bytes), 0), false);
    free(child);
    if (group->me > 0)
        value_send(b, v, group_rank(group, tree_parent(group->me, radix)), slot);
}

void part_fold_ordered(const struct coll_build *b, const struct group *group, int radix,
                       uint32_t slot, struct coll_value *v)
{
    struct group_pairs pairs;

    if (b->request->order != COLL_FIXED_ORDER) {
        part_fold(b, group, radix, slot, v);
        return;
    }
    pairs = group_pairs(group);
    if (pairs.extra)
        value_send(b, v, pairs.partner, slot);
    else if (pairs.partner >= 0)
        value_fold(b, v, graph_at(graph_recv(b->g, pairs.partner, slot, v->bytes), 0), false);
    part_fold(b, &pairs.even, 2, slot, v);
}

void part_spread(const struct coll_build *b, const struct group *group, int radix, uint32_t slot,
                 struct coll_value *v)
{
    int n, *child, node;

    if (group->me < 0)
        return;
    if (group->me > 0) {
        v->last =
            graph_recv(b->g, group_rank(group, tree_parent(group->me, radix)), slot, v->bytes);
        v->at = graph_at(v->last, 0);
    }
    child = part_children(b, group, radix, &n);
    for (int i = 0; i < n / 2; i++) { /* the largest subtree first */
        int other = child[i];

        child[i] = child[n - 1 - i];
        child[n - 1 - i] = other;
    }
    if (n > 0) {
        node = graph_send(b->g, child, n, slot, v->at, v->bytes);
        graph_after(b->g, node, v->last);
        v->last = node;
    }
    free(child);
}

/* Among the leaders, in one message for all. */
static void part_cast_leaders(const struct coll_build *b, const struct group *leaders,
                              uint32_t slot, struct coll_value *v)
{
    int *all, node;

    if (leaders->me < 0 || leaders->size == 1)
        return;
    if (leaders->me > 0) {
        v->last = graph_by_cast(b->g, graph_recv(b->g, group_rank(leaders, 0), slot, v->bytes));
        v->at = graph_at(v->last, 0);
        return;
    }
    all = malloc((size_t)leaders->size * sizeof(*all));
    if (all == NULL) {
        (void)graph_fail(b->g, -ENOMEM);
        return;
    }
    for (int i = 1; i < leaders->size; i++)
        all[i - 1] = group_rank(leaders, i);
    node = graph_by_cast(b->g, graph_send(b->g, all, leaders->size - 1, slot, v->at, v->bytes));
    graph_after(b->g, node, v->last);
    v->last = node;
    free(all);
}

void part_cast(const struct coll_build *b, int root, uint32_t slot, struct coll_value *v)
{
    const struct shape *s = b->shape;
    int host = s->host[b->me];
    struct group leaders = group_leaders(s, b->me, root);
    struct group mine =
        group_host(s, b->me, host, host == s->host[root] ? shape_index_on_host(s, root) : 0);

    part_cast_leaders(b, &leaders, slot, v);
    part_spread(b, &mine, mine.size < 2 ? 2 : mine.size, slot + 1, v);
}

void part_exchange(const struct coll_build *b, const struct group *group, uint32_t slot,
                   struct coll_value *v)
{
    struct group_pairs pairs = group_pairs(group);
    /* rounds come first: the lowest slots of a board have most cells */
    uint32_t extras = slot + (uint32_t)pairs.rounds, answer = extras + 1;

    if (group->me < 0)
        return;
    if (pairs.extra) {
        int view = graph_recv(b->g, pairs.partner, answer, v->bytes);

        value_send(b, v, pairs.partner, extras);
        graph_after(b->g, view, v->last); /* in place, what is sent is where the result goes */
        v->last = view;
        v->at = graph_at(view, 0);
        return;
    }
    if (pairs.partner >= 0)
        value_fold(b, v, graph_at(graph_recv(b->g, pairs.partner, extras, v->bytes), 0), false);
    for (int d = 0; d < pairs.rounds; d++) {
        int other = pairs.even.me ^ (1 << d), rank = group_rank(&pairs.even, other);

        value_send(b, v, rank, slot);
        value_fold(b, v, graph_at(graph_recv(b->g, rank, slot, v->bytes), 0),
                   other < pairs.even.me);
        slot++;
    }
    if (pairs.partner >= 0)
        value_send(b, v, pairs.partner, answer);
}

void part_disseminate(const struct coll_build *b, const struct group *group, int radix,
                      uint32_t slot, struct coll_value *v)
{
    int *to, n, size = group->size;

    if (group->me < 0)
        return;
    to = malloc((size_t)radix * sizeof(*to));
    if (to == NULL) {
        graph_fail(b->g, -ENOMEM);
        return;
    }
    for (int64_t step = 1; step < size; step *= radix, slot++) {
        int join, send;

        n = 0;
        for (int64_t j = 1; j < radix && j * step < size; j++)
            to[n++] = group_rank(group, (int)((group->me + j * step) % size));
        send = graph_send(b->g, to, n, slot, graph_at(GRAPH_SCRATCH, 0), 0);
        graph_after(b->g, send, v->last);
        join = graph_call(b->g, NULL, NULL);
        graph_after(b->g, join, send);
        for (int64_t j = 1; j < radix && j * step < size; j++) {
            int from = group_rank(group, (int)((group->me + size - j * step) % size));

            graph_after(b->g, join, graph_recv(b->g, from, slot, 0));
        }
        v->last = join;
    }
    free(to);
}

int part_send_all(const struct coll_build *b, const struct group *group, uint32_t slot,
                  struct graph_ref from, size_t bytes)
{
    int *to = malloc((size_t)group->size * sizeof(*to)), n = 0, node = GRAPH_NONE;

    if (to == NULL)
        return graph_fail(b->g, -ENOMEM);
    for (int i = 1; i < group->size; i++)
        to[n++] = group_rank(group, (group->me + i) % group->size);
    if (n > 0)
        node = graph_send(b->g, to, n, slot, from, bytes);
    free(to);
    return node;
}
