/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alg_bcast.c: from the root to all. A member forwards from the view of what it received, so its copy
 * to INTO is on no other member's way.
 */
#include "coll/build.h"

static struct coll_value alg_bcast_value(const struct coll_build *b)
{
    return value_of(graph_at(GRAPH_FROM, 0), graph_at(GRAPH_INTO, 0), b->bytes);
}

static void alg_bcast_store(const struct coll_build *b, struct coll_value *v)
{
    if (b->me != b->request->root)
        value_store(b, v, graph_at(GRAPH_INTO, 0));
}

int alg_bcast_tree(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, b->request->root);
    struct coll_value v = alg_bcast_value(b);

    part_spread(b, &all, b->radix, 0, &v);
    alg_bcast_store(b, &v);
    return 0;
}

/* Among the root and the leaders of the other hosts, then on each host. */
int alg_bcast_hosts(const struct coll_build *b)
{
    const struct shape *s = b->shape;
    int root = b->request->root, host = s->host[b->me];
    struct group leaders = group_leaders(s, b->me, root);
    struct group mine =
        group_host(s, b->me, host, host == s->host[root] ? shape_index_on_host(s, root) : 0);
    struct coll_value v = alg_bcast_value(b);

    part_spread(b, &leaders, b->radix, 0, &v);
    part_spread(b, &mine, mine.size < 2 ? 2 : mine.size, 1, &v);
    alg_bcast_store(b, &v);
    return 0;
}

/* One message to all hosts, then on each. */
int alg_bcast_cast(const struct coll_build *b)
{
    struct coll_value v = alg_bcast_value(b);

    part_cast(b, b->request->root, 0, &v);
    alg_bcast_store(b, &v);
    return 0;
}

/* Segments, of which each member forwards one while it receives the next. */
int alg_bcast_chain(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, b->request->root);
    size_t segment = b->choice->segment * b->request->element, at = 0;
    uint32_t slot = 0;

    if (segment == 0 || segment > b->bytes)
        segment = b->bytes;
    do {
        size_t bytes = segment < b->bytes - at ? segment : b->bytes - at;
        struct graph_ref here = graph_at(GRAPH_FROM, at);

        if (all.me > 0) {
            here = graph_at(graph_recv(b->g, group_rank(&all, all.me - 1), slot, bytes), 0);
        }
        if (all.me < all.size - 1) {
            int next = group_rank(&all, all.me + 1);

            graph_send(b->g, &next, 1, slot, here, bytes);
        }
        if (all.me > 0 && bytes > 0)
            graph_copy(b->g, graph_at(GRAPH_INTO, at), here, bytes);
        at += bytes;
        slot++;
    } while (at < b->bytes);
    return 0;
}

/* ---- scatter by a binomial tree, allgather by a ring ---- */

/* Parts `first` to `last` - 1. */
static struct coll_range alg_bcast_parts(const struct coll_build *b, int first, int last)
{
    size_t element = b->request->element, count = b->request->count;
    size_t at = split_at(count, b->size, first) * element;

    return (struct coll_range){.at = at, .bytes = split_at(count, b->size, last) * element - at};
}

static uint32_t alg_bcast_level(int step)
{
    uint32_t level = 0;

    while (step > 1) {
        step /= 2;
        level++;
    }
    return level;
}

/* Where each index has the parts of its subtree: in FROM of the root, or in a view. */
static struct graph_ref alg_bcast_scatter(const struct coll_build *b, const struct group *all)
{
    int span = tree_span(all->me, all->size, 2), step = 1;
    struct coll_range own = alg_bcast_parts(b, all->me, all->me + span);
    struct graph_ref here = graph_at(GRAPH_FROM, 0);

    if (all->me > 0) {
        int parent = tree_parent(all->me, 2);

        here = graph_at(
            graph_recv(b->g, group_rank(all, parent), alg_bcast_level(all->me - parent), own.bytes),
            0);
    }
    while (step * 2 < span)
        step *= 2;
    for (; step > 0 && span > 1; step /= 2) {
        int child = all->me + step, end = child + tree_span(child, all->size, 2), to;
        struct coll_range range = alg_bcast_parts(b, child, end);

        to = group_rank(all, child);
        graph_send(b->g, &to, 1, alg_bcast_level(step), graph_plus(here, range.at - own.at),
                   range.bytes);
    }
    if (all->me > 0 && own.bytes > 0)
        graph_copy(b->g, graph_at(GRAPH_INTO, own.at), here, own.bytes);
    return here;
}

static bool alg_bcast_has(const struct group *all, int index, int part)
{
    return part >= index && part < index + tree_span(index, all->size, 2);
}

/* Round s of the ring: part me - s goes to the right, unless the member there has it already. */
int alg_bcast_scatter_ring(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, b->request->root);
    struct graph_ref own = alg_bcast_scatter(b, &all), ring = own;
    size_t own_at = alg_bcast_parts(b, all.me, all.me).at;
    int n = all.size, right = (all.me + 1) % n;
    uint32_t slots = alg_bcast_level(n) + 1; /* of the tree: one for each level */

    for (int s = 0; s < n; s++) {
        int part = (all.me - s + n) % n, next = (all.me - s - 1 + n) % n;
        bool had = alg_bcast_has(&all, all.me, part);
        struct coll_range range = alg_bcast_parts(b, part, part + 1);
        uint32_t slot = slots + (uint32_t)s;

        if (s < n - 1 && !alg_bcast_has(&all, right, part)) {
            int to = group_rank(&all, right);

            graph_send(b->g, &to, 1, slot, had ? graph_plus(own, range.at - own_at) : ring,
                       range.bytes);
        }
        if (!had && range.bytes > 0)
            graph_copy(b->g, graph_at(GRAPH_INTO, range.at), ring, range.bytes);
        range = alg_bcast_parts(b, next, next + 1);
        if (s < n - 1 && !alg_bcast_has(&all, all.me, next))
            ring = graph_at(
                graph_recv(b->g, group_rank(&all, (all.me - 1 + n) % n), slot, range.bytes), 0);
    }
    return 0;
}
