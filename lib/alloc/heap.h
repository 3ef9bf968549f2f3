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

#include <rmalloc.h>

struct heap_config {
    rmalloc_algorithm_t algorithm;
    uint32_t unit_size;       /* a power of two, 1..1 MiB */
    uint64_t bytes;           /* at least 1, at most 2^31 units; the last unit may be short */
    void *base;               /* where the range is mapped, aligned to a unit; or NULL */
    uint32_t max_descriptors; /* blocks that may be handed out or waiting; 0: DESC_LIMIT_DEFAULT */
    uint64_t seed;
    const void *owner; /* what the owner of a block in use is set to; NULL: the heap */
};

struct heap; /* = rdma_vmem_t */

/* 0, or a sentence and -EINVAL, or -ENOTSUP (algorithm) */
int heap_config_check(const struct heap_config *cfg, char *why, size_t why_bytes);
int heap_create(struct heap **h, const struct heap_config *cfg); /* as heap_config_check(), or -ENOMEM */
void heap_destroy(struct heap *h);                               /* and its descriptors, handed out or not */
/* A block of at least one unit, DESC_OWNED; size 0 takes one unit. NULL: see heap_alloc_error(). */
struct rdesc *heap_alloc(struct heap *h, size_t size);
/* Why the last heap_alloc() gave NULL: -EMSGSIZE it can never fit; -EAGAIN no room now; -ENOBUFS max_descriptors are in
 * use; -ENOMEM no memory for another descriptor. */
int heap_alloc_error(const struct heap *h);
void heap_free(struct heap *h, struct rdesc *d); /* d is DESC_OWNED or DESC_SENT, and of this heap */
uint64_t heap_bytes(const struct heap *h);       /* of the range: the largest request that an empty heap satisfies */
uint64_t heap_bytes_used(const struct heap *h);  /* handed out, in whole units, but for a short one at the end */
void heap_get_stats(const struct heap *h, rdma_vmem_stats_t *stats);
int heap_check(const struct heap *h, char *why, size_t why_bytes); /* 0 or -EUCLEAN and the invariant that is broken */

#endif
