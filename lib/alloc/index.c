/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index.c: an ordered set of free blocks, see index.h.
 *
 * What an operation costs, where there are many blocks, is the cache lines that it waits for. So
 * the tree is a B+ tree: wide nodes, of which all but the leaves are soon in the cache, and leaves
 * of consecutive lines, which are fetched together. A set of up to INDEX_FANOUT blocks, the common
 * case, is one node and no search.
 *
 * Invariants, beyond those of its nodes
 * 1. Blocks are in the leaves, all of which are on level 0. Keys ascend from left to right.
 * 2. An inner node has with every child a key that no key below the child is less than, and that
 *    every key to the left is less than. It need not be there any more. That of the leftmost child
 *    of all is 0; an inner node's first one is that which its parent has for it.
 * 3. Every node but the root has at least INDEX_LEAST entries, an inner root 2, and there is no
 *    empty leaf: an empty index has no node.
 *
 * So an entry costs at most 256 / INDEX_LEAST bytes in a leaf and a seventh of that above it. A
 * leaf that is full gives to its neighbors before it is split, which makes that 20 to 25 bytes
 * where blocks come, and 30 where they come and go.
 */
#include "alloc/index.h"

#include <errno.h>

/* ---- changing a node ---- */

static inline void index_node_set(struct index_node *node, uint32_t slot, uint64_t key, void *to)
{
    node->key[slot] = key;
    node->child[slot] = to;
}

/* Inserts `n` empty entries at a slot. */
static void index_node_open(struct index_node *node, uint32_t slot, uint32_t n, bool weighted)
{
    for (uint32_t i = node->count; i-- > slot;)
        index_node_set(node, i + n, node->key[i], node->child[i]);
    for (uint32_t i = node->count; weighted && i-- > slot;)
        node->weight[i + n] = node->weight[i];
    node->count += n;
}

/* Removes `n` entries at a slot. */
static void index_node_close(struct index_node *node, uint32_t slot, uint32_t n, bool weighted)
{
    const uint32_t left = node->count - n;

    for (uint32_t i = slot; i < left; i++)
        index_node_set(node, i, node->key[i + n], node->child[i + n]);
    for (uint32_t i = slot; weighted && i < left; i++)
        node->weight[i] = node->weight[i + n];
    for (uint32_t i = left; i < node->count; i++)
        node->key[i] = INDEX_UNUSED;
    for (uint32_t i = left; weighted && i < node->count; i++)
        node->weight[i] = 0;
    node->count = left;
}

/*
 * The same for one entry of a leaf, without a branch on the slot: it would be mispredicted every
 * other time, and the misprediction would be resolved only after everything that the slot depends
 * on has arrived from memory.
 */
static inline void index_leaf_put(struct index_node *leaf, uint32_t slot, uint64_t key,
                                  struct rdesc *block)
{
#pragma GCC unroll 16
    for (uint32_t i = INDEX_FANOUT - 1; i > 0; i--) {
        const uint32_t from = i - (i > slot);

        leaf->key[i] = leaf->key[from];
        leaf->block[i] = leaf->block[from];
    }
    leaf->key[slot] = key;
    leaf->block[slot] = block;
    leaf->count++;
}

static inline void index_leaf_cut(struct index_node *leaf, uint32_t slot)
{
#pragma GCC unroll 16
    for (uint32_t i = 0; i < INDEX_FANOUT - 1; i++) {
        const uint32_t from = i + (i >= slot);

        leaf->key[i] = leaf->key[from];
        leaf->block[i] = leaf->block[from];
    }
    leaf->key[INDEX_FANOUT - 1] = INDEX_UNUSED;
    leaf->count--;
}

static void index_node_copy(struct index_node *to, uint32_t at, const struct index_node *from,
                            uint32_t slot, uint32_t n, bool weighted)
{
    for (uint32_t i = 0; i < n; i++)
        index_node_set(to, at + i, from->key[slot + i], from->child[slot + i]);
    for (uint32_t i = 0; weighted && i < n; i++)
        to->weight[at + i] = from->weight[slot + i];
}

/* The first `n` of the right node become the last of the left one. */
static void index_move_left(struct index_node *left, struct index_node *right, uint32_t n,
                            bool weighted)
{
    index_node_copy(left, left->count, right, 0, n, weighted);
    left->count += n;
    index_node_close(right, 0, n, weighted);
}

/* The last `n` of the left node become the first of the right one. */
static void index_move_right(struct index_node *left, struct index_node *right, uint32_t n,
                             bool weighted)
{
    index_node_open(right, 0, n, weighted);
    index_node_copy(right, 0, left, left->count - n, n, weighted);
    index_node_close(left, left->count - n, n, weighted);
}

/* ---- finding ---- */

/*
 * The nodes on the way to a key, and the leaf's first slot that is not below it: there may be
 * nothing there.
 */
static inline void index_descend(const struct index *ix, uint64_t key, struct index_place *place)
{
    struct index_node *node = ix->root;

    for (uint32_t level = ix->height - 1; level > 0; level--) {
        uint32_t slot = index_node_child(node, key);

        place->node[level] = node;
        place->slot[level] = slot;
        node = node->child[slot];
        __builtin_prefetch(&node->block[0]);
        __builtin_prefetch(&node->block[INDEX_FANOUT / 2 + 1]);
    }
    place->node[0] = node;
    place->slot[0] = index_node_below(node, key);
}

/* From a place on `level` to the first entry of the next leaf. */
static bool index_step_over(const struct index *ix, struct index_place *place)
{
    uint32_t level = 0;

    do
        if (++level >= ix->height)
            return false;
    while (place->slot[level] + 1 >= place->node[level]->count);
    place->slot[level]++;
    for (; level > 0; level--) {
        place->node[level - 1] = place->node[level]->child[place->slot[level]];
        place->slot[level - 1] = 0;
    }
    return true;
}

bool index_from(const struct index *ix, uint64_t key, struct index_place *place)
{
    if (ix->root == NULL)
        return false;
    index_descend(ix, key, place);
    return LIKELY(place->slot[0] < place->node[0]->count) || index_step_over(ix, place);
}

bool index_next(const struct index *ix, struct index_place *place)
{
    return ++place->slot[0] < place->node[0]->count || index_step_over(ix, place);
}

bool index_prev(const struct index *ix, struct index_place *place)
{
    uint32_t level = 0;

    while (place->slot[level] == 0)
        if (++level >= ix->height)
            return false;
    place->slot[level]--;
    for (; level > 0; level--) {
        place->node[level - 1] = place->node[level]->child[place->slot[level]];
        place->slot[level - 1] = place->node[level - 1]->count - 1;
    }
    return true;
}

bool index_below(const struct index *ix, uint64_t key, struct index_place *place)
{
    if (ix->root == NULL)
        return false;
    index_descend(ix, key, place);
    return index_prev(ix, place);
}

bool index_select(const struct index *ix, uint32_t rank, struct index_place *place)
{
    struct index_node *node = ix->root;

    if (rank >= ix->count)
        return false;
    for (uint32_t level = ix->height - 1; level > 0; level--) {
        uint32_t slot = 0;

        for (; rank >= node->weight[slot]; slot++)
            rank -= node->weight[slot];
        place->node[level] = node;
        place->slot[level] = slot;
        node = node->child[slot];
    }
    place->node[0] = node;
    place->slot[0] = rank;
    return true;
}

uint32_t index_rank(const struct index *ix, uint64_t key)
{
    const struct index_node *node = ix->root;
    uint32_t rank = 0;

    if (node == NULL)
        return 0;
    for (uint32_t level = ix->height - 1; level > 0; level--) {
        uint32_t slot = index_node_child(node, key);

        for (uint32_t i = 0; i < slot; i++)
            rank += node->weight[i];
        node = node->child[slot];
    }
    return rank + index_node_below(node, key);
}

/* The first slot from `slot` on that has at least this weight; the node's count if none has. */
static inline uint32_t index_heavy_slot(const struct index_node *node, uint32_t level,
                                        uint32_t slot, uint32_t weight)
{
    if (level > 0)
        while (slot < node->count && node->weight[slot] < weight)
            slot++;
    else
        while (slot < node->count && (uint32_t)node->key[slot] < weight)
            slot++;
    return slot;
}

/* From a slot on `level` that has the weight down to the block that has it. */
static void index_descend_heavy(uint32_t level, uint32_t weight, struct index_place *place)
{
    for (; level > 0; level--) {
        struct index_node *node = place->node[level]->child[place->slot[level]];

        place->node[level - 1] = node;
        place->slot[level - 1] = index_heavy_slot(node, level - 1, 0, weight);
    }
}

bool index_first_of(const struct index *ix, uint32_t weight, struct index_place *place)
{
    uint32_t top = ix->height - 1;

    if (ix->root == NULL)
        return false;
    place->node[top] = ix->root;
    place->slot[top] = index_heavy_slot(ix->root, top, 0, weight);
    if (place->slot[top] >= ix->root->count)
        return false;
    index_descend_heavy(top, weight, place);
    return true;
}

bool index_next_of(const struct index *ix, uint32_t weight, struct index_place *place)
{
    for (uint32_t level = 0; level < ix->height; level++) {
        place->slot[level] =
            index_heavy_slot(place->node[level], level, place->slot[level] + 1, weight);
        if (place->slot[level] < place->node[level]->count) {
            index_descend_heavy(level, weight, place);
            return true;
        }
    }
    return false;
}

struct rdesc *index_block(const struct index_place *place)
{
    return place->node[0]->block[place->slot[0]];
}
uint64_t index_key(const struct index_place *place) { return place->node[0]->key[place->slot[0]]; }

uint32_t index_largest(const struct index *ix, const struct index_pool *pool)
{
    return ix->root == NULL ? 0 : index_node_weight(pool->kind, ix->root, ix->height - 1);
}

/* ---- changing ---- */

/* Sets the weights of all that is on the way, from the child's level on. */
static void index_reweigh(const struct index *ix, const struct index_pool *pool,
                          const struct index_place *place, uint32_t level)
{
    if (pool->kind == INDEX_PLAIN)
        return;
    for (; level + 1 < ix->height; level++)
        place->node[level + 1]->weight[place->slot[level + 1]] =
            index_node_weight(pool->kind, place->node[level], level);
}

/* An entry of this key has come into the leaf. */
static inline void index_weigh_gain(const struct index *ix, const struct index_pool *pool,
                                    const struct index_place *place, uint64_t key)
{
    if (pool->kind == INDEX_PLAIN)
        return;
    for (uint32_t level = 1; level < ix->height; level++) {
        uint32_t *weight = &place->node[level]->weight[place->slot[level]];

        if (pool->kind == INDEX_COUNTED)
            (*weight)++;
        else if (*weight < (uint32_t)key)
            *weight = (uint32_t)key;
        else
            return;
    }
}

/* An entry of this key has left the leaf. */
static inline void index_weigh_loss(const struct index *ix, const struct index_pool *pool,
                                    const struct index_place *place, uint64_t key)
{
    if (pool->kind == INDEX_PLAIN)
        return;
    for (uint32_t level = 1; level < ix->height; level++) {
        uint32_t *weight = &place->node[level]->weight[place->slot[level]];

        if (pool->kind == INDEX_COUNTED) {
            (*weight)--;
        } else {
            if (*weight > (uint32_t)key) /* another one is the largest */
                return;
            *weight = index_node_weight(pool->kind, place->node[level - 1], level - 1);
        }
    }
}

/* Two neighbors below a parent become one, if they fit into it, or as large as each other. */
static void index_even_out(struct index_pool *pool, struct index_node *parent, uint32_t slot,
                           uint32_t level)
{
    const bool weighted = index_node_weighs(pool->kind, level);
    struct index_node *left = parent->child[slot], *right = parent->child[slot + 1];
    const uint32_t half = (left->count + right->count) / 2;

    if (left->count + right->count <= INDEX_FANOUT) {
        index_move_left(left, right, right->count, weighted);
        index_node_close(parent, slot + 1, 1, index_node_weighs(pool->kind, level + 1));
        index_pool_put(pool, right, level);
    } else {
        if (left->count < half)
            index_move_left(left, right, half - left->count, weighted);
        else
            index_move_right(left, right, left->count - half, weighted);
        parent->key[slot + 1] = right->key[0];
        if (index_node_weighs(pool->kind, level + 1))
            parent->weight[slot + 1] = index_node_weight(pool->kind, right, level);
    }
    if (index_node_weighs(pool->kind, level + 1))
        parent->weight[slot] = index_node_weight(pool->kind, left, level);
}

/*
 * Puts an entry into a node that is full: moves its upper half, or what is to be it, to a new one,
 * which is returned.
 */
static struct index_node *index_split(struct index_pool *pool, struct index_node *node,
                                      uint32_t level, uint32_t slot, uint64_t key, void *to,
                                      uint32_t weight)
{
    const uint32_t half = (INDEX_FANOUT + 1) / 2, stay = slot < half ? half - 1 : half;
    const bool weighted = index_node_weighs(pool->kind, level);
    struct index_node *right = index_pool_take(pool, level), *into = node;

    index_move_right(node, right, INDEX_FANOUT - stay, weighted);
    if (slot >= half) {
        into = right;
        slot -= half;
    }
    index_node_open(into, slot, 1, weighted);
    index_node_set(into, slot, key, to);
    if (weighted)
        into->weight[slot] = weight;
    return right;
}

/* The leaf is full. */
static NOINLINE int index_insert_splitting(struct index *ix, struct index_pool *pool,
                                           const struct index_place *place, uint64_t key,
                                           struct rdesc *block)
{
    uint32_t level = 1, slot = place->slot[0], weight = 0;
    struct index_node *node, *root;
    void *to = block;

    while (level < ix->height && place->node[level]->count == INDEX_FANOUT)
        level++;
    if (index_pool_reserve(pool, 1, level == ix->height ? level : level - 1) != 0)
        return -ENOMEM;
    for (level = 0; level < ix->height; level++) { /* one that is split passes its right half up */
        node = place->node[level];
        if (level > 0) {
            slot = place->slot[level] + 1;
            if (index_node_weighs(pool->kind, level)) {
                node->weight[slot - 1] =
                    index_node_weight(pool->kind, place->node[level - 1], level - 1);
                weight = index_node_weight(pool->kind, to, level - 1);
            }
        }
        if (node->count < INDEX_FANOUT) {
            index_node_open(node, slot, 1, index_node_weighs(pool->kind, level));
            index_node_set(node, slot, key, to);
            if (index_node_weighs(pool->kind, level))
                node->weight[slot] = weight;
            index_reweigh(ix, pool, place, level);
            return 0;
        }
        to = index_split(pool, node, level, slot, key, to, weight);
        key = ((struct index_node *)to)->key[0];
    }
    root = index_pool_take(pool, level);
    index_node_set(root, 0, 0, ix->root);
    index_node_set(root, 1, key, to);
    root->count = 2;
    if (index_node_weighs(pool->kind, level)) {
        root->weight[0] = index_node_weight(pool->kind, ix->root, level - 1);
        root->weight[1] = index_node_weight(pool->kind, to, level - 1);
    }
    ix->root = root;
    ix->height++;
    return 0;
}

/*
 * Moves entries of a full leaf to a neighbor that is not full, if there is one, which keeps nodes
 * fuller.
 */
static NOINLINE bool index_share_out(struct index_pool *pool, const struct index_place *place)
{
    struct index_node *parent = place->node[1];
    const uint32_t slot = place->slot[1];

    if (slot > 0 && parent->child[slot - 1]->count < INDEX_FANOUT - 1)
        index_even_out(pool, parent, slot - 1, 0);
    else if (slot + 1 < parent->count && parent->child[slot + 1]->count < INDEX_FANOUT - 1)
        index_even_out(pool, parent, slot, 0);
    else
        return false;
    return true;
}

static int index_insert_first(struct index *ix, struct index_pool *pool, uint64_t key,
                              struct rdesc *block)
{
    if (index_pool_reserve(pool, 1, 0) != 0)
        return -ENOMEM;
    ix->root = index_pool_take(pool, 0);
    ix->root->count = 1;
    index_node_set(ix->root, 0, key, block);
    ix->count = 1;
    ix->height = 1;
    return 0;
}

int index_insert(struct index *ix, struct index_pool *pool, uint64_t key, struct rdesc *block)
{
    struct index_place place;
    int error;

    if (ix->root == NULL)
        return index_insert_first(ix, pool, key, block);
    index_descend(ix, key, &place);
    if (UNLIKELY(place.node[0]->count == INDEX_FANOUT)) {
        if (ix->height == 1 || !index_share_out(pool, &place)) {
            error = index_insert_splitting(ix, pool, &place, key, block);
            ix->count += error == 0;
            return error;
        }
        index_descend(ix, key, &place);
    }
    index_leaf_put(place.node[0], place.slot[0], key, block);
    index_weigh_gain(ix, pool, &place, key);
    ix->count++;
    return 0;
}

/* The leaf has become too small. */
static NOINLINE void index_refill(struct index *ix, struct index_pool *pool,
                                  const struct index_place *place)
{
    struct index_node *root = ix->root;
    uint32_t level = 0;

    for (; level + 1 < ix->height && place->node[level]->count < INDEX_LEAST; level++) {
        uint32_t slot = place->slot[level + 1];

        index_even_out(pool, place->node[level + 1], slot > 0 ? slot - 1 : 0, level);
    }
    index_reweigh(ix, pool, place, level);
    if (root->count == 1) {
        ix->root = root->child[0];
        ix->height--;
        index_node_close(root, 0, 1, index_node_weighs(pool->kind, ix->height));
        index_pool_put(pool, root, ix->height);
    }
}

void index_take(struct index *ix, struct index_pool *pool, const struct index_place *place)
{
    struct index_node *leaf = place->node[0];
    const uint64_t key = leaf->key[place->slot[0]];

    index_leaf_cut(leaf, place->slot[0]);
    ix->count--;
    if (LIKELY(leaf->count >= INDEX_LEAST))
        index_weigh_loss(ix, pool, place, key);
    else if (ix->height > 1)
        index_refill(ix, pool, place);
    else if (leaf->count == 0) {
        index_pool_put(pool, leaf, 0);
        ix->root = NULL;
        ix->height = 0;
    }
}

/*
 * The range of keys that keep an entry in its place, as its leaf and the leaf's parent define it:
 * from, and below.
 */
static void index_bounds(const struct index *ix, const struct index_place *place, uint64_t *low,
                         uint64_t *high)
{
    const struct index_node *leaf = place->node[0],
                            *parent = ix->height > 1 ? place->node[1] : NULL;
    const uint32_t slot = place->slot[0];

    if (slot > 0)
        *low = leaf->key[slot - 1] + 1;
    else
        *low = parent == NULL ? 0 : parent->key[place->slot[1]];
    if (slot + 1 < leaf->count)
        *high = leaf->key[slot + 1];
    else if (parent == NULL)
        *high = INDEX_UNUSED;
    else
        *high =
            place->slot[1] + 1 < parent->count ? parent->key[place->slot[1] + 1] : leaf->key[slot];
}

bool index_replace(struct index *ix, const struct index_pool *pool, const struct index_place *place,
                   uint64_t key, struct rdesc *block)
{
    struct index_node *leaf = place->node[0];
    const uint32_t slot = place->slot[0];
    const uint64_t old = leaf->key[slot];
    uint64_t low, high;

    index_bounds(ix, place, &low, &high);
    if (key < low || key >= high)
        return false;
    leaf->key[slot] = key;
    leaf->block[slot] = block;
    if (pool->kind == INDEX_LARGEST && (uint32_t)key > (uint32_t)old)
        index_weigh_gain(ix, pool, place, key);
    else if (pool->kind == INDEX_LARGEST && (uint32_t)key < (uint32_t)old)
        index_weigh_loss(ix, pool, place, old);
    return true;
}
