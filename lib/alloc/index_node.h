/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index_node.h: a node of an index (index.h).
 *
 * Invariants
 * 1. The keys ascend. Keys at or beyond `count` are INDEX_UNUSED, which is greater than any key: a
 *    search compares all of them and has no branch that could be mispredicted.
 * 2. An inner node of a kind with weights has the weight of each child, and 0 at or beyond `count`.
 * 3. A node in the pool has a count of 0, and therefore no key and no weight.
 */
#ifndef ALLOC_INDEX_NODE_H
#define ALLOC_INDEX_NODE_H

#include "util/cpu.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Entries of a node: 15 keys and a count are two cache lines, 15 pointers two more. Tests compile
 * other values.
 */
#ifndef INDEX_FANOUT
#define INDEX_FANOUT 15
#endif
/*
 * Least entries of a node: fewer than half of a full node, so that no node is split and merged
 * alternately.
 */
#define INDEX_LEAST (INDEX_FANOUT / 2u)
#define INDEX_UNUSED UINT64_MAX
#define INDEX_KEY_MOST (INDEX_UNUSED - 1) /* the largest key */

struct rdesc;

enum index_kind {
    INDEX_PLAIN,   /* order alone */
    INDEX_COUNTED, /* each subtree has the number of its blocks: rank, select */
    INDEX_LARGEST, /* each subtree has the largest weight, which is the low half of a key */
};

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
    uint32_t
        weight[INDEX_FANOUT + 1]; /* of each child; only in inner nodes of a kind with weights */
};

static_assert(INDEX_FANOUT >= 4,
              "a split leaves two nodes that are not too small, a merge one that is not too large");
static_assert(INDEX_FANOUT != 15 || offsetof(struct index_node, weight) == 4 * CACHE_LINE,
              "a leaf is four lines");

static inline bool index_node_weighs(enum index_kind kind, uint32_t level)
{
    return level > 0 && kind != INDEX_PLAIN;
}

/* Number of keys less than `key`. */
static inline uint32_t index_node_below(const struct index_node *node, uint64_t key)
{
    uint32_t n = 0;

#pragma GCC unroll 16
    for (unsigned i = 0; i < INDEX_FANOUT; i++)
        n += node->key[i] < key;
    return n;
}

/* Index of the child that contains the key, if any does. */
static inline uint32_t index_node_child(const struct index_node *node, uint64_t key)
{
    return index_node_below(node, key + 1) - 1;
}

/* The node's weight, as its parent stores it. */
static inline uint32_t index_node_weight(enum index_kind kind, const struct index_node *node,
                                         uint32_t level)
{
    uint32_t weight = 0;

    if (kind == INDEX_COUNTED) {
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

#endif
