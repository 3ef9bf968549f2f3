/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index_node.h: the nodes of an index, and where they come from. For index.c, index_pool.c and index_check.c.
 *
 * Invariants of a node
 * 1. Its keys ascend. Those beyond its count are UNUSED, which is larger than any key: a search compares with all of them,
 *    and has no branch to miss.
 * 2. An inner node of a kind with weights has the weight of each child, and 0 beyond its count.
 * 3. In the pool, it has a count of 0, and so no key and no weight.
 */
#ifndef ALLOC_INDEX_NODE_H
#define ALLOC_INDEX_NODE_H

#include "alloc/index.h"

#include <assert.h>

#define UNUSED UINT64_MAX

struct index_node {
    uint64_t key[INDEX_FANOUT];
    uint32_t count;
    uint32_t zero;
    union {
        struct rdesc *block[INDEX_FANOUT];
        struct index_node *child[INDEX_FANOUT];
        struct index_node *link; /* in the pool */
    };
    uint64_t spare;
    uint32_t weight[INDEX_FANOUT +
                    1]; /* of a child: in an inner node, of kinds that have weights, alone */
};

static_assert(INDEX_FANOUT >= 4,
              "a split leaves two nodes that are not too small, a merge one that is not too large");
static_assert(INDEX_FANOUT != 15 || offsetof(struct index_node, weight) == 4 * CACHE_LINE,
              "a leaf is four lines");

static inline bool node_weighs(const struct index_pool *pool, uint32_t level)
{
    return level > 0 && pool->kind != INDEX_PLAIN;
}

/* How many keys are less. */
static inline uint32_t node_below(const struct index_node *node, uint64_t key)
{
    uint32_t n = 0;

#pragma GCC unroll 16
    for (unsigned i = 0; i < INDEX_FANOUT; i++)
        n += node->key[i] < key;
    return n;
}

/* Which child has the key, if any has. */
static inline uint32_t node_child(const struct index_node *node, uint64_t key)
{
    return node_below(node, key + 1) - 1;
}

/* What its parent has for it. */
static inline uint32_t node_weight(const struct index_pool *pool, const struct index_node *node,
                                   uint32_t level)
{
    uint32_t weight = 0;

    if (pool->kind == INDEX_COUNTED) {
        if (level == 0)
            return node->count;
        for (unsigned i = 0; i < INDEX_FANOUT; i++)
            weight += node->weight[i];
        return weight;
    }
    for (unsigned i = 0; i < node->count; i++) {
        uint32_t w = level == 0 ? (uint32_t)node->key[i] : node->weight[i];

        weight = w > weight ? w : weight;
    }
    return weight;
}

/* 0, or -ENOMEM: sees to it that so many can be taken, leaves and inner nodes. */
int index_pool_reserve(struct index_pool *pool, uint32_t leaves, uint32_t inner);
/* There is one: index_pool_reserve() has seen to it. */
struct index_node *index_pool_take(struct index_pool *pool, uint32_t level);
/* Its count is 0. */
void index_pool_put(struct index_pool *pool, struct index_node *node, uint32_t level);

#endif
