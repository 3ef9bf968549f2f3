/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index.c: an ordered set of free blocks, see index.h.
 *
 * What an operation costs, where there are many blocks, is the cache lines that it waits for. So the tree is a B+ tree:
 * wide nodes, of which all but the leaves soon lie in the cache, and within a leaf neighbouring lines, which are
 * fetched together. A set of up to INDEX_FANOUT blocks, the common case, is one node and no search.
 *
 * Invariants
 * 1. Blocks are in the leaves, all of which are on level 0. Keys ascend from left to right. Those of a node beyond its
 *    count are UNUSED, which is larger than any key: a search compares with all of them, and has no branch to miss.
 * 2. An inner node has with every child a key that no key below the child is less than, and that every key to the left
 *    is less than. It need not be there any more. That of the leftmost child of all is 0; an inner node's first one
 *    is that which its parent has for it.
 * 3. Every node but the root has at least LEAST entries, an inner root 2, and there is no empty leaf: an empty index
 *    has no node.
 * 4. An inner node of a kind with weights has the weight of each child, and 0 beyond its count.
 * 5. A node in the pool, or never used, has a count of 0; its keys are UNUSED, its weights 0, from the moment that it
 *    has first been taken.
 *
 * So an entry costs at most 256 / LEAST bytes in a leaf and a seventh of that above it, and usually 16 to 30.
 */
#include "alloc/index.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED UINT64_MAX
#define LEAST (INDEX_FANOUT / 2u) /* less than half of what is split, lest a node be split and merged in turns */

#define FIRST_CHUNK 2048u
#define LAST_CHUNK (512u << 10)

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
    uint32_t weight[INDEX_FANOUT + 1]; /* of a child: in an inner node, of kinds that have weights, alone */
};

static_assert(INDEX_FANOUT >= 4, "a split leaves two nodes that are not too small, a merge one that is not too large");
static_assert(INDEX_FANOUT != 15 || offsetof(struct index_node, weight) == 4 * CACHE_LINE, "a leaf is four lines");

struct index_chunk {
    struct index_chunk *next;
    size_t bytes;
    char nodes[] __attribute__((aligned(CACHE_LINE)));
};

static bool weighs(const struct index_pool *pool, uint32_t level) { return level > 0 && pool->kind != INDEX_PLAIN; }

/* ---- the pool ---- */

static uint32_t whole_lines(size_t bytes) { return (uint32_t)((bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1)); }

void index_pool_init(struct index_pool *pool, enum index_kind kind)
{
    *pool = (struct index_pool){
        .kind = kind,
        .bytes = {whole_lines(offsetof(struct index_node, weight)), whole_lines(sizeof(struct index_node))},
    };
}

void index_pool_destroy(struct index_pool *pool)
{
    struct index_chunk *chunk = pool->chunks, *next;

    for (; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    index_pool_init(pool, pool->kind);
}

static void pool_put(struct index_pool *pool, struct index_node *node, uint32_t level)
{
    const unsigned form = weighs(pool, level);

    node->link = pool->free[form];
    pool->free[form] = node;
    pool->idle[form]++;
}

static struct index_node *pool_take_fresh(struct index_pool *pool, unsigned form)
{
    struct index_node *node = (struct index_node *)(void *)pool->fresh;

    pool->fresh += pool->bytes[form];
    memset(node->key, 0xff, sizeof(node->key)); /* UNUSED */
    node->count = 0;
    node->zero = 0;
    if (form == 1)
        memset(node->weight, 0, sizeof(node->weight));
    return node;
}

/* There is one: index_pool_reserve() has seen to it. */
static struct index_node *pool_take(struct index_pool *pool, uint32_t level)
{
    const unsigned form = weighs(pool, level);
    struct index_node *node = pool->free[form];

    if (node == NULL)
        return pool_take_fresh(pool, form);
    pool->free[form] = node->link;
    pool->idle[form]--;
    return node;
}

static NOINLINE int pool_grow(struct index_pool *pool, size_t least)
{
    size_t bytes = pool->made / 8;
    struct index_chunk *chunk;

    bytes = bytes < FIRST_CHUNK ? FIRST_CHUNK : bytes > LAST_CHUNK ? LAST_CHUNK : bytes;
    if (bytes < least + sizeof(*chunk))
        bytes = least + sizeof(*chunk);
    bytes = whole_lines(bytes);
    chunk = aligned_alloc(CACHE_LINE, bytes);
    if (chunk == NULL)
        return -ENOMEM;
    while ((size_t)(pool->end - pool->fresh) >= pool->bytes[0]) /* what is left of the old one is not lost */
        pool_put(pool, pool_take_fresh(pool, 0), 0);
    pool->lost += (size_t)(pool->end - pool->fresh);
    *chunk = (struct index_chunk){.next = pool->chunks, .bytes = bytes};
    pool->chunks = chunk;
    pool->made += bytes;
    pool->fresh = chunk->nodes;
    pool->end = (char *)chunk + bytes;
    return 0;
}

/* Sees to it that so many can be taken, leaves and inner nodes. */
static int pool_reserve(struct index_pool *pool, uint32_t leaves, uint32_t inner)
{
    const bool one_form = pool->kind == INDEX_PLAIN;
    const uint32_t need[2] = {one_form ? leaves + inner : leaves, one_form ? 0 : inner};
    size_t bytes = 0;

    for (unsigned form = 0; form < 2; form++)
        if (need[form] > pool->idle[form])
            bytes += (size_t)(need[form] - pool->idle[form]) * pool->bytes[form];
    return LIKELY(bytes <= (size_t)(pool->end - pool->fresh)) ? 0 : pool_grow(pool, bytes);
}

/* ---- a node ---- */

/* How many keys are less. */
static inline uint32_t below(const struct index_node *node, uint64_t key)
{
    uint32_t n = 0;

#pragma GCC unroll 16
    for (unsigned i = 0; i < INDEX_FANOUT; i++)
        n += node->key[i] < key;
    return n;
}

/* Which child has the key, if any has. */
static inline uint32_t child_of(const struct index_node *node, uint64_t key) { return below(node, key + 1) - 1; }

static uint32_t weight_of(const struct index_pool *pool, const struct index_node *node, uint32_t level)
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

static inline void node_set(struct index_node *node, uint32_t slot, uint64_t key, void *to)
{
    node->key[slot] = key;
    node->child[slot] = to;
}

/* Makes room for `n` entries at a slot. */
static void node_open(struct index_node *node, uint32_t slot, uint32_t n, bool weighted)
{
    for (uint32_t i = node->count; i-- > slot;)
        node_set(node, i + n, node->key[i], node->child[i]);
    for (uint32_t i = node->count; weighted && i-- > slot;)
        node->weight[i + n] = node->weight[i];
    node->count += n;
}

/* Closes the room of `n` entries at a slot. */
static void node_close(struct index_node *node, uint32_t slot, uint32_t n, bool weighted)
{
    const uint32_t left = node->count - n;

    for (uint32_t i = slot; i < left; i++)
        node_set(node, i, node->key[i + n], node->child[i + n]);
    for (uint32_t i = slot; weighted && i < left; i++)
        node->weight[i] = node->weight[i + n];
    for (uint32_t i = left; i < node->count; i++)
        node->key[i] = UNUSED;
    for (uint32_t i = left; weighted && i < node->count; i++)
        node->weight[i] = 0;
    node->count = left;
}

static void node_copy(struct index_node *to, uint32_t at, const struct index_node *from, uint32_t slot, uint32_t n,
                      bool weighted)
{
    for (uint32_t i = 0; i < n; i++)
        node_set(to, at + i, from->key[slot + i], from->child[slot + i]);
    for (uint32_t i = 0; weighted && i < n; i++)
        to->weight[at + i] = from->weight[slot + i];
}

/* The first `n` of the right node become the last of the left one. */
static void move_left(struct index_node *left, struct index_node *right, uint32_t n, bool weighted)
{
    node_copy(left, left->count, right, 0, n, weighted);
    left->count += n;
    node_close(right, 0, n, weighted);
}

/* The last `n` of the left node become the first of the right one. */
static void move_right(struct index_node *left, struct index_node *right, uint32_t n, bool weighted)
{
    node_open(right, 0, n, weighted);
    node_copy(right, 0, left, left->count - n, n, weighted);
    node_close(left, left->count - n, n, weighted);
}

/* ---- finding ---- */

/* The nodes on the way to a key, and the leaf's first slot that is not below it: there may be nothing there. */
static inline void descend(const struct index *ix, uint64_t key, struct index_place *place)
{
    struct index_node *node = ix->root;

    for (uint32_t level = ix->height - 1; level > 0; level--) {
        uint32_t slot = child_of(node, key);

        place->node[level] = node;
        place->slot[level] = slot;
        node = node->child[slot];
        __builtin_prefetch(&node->block[0]);
        __builtin_prefetch(&node->block[INDEX_FANOUT / 2 + 1]);
    }
    place->node[0] = node;
    place->slot[0] = below(node, key);
}

/* From a place on `level` to the first entry of the next leaf. */
static bool step_over(const struct index *ix, struct index_place *place)
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
    descend(ix, key, place);
    return LIKELY(place->slot[0] < place->node[0]->count) || step_over(ix, place);
}

bool index_next(const struct index *ix, struct index_place *place)
{
    return ++place->slot[0] < place->node[0]->count || step_over(ix, place);
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
    descend(ix, key, place);
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
        uint32_t slot = child_of(node, key);

        for (uint32_t i = 0; i < slot; i++)
            rank += node->weight[i];
        node = node->child[slot];
    }
    return rank + below(node, key);
}

/* The first slot from `slot` on that has at least this weight; the node's count if none has. */
static inline uint32_t heavy_slot(const struct index_node *node, uint32_t level, uint32_t slot, uint32_t weight)
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
static void descend_heavy(uint32_t level, uint32_t weight, struct index_place *place)
{
    for (; level > 0; level--) {
        struct index_node *node = place->node[level]->child[place->slot[level]];

        place->node[level - 1] = node;
        place->slot[level - 1] = heavy_slot(node, level - 1, 0, weight);
    }
}

bool index_first_of(const struct index *ix, uint32_t weight, struct index_place *place)
{
    uint32_t top = ix->height - 1;

    if (ix->root == NULL)
        return false;
    place->node[top] = ix->root;
    place->slot[top] = heavy_slot(ix->root, top, 0, weight);
    if (place->slot[top] >= ix->root->count)
        return false;
    descend_heavy(top, weight, place);
    return true;
}

bool index_next_of(const struct index *ix, uint32_t weight, struct index_place *place)
{
    for (uint32_t level = 0; level < ix->height; level++) {
        place->slot[level] = heavy_slot(place->node[level], level, place->slot[level] + 1, weight);
        if (place->slot[level] < place->node[level]->count) {
            descend_heavy(level, weight, place);
            return true;
        }
    }
    return false;
}

struct rdesc *index_block(const struct index_place *place) { return place->node[0]->block[place->slot[0]]; }
uint64_t index_key(const struct index_place *place) { return place->node[0]->key[place->slot[0]]; }

uint32_t index_largest(const struct index *ix, const struct index_pool *pool)
{
    return ix->root == NULL ? 0 : weight_of(pool, ix->root, ix->height - 1);
}

/* ---- changing ---- */

/* Sets the weights of all that is on the way, from the child's level on. */
static void reweigh(const struct index *ix, const struct index_pool *pool, const struct index_place *place,
                    uint32_t level)
{
    if (pool->kind == INDEX_PLAIN)
        return;
    for (; level + 1 < ix->height; level++)
        place->node[level + 1]->weight[place->slot[level + 1]] = weight_of(pool, place->node[level], level);
}

/* An entry of this key has come into the leaf. */
static inline void weigh_gain(const struct index *ix, const struct index_pool *pool, const struct index_place *place,
                              uint64_t key)
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
static inline void weigh_loss(const struct index *ix, const struct index_pool *pool, const struct index_place *place,
                              uint64_t key)
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
            *weight = weight_of(pool, place->node[level - 1], level - 1);
        }
    }
}

/* Two neighbours below a parent become one, if they fit into it, or as large as each other. */
static void even_out(struct index_pool *pool, struct index_node *parent, uint32_t slot, uint32_t level)
{
    const bool weighted = weighs(pool, level);
    struct index_node *left = parent->child[slot], *right = parent->child[slot + 1];
    const uint32_t half = (left->count + right->count) / 2;

    if (left->count + right->count <= INDEX_FANOUT) {
        move_left(left, right, right->count, weighted);
        node_close(parent, slot + 1, 1, weighs(pool, level + 1));
        pool_put(pool, right, level);
    } else {
        if (left->count < half)
            move_left(left, right, half - left->count, weighted);
        else
            move_right(left, right, left->count - half, weighted);
        parent->key[slot + 1] = right->key[0];
        if (weighs(pool, level + 1))
            parent->weight[slot + 1] = weight_of(pool, right, level);
    }
    if (weighs(pool, level + 1))
        parent->weight[slot] = weight_of(pool, left, level);
}

/* Puts an entry into a node that is full: moves its upper half, or what is to be it, to a new one, which is returned. */
static struct index_node *split(struct index_pool *pool, struct index_node *node, uint32_t level, uint32_t slot,
                                uint64_t key, void *to, uint32_t weight)
{
    const uint32_t half = (INDEX_FANOUT + 1) / 2, stay = slot < half ? half - 1 : half;
    const bool weighted = weighs(pool, level);
    struct index_node *right = pool_take(pool, level), *into = node;

    move_right(node, right, INDEX_FANOUT - stay, weighted);
    if (slot >= half) {
        into = right;
        slot -= half;
    }
    node_open(into, slot, 1, weighted);
    node_set(into, slot, key, to);
    if (weighted)
        into->weight[slot] = weight;
    return right;
}

/* The leaf is full. */
static NOINLINE int insert_splitting(struct index *ix, struct index_pool *pool, const struct index_place *place,
                                     uint64_t key, struct rdesc *block)
{
    uint32_t level = 1, slot = place->slot[0], weight = 0;
    struct index_node *node, *root;
    void *to = block;

    while (level < ix->height && place->node[level]->count == INDEX_FANOUT)
        level++;
    if (pool_reserve(pool, 1, level == ix->height ? level : level - 1) != 0)
        return -ENOMEM;
    for (level = 0; level < ix->height; level++) { /* one that is split passes its right half up */
        node = place->node[level];
        if (level > 0) {
            slot = place->slot[level] + 1;
            if (weighs(pool, level)) {
                node->weight[slot - 1] = weight_of(pool, place->node[level - 1], level - 1);
                weight = weight_of(pool, to, level - 1);
            }
        }
        if (node->count < INDEX_FANOUT) {
            node_open(node, slot, 1, weighs(pool, level));
            node_set(node, slot, key, to);
            if (weighs(pool, level))
                node->weight[slot] = weight;
            reweigh(ix, pool, place, level);
            return 0;
        }
        to = split(pool, node, level, slot, key, to, weight);
        key = ((struct index_node *)to)->key[0];
    }
    root = pool_take(pool, level);
    node_set(root, 0, 0, ix->root);
    node_set(root, 1, key, to);
    root->count = 2;
    if (weighs(pool, level)) {
        root->weight[0] = weight_of(pool, ix->root, level - 1);
        root->weight[1] = weight_of(pool, to, level - 1);
    }
    ix->root = root;
    ix->height++;
    return 0;
}

/* Moves entries of a full leaf to a neighbour that has room, if there is one: nodes are the fuller for it. */
static NOINLINE bool share_out(struct index_pool *pool, const struct index_place *place)
{
    struct index_node *parent = place->node[1];
    const uint32_t slot = place->slot[1];

    if (slot > 0 && parent->child[slot - 1]->count < INDEX_FANOUT - 1)
        even_out(pool, parent, slot - 1, 0);
    else if (slot + 1 < parent->count && parent->child[slot + 1]->count < INDEX_FANOUT - 1)
        even_out(pool, parent, slot, 0);
    else
        return false;
    return true;
}

static int insert_first(struct index *ix, struct index_pool *pool, uint64_t key, struct rdesc *block)
{
    if (pool_reserve(pool, 1, 0) != 0)
        return -ENOMEM;
    ix->root = pool_take(pool, 0);
    ix->root->count = 1;
    node_set(ix->root, 0, key, block);
    ix->count = 1;
    ix->height = 1;
    return 0;
}

int index_insert(struct index *ix, struct index_pool *pool, uint64_t key, struct rdesc *block)
{
    struct index_place place;
    struct index_node *leaf;
    int error;

    if (ix->root == NULL)
        return insert_first(ix, pool, key, block);
    descend(ix, key, &place);
    if (UNLIKELY(place.node[0]->count == INDEX_FANOUT)) {
        if (ix->height == 1 || !share_out(pool, &place)) {
            error = insert_splitting(ix, pool, &place, key, block);
            ix->count += error == 0;
            return error;
        }
        descend(ix, key, &place);
    }
    leaf = place.node[0];
    node_open(leaf, place.slot[0], 1, false);
    node_set(leaf, place.slot[0], key, block);
    weigh_gain(ix, pool, &place, key);
    ix->count++;
    return 0;
}

/* The leaf has become too small. */
static NOINLINE void refill(struct index *ix, struct index_pool *pool, const struct index_place *place)
{
    struct index_node *root = ix->root;
    uint32_t level = 0;

    for (; level + 1 < ix->height && place->node[level]->count < LEAST; level++) {
        uint32_t slot = place->slot[level + 1];

        even_out(pool, place->node[level + 1], slot > 0 ? slot - 1 : 0, level);
    }
    reweigh(ix, pool, place, level);
    if (root->count == 1) {
        ix->root = root->child[0];
        ix->height--;
        node_close(root, 0, 1, weighs(pool, ix->height));
        pool_put(pool, root, ix->height);
    }
}

void index_take(struct index *ix, struct index_pool *pool, const struct index_place *place)
{
    struct index_node *leaf = place->node[0];
    const uint64_t key = leaf->key[place->slot[0]];

    node_close(leaf, place->slot[0], 1, false);
    ix->count--;
    if (LIKELY(leaf->count >= LEAST))
        weigh_loss(ix, pool, place, key);
    else if (ix->height > 1)
        refill(ix, pool, place);
    else if (leaf->count == 0) {
        pool_put(pool, leaf, 0);
        ix->root = NULL;
        ix->height = 0;
    }
}

bool index_rekey(struct index *ix, const struct index_pool *pool, const struct index_place *place, uint64_t key)
{
    struct index_node *leaf = place->node[0];
    const uint32_t slot = place->slot[0];
    const uint64_t old = leaf->key[slot];

    /* between its neighbours in the leaf; the first and the last of one that has others beside it must not go outwards */
    if (slot > 0 ? key <= leaf->key[slot - 1] : key < old && ix->height > 1)
        return false;
    if (slot + 1 < leaf->count ? key >= leaf->key[slot + 1] : key > old && ix->height > 1)
        return false;
    leaf->key[slot] = key;
    if (pool->kind == INDEX_LARGEST && (uint32_t)key > (uint32_t)old)
        weigh_gain(ix, pool, place, key);
    else if (pool->kind == INDEX_LARGEST)
        weigh_loss(ix, pool, place, old);
    return true;
}

/* ---- checks ---- */

static int broken(char *why, size_t why_bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int broken(char *why, size_t why_bytes, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, why_bytes, format, args);
    va_end(args);
    return -EUCLEAN;
}

struct looking {
    const struct index *ix;
    const struct index_pool *pool;
    uint32_t *nodes;
    uint32_t count; /* blocks so far */
    char *why;
    size_t why_bytes;
};

/* Of which all keys must be in [low, high). */
static int check_node(struct looking *at, const struct index_node *node, uint32_t level, uint64_t low, uint64_t high)
{
    const bool root = node == at->ix->root, weighted = weighs(at->pool, level);
    const uint32_t least = root ? level > 0 ? 2 : 1 : LEAST;

    if (node->count < least || node->count > INDEX_FANOUT)
        return broken(at->why, at->why_bytes, "a node of the index on level %u has %u entries", level, node->count);
    at->nodes[level > 0]++;
    if (level > 0 && node->key[0] != low)
        return broken(at->why, at->why_bytes, "a node of the index on level %u begins at %llx, for its parent at %llx",
                      level, (unsigned long long)node->key[0], (unsigned long long)low);
    for (uint32_t i = 0; i < INDEX_FANOUT; i++) {
        const uint64_t key = node->key[i], next = i + 1 < node->count ? node->key[i + 1] : high;

        if (i >= node->count ? key != UNUSED : key < low || key >= next)
            return broken(at->why, at->why_bytes, "key %llx of the index on level %u, entry %u of %u, is out of order",
                          (unsigned long long)key, level, i, node->count);
        if (level > 0 && i < node->count && check_node(at, node->child[i], level - 1, key, next) != 0)
            return -EUCLEAN;
        if (weighted && node->weight[i] != (i < node->count ? weight_of(at->pool, node->child[i], level - 1) : 0))
            return broken(at->why, at->why_bytes, "the weight %u of child %u of %u in the index on level %u is wrong",
                          node->weight[i], i, node->count, level);
    }
    if (level == 0)
        at->count += node->count;
    return 0;
}

int index_check(const struct index *ix, const struct index_pool *pool, uint32_t nodes[2], char *why, size_t why_bytes)
{
    struct looking at = {.ix = ix, .pool = pool, .nodes = nodes, .why = why, .why_bytes = why_bytes};

    if ((ix->root == NULL) != (ix->height == 0) || ix->height > INDEX_LEVELS)
        return broken(why, why_bytes, "an index has %s root and %u levels", ix->root == NULL ? "no" : "a", ix->height);
    if (ix->root != NULL && check_node(&at, ix->root, ix->height - 1, 0, UNUSED) != 0)
        return -EUCLEAN;
    if (at.count != ix->count)
        return broken(why, why_bytes, "an index has %u blocks, %u are counted", at.count, ix->count);
    return 0;
}

static bool pool_holds(const struct index_pool *pool, const struct index_node *node)
{
    const struct index_chunk *chunk = pool->chunks;

    while (chunk != NULL && (uintptr_t)node - (uintptr_t)chunk >= chunk->bytes)
        chunk = chunk->next;
    return chunk != NULL;
}

int index_pool_check(const struct index_pool *pool, const uint32_t nodes[2], char *why, size_t why_bytes)
{
    const bool one_form = pool->kind == INDEX_PLAIN;
    const uint32_t used[2] = {one_form ? nodes[0] + nodes[1] : nodes[0], one_form ? 0 : nodes[1]};
    size_t made = 0, room = 0, seen = (size_t)(pool->end - pool->fresh) + pool->lost;

    for (const struct index_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        made += chunk->bytes;
        room += chunk->bytes - sizeof(*chunk);
    }
    for (unsigned form = 0; form < 2; form++) {
        const struct index_node *node = pool->free[form];
        uint32_t idle = 0;

        for (; node != NULL && idle <= pool->idle[form]; node = node->link, idle++) {
            if (!pool_holds(pool, node))
                return broken(why, why_bytes, "the free list of the node pool leads out of it after %u entries", idle);
            if (node->count != 0 || below(node, UNUSED) != 0)
                return broken(why, why_bytes, "entry %u of the node pool's free list is not empty", idle);
        }
        if (idle != pool->idle[form])
            return broken(why, why_bytes, "of the node pool's free list %u entries are counted, and there are %s",
                          pool->idle[form], idle < pool->idle[form] ? "fewer" : "more");
        seen += (size_t)(idle + used[form]) * pool->bytes[form];
    }
    if (made != pool->made || seen != room)
        return broken(why, why_bytes, "node pool: %zu bytes (%zu counted), of which %zu of %zu are in nodes or unused",
                      made, pool->made, seen, room);
    return 0;
}
