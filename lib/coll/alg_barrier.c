/* SPDX-License-Identifier: BSD-3-Clause */
/* alg_barrier.c: barriers: messages without bytes, by the parts of build.h. */
#include "coll/build.h"

static struct coll_value alg_barrier_value(void)
{
    return value_of(graph_at(GRAPH_SCRATCH, 0), graph_at(GRAPH_SCRATCH, 0), 0);
}

int alg_barrier_dissemination(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct coll_value v = alg_barrier_value();

    part_disseminate(b, &all, b->radix, 0, &v);
    return 0;
}

int alg_barrier_exchange(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct coll_value v = alg_barrier_value();

    part_exchange(b, &all, 0, &v);
    return 0;
}

/* Gather, then release. */
int alg_barrier_tree(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct coll_value v = alg_barrier_value();

    part_fold(b, &all, b->radix, 0, &v);
    part_spread(b, &all, b->radix, 1, &v);
    return 0;
}

int alg_barrier_cast(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct coll_value v = alg_barrier_value();

    part_fold(b, &all, b->radix, 0, &v);
    part_cast(b, 0, 1, &v);
    return 0;
}

/* Gather on each host in one step, dissemination of leaders, release on each host. */
int alg_barrier_hosts(const struct coll_build *b)
{
    int host = b->shape->host[b->me];
    struct group mine = group_host(b->shape, b->me, host, 0);
    struct group leaders = group_leaders(b->shape, b->me, 0);
    int flat = mine.size < 2 ? 2 : mine.size;
    struct coll_value v = alg_barrier_value();

    part_fold(b, &mine, flat, 0, &v);
    part_disseminate(b, &leaders, b->radix, 2, &v);
    part_spread(b, &mine, flat, 1, &v);
    return 0;
}
