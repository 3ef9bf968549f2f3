/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap.h: one allocator instance: a contiguous range, managed in units, that may or may not be
 * mapped here.
 *
 * It is the allocator of a pipe's shadow heap and of rvmem_create() alike (thesis §4.2, §4.4). It
 * is a pure data structure without I/O, pipes or locks; one thread at a time may use a heap.
 */
#ifndef ALLOC_HEAP_H
#define ALLOC_HEAP_H

#include "alloc/desc.h"
#include "util/error.h"

#include <rvmem.h>

struct heap_config {
    rmalloc_fit_t algorithm;
    uint32_t unit_size;       /* bytes: a power of two, 1..1 MiB */
    uint64_t bytes;           /* at least 1, at most 2^31 units; the last unit may be short */
    void *base;               /* where the range is mapped, aligned to a unit; or NULL */
    uint32_t max_descriptors; /* most blocks in use or waiting; 0: DESC_LIMIT_DEFAULT */
    uint64_t seed;            /* of the generator of random-fit */
    uint32_t owner;           /* owner of allocated blocks; 0: an id of the heap's own */
};

struct heap; /* = rvmem_t */

/* Verifies a configuration: 0, or -EINVAL and an error message. */
int heap_config_check(const struct heap_config *cfg, struct error *err);
/* 0, -EINVAL as heap_config_check(), or -ENOMEM. */
int heap_create(struct heap **h, const struct heap_config *cfg);
/* Frees the heap and all its descriptors, whether their blocks are allocated or not. */
void heap_destroy(struct heap *h);
/*
 * Allocates a block of at least one unit, DESC_OWNED; size 0 takes one unit. NULL: see
 * heap_alloc_error().
 */
struct rdesc *heap_alloc(struct heap *h, size_t size);
/*
 * Why the last heap_alloc() returned NULL: -EMSGSIZE: the request can never fit; -EAGAIN: it does
 * not fit now; -ENOBUFS: max_descriptors are in use; -ENOMEM: no memory for another descriptor or
 * for the index.
 */
/* Bytes of a block: whole units, except at the short end of a segment. */
uint64_t heap_block_bytes(const struct heap *h, const struct rdesc *d);
/* Whether `d`, which may be any pointer, is a descriptor of this heap. Does not dereference it. */
bool heap_has_descriptor(const struct heap *h, const struct rdesc *d);
int heap_alloc_error(const struct heap *h);
/* Frees a block of this heap, DESC_OWNED or DESC_SENT. */
void heap_free(struct heap *h, struct rdesc *d);
/*
 * Sets the size of a block, DESC_OWNED or DESC_SENT, to `bytes`, at most its size, and frees the
 * whole units behind them; a size of 0 keeps one unit. The offset stays. Never fails, but may keep
 * all units until the block is freed: with RMALLOC_NEXT_FIT, unless the block is the newest of its
 * segment; otherwise, if there is no memory for another descriptor.
 */
void heap_shrink(struct heap *h, struct rdesc *d, size_t bytes);
/*
 * Adds a segment behind the last, at the next whole unit: 0, -EINVAL (base, bytes, or more than
 * 2^31 units), -ENOMEM.
 */
int heap_grow(struct heap *h, void *base, uint64_t bytes);
/* Number of successful allocations. */
uint64_t heap_allocs(const struct heap *h);
/* Bytes of all segments. */
uint64_t heap_bytes(const struct heap *h);
/* Bytes of the largest request that an empty heap satisfies. */
uint64_t heap_largest_segment(const struct heap *h);
/*
 * Bytes of the largest request that would fit if every DESC_SENT block were freed now, regardless
 * of descriptors. Walks all blocks: for error messages only.
 */
uint64_t heap_unsent_room(const struct heap *h);
/*
 * Allocates exactly `size` bytes at `offset`, in whole units: a second instance follows the first.
 * RMALLOC_FIRST_FIT only. NULL: they are not all free, not in one segment, or not at a unit; or as
 * heap_alloc().
 */
struct rdesc *heap_carve(struct heap *h, uint64_t offset, size_t size);
/*
 * Visits every block in the order of addresses, including free and stuck ones. Ends at the first
 * value other than 0 that the visitor returns, and returns it.
 */
int heap_walk(const struct heap *h, int (*visit)(const rvmem_block_t *block, void *arg), void *arg);
/* Prints statistics, a map and every block: 0 or -errno of the stream. */
int heap_dump(const struct heap *h, FILE *to);
/* Bytes allocated, in whole units, except for a short last unit. */
uint64_t heap_bytes_used(const struct heap *h);
void heap_get_stats(const struct heap *h, rvmem_stats_t *stats);
/* Verifies every invariant: 0, or -EUCLEAN and an error message. */
int heap_check(const struct heap *h, struct error *err);

#endif
