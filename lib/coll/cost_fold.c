/* SPDX-License-Identifier: BSD-3-Clause */
/* cost_fold.c: see cost.h: barrier, broadcast, and what folds. */
#include "coll/cost.h"

/* Up or down a tree over `n` members, all at a distance of at least `unit` members. */
static uint64_t cost_tree(const struct cost *c, int n, int radix, uint64_t unit, bool up)
{
    uint64_t time = 0, children = (uint64_t)radix - 1;

    for (int64_t reached = 1; reached < n; reached *= radix) {
        uint64_t left = ((uint64_t)n - 1) / (uint64_t)reached;
        uint64_t x = left < children ? left : children;

        cost_add(&time, 1, cost_level(c, unit * (uint64_t)reached, x, c->bytes, up));
        if (up)
            cost_add(&time, x, cost_fold(c, c->bytes));
    }
    return time;
}

/* On each host, up by a tree or down in one message. */
static uint64_t cost_host_fold(const struct cost *c)
{
    return c->p == 1 ? 0 : cost_tree(c, c->p, c->radix < c->p ? c->radix : c->p, 1, true);
}

static uint64_t cost_host_spread(const struct cost *c)
{
    return c->p == 1 ? 0 : cost_level(c, 1, 1, c->bytes, false);
}

static uint64_t cost_leader_tree(const struct cost *c, int radix, bool up)
{
    return c->hosts == 1
               ? 0
               : cost_tree(c, c->hosts, radix < c->hosts ? radix : c->hosts, (uint64_t)c->p, up);
}

/* Rounds of pairs: distances 1, 2, 4 ... from `unit` on, below n * unit. */
static uint64_t cost_pairs(const struct cost *c, uint64_t n, uint64_t unit)
{
    uint64_t time = 0;

    for (uint64_t d = 1; 2 * d <= n; d *= 2) {
        if (unit > 1 || c->p == 1) /* of leaders */
            cost_add(&time, 1, cost_net(c, 1, 1, c->bytes));
        else
            cost_add(&time, 1, cost_pair(c, d, c->bytes));
        cost_add(&time, 1, cost_fold(c, c->bytes));
    }
    return time;
}

/* Of leaders, with extras. */
static uint64_t cost_leader_pairs(const struct cost *c)
{
    uint64_t hosts = (uint64_t)c->hosts;
    uint64_t time = hosts > 1 ? cost_pairs(c, hosts, (uint64_t)c->p) : 0;

    if ((hosts & (hosts - 1)) != 0)
        cost_add(&time, 2, cost_net(c, 1, 1, c->bytes));
    return time;
}

uint64_t cost_of_barrier(const struct cost *c)
{
    uint64_t time = 0, n = (uint64_t)c->n, r = (uint64_t)c->radix;

    switch (c->choice->algorithm) {
    case COLL_DISSEMINATION:
        for (uint64_t d = 1; d < n; d *= r) {
            uint64_t left = (n - 1) / d;

            cost_add(&time, 1, cost_round(c, d, left < r - 1 ? left : r - 1, 0));
        }
        return time;
    case COLL_EXCHANGE:
        return model_add(cost_pairs(c, n, 1), cost_extras(c, true));
    case COLL_TREE:
        return model_add(cost_tree(c, c->n, c->radix, 1, true),
                         cost_tree(c, c->n, c->radix, 1, false));
    case COLL_CAST:
        time = model_add(cost_tree(c, c->n, c->radix, 1, true), cost_cast(c, 0));
        return model_add(time, cost_host_spread(c));
    default:
        for (uint64_t d = 1; d < (uint64_t)c->hosts; d *= r)
            cost_add(&time, 1, cost_net(c, r - 1, 1, 0));
        cost_add(&time, 1, cost_look(c, (uint64_t)c->p - 1));
        return model_add(time, cost_host_spread(c));
    }
}

/* A message between hosts that takes `net`: its processors and its interface, without its way. */
static uint64_t cost_hop(const struct cost *c, uint64_t bytes, uint64_t net)
{
    const struct coll_model *m = c->model;

    return model_add(net - coll_model_way(m, bytes),
                     model_add(2 * m->overhead, coll_model_interface(m, bytes)));
}

/* Segments through a chain of n members: all hops of the first, and the slowest hop for each further one. */
static uint64_t cost_chain(const struct cost *c)
{
    uint64_t segment = model_times(c->choice->segment, c->request->element), count, time = 0;
    uint64_t remote = c->shape->in_rows ? (uint64_t)c->hosts - 1 : (uint64_t)c->n - 1, local, net,
             hop;

    if (c->hosts == 1)
        remote = 0;
    if (segment == 0 || segment > c->bytes)
        segment = c->bytes;
    count = segment == 0 ? 1 : (c->bytes + segment - 1) / segment;
    local = cost_level(c, 1, 1, segment, false);
    net = cost_level(c, (uint64_t)c->p, 1, segment, false);
    cost_add(&time, (uint64_t)c->n - 1 - remote, local);
    cost_add(&time, remote, net);
    /* a stage of the pipeline: its processor and its interface are used once for each segment */
    hop = cost_copy(c, segment);
    hop = remote > 0 ? cost_at_least(hop, cost_hop(c, segment, net)) : model_add(hop, local);
    cost_add(&time, count - 1, hop);
    return model_add(time, cost_copy(c, segment));
}

uint64_t cost_of_bcast(const struct cost *c)
{
    uint64_t time = cost_copy(c, c->bytes), n = (uint64_t)c->n;

    switch (c->choice->algorithm) {
    case COLL_TREE: /* those of a core copy one after the other */
        cost_add(&time, c->queue - 1, time);
        return model_add(time, cost_tree(c, c->n, c->radix, 1, false));
    case COLL_CHAIN:
        return cost_chain(c);
    case COLL_FETCH:
        return cost_fetches(c, 1, c->bytes, n - 1);
    case COLL_CAST:
        time = model_times(c->queue, time); /* as above */
        return model_add(model_add(time, cost_cast(c, c->bytes)), cost_host_spread(c));
    case COLL_SCATTER_RING:
        for (uint64_t d = 1; d < n; d *= 2)
            cost_add(&time, 1, cost_level(c, d, 1, c->bytes / n * d, false));
        return model_add(time, cost_ring(c, c->bytes / n, 0, cost_copy(c, c->bytes / n)));
    default:
        return model_add(model_add(time, cost_leader_tree(c, c->radix, false)),
                         cost_host_spread(c));
    }
}

/* Recursive halving, from all bytes on; and the way back. */
static uint64_t cost_halving(const struct cost *c, uint64_t bytes, bool back)
{
    uint64_t time = 0;

    for (uint64_t d = 1; 2 * d <= (uint64_t)c->n; d *= 2) {
        bytes /= 2;
        cost_add(&time, back ? 2 : 1, cost_pair(c, d, bytes));
        cost_add(&time, 1, cost_fold(c, bytes));
        if (back)
            cost_add(&time, 1, cost_copy(c, bytes));
    }
    return time;
}

uint64_t cost_of_reduce(const struct cost *c)
{
    uint64_t time, n = (uint64_t)c->n;

    switch (c->choice->algorithm) {
    case COLL_TREE:
        return cost_tree(c, c->n, c->radix, 1, true);
    case COLL_FLAT:
        time = cost_level(c, 1, n - 1, c->bytes, true);
        cost_add(&time, n - 1, cost_fold(c, c->bytes));
        return time;
    case COLL_RABENSEIFNER:
        return model_add(cost_halving(c, c->bytes, true), cost_extras(c, false));
    default:
        return model_add(cost_host_fold(c), cost_leader_tree(c, 2, true));
    }
}

/* Shares on a host, and each between hosts by halving and doubling: all interfaces are used by all members. */
static uint64_t cost_host_shares(const struct cost *c)
{
    uint64_t p = (uint64_t)c->p, share = c->bytes / p, time = 0, part = share;

    cost_add(&time, 1, cost_level(c, 1, p - 1, c->bytes - share, true));
    cost_add(&time, 1, cost_level(c, 1, p - 1, share, true));
    cost_add(&time, p, cost_fold(c, share));
    cost_add(&time, p, cost_copy(c, share));
    for (uint64_t d = 1; 2 * d <= (uint64_t)c->hosts; d *= 2) {
        part /= 2;
        cost_add(&time, 2, cost_net(c, 1, p, part));
        cost_add(&time, 1, model_add(cost_fold(c, part), cost_copy(c, part)));
    }
    if ((c->hosts & (c->hosts - 1)) != 0)
        cost_add(&time, 2, cost_net(c, 1, p, share));
    return time;
}

uint64_t cost_of_allreduce(const struct cost *c)
{
    uint64_t n = (uint64_t)c->n, time = 0;

    switch (c->choice->algorithm) {
    case COLL_EXCHANGE:
        return model_add(cost_pairs(c, n, 1), cost_extras(c, true));
    case COLL_TREE:
        time = cost_tree(c, c->n, c->radix, 1, true);
        cost_add(&time, c->queue, cost_copy(c, c->bytes));
        return model_add(time, cost_tree(c, c->n, c->radix, 1, false));
    case COLL_CAST:
        time = model_add(cost_tree(c, c->n, c->radix, 1, true), cost_cast(c, c->bytes));
        cost_add(&time, c->queue, cost_copy(c, c->bytes));
        return model_add(time, cost_host_spread(c));
    case COLL_FLAT:
        return cost_all_work(c, c->bytes, cost_fold(c, c->bytes));
    case COLL_SHARES: /* all wait for all, twice */
        time = model_times(2, cost_turn(c));
        cost_add(&time, 1, cost_all_work(c, c->bytes - c->bytes / n, cost_fold(c, c->bytes / n)));
        cost_add(&time, 1, cost_all_work(c, c->bytes / n, cost_copy(c, c->bytes / n)));
        return time;
    case COLL_RABENSEIFNER:
        return model_add(cost_halving(c, c->bytes, true), cost_extras(c, true));
    case COLL_HOST_SHARES:
        return cost_host_shares(c);
    case COLL_RING:
        time = cost_ring(c, c->bytes / n,
                         model_add(cost_copy(c, c->bytes / n), cost_fold(c, c->bytes / n)), 0);
        return model_add(time, cost_ring(c, c->bytes / n, 0, cost_copy(c, c->bytes / n)));
    default:
        time = model_add(cost_host_fold(c), cost_leader_pairs(c));
        return model_add(model_add(time, cost_host_spread(c)), cost_copy(c, c->bytes));
    }
}

uint64_t cost_of_reduce_scatter(const struct cost *c)
{
    uint64_t n = (uint64_t)c->n, hosts = (uint64_t)c->hosts, time = 0;
    struct cost whole = *c;

    switch (c->choice->algorithm) {
    case COLL_FLAT:
        return cost_all_work(c, c->all, cost_fold(c, c->bytes));
    case COLL_PAIRWISE:
        time = cost_all_work(c, c->bytes, cost_fold(c, c->bytes));
        cost_add(&time, c->p > 1 ? (uint64_t)c->p - 2 : 0,
                 model_add(cost_copy(c, c->bytes), c->model->step));
        return time;
    case COLL_HALVING:
        whole.bytes = c->all;
        time = model_add(cost_copy(c, c->all), cost_extras(&whole, false));
        if ((n & (n - 1)) != 0) /* and get their blocks */
            cost_add(&time, 1, cost_round(c, 1, 1, c->bytes));
        return model_add(time, cost_halving(c, c->all, false));
    case COLL_RING:
        return cost_ring(c, c->bytes, model_add(cost_copy(c, c->bytes), cost_fold(c, c->bytes)), 0);
    default:
        whole.bytes = c->all;
        time = cost_host_fold(&whole);
        if (hosts > 1)
            cost_add(&time, 1, cost_net(c, hosts - 1, 1, c->all / hosts));
        cost_add(&time, hosts - 1, cost_fold(c, c->all / hosts));
        if (c->p > 1)
            cost_add(&time, 1, cost_level(c, 1, 1, c->all / hosts, false));
        return model_add(time, cost_copy(c, c->bytes));
    }
}

uint64_t cost_of_scan(const struct cost *c)
{
    uint64_t n = (uint64_t)c->n, time = 0, remote, folds = c->request->kind == COLL_EXSCAN ? 2 : 1;

    switch (c->choice->algorithm) {
    case COLL_LINEAR:
        if (c->hosts == 1 && c->queue > 1) /* a pipeline of operations, whose stages share cores */
            return model_add(cost_level(c, 1, 1, c->bytes, false),
                             model_add(cost_copy(c, c->bytes), cost_fold(c, c->bytes)));
        remote = c->hosts == 1 ? 0 : c->shape->in_rows ? (uint64_t)c->hosts - 1 : n - 1;
        cost_add(&time, remote, cost_net(c, 1, 1, c->bytes));
        cost_add(&time, n - 1 - remote, cost_level(c, 1, 1, c->bytes, false));
        cost_add(&time, n - 1, cost_fold(c, c->bytes));
        return time;
    case COLL_EXCHANGE:
        for (uint64_t d = 1; d < n; d *= 2)
            cost_add(&time, 1,
                     model_add(cost_round(c, d, 1, c->bytes),
                               model_times(folds, cost_fold(c, c->bytes))));
        return time;
    case COLL_FLAT:
        if (c->hosts == 1)
            return cost_all_work(c, c->bytes, cost_fold(c, c->bytes));
        time = cost_all(c, c->bytes); /* the first operand comes last: it is sent to many */
        cost_add(&time, n - 1, cost_fold(c, c->bytes));
        return time;
    default:
        for (uint64_t d = 1; d < (uint64_t)c->p; d *= 2)
            cost_add(&time, 1,
                     model_add(cost_level(c, 1, 1, c->bytes, false),
                               model_times(folds, cost_fold(c, c->bytes))));
        for (uint64_t d = 1; d < (uint64_t)c->hosts; d *= 2)
            cost_add(
                &time, 1,
                model_add(cost_net(c, 1, 1, c->bytes), model_times(2, cost_fold(c, c->bytes))));
        return model_add(model_add(time, cost_host_spread(c)), cost_fold(c, c->bytes));
    }
}
