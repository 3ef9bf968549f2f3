/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h: the heap of a member: a block for each operation that sends more than its cells have.
 *
 * Blocks are allocated in the order of operations, and freed in the same order when all mates are beyond the operation: so a
 * ring is all that it takes. Positions only grow; a block never wraps. One that is to be near, and would be beyond RING_NEAR, is at the beginning
 * again where that is free: what was used last is in the caches. What is left out there is free again when all blocks before it are.
 */
#ifndef COLL_ENGINE_RING_H
#define COLL_ENGINE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_BLOCKS 64 /* in use at a time: as many as the largest depth */

#define RING_NEAR 262144 /* bytes from the beginning that are used again first */

struct ring {
    uint64_t bytes; /* of the heap */
    uint64_t head, tail;
    uint32_t first, count; /* blocks in use: block[first] is the oldest */
    struct ring_block {
        uint64_t number, start; /* the operation, and the position of the block */
    } block[RING_BLOCKS];
};

/* Whether the next block would end beyond RING_NEAR: what is free is to be found before. */
static inline bool ring_is_far(const struct ring *r, size_t bytes)
{
    return r->head % r->bytes + bytes > RING_NEAR;
}

void ring_init(struct ring *r, uint64_t bytes);
/* *at: from the beginning of the heap. False: not now. */
bool ring_alloc(struct ring *r, uint64_t number, size_t bytes, bool near, size_t *at);
/* Frees the blocks of all operations below `number`. */
void ring_release(struct ring *r, uint64_t number);

#endif
