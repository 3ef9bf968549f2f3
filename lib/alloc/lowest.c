/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lowest.c: the free blocks of one size, see lowest.h.
 *
 * A winner tree: blocks are entries of leaves, in no order; an entry of an inner node is a copy of
 * the lowest entry of a child. So the entry above the root is the block with the lowest place.
 *
 *                     first = 3
 *                         |
 *     root            3   5   .                    . no block
 *                    /    |
 *     leaves    8 3 9    7 5 .
 *                             end
 *
 * A block comes behind the last one, and its key goes up while it is lower than what is there. One
 * that leaves is replaced by the last one, so that leaves stay full; nodes whose lowest entry has
 * left take the minimum of what remains, which has no branch that could be mispredicted. No other
 * block moves: a descriptor has the address of its entry.
 *
 * Invariants
 * 1. All leaves but the last are full; the last may be empty, so that a list that grows and shrinks
 *    by one block takes and returns no node. Its entries without a block are behind the others.
 * 2. Inner nodes are filled from the left likewise, and all leaves are on one level; a root that is
 *    no leaf has two children at least. So a list of n blocks has n / 6 nodes, 21 bytes for each
 *    block, and at most two nodes more on each level.
 * 3. An entry's key has its place and its slot, and a leaf's `block` has the entry's address. The
 *    place of an entry without a block, or above an empty leaf, is LOWEST_NONE.
 * 4. An entry above a node has the place and the block of the node's lowest entry.
 * 5. No node in the pool has a place in an entry; its entries have their slots.
 */
#include "alloc/lowest.h"

#include "alloc/broken.h"
#include "alloc/chunk.h"

#include <errno.h>

#define FIRST_CHUNK ((size_t)2048)

struct lowest_chunk {
    struct lowest_chunk *next;
    size_t bytes;
};

static inline uint32_t lowest_slot(const struct lowest_entry *e)
{
    return (uint32_t)((uintptr_t)e / sizeof(*e)) & LOWEST_FANOUT;
}

/* Of an entry, or of the end of its entries. */
static inline struct lowest_node *lowest_node_of(struct lowest_entry *e)
{
    return (struct lowest_node *)(void *)((char *)e -
                                          ((uintptr_t)e & (sizeof(struct lowest_node) - 1)));
}

/* The entry gets a block, with a key of any slot. */
static inline void lowest_set(struct lowest_entry *e, uint64_t key, struct rdesc *block)
{
    e->key = (key & ~LOWEST_SLOT) | (e->key & LOWEST_SLOT);
    e->block = block;
}

static inline void lowest_clear(struct lowest_entry *e) { e->key |= ~LOWEST_SLOT; }

/* Whether the places of two keys are equal, and whether that of the first is lower. */
static inline bool lowest_is_same(uint64_t key, uint64_t other)
{
    return (key ^ other) <= LOWEST_SLOT;
}
static inline bool lowest_is_lower(uint64_t key, uint64_t other)
{
    return (key | LOWEST_SLOT) < other;
}

static inline bool lowest_is_root(const struct lowest *list, const struct lowest_node *node)
{
    return node->up == &list->first;
}

/* The lowest entry of a node. */
static inline struct lowest_entry *lowest_winner(struct lowest_node *node)
{
    uint64_t even = node->entry[0].key, odd = node->entry[1].key; /* for a shorter chain */

#pragma GCC unroll 8
    for (unsigned i = 2; i < LOWEST_FANOUT; i += 2) {
        const uint64_t key = node->entry[i].key;

        even = key < even ? key : even;
    }
#pragma GCC unroll 8
    for (unsigned i = 3; i < LOWEST_FANOUT; i += 2) {
        const uint64_t key = node->entry[i].key;

        odd = key < odd ? key : odd;
    }
    return &node->entry[(odd < even ? odd : even) & LOWEST_FANOUT];
}

/* ---- the pool ---- */

void lowest_pool_init(struct lowest_pool *pool) { *pool = (struct lowest_pool){.made = 0}; }

void lowest_pool_destroy(struct lowest_pool *pool)
{
    struct lowest_chunk *chunk = pool->chunks, *next;

    for (; chunk != NULL; chunk = next) {
        next = chunk->next;
        chunk_free(chunk, chunk->bytes);
    }
    lowest_pool_init(pool);
}

static struct lowest_node *lowest_pool_take_fresh(struct lowest_pool *pool)
{
    struct lowest_node *node = pool->fresh++;

    for (unsigned i = 0; i < LOWEST_FANOUT; i++)
        node->entry[i] = (struct lowest_entry){LOWEST_NONE << LOWEST_SLOT_BITS | i, NULL};
    return node;
}

static void lowest_pool_put(struct lowest_pool *pool, struct lowest_node *node)
{
    node->link = pool->free;
    pool->free = node;
    pool->idle++;
}

/* lowest_pool_reserve() has made it available. */
static struct lowest_node *lowest_pool_take(struct lowest_pool *pool)
{
    struct lowest_node *node = pool->free;

    if (node == NULL)
        return lowest_pool_take_fresh(pool);
    pool->free = node->link;
    pool->idle--;
    return node;
}

/* The nodes of a chunk: those that are aligned. */
static struct lowest_node *lowest_chunk_nodes(struct lowest_chunk *chunk)
{
    const uintptr_t behind = (uintptr_t)(chunk + 1), most = sizeof(struct lowest_node) - 1;

    return (struct lowest_node *)(void *)((char *)chunk +
                                          (((behind + most) & ~most) - (uintptr_t)chunk));
}

static uint32_t lowest_chunk_count(struct lowest_chunk *chunk)
{
    const char *nodes = (char *)lowest_chunk_nodes(chunk), *end = (char *)chunk + chunk->bytes;

    return (uint32_t)((size_t)(end - nodes) / sizeof(struct lowest_node));
}

static int lowest_pool_grow(struct lowest_pool *pool, uint32_t nodes)
{
    const size_t least = (nodes + 2) * sizeof(struct lowest_node); /* with what is not aligned */
    const size_t bytes = chunk_bytes(pool->made, least < FIRST_CHUNK ? FIRST_CHUNK : least);
    struct lowest_chunk *chunk = chunk_alloc(bytes);

    if (chunk == NULL)
        return -ENOMEM;
    while (pool->fresh != pool->last)
        lowest_pool_put(pool, lowest_pool_take_fresh(pool));
    *chunk = (struct lowest_chunk){.next = pool->chunks, .bytes = bytes};
    pool->chunks = chunk;
    pool->made += bytes;
    pool->fresh = lowest_chunk_nodes(chunk);
    pool->last = pool->fresh + lowest_chunk_count(chunk);
    return 0;
}

/* Ensures that so many nodes can be taken: 0 or -ENOMEM. */
static int lowest_pool_reserve(struct lowest_pool *pool, uint32_t nodes)
{
    const size_t there = pool->idle + (size_t)(pool->last - pool->fresh);

    return nodes <= there ? 0 : lowest_pool_grow(pool, nodes - (uint32_t)there);
}

/* ---- leaves come and go ---- */

void lowest_init(struct lowest *list)
{
    *list = (struct lowest){.first.key = LOWEST_NONE << LOWEST_SLOT_BITS};
}

/* The nodes that one more leaf takes: itself, a parent where that is full, and so on. */
static uint32_t lowest_nodes_of_a_leaf(const struct lowest *list, struct lowest_node *last)
{
    uint32_t nodes = 1;

    for (; !lowest_is_root(list, last) && lowest_slot(last->up) == LOWEST_FANOUT - 1;
         last = lowest_node_of(last->up))
        nodes++;
    return nodes + lowest_is_root(list, last);
}

/* A root above the old one, which becomes its first child. */
static struct lowest_node *lowest_add_root(struct lowest *list, struct lowest_pool *pool,
                                           struct lowest_node *old)
{
    struct lowest_node *root = lowest_pool_take(pool);

    lowest_set(&root->entry[0], list->first.key, list->first.block);
    root->up = &list->first;
    old->up = &root->entry[0];
    return root;
}

/* Adds an empty leaf behind the last one: the end, or NULL: there is no memory. */
static NOINLINE struct lowest_entry *lowest_extend(struct lowest *list, struct lowest_pool *pool)
{
    struct lowest_node *left = list->end != NULL ? lowest_node_of(list->end) : NULL, *leaf, *node;

    if (lowest_pool_reserve(pool, left != NULL ? lowest_nodes_of_a_leaf(list, left) : 1) != 0)
        return NULL;
    leaf = node = lowest_pool_take(pool);
    leaf->link = left;
    leaf->up = &list->first;
    for (; left != NULL; left = lowest_node_of(left->up)) { /* on the level of `node` */
        if (lowest_is_root(list, left))
            lowest_add_root(list, pool, left);
        if (lowest_slot(left->up) < LOWEST_FANOUT - 1) {
            node->up = left->up + 1;
            break;
        }
        node->up = &lowest_pool_take(pool)->entry[0];
        node = lowest_node_of(node->up);
    }
    return list->end = &leaf->entry[0];
}

/* The root has one child left, which takes its place; `leaf` is below it. */
static void lowest_drop_root(struct lowest *list, struct lowest_pool *pool,
                             struct lowest_node *root, struct lowest_node *leaf)
{
    while (lowest_node_of(leaf->up) != root)
        leaf = lowest_node_of(leaf->up);
    leaf->up = &list->first;
    lowest_clear(&root->entry[0]);
    lowest_pool_put(pool, root);
}

/* Removes the last leaf, which is empty and not the only one, and what is above it alone. */
static NOINLINE void lowest_drop_leaf(struct lowest *list, struct lowest_pool *pool)
{
    struct lowest_node *node = lowest_node_of(list->end), *before = node->link;
    struct lowest_entry *up;

    do {
        up = node->up;
        lowest_pool_put(pool, node);
        node = lowest_node_of(up);
    } while (lowest_slot(up) == 0);
    if (lowest_slot(up) == 1 && lowest_is_root(list, node))
        lowest_drop_root(list, pool, node, before);
    list->end = &before->entry[LOWEST_FANOUT];
}

/* ---- blocks come and go ---- */

/* A block that has come into the node below `up` goes up as far as it is the lowest. */
static inline void lowest_raise(struct lowest *list, struct lowest_entry *up, uint64_t key,
                                struct rdesc *block)
{
    while (lowest_is_lower(key, up->key)) {
        lowest_set(up, key, block);
        if (up == &list->first)
            break;
        up = lowest_node_of(up)->up;
    }
}

/* The lowest entry of the node has changed or left. */
static NOINLINE void lowest_replay(const struct lowest *list, struct lowest_node *node)
{
    for (;;) {
        const struct lowest_entry *winner = lowest_winner(node);
        struct lowest_entry *up = node->up;

        if (lowest_is_same(winner->key, up->key))
            return;
        lowest_set(up, winner->key, winner->block);
        if (up == &list->first)
            return;
        node = lowest_node_of(up);
    }
}

int lowest_insert(struct lowest *list, struct lowest_pool *pool, uint64_t place,
                  struct rdesc *block)
{
    const uint64_t key = place << LOWEST_SLOT_BITS;
    struct lowest_entry *e = list->end;

    if (UNLIKELY(e == NULL || lowest_slot(e) == LOWEST_FANOUT)) {
        e = lowest_extend(list, pool);
        if (e == NULL)
            return -ENOMEM;
    }
    lowest_set(e, key, block);
    block->entry = e;
    list->end = e + 1;
    lowest_raise(list, lowest_node_of(e)->up, key, block);
    return 0;
}

void lowest_remove(struct lowest *list, struct lowest_pool *pool, const struct rdesc *block)
{
    struct lowest_entry *e = block->entry, *last;
    struct lowest_node *node = lowest_node_of(e), *last_node;
    const uint64_t key = e->key;
    uint64_t moved;

    if (UNLIKELY(lowest_slot(list->end) == 0))
        lowest_drop_leaf(list, pool);
    last = --list->end;
    moved = last->key;
    lowest_set(e, moved, last->block); /* also where it is the same entry: no branch */
    e->block->entry = e;
    lowest_clear(last);
    if (lowest_is_same(node->up->key, key))
        lowest_replay(list, node);
    else
        lowest_raise(list, node->up, moved, e->block);
    last_node = lowest_node_of(last);
    if (last_node != node && lowest_is_same(last_node->up->key, moved))
        lowest_replay(list, last_node);
}

/* ---- check ---- */

/* Verifies a node; the entries from `used` on have no block. */
static int lowest_check_node(const struct lowest_node *node, uint32_t used, struct error *err)
{
    const struct lowest_entry *winner = &node->entry[0];

    for (uint32_t i = 0; i < LOWEST_FANOUT; i++) {
        const struct lowest_entry *e = &node->entry[i];

        if ((e->key & ((1u << LOWEST_SLOT_BITS) - 1)) != i ||
            (lowest_place(e) == LOWEST_NONE) != (i >= used))
            return broken(err, "entry %u of a node with %u has the key %llx", i, used,
                          (unsigned long long)e->key);
        winner = e->key < winner->key ? e : winner;
    }
    if (lowest_place(node->up) != lowest_place(winner) ||
        (used > 0 && node->up->block != winner->block))
        return broken(err, "the lowest entry of a node is %llu, and %llu above it",
                      (unsigned long long)lowest_place(winner),
                      (unsigned long long)lowest_place(node->up));
    return 0;
}

/* What is expected of a list. */
struct lowest_rule {
    lowest_may_have may_have;
    const void *arg;
};

static int lowest_check_leaf(const struct lowest_node *leaf, uint32_t used,
                             const struct lowest_rule *rule, struct error *err)
{
    for (uint32_t i = 0; i < used; i++) {
        const struct lowest_entry *e = &leaf->entry[i];

        if (!rule->may_have(e->block, lowest_place(e), rule->arg) || e->block->entry != e)
            return broken(err, "the entry of unit %llu has another block",
                          (unsigned long long)lowest_place(e));
    }
    return lowest_check_node(leaf, used, err);
}

/* The inner nodes above the last leaf, each of which has its last child on this way. */
static int lowest_check_last(const struct lowest *list, const struct lowest_node *node, bool empty,
                             uint32_t *nodes, struct error *err)
{
    while (!lowest_is_root(list, node)) {
        const uint32_t slot = lowest_slot(node->up);

        node = lowest_node_of(node->up);
        (*nodes)++;
        if (lowest_is_root(list, node) && slot == 0)
            return broken(err, "a root has one child");
        if (lowest_check_node(node, slot + !empty, err) != 0)
            return -EUCLEAN;
        empty = empty && slot == 0;
    }
    return 0;
}

/* The inner nodes, all full, of which the leaf is the last one. */
static int lowest_check_full(const struct lowest *list, const struct lowest_node *node,
                             uint32_t *nodes, struct error *err)
{
    while (!lowest_is_root(list, node) && lowest_slot(node->up) == LOWEST_FANOUT - 1) {
        node = lowest_node_of(node->up);
        (*nodes)++;
        if (lowest_check_node(node, LOWEST_FANOUT, err) != 0)
            return -EUCLEAN;
    }
    return 0;
}

/* Whether one node is directly before another one of its level. */
static bool lowest_is_before(const struct lowest *list, const struct lowest_node *left,
                             const struct lowest_node *right)
{
    while (!lowest_is_root(list, left) && !lowest_is_root(list, right)) {
        if (lowest_slot(right->up) > 0)
            return left->up + 1 == right->up;
        if (lowest_slot(left->up) != LOWEST_FANOUT - 1)
            return false;
        left = lowest_node_of(left->up);
        right = lowest_node_of(right->up);
    }
    return false;
}

int lowest_check(const struct lowest *list, lowest_may_have may_have, const void *arg,
                 uint32_t most, uint32_t *blocks, uint32_t *nodes, struct error *err)
{
    const struct lowest_rule rule = {may_have, arg};
    const struct lowest_node *leaf, *left;
    uint32_t used;

    if (list->end == NULL)
        return lowest_is_empty(list) ? 0 : broken(err, "a list without a leaf has a block");
    used = lowest_slot(list->end);
    leaf = lowest_node_of(list->end);
    (*nodes)++;
    *blocks += used;
    if (lowest_check_leaf(leaf, used, &rule, err) != 0 ||
        lowest_check_last(list, leaf, used == 0, nodes, err) != 0)
        return -EUCLEAN;
    for (; leaf->link != NULL; leaf = left) {
        left = leaf->link;
        (*nodes)++;
        *blocks += LOWEST_FANOUT;
        if (*blocks > most || !lowest_is_before(list, left, leaf))
            return broken(err, "the leaves of a list are torn after %u blocks", *blocks);
        if (lowest_check_leaf(left, LOWEST_FANOUT, &rule, err) != 0 ||
            lowest_check_full(list, left, nodes, err) != 0)
            return -EUCLEAN;
    }
    return 0;
}

static bool lowest_node_is_empty(const struct lowest_node *node)
{
    for (uint32_t i = 0; i < LOWEST_FANOUT; i++)
        if (lowest_place(&node->entry[i]) != LOWEST_NONE)
            return false;
    return true;
}

int lowest_pool_check(const struct lowest_pool *pool, uint32_t nodes, struct error *err)
{
    const size_t fresh = (size_t)(pool->last - pool->fresh);
    size_t made = 0, there = 0;
    uint32_t idle = 0;

    for (struct lowest_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        made += chunk->bytes;
        there += lowest_chunk_count(chunk);
    }
    for (const struct lowest_node *node = pool->free; node != NULL && idle <= pool->idle;
         node = node->link, idle++)
        if (!lowest_node_is_empty(node))
            return broken(err, "entry %u of the pool of lists is not empty", idle);
    if (made != pool->made || idle != pool->idle || there != fresh + idle + nodes)
        return broken(
            err,
            "pool of lists: %zu bytes (%zu counted); of %zu nodes %u are in lists, %u idle "
            "(%u counted), %zu unused",
            made, pool->made, there, nodes, idle, pool->idle, fresh);
    return 0;
}
