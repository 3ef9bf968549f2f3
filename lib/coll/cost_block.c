/* SPDX-License-Identifier: BSD-3-Clause */
/* cost_block.c: see cost.h: what moves blocks and folds nothing. */
#include "coll/cost.h"

/*
 * Each member sends `bytes` to all in one round, and copies a block of each. On a host both are work of its own processor, one after the other;
 * between hosts it copies while others arrive.
 */
static uint64_t cost_all_copied(const struct cost *c, uint64_t bytes)
{
    uint64_t work = cost_copy(c, c->bytes);

    return c->hosts > 1 ? cost_all_work(c, bytes, work)
                        : model_add(cost_all(c, bytes), model_times((uint64_t)c->n, work));
}

/*
 * A scatter on one host is over at the root when that has copied all blocks, and at the others when they have theirs; these copies follow
 * where members share cores.
 */
static uint64_t cost_scattered(const struct cost *c, uint64_t time)
{
    uint64_t own = cost_copy(c, c->bytes), root = cost_copy(c, c->all);

    if (c->hosts > 1)
        return c->choice->algorithm == COLL_FLAT ? model_add(time, own) : time;
    time = cost_at_least(model_add(time, own), root);
    return model_add(time, model_times(c->queue - 1, own));
}

/* Up or down a tree over n indices with a message of its subtree for each. */
static uint64_t cost_subtrees(const struct cost *c, int n, int radix, uint64_t unit, uint64_t bytes)
{
    uint64_t time = 0, children = (uint64_t)radix - 1;

    for (uint64_t reached = 1; reached < (uint64_t)n; reached *= (uint64_t)radix) {
        uint64_t left = ((uint64_t)n - 1) / reached, x = left < children ? left : children;
        uint64_t row = model_times(reached, bytes);

        if (c->request->kind == COLL_GATHER)
            cost_add(&time, 1, cost_gather(c, unit * reached, x, row));
        else /* each of them gets a message of its own */
            cost_add(&time, 1,
                     model_add(cost_level(c, unit * reached, x, row, false),
                               c->hosts == 1 ? model_times(x - 1, model_add(c->model->step,
                                                                            cost_copy(c, row)))
                                             : 0));
    }
    return time;
}

/* The members of a host to one, or one to them, each with a block. */
static uint64_t cost_host_blocks(const struct cost *c)
{
    uint64_t mates = (uint64_t)c->p - 1, time = cost_look(c, mates);

    cost_add(&time, mates, cost_copy(c, c->bytes));
    return time;
}

/* Between leaders by a tree. */
static uint64_t cost_leader_rows(const struct cost *c)
{
    int radix = c->radix < c->hosts ? c->radix : c->hosts;

    return c->hosts == 1 ? 0
                         : cost_subtrees(c, c->hosts, radix, (uint64_t)c->p,
                                         model_times(c->bytes, (uint64_t)c->p));
}

/* One member and all others, a message each. */
static uint64_t cost_linear(const struct cost *c)
{
    uint64_t others = (uint64_t)c->n - 1, time;

    if (c->request->kind == COLL_GATHER)
        return cost_gather(c, 1, others, c->bytes);
    time = cost_level(c, 1, others, c->bytes, false);
    cost_add(&time, (uint64_t)c->p - 1,
             cost_copy(c, c->bytes)); /* to the mates, one after the other */
    return model_add(time, cost_copy(c, c->bytes));
}

uint64_t cost_of_gather(const struct cost *c)
{
    switch (c->choice->algorithm) {
    case COLL_TREE:
        return cost_subtrees(c, c->n, c->radix, 1, c->bytes);
    case COLL_LINEAR:
        return cost_linear(c);
    case COLL_FETCH:
        return model_add(cost_fetches(c, (uint64_t)c->n - 1, c->bytes, 1), cost_copy(c, c->bytes));
    default:
        return model_add(cost_host_blocks(c), cost_leader_rows(c));
    }
}

uint64_t cost_of_scatter(const struct cost *c)
{
    uint64_t time;

    switch (c->choice->algorithm) {
    case COLL_TREE:
        return cost_scattered(c, cost_subtrees(c, c->n, c->radix, 1, c->bytes));
    case COLL_LINEAR:
        return cost_scattered(c, cost_linear(c));
    case COLL_FLAT:
        return cost_scattered(c, cost_level(c, 1, (uint64_t)c->n - 1, c->all, false));
    case COLL_FETCH:
        return cost_fetches(c, 1, c->bytes, (uint64_t)c->n - 1);
    default:
        time = c->p == 1 ? 0 : cost_level(c, 1, 1, model_times(c->bytes, (uint64_t)c->p), false);
        return model_add(model_add(time, cost_copy(c, c->bytes)), cost_leader_rows(c));
    }
}

/* Each leader casts `bytes`; those of the others arrive one after the other at its interface, and are copied. */
static uint64_t cost_casts(const struct cost *c, uint64_t bytes)
{
    const struct coll_model *m = c->model;
    uint64_t time, wire = coll_model_packets(m, bytes);

    if (c->hosts == 1)
        return 0;
    wire = cost_at_least(wire, model_add(m->overhead, cost_copy(c, bytes)));
    time = cost_cast(c, bytes);
    cost_add(&time, (uint64_t)c->hosts - 2, wire);
    return time;
}

uint64_t cost_of_allgather(const struct cost *c)
{
    uint64_t n = (uint64_t)c->n, hosts = (uint64_t)c->hosts, time = 0, row;

    switch (c->choice->algorithm) {
    case COLL_FLAT:
        return cost_all_copied(c, c->bytes);
    case COLL_FETCH:
        return model_add(cost_fetches(c, n - 1, c->bytes, n - 1), cost_copy(c, c->bytes));
    case COLL_RING:
        return model_add(cost_ring(c, c->bytes, 0, cost_copy(c, c->bytes)), cost_copy(c, c->bytes));
    case COLL_BRUCK:
        for (uint64_t d = 1; d < n; d *= 2) {
            uint64_t blocks = d < n - d ? d : n - d;

            row = model_times(blocks, c->bytes);
            cost_add(&time, 1, model_add(cost_round(c, d, 1, row), cost_copy(c, row)));
        }
        return model_add(time, cost_copy(c, c->all));
    default:
        row = c->all / hosts;
        time = cost_host_blocks(c);
        if (c->choice->algorithm == COLL_CAST)
            cost_add(&time, 1, cost_casts(c, row));
        else
            cost_add(&time, hosts - 1, model_add(cost_net(c, 1, 1, row), c->model->step));
        if (hosts > 1)
            cost_add(&time, 1, cost_copy(c, row));
        if (c->p > 1)
            cost_add(&time, 1, cost_level(c, 1, 1, c->all, false));
        return model_add(time, cost_copy(c, c->all));
    }
}

static uint64_t cost_alltoall_hosts(const struct cost *c)
{
    uint64_t hosts = (uint64_t)c->hosts, p = (uint64_t)c->p, time, row;

    row = model_times(c->bytes, model_times(p, p)); /* between two hosts */
    time = model_add(cost_look(c, p - 1), cost_copy(c, c->all));
    if (hosts > 1) {
        cost_add(&time, 1, cost_net(c, hosts - 1, 1, row));
        cost_add(&time, p > 1 ? 2 * (hosts - 1) : 0, cost_copy(c, row)); /* packed; and forwarded */
        cost_add(&time, 1, cost_look(c, p > 1 ? hosts - 1 : 0));
    }
    cost_add(&time, (uint64_t)c->n, cost_copy(c, c->bytes));
    return time;
}

uint64_t cost_of_alltoall(const struct cost *c)
{
    uint64_t n = (uint64_t)c->n, time = 0;

    switch (c->choice->algorithm) {
    case COLL_FLAT:
        return cost_all_copied(c, c->all);
    case COLL_FETCH:
        return model_add(cost_fetches(c, n - 1, c->bytes, n - 1), cost_copy(c, c->bytes));
    case COLL_LINEAR:
        time = cost_all_copied(c, c->bytes);
        cost_add(&time, c->p > 1 ? (uint64_t)c->p - 2 : 0,
                 model_add(cost_copy(c, c->bytes), c->model->step));
        return time;
    case COLL_PAIRWISE: /* two rounds at a time */
        cost_add(&time, n / 2, cost_round(c, n / 2, 2, c->bytes));
        cost_add(&time, 2 * n, cost_copy(c, c->bytes));
        return time;
    case COLL_BRUCK:
        for (uint64_t d = 1; d < n; d *= 2) {
            cost_add(&time, 1, cost_round(c, d, 1, c->all / 2));
            cost_add(&time, n,
                     cost_copy(c, c->bytes)); /* packed and unpacked, half of the blocks each */
        }
        cost_add(&time, 2 * n, cost_copy(c, c->bytes));
        return time;
    default:
        return cost_alltoall_hosts(c);
    }
}
