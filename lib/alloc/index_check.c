/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index_check.c: verifies every invariant of an index, see index.c and index_node.h.
 */
#include "alloc/index.h"

#include "alloc/broken.h"

struct index_check {
    const struct index *ix;
    const struct index_pool *pool;
    uint32_t *nodes;
    uint32_t count; /* blocks so far */
    struct error *err;
};

/* Verifies a node, whose keys must be in [low, high). */
static int index_check_node(struct index_check *at, const struct index_node *node, uint32_t level,
                            uint64_t low, uint64_t high)
{
    const bool root = node == at->ix->root, weighted = index_node_weighs(at->pool->kind, level);
    const uint32_t least = root ? level > 0 ? 2 : 1 : INDEX_LEAST;

    if (node->count < least || node->count > INDEX_FANOUT)
        return broken(at->err, "a node of the index on level %u has %u entries", level,
                      node->count);
    at->nodes[level > 0]++;
    if (level > 0 && node->key[0] != low)
        return broken(at->err,
                      "a node of the index on level %u begins at %llx, for its parent at %llx",
                      level, (unsigned long long)node->key[0], (unsigned long long)low);
    for (uint32_t i = 0; i < INDEX_FANOUT; i++) {
        const uint64_t key = node->key[i], next = i + 1 < node->count ? node->key[i + 1] : high;

        if (i >= node->count ? key != INDEX_UNUSED : key < low || key >= next)
            return broken(at->err,
                          "key %llx of the index on level %u, entry %u of %u, is out of order",
                          (unsigned long long)key, level, i, node->count);
        if (level > 0 && i < node->count &&
            index_check_node(at, node->child[i], level - 1, key, next) != 0)
            return -EUCLEAN;
        if (weighted &&
            node->weight[i] != (i < node->count
                                    ? index_node_weight(at->pool->kind, node->child[i], level - 1)
                                    : 0))
            return broken(at->err,
                          "the weight %u of child %u of %u in the index on level %u is wrong",
                          node->weight[i], i, node->count, level);
    }
    if (level == 0)
        at->count += node->count;
    return 0;
}

int index_check(const struct index *ix, const struct index_pool *pool, uint32_t nodes[2],
                struct error *err)
{
    struct index_check at = {.ix = ix, .pool = pool, .nodes = nodes, .err = err};

    if ((ix->root == NULL) != (ix->height == 0) || ix->height > INDEX_LEVELS)
        return broken(err, "an index has %s root and %u levels", ix->root == NULL ? "no" : "a",
                      ix->height);
    if (ix->root != NULL && index_check_node(&at, ix->root, ix->height - 1, 0, INDEX_UNUSED) != 0)
        return -EUCLEAN;
    if (at.count != ix->count)
        return broken(err, "an index has %u blocks, %u are counted", at.count, ix->count);
    return 0;
}
