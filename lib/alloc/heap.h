/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap.h: one allocator instance: a contiguous range, managed in units, that may or may not be mapped here.
 *
 * It is the allocator of a channel's shadow and of rdma_vmem_create() alike (thesis §4.2, §4.4). Pure data structure:
 * no I/O, no channel, no lock; one thread at a time.
 */
#ifndef ALLOC_HEAP_H
#define ALLOC_HEAP_H

#include "alloc/desc.h"
#include "util/error.h"

#include <rmalloc.h>

struct heap_config {
    rmalloc_algorithm_t algorithm;
    uint32_t unit_size;       /* a power of two, 1..1 MiB */
    uint64_t bytes;           /* at least 1, at most 2^31 units; the last unit may be short */
    void *base;               /* where the range is mapped, aligned to a unit; or NULL */
    uint32_t max_descriptors; /* blocks that may be handed out or waiting; 0: DESC_LIMIT_DEFAULT */
    uint64_t seed;
    uint32_t owner; /* what the owner of a block in use is set to; 0: an id of the heap's own */
};

struct heap; /* = rdma_vmem_t */

/* 0, or a sentence and -EINVAL, or -ENOTSUP (algorithm) */
int heap_config_check(const struct heap_config *cfg, struct error *err);
int heap_create(struct heap **h,
                const struct heap_config *cfg); /* as heap_config_check(), or -ENOMEM */
void heap_destroy(struct heap *h);              /* and its descriptors, handed out or not */
/* A block of at least one unit, DESC_OWNED; size 0 takes one unit. NULL: see heap_alloc_error(). */
struct rdesc *heap_alloc(struct heap *h, size_t size);
/* Why the last heap_alloc() gave NULL: -EMSGSIZE it can never fit; -EAGAIN no room now; -ENOBUFS max_descriptors are in
 * use; -ENOMEM no memory for another descriptor, or for the index. */
int heap_alloc_error(const struct heap *h);
void heap_free(struct heap *h,
               struct rdesc *d); /* d is DESC_OWNED or DESC_SENT, and of this heap */
/* One more segment behind the last, at the next whole unit. 0, -EINVAL (base or bytes; more than 2^31 units), -ENOMEM. */
int heap_grow(struct heap *h, void *base, uint64_t bytes);
uint64_t heap_allocs(const struct heap *h); /* that succeeded */
uint64_t heap_bytes(const struct heap *h);  /* of all segments */
uint64_t
heap_largest_segment(const struct heap *h); /* the largest request that an empty heap satisfies */
/*
 * The largest request for which there would be room if every block that is DESC_SENT came back now; a lack of descriptors
 * apart. Walks blocks: for sentences.
 */
uint64_t heap_unsent_room(const struct heap *h);
/* Takes exactly `size` bytes at `offset`, in whole units: a second instance follows the first. FIRST_FIT only. NULL: they are
 * not all free, not in one segment, or not at a unit; or as heap_alloc(). */
struct rdesc *heap_carve(struct heap *h, uint64_t offset, size_t size);
/* Every block by address, gaps and what waits too; ends at a visitor's value other than 0, and returns it. */
int heap_walk(const struct heap *h, int (*visit)(const rdma_vmem_block_t *block, void *arg),
              void *arg);
int heap_dump(const struct heap *h,
              FILE *to); /* statistics, a map, every block; 0 or -errno of the stream */
uint64_t heap_bytes_used(
    const struct heap *h); /* handed out, in whole units, but for a short one at the end */
void heap_get_stats(const struct heap *h, rdma_vmem_stats_t *stats);
int heap_check(const struct heap *h,
               struct error *err); /* 0 or -EUCLEAN and the invariant that is broken */

#endif
