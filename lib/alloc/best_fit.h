/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * best_fit.h: best-fit: the inline allocation of a few units, of which only lists and the loose
 * block are part (free_set.h). Everything else is in tree_fit.c.
 */
#ifndef ALLOC_BEST_FIT_H
#define ALLOC_BEST_FIT_H

#include "alloc/free_set.h"

/* best_fit_change_loose() where there was no loose block, or one that has no list. */
void best_fit_change_loose_any(struct heap *h, struct rdesc *d) NOINLINE;

/* The loose block goes into its list or index, and `d` takes its place. */
static FORCE_INLINE void best_fit_change_loose(struct heap *h, struct rdesc *d)
{
    struct rdesc *before = h->free.loose;

    if (LIKELY(before != tree_fit_none(h) && before->units <= LISTED_UNITS &&
               free_set_insert_listed(h, before))) {
        desc_set_state(d, DESC_LOOSE);
        h->free.loose = d;
    } else {
        best_fit_change_loose_any(h, d);
    }
}

/* The low end of the loose block. */
static FORCE_INLINE struct rdesc *best_fit_take_loose(struct heap *h, uint32_t units)
{
    struct rdesc *loose = h->free.loose;

    if (loose->units != units)
        return tree_fit_cut(h, loose, units);
    h->free.loose = tree_fit_none(h);
    tree_fit_mark_used(loose);
    return loose;
}

/* The low end of the lowest block of a list. */
static FORCE_INLINE struct rdesc *best_fit_take_listed(struct heap *h, uint32_t class,
                                                       uint32_t units)
{
    struct rdesc *d = h->free.list[class].first.block, *low = d;

    free_set_take_listed(h, class + 1, d);
    if (class + 1 != units) {
        low = tree_fit_cut(h, d, units);
        best_fit_change_loose(h, d);
    } else {
        tree_fit_mark_used(d);
    }
    return low;
}

/* Whether the loose block is better than the lowest one of a list. */
static FORCE_INLINE bool best_fit_loose_is_better(const struct heap *h, uint32_t units,
                                                  uint32_t class)
{
    const struct rdesc *loose = h->free.loose;

    return loose->units >= units &&
           (loose->units <= class ||
            (loose->units == class + 1 &&
             loose->offset >> h->shift < lowest_place(&h->free.list[class].first)));
}

/*
 * The block that best-fit takes if that is the loose one or one of a list; NULL, and nothing has
 * changed: h->ops->alloc() decides.
 */
static FORCE_INLINE struct rdesc *best_fit_take(struct heap *h, size_t size)
{
    const uint64_t units = tree_fit_units(h, size);
    struct rdesc *loose = h->free.loose, *d;
    uint64_t lists;
    uint32_t class;

    if (UNLIKELY(units > LISTED_UNITS || h->ragged || h->free.unindexed != NULL ||
                 h->pool.free == NULL || h->allocs - h->frees >= h->most))
        return NULL;
    lists = h->free.some.word[0] & UINT64_MAX << (units - 1);
    if (lists != 0) {
        class = (uint32_t)__builtin_ctzll(lists);
        d = best_fit_loose_is_better(h, (uint32_t)units, class)
                ? best_fit_take_loose(h, (uint32_t)units)
                : best_fit_take_listed(h, class, (uint32_t)units);
    } else {
        if (loose->units < units || (loose->units > LISTED_UNITS && h->free.some.words > 1))
            return NULL; /* only larger ones, among which there may be a better one */
        d = best_fit_take_loose(h, (uint32_t)units);
    }
    return tree_fit_hand_out(h, d, size, units << h->shift);
}

#endif
