/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * free_set.h: the set of free blocks of first-, best-, worst- and random-fit.
 *
 * A free block is in one of three places:
 *   indexed    in the index of its size class, under its key (state DESC_FREE). With best-fit a
 *              block of up to LISTED_UNITS is in the list of its size instead (lowest.h), and one
 *              with a short last unit is in neither: a search compares the last block of each
 *              segment.
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
 * 2. `some` has a bit for each index and each list that is not empty, `indexed` counts the blocks
 *    that are DESC_FREE.
 */
#ifndef ALLOC_FREE_SET_H
#define ALLOC_FREE_SET_H

#include "alloc/index.h"
#include "alloc/tree_block.h"

static FORCE_INLINE bool free_set_is_listed(uint32_t class, fit_t fit)
{
    return fit == RMALLOC_BEST_FIT && class < LISTED_UNITS;
}

/* The number of the index of a class that has one. */
static FORCE_INLINE uint32_t free_set_number(uint32_t class, fit_t fit)
{
    return fit == RMALLOC_BEST_FIT ? class - LISTED_UNITS : class;
}

static FORCE_INLINE struct index *free_set_index(const struct heap *h, uint32_t class, fit_t fit)
{
    return &h->free.index[free_set_number(class, fit)];
}

/* Whether the block is in neither an index nor a list: it is found as the last one of its segment. */
static FORCE_INLINE bool free_set_is_apart(const struct heap *h, const struct rdesc *d, fit_t fit)
{
    return fit == RMALLOC_BEST_FIT && block_is_short(h, d);
}

/* Inserts a block into an index. False: there is no memory. */
static FORCE_INLINE bool free_set_insert_indexed(struct heap *h, struct rdesc *d, fit_t fit)
{
    const uint32_t class = tree_fit_class(d->units, fit);

    if (UNLIKELY(index_insert(free_set_index(h, class, fit), &h->free.nodes,
                              tree_fit_key(h, d, fit), d) != 0))
        return false;
    class_set_add(&h->free.some, class);
    h->free.indexed++;
    desc_set_state(d, DESC_FREE);
    return true;
}

/* Best-fit: inserts a block into the list of its size. False: there is no memory. */
static FORCE_INLINE bool free_set_insert_listed(struct heap *h, struct rdesc *d)
{
    const uint32_t class = (d->units - 1) % LISTED_UNITS;

    if (UNLIKELY(lowest_insert(&h->free.list[class], &h->free.lists, d->offset >> h->shift, d) !=
                 0))
        return false;
    class_set_add(&h->free.some, class);
    h->free.indexed++;
    desc_set_state(d, DESC_FREE);
    return true;
}

/* Best-fit: free_set_insert() of a block that may have no list, free_set_remove() in any state. */
bool free_set_insert_any(struct heap *h, struct rdesc *d) NOINLINE;
void free_set_remove_any(struct heap *h, struct rdesc *d) NOINLINE;

/* False: there is no memory. */
static FORCE_INLINE bool free_set_insert(struct heap *h, struct rdesc *d, fit_t fit)
{
    if (fit != RMALLOC_BEST_FIT)
        return free_set_insert_indexed(h, d, fit);
    return LIKELY(d->units <= LISTED_UNITS && !h->ragged) ? free_set_insert_listed(h, d)
                                                          : free_set_insert_any(h, d);
}

/* Removes a block from its index, in which it is at `place`. */
static FORCE_INLINE void free_set_take(struct heap *h, uint32_t class,
                                       const struct index_place *place, fit_t fit)
{
    struct index *index = free_set_index(h, class, fit);

    index_take(index, &h->free.nodes, place);
    if (index->count == 0)
        class_set_remove(&h->free.some, class);
    h->free.indexed--;
}

/* Removes a block from the list of so many units. */
static FORCE_INLINE void free_set_take_listed(struct heap *h, uint32_t units, struct rdesc *d)
{
    const uint32_t class = (units - 1) % LISTED_UNITS;
    struct lowest *list = &h->free.list[class];

    lowest_remove(list, &h->free.lists, d);
    if (lowest_is_empty(list))
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

/* free_set_remove() of a block that is neither loose nor listed. */
static FORCE_INLINE void free_set_remove_unlisted(struct heap *h, struct rdesc *d, fit_t fit)
{
    const uint32_t class = tree_fit_class(d->units, fit);
    struct rdesc **link = &h->free.unindexed;
    struct index_place place;

    if (UNLIKELY(desc_state(d) != DESC_FREE)) {
        while (*link != d)
            link = &(*link)->link;
        *link = d->link;
    } else if (free_set_is_apart(h, d, fit)) {
        h->free.indexed--;
    } else {
        index_from(free_set_index(h, class, fit), tree_fit_key(h, d, fit), &place);
        free_set_take(h, class, &place, fit);
    }
}

/* Removes a block from the set before it changes or is allocated. */
static FORCE_INLINE void free_set_remove(struct heap *h, struct rdesc *d, fit_t fit)
{
    if (d == h->free.loose)
        h->free.loose = tree_fit_none(h);
    else if (fit != RMALLOC_BEST_FIT)
        free_set_remove_unlisted(h, d, fit);
    else if (LIKELY(d->units <= LISTED_UNITS && h->free.unindexed == NULL && !h->ragged))
        free_set_take_listed(h, d->units, d);
    else
        free_set_remove_any(h, d);
}

#endif
