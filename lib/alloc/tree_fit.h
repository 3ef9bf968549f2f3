/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_fit.h: first-, best-, worst- and random-fit: their short paths, inline; the rest, and the idea, are in tree_fit.c.
 *
 * Short is what concerns the loose block alone: a block from it, where nothing else is preferred, and one that is given
 * back to it, or beside which nothing is free where nothing is loose. All else is a call.
 */
#ifndef ALLOC_TREE_FIT_H
#define ALLOC_TREE_FIT_H

#include "alloc/fit.h"
#include "util/error.h"

extern const struct fit_ops first_fit_ops, best_fit_ops, worst_fit_ops, random_fit_ops;

/* As heap_carve(), of a heap with FIRST_FIT. */
struct rdesc *tree_fit_carve(struct heap *h, uint64_t offset, size_t size);

/* For their tables, as struct fit_ops says. */
uint64_t tree_fit_unsent_room(const struct heap *h, const struct segment *s);
int tree_fit_walk(const struct heap *h, const struct segment *s, heap_visit visit, void *arg);
void tree_fit_stats(const struct heap *h, rdma_vmem_stats_t *stats);
int tree_fit_check(const struct heap *h, struct error *err, uint32_t *descriptors,
                   uint32_t *handed_out);

/* `fit` is a constant wherever it is a parameter, but in the check: each fit has code of its own. */
typedef const rmalloc_algorithm_t fit_t;

static inline bool tree_fit_is_free(const struct rdesc *d) { return d->state >= DESC_FREE; }

/* What an index has a free block under; the least is what the fit prefers. */
static inline uint64_t tree_fit_key(const struct heap *h, const struct rdesc *d, fit_t fit)
{
    const uint64_t place = d->offset >> h->shift;

    if (fit == FIRST_FIT)
        return place << 32 | d->units;
    return (uint64_t)(fit == WORST_FIT ? ~d->units : d->units) << 32 | place;
}

static inline uint32_t tree_fit_class(uint32_t units, fit_t fit)
{
    return fit == FIRST_FIT || fit == RANDOM_FIT ? 0 : size_class(units);
}

/*
 * Links to the neighbours by address, prev and next, say whether that neighbour is free, in bit 0: so one that is given back
 * looks at no other descriptor but to merge with it. It writes to theirs, but nothing waits for a write.
 */
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

/* At least one; more than there can be for what can never fit. */
static inline uint64_t tree_fit_units(const struct heap *h, size_t size)
{
    return ((size - (size != 0)) >> h->shift) + 1;
}

/* What the list of free blocks that are in no index ends in; it has no units, so nothing fits into it. */
static inline struct rdesc *tree_fit_none(struct heap *h) { return &h->first.edge; }

/* Cuts the low end off a free block, whose neighbours are not: a block of its own, from the pool, that is not free. */
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

/* Makes one free block of two neighbours, with the descriptor of the higher one. */
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

/* The last step: the block is the user's. */
static inline struct rdesc *tree_fit_hand_out(struct heap *h, struct rdesc *d, size_t size,
                                              uint64_t bytes)
{
    d->whose = h->whose;
    d->size = size;
    h->allocs++;
    h->used += bytes;
    if (UNLIKELY(h->used > h->peak))
        h->peak = h->used;
    return d;
}

/* Is the loose block, which is large enough, what the fit prefers? That is, if nothing else can be. */
static inline bool tree_fit_prefers_loose(const struct heap *h, uint32_t units)
{
    if (h->free.indexed == 0)
        return true;
    if (h->algorithm == BEST_FIT) /* all others are larger */
        return class_set_from(&h->free.some, size_class(units)) > size_class(h->free.loose->units);
    return h->algorithm == WORST_FIT && /* or smaller */
           class_set_last(&h->free.some) < size_class(h->free.loose->units);
}

static inline struct rdesc *tree_fit_alloc(struct heap *h, size_t size)
{
    const uint64_t units = tree_fit_units(h, size);
    struct rdesc *d = h->free.loose;

    if (d->units < units ||
        UNLIKELY(h->ragged || h->pool.free == NULL || h->allocs - h->frees >= h->most) ||
        !tree_fit_prefers_loose(h, (uint32_t)units))
        return h->ops->alloc(h, size);
    if (d->units != units) {
        d = tree_fit_cut(h, d, (uint32_t)units);
    } else {
        h->free.loose = tree_fit_none(h);
        tree_fit_mark_used(d);
    }
    return tree_fit_hand_out(h, d, size, units << h->shift);
}

static inline void tree_fit_free(struct heap *h, struct rdesc *d)
{
    struct rdesc *loose = h->free.loose;

    if (links_to_free(d->prev) || UNLIKELY(h->ragged) ||
        (d->next != link_to_free(loose) && (links_to_free(d->next) || loose != tree_fit_none(h) ||
                                            UNLIKELY(h->free.homeless != NULL)))) {
        h->ops->free(h, d);
        return;
    }
    h->frees++;
    h->used -= (uint64_t)d->units << h->shift;
    if (d->next == link_to_free(loose)) {
        tree_fit_merge(h, d, loose);
    } else {
        d->state = DESC_LOOSE;
        h->free.loose = d;
        tree_fit_mark_free(d);
    }
}

#endif
