/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lowest.h: the free blocks of one size, of which the one with the lowest offset is found at once:
 * a winner tree. The idea and the invariants are in lowest.c.
 *
 * An insertion or a removal changes a node on each level at most, most often one. Nodes come from a
 * pool that all lists of a heap share. Only lowest_insert() may need memory; it reports the lack of
 * it before it has changed anything.
 */
#ifndef ALLOC_LOWEST_H
#define ALLOC_LOWEST_H

#include "alloc/desc.h"
#include "util/error.h"

/* Entries of a node: one less than a power of two. Tests compile another value. */
#ifndef LOWEST_FANOUT
#define LOWEST_FANOUT 7u
#endif

#define LOWEST_SLOT_BITS 3
#define LOWEST_SLOT ((UINT64_C(1) << LOWEST_SLOT_BITS) - 1)
#define LOWEST_NONE (UINT64_MAX >> LOWEST_SLOT_BITS) /* place of an entry without a block */

/* A block, or the winner of a subtree. */
struct lowest_entry {
    uint64_t key; /* its place, then its slot in the node: a minimum of keys has both */
    struct rdesc *block;
};

struct lowest_node {
    struct lowest_entry entry[LOWEST_FANOUT];
    struct lowest_entry *up;  /* the node's entry in its parent; of the root: the list's `first` */
    struct lowest_node *link; /* of a leaf: the one before, or NULL; in the pool: the next one */
} __attribute__((aligned((LOWEST_FANOUT + 1) * sizeof(struct lowest_entry))));

static_assert(sizeof(struct lowest_node) == (LOWEST_FANOUT + 1) * sizeof(struct lowest_entry) &&
                  (LOWEST_FANOUT & (LOWEST_FANOUT + 1)) == 0 &&
                  LOWEST_FANOUT < 1 << LOWEST_SLOT_BITS,
              "node and slot of an entry are parts of its address");

struct lowest {
    struct lowest_entry first; /* the block with the lowest place */
    struct lowest_entry *end;  /* behind the last block, in its leaf or in an empty one; or NULL */
};

struct lowest_pool {
    struct lowest_node *free;         /* linked by .link */
    struct lowest_node *fresh, *last; /* the part of the newest chunk that is not used yet */
    struct lowest_chunk *chunks;
    size_t made;   /* bytes of all chunks */
    uint32_t idle; /* nodes of the free list */
};

void lowest_init(struct lowest *list);
/* Inserts a block, whose `place` is unique and less than LOWEST_NONE: 0 or -ENOMEM. */
int lowest_insert(struct lowest *list, struct lowest_pool *pool, uint64_t place,
                  struct rdesc *block);
/* Removes a block of the list. */
void lowest_remove(struct lowest *list, struct lowest_pool *pool, const struct rdesc *block);

static inline uint64_t lowest_place(const struct lowest_entry *e)
{
    return e->key >> LOWEST_SLOT_BITS;
}

static inline bool lowest_is_empty(const struct lowest *list)
{
    return list->first.key >= LOWEST_NONE << LOWEST_SLOT_BITS;
}

void lowest_pool_init(struct lowest_pool *pool);
/* Frees all nodes, and with them every list of the pool. */
void lowest_pool_destroy(struct lowest_pool *pool);

/* For a check: whether the list may have this block, which may be any pointer, at this place. */
typedef bool (*lowest_may_have)(const struct rdesc *block, uint64_t place, const void *arg);

/*
 * Verifies every invariant: 0, or -EUCLEAN and an error message. Adds its blocks and nodes; more
 * than `most` blocks are an error.
 */
int lowest_check(const struct lowest *list, lowest_may_have may_have, const void *arg,
                 uint32_t most, uint32_t *blocks, uint32_t *nodes, struct error *err);
/* The same for the pool, of which `nodes` are in lists. */
int lowest_pool_check(const struct lowest_pool *pool, uint32_t nodes, struct error *err);

#endif
