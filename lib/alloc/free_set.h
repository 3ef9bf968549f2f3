/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * free_set.h: the set of free blocks of first-, best-, worst- and random-fit.
 *
 * A free block is in one of three places:
 *   indexed    in the index of its size class, under its key (state DESC_FREE)
 *   loose      the block that changed last (state DESC_LOOSE). It is in no index and is compared
 *              with the best indexed block by every search. Allocating from it and freeing next to
 *              it changes no index; it is inserted into its index when another block becomes loose.
 *   unindexed  in the list free.unindexed (state DESC_LOOSE): there was no memory for a node of its
 *              index. Freeing a block never fails for this reason. Nothing is allocated until all
 *              unindexed blocks are in an index, since the choice would not be exact.
 *
 * Invariants
 * 1. While there are unindexed blocks there is no loose one, so that the fast paths of tree_fit.h
 *    are closed.
 * 2. `some` has a bit for each index that is not empty, `indexed` is the sum of their counts.
 */
#ifndef ALLOC_FREE_SET_H
#define ALLOC_FREE_SET_H

#include "alloc/index.h"
#include "alloc/tree_block.h"

/* False: there is no memory. */
static FORCE_INLINE bool free_set_insert(struct heap *h, struct rdesc *d, fit_t fit)
{
    const uint32_t class = tree_fit_class(d->units, fit);

    if (UNLIKELY(index_insert(&h->free.index[class], &h->free.nodes, tree_fit_key(h, d, fit), d) !=
                 0))
        return false;
    class_set_add(&h->free.some, class);
    h->free.indexed++;
    desc_set_state(d, DESC_FREE);
    return true;
}

static FORCE_INLINE void free_set_take(struct heap *h, uint32_t class,
                                       const struct index_place *place)
{
    struct index *index = &h->free.index[class];

    index_take(index, &h->free.nodes, place);
    if (index->count == 0)
        class_set_remove(&h->free.some, class);
    h->free.indexed--;
}

static inline void free_set_defer(struct heap *h, struct rdesc *d)
{
    desc_set_state(d, DESC_LOOSE);
    d->link = h->free.unindexed;
    h->free.unindexed = d;
}

/* Inserts the unindexed blocks. False: there is no memory for all of them. */
static FORCE_INLINE bool free_set_index_all(struct heap *h, fit_t fit)
{
    struct rdesc *next;

    for (; UNLIKELY(h->free.unindexed != NULL); h->free.unindexed = next) {
        next = h->free.unindexed->link;
        if (!free_set_insert(h, h->free.unindexed, fit))
            return false;
    }
    return true;
}

/* Inserts the loose block, if there is one, into its index; without memory it becomes unindexed. */
static FORCE_INLINE void free_set_index_loose(struct heap *h, fit_t fit)
{
    struct rdesc *d = h->free.loose;

    h->free.loose = tree_fit_none(h);
    if (d != tree_fit_none(h) && UNLIKELY(!free_set_insert(h, d, fit)))
        free_set_defer(h, d);
}

/* Makes `d` the loose block; there is no other. */
static FORCE_INLINE void free_set_make_loose(struct heap *h, struct rdesc *d, fit_t fit)
{
    if (!free_set_index_all(h, fit)) {
        free_set_defer(h, d);
        return;
    }
    desc_set_state(d, DESC_LOOSE);
    h->free.loose = d;
}

/* Removes a block from the set before it changes or is allocated. */
static FORCE_INLINE void free_set_remove(struct heap *h, struct rdesc *d, fit_t fit)
{
    const uint32_t class = tree_fit_class(d->units, fit);
    struct rdesc **link = &h->free.unindexed;
    struct index_place place;

    if (d == h->free.loose) {
        h->free.loose = tree_fit_none(h);
    } else if (LIKELY(desc_state(d) == DESC_FREE)) {
        index_from(&h->free.index[class], tree_fit_key(h, d, fit), &place);
        free_set_take(h, class, &place);
    } else {
        while (*link != d)
            link = &(*link)->link;
        *link = d->link;
    }
}

#endif
