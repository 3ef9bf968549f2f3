/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index.h: an ordered set of free blocks: a B+ tree with 64-bit keys. The idea and the invariants
 * are in index.c.
 *
 * A key is what the set is searched by. It is unique, since it contains the offset of its block. In
 * addition to the order each subtree can have a weight, of one kind for all indices of a pool: the
 * number of its blocks, or the largest value of the low 32 bits of its keys.
 *
 * Nodes come from a pool that many indices share (index_pool.h). Only index_insert() may need
 * memory; it reports the lack of it before it has changed anything.
 */
#ifndef ALLOC_INDEX_H
#define ALLOC_INDEX_H

#include "alloc/index_pool.h"
#include "util/error.h"

/* More levels than any index has: 2^31 blocks, at least INDEX_LEAST entries in each node. */
#define INDEX_LEVELS 32

struct index {
    struct index_node *root; /* NULL: empty */
    uint32_t count;          /* blocks */
    uint32_t height;         /* levels; the leaves are level 0 */
};

/*
 * Position of an entry, or where it would be inserted: the node and the slot on each level. Valid
 * until the index changes.
 */
struct index_place {
    struct index_node *node[INDEX_LEVELS];
    uint32_t slot[INDEX_LEVELS];
};

/* Inserts a block under a key that is not in the index: 0 or -ENOMEM. */
int index_insert(struct index *ix, struct index_pool *pool, uint64_t key, struct rdesc *block);
/*
 * Replaces key and block of the entry at `place` if the order stays the same; otherwise returns
 * false, nothing changed.
 */
bool index_replace(struct index *ix, const struct index_pool *pool, const struct index_place *place,
                   uint64_t key, struct rdesc *block);
/* Removes the entry at `place`. */
void index_take(struct index *ix, struct index_pool *pool, const struct index_place *place);

/* Searches: true and the place of an entry, or false if there is none. */

/* The first entry whose key is at least `key`. */
bool index_from(const struct index *ix, uint64_t key, struct index_place *place);
/* The last entry whose key is less than `key`. */
bool index_below(const struct index *ix, uint64_t key, struct index_place *place);
/* The entry after or before `place`. */
bool index_next(const struct index *ix, struct index_place *place);
bool index_prev(const struct index *ix, struct index_place *place);
/* INDEX_COUNTED: the entry with this number, from 0. */
bool index_select(const struct index *ix, uint32_t rank, struct index_place *place);
/* INDEX_LARGEST: the first entry with at least this weight, and the next one after `place`. */
bool index_first_of(const struct index *ix, uint32_t weight, struct index_place *place);
bool index_next_of(const struct index *ix, uint32_t weight, struct index_place *place);

struct rdesc *index_block(const struct index_place *place);
uint64_t index_key(const struct index_place *place);
/* INDEX_COUNTED: the number of entries whose key is less than `key`. */
uint32_t index_rank(const struct index *ix, uint64_t key);
/* INDEX_LARGEST: the largest weight, 0 if the index is empty. */
uint32_t index_largest(const struct index *ix, const struct index_pool *pool);

/*
 * Verifies every invariant of index.c: 0, or -EUCLEAN and an error message. Adds the nodes to
 * nodes[leaves, inner].
 */
int index_check(const struct index *ix, const struct index_pool *pool, uint32_t nodes[2],
                struct error *err);

#endif
