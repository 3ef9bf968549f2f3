/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_block.h: blocks of first-, best-, worst- and random-fit: the chain by address, keys,
 * splitting and merging.
 *
 * All blocks of a segment, allocated or free, form a chain by address. The links to the neighbors,
 * prev and next, have bit 0 set if that neighbor is free. A block that is freed therefore reads no
 * other descriptor unless it merges with it; it writes to its neighbors' descriptors, but no
 * instruction waits for a write.
 */
#ifndef ALLOC_TREE_BLOCK_H
#define ALLOC_TREE_BLOCK_H

#include "alloc/fit.h"

/*
 * A constant wherever it is a parameter of an inline function on the fast path: each heuristic has
 * code of its own.
 */
typedef const rmalloc_fit_t fit_t;

static inline bool tree_fit_is_free(const struct rdesc *d) { return desc_state(d) >= DESC_FREE; }

/* Key of a free block in its index; the heuristic prefers the smallest key. */
static inline uint64_t tree_fit_key(const struct heap *h, const struct rdesc *d, fit_t fit)
{
    const uint64_t place = d->offset >> h->shift;

    if (fit == RMALLOC_FIRST_FIT)
        return place << 32 | d->units;
    return (uint64_t)(fit == RMALLOC_WORST_FIT ? ~d->units : d->units) << 32 | place;
}

static inline uint32_t tree_fit_class(uint32_t units, fit_t fit)
{
    return fit == RMALLOC_FIRST_FIT || fit == RMALLOC_RANDOM_FIT ? 0
           : fit == RMALLOC_BEST_FIT                             ? listed_class(units)
                                                                 : size_class(units);
}

static inline struct rdesc *link_to_free(const struct rdesc *d)
{
    return (struct rdesc *)((uintptr_t)d | 1);
}
static inline bool links_to_free(const struct rdesc *link) { return ((uintptr_t)link & 1) != 0; }
static inline struct rdesc *linked(const struct rdesc *link)
{
    return (struct rdesc *)((uintptr_t)link & ~(uintptr_t)1);
}

static inline void tree_fit_mark_used(struct rdesc *d)
{
    linked(d->prev)->next = d;
    linked(d->next)->prev = d;
}

static inline void tree_fit_mark_free(const struct rdesc *d)
{
    linked(d->prev)->next = link_to_free(d);
    linked(d->next)->prev = link_to_free(d);
}

/* Units for a request: at least one; more than any segment has for a request that can never fit. */
static inline uint64_t tree_fit_units(const struct heap *h, size_t size)
{
    return ((size - (size != 0)) >> h->shift) + 1;
}

/*
 * Value of free.loose if there is no loose block (free_set.h). It has no units, so that no request
 * fits.
 */
static inline struct rdesc *tree_fit_none(struct heap *h) { return &h->first.edge; }

/*
 * Splits a free block whose neighbors are allocated: returns its low end, an allocated block with a
 * new descriptor.
 */
static inline struct rdesc *tree_fit_cut(struct heap *h, struct rdesc *rest, uint32_t units)
{
    const uint64_t bytes = (uint64_t)units << h->shift;
    struct rdesc *d = h->pool.free, *prev = rest->prev;

    h->pool.free = d->link;
    d->mem = rest->mem;
    d->offset = rest->offset;
    d->units = units;
    d->prev = prev;
    d->next = link_to_free(rest);
    prev->next = d;
    rest->prev = d;
    rest->mem = (void *)((uintptr_t)rest->mem + ((uintptr_t)bytes & h->mapped));
    rest->offset += bytes;
    rest->units -= units;
    return d;
}

/* Merges two neighbors into one free block, which keeps the descriptor of the higher one. */
static inline void tree_fit_merge(struct heap *h, struct rdesc *low, struct rdesc *high)
{
    struct rdesc *prev = low->prev;

    high->mem = low->mem;
    high->offset = low->offset;
    high->units += low->units;
    high->prev = prev;
    linked(prev)->next = link_to_free(high);
    desc_put(&h->pool, low);
}

/* A block whose descriptor begins a new part of its generations, or gets another descriptor. */
struct rdesc *tree_fit_renew(struct heap *h, struct rdesc *d) NOINLINE;

/* Last step of an allocation: the caller owns the block. */
static inline struct rdesc *tree_fit_hand_out(struct heap *h, struct rdesc *d, size_t size,
                                              uint64_t bytes)
{
    const uint64_t word = (d->word & ~DESC_STATE_MASK) + h->pool.step;

    d->size = size;
    h->allocs++;
    h->used += bytes;
    if (UNLIKELY(h->used > h->peak))
        h->peak = h->used;
    if (UNLIKELY(word < h->pool.step))
        return tree_fit_renew(h, d); /* at the end: no frame on the fast path */
    d->word = word;
    return d;
}

#endif
