/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cost.h: the time that an algorithm takes, by formulas over the parameters of model.h: sums of rounds, each
 * with the messages that a member sends and receives, and of what it copies and folds.
 *
 * A round on a host costs L + (x - 1) m for x messages that are awaited, where each member has a core;
 * where q members share one, the first round costs q yields, and each further one a third of that,
 * as in a loop of operations. A round between hosts costs 2 o + Ln + k x (g + S G), where k members of a
 * host share its interface, or what the processor needs for 2 x messages, whichever is more; where messages are longer than E, their
 * own terms take the place of o and Ln.
 */
#ifndef COLL_COST_H
#define COLL_COST_H

#include "coll/coll.h"
#include "coll/model.h"

struct cost {
    const struct shape *shape;
    const struct coll_model *model;
    const struct coll_request *request;
    const struct coll_choice *choice;
    int n, p, hosts;     /* members, most members of a host, hosts */
    uint64_t queue;      /* members of a core */
    int radix, levels;   /* of all members */
    uint64_t bytes, all; /* of a contribution, or the mean of a block; of all blocks */
};

/* In picoseconds, of an algorithm that exists for the kind. Depends on nothing that differs between members. */
uint64_t coll_cost(const struct shape *shape, const struct coll_request *request,
                   const struct coll_choice *choice, const struct coll_model *model);

/* ---- for the formulas of one kind each: cost_fold.c, cost_block.c ---- */

/* *time = *time + count * cost, at most MODEL_NEVER. */
static inline void cost_add(uint64_t *time, uint64_t count, uint64_t cost)
{
    *time = model_add(*time, model_times(count, cost));
}

static inline uint64_t cost_at_least(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The smallest l with radix^l >= n. */
int cost_levels(int n, int radix);
/* A round more on a host whose members share cores: all have to run once more before a member goes on. Else 0. */
uint64_t cost_turn(const struct cost *c);
/* A round on a host: messages of x members are awaited. */
uint64_t cost_look(const struct cost *c, uint64_t x);
/* x messages to other hosts from each of k members of a host, received by as many. */
uint64_t cost_net(const struct cost *c, uint64_t x, uint64_t k, uint64_t bytes);
/* One message to all hosts: its packets leave once, and what a receiver loses is repaired, at the rate of the model. */
uint64_t cost_cast(const struct cost *c, uint64_t bytes);
/* A round in which each member sends x messages of `bytes` to members at a distance, and gets as many. */
uint64_t cost_round(const struct cost *c, uint64_t distance, uint64_t x, uint64_t bytes);
/* The same of pairs, whose distance is a power of two: they are on one host where that fits. */
uint64_t cost_pair(const struct cost *c, uint64_t distance, uint64_t bytes);
/* A level of a tree: x members at a distance send to one (up), or get one message from it. */
uint64_t cost_level(const struct cost *c, uint64_t distance, uint64_t x, uint64_t bytes, bool up);
/* The same, up, where what arrives is copied: while more arrives. */
uint64_t cost_gather(const struct cost *c, uint64_t distance, uint64_t x, uint64_t bytes);
/* A block goes around the ring, with work on its path at each member, and other work beside it. */
uint64_t cost_ring(const struct cost *c, uint64_t bytes, uint64_t on_path, uint64_t beside);
/* All members send `bytes` to all in one round, on a host in one message. */
uint64_t cost_all(const struct cost *c, uint64_t bytes);
/* The same, with work for each message, while others arrive. */
uint64_t cost_all_work(const struct cost *c, uint64_t bytes, uint64_t work);
uint64_t cost_copy(const struct cost *c, uint64_t bytes);
uint64_t cost_fold(const struct cost *c, uint64_t bytes);
/* A copy from the memory of another process. */
uint64_t cost_fetch(const struct cost *c, uint64_t bytes);
/* COLL_FETCH: x messages of which this member copies `bytes` each, and y answers that it awaits. */
uint64_t cost_fetches(const struct cost *c, uint64_t x, uint64_t bytes, uint64_t y);
/* Members that are no power of two take part through others, which costs this more. */
uint64_t cost_extras(const struct cost *c, bool answered);

uint64_t cost_of_barrier(const struct cost *c);
uint64_t cost_of_bcast(const struct cost *c);
uint64_t cost_of_reduce(const struct cost *c);
uint64_t cost_of_allreduce(const struct cost *c);
uint64_t cost_of_reduce_scatter(const struct cost *c);
uint64_t cost_of_scan(const struct cost *c);
uint64_t cost_of_gather(const struct cost *c);
uint64_t cost_of_allgather(const struct cost *c);
uint64_t cost_of_scatter(const struct cost *c);
uint64_t cost_of_alltoall(const struct cost *c);

#endif
