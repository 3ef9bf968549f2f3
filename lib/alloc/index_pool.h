/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index_pool.h: the nodes that all indices of a heap share.
 *
 * The pool only grows. Nodes are cut from chunks (chunk.h), return to a free list for each form,
 * and go back to the system with the pool. There are two forms: leaves, and inner nodes, which are
 * longer if the kind has weights.
 */
#ifndef ALLOC_INDEX_POOL_H
#define ALLOC_INDEX_POOL_H

#include "alloc/index_node.h"
#include "util/error.h"

struct index_pool {
    struct index_node *free[2]; /* free list of each form: leaves, inner nodes */
    uint32_t idle[2];           /* entries of each free list */
    uint32_t bytes[2];          /* bytes of a node of each form */
    char *fresh, *end;          /* the part of the newest chunk that is not used yet */
    struct index_chunk *chunks;
    size_t made; /* bytes of all chunks */
    size_t lost; /* bytes at the ends of chunks that are too few for a node */
    enum index_kind kind;
};

void index_pool_init(struct index_pool *pool, enum index_kind kind);
/* Frees all nodes, and with them every index of the pool. */
void index_pool_destroy(struct index_pool *pool);

/* Ensures that so many leaves and inner nodes can be taken: 0 or -ENOMEM. */
int index_pool_reserve(struct index_pool *pool, uint32_t leaves, uint32_t inner);
/* An empty node. index_pool_reserve() has made it available. */
struct index_node *index_pool_take(struct index_pool *pool, uint32_t level);
/* Returns a node whose count is 0. */
void index_pool_put(struct index_pool *pool, struct index_node *node, uint32_t level);

/*
 * Verifies the pool, of which nodes[leaves, inner] are in indices: 0, or -EUCLEAN and an error
 * message.
 */
int index_pool_check(const struct index_pool *pool, const uint32_t nodes[2], struct error *err);

#endif
