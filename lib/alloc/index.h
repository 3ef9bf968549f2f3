/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index.h: an ordered set of free blocks: a B+ tree with 64-bit keys. The idea and the invariants are in index.c.
 *
 * A key says what the set is searched by, and is unique: it ends in the offset, or begins with it. Beside the order
 * there can be a weight for each subtree, of one kind for all the indices of a pool: how many blocks it holds, or the
 * largest number in the low 32 bits of its keys.
 *
 * Nodes come from a pool that many indices share and that only grows. Only index_insert() may need memory, and says
 * so before it has changed anything.
 */
#ifndef ALLOC_INDEX_H
#define ALLOC_INDEX_H

#include "util/cpu.h"
#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef INDEX_FANOUT
#define INDEX_FANOUT                                                                               \
    15 /* entries of a node: 15 keys and a count are two lines, 15 pointers two more */
#endif
#define INDEX_LEAST                                                                                \
    (INDEX_FANOUT /                                                                                \
     2u) /* less than half of what is split, lest a node be split and merged in turns */
#define INDEX_LEVELS                                                                               \
    32 /* more than any index has: 2^31 blocks, at least INDEX_FANOUT / 2 to a node */
#define INDEX_KEY_MOST (UINT64_MAX - 1) /* the largest key; what is unused in a node is beyond it */

struct rdesc;
struct index_node;

enum index_kind {
    INDEX_PLAIN,   /* order alone */
    INDEX_COUNTED, /* and for each subtree the number of its blocks: rank, select */
    INDEX_LARGEST, /* and for each subtree the largest weight, which is the low half of a key */
};

struct index_pool {
    struct index_node
        *free[2];      /* leaves, inner nodes: an inner node may be longer, by its weights */
    uint32_t idle[2];  /* how many lie there */
    uint32_t bytes[2]; /* of one */
    char *fresh, *end; /* of the newest chunk: not used yet */
    struct index_chunk *chunks;
    size_t made, lost; /* bytes of all chunks; of their ends, too short for a node */
    enum index_kind kind;
};

struct index {
    struct index_node *root; /* NULL: empty */
    uint32_t count;          /* blocks */
    uint32_t height;         /* levels; the leaves are level 0 */
};

/* Where an entry is, or would be: the node on each level, and the slot in it. Good until the index is changed. */
struct index_place {
    struct index_node *node[INDEX_LEVELS];
    uint32_t slot[INDEX_LEVELS];
};

void index_pool_init(struct index_pool *pool, enum index_kind kind);
void index_pool_destroy(struct index_pool *pool); /* and so all its indices */

/* 0 or -ENOMEM. The key is not there yet. */
int index_insert(struct index *ix, struct index_pool *pool, uint64_t key, struct rdesc *block);
/* Gives the entry at `place` another key, and block, if that keeps it in its place; else false, and nothing is changed. */
bool index_replace(struct index *ix, const struct index_pool *pool, const struct index_place *place,
                   uint64_t key, struct rdesc *block);
/* Takes out the entry at `place`. */
void index_take(struct index *ix, struct index_pool *pool, const struct index_place *place);

/* These find an entry: true and its place, or false: there is none. */
bool index_from(const struct index *ix, uint64_t key,
                struct index_place *place); /* the first one that is not below */
bool index_below(const struct index *ix, uint64_t key,
                 struct index_place *place); /* the last one that is */
bool index_next(const struct index *ix, struct index_place *place);
bool index_prev(const struct index *ix, struct index_place *place);
bool index_select(const struct index *ix, uint32_t rank,
                  struct index_place *place); /* COUNTED: by number, from 0 */
/* LARGEST: the first one of at least this weight. */
bool index_first_of(const struct index *ix, uint32_t weight, struct index_place *place);
bool index_next_of(const struct index *ix, uint32_t weight, struct index_place *place);

struct rdesc *index_block(const struct index_place *place);
uint64_t index_key(const struct index_place *place);
uint32_t index_rank(const struct index *ix, uint64_t key); /* COUNTED: how many are below */
uint32_t index_largest(const struct index *ix,
                       const struct index_pool *pool); /* LARGEST: 0 if empty */

/* 0, or -EUCLEAN and a sentence: every invariant of index.c. Adds the nodes of `ix` to nodes[leaves, inner]. */
int index_check(const struct index *ix, const struct index_pool *pool, uint32_t nodes[2],
                struct error *err);
/* The same for the pool, of which `nodes` are in indices. */
int index_pool_check(const struct index_pool *pool, const uint32_t nodes[2], struct error *err);

#endif
