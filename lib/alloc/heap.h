/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap.h: one allocator instance: a contiguous range, managed in units, that may or may not be mapped here.
 *
 * It is the allocator of a channel's shadow and of rdma_vmem_create() alike (thesis §4.2, §4.4). Pure data structure: no
 * I/O, no channel, no lock; one thread at a time.
 */
#ifndef ALLOC_HEAP_H
#define ALLOC_HEAP_H

#include "alloc/desc.h"

#include <rmalloc.h>

struct heap_config {
    rmalloc_algorithm_t algorithm;
    uint32_t unit_size;       /* a power of two, 1..1 MiB */
    uint64_t bytes;           /* rounded up to whole units; at most 2^31 units */
    void *base;               /* where the range is mapped, or NULL */
    uint32_t max_descriptors; /* 0: 1,000,000 */
    uint64_t seed;
};

struct heap; /* = rdma_vmem_t */

int heap_create(struct heap **h, const struct heap_config *cfg); /* -EINVAL, -ENOTSUP (algorithm), -ENOMEM */
void heap_destroy(struct heap *h);
struct rdesc *heap_alloc(struct heap *h, size_t size); /* DESC_OWNED; NULL: not now (size 0 takes one unit) */
void heap_free(struct heap *h, struct rdesc *d);       /* d is DESC_OWNED or DESC_SENT, and of this heap */
uint64_t heap_bytes(const struct heap *h);             /* in whole units */
uint64_t heap_bytes_used(const struct heap *h);
void heap_get_stats(const struct heap *h, rdma_vmem_stats_t *stats);
int heap_check(const struct heap *h, char *why, size_t why_bytes); /* 0 or -EUCLEAN and the invariant that is broken */

#endif
