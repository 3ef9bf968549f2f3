/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_fit.h: first-, best-, worst- and random-fit: the inline fast paths. The rest, and the idea,
 * are in tree_fit.c.
 *
 * A fast path involves only the loose block (free_set.h): an allocation from it if the heuristic
 * prefers it, and the free of a block next to it, or of a block without free neighbors while there
 * is no loose one. Everything else is a call. Allocations by best-fit have another one (best_fit.h).
 */
#ifndef ALLOC_TREE_FIT_H
#define ALLOC_TREE_FIT_H

#include "alloc/tree_block.h"

extern const struct fit_ops first_fit_ops, best_fit_ops, worst_fit_ops, random_fit_ops;

/* Whether the heuristic surely prefers the loose block, which is large enough, to all others. */
static inline bool tree_fit_prefers_loose(const struct heap *h)
{
    if (h->free.indexed == 0)
        return true;
    return h->algorithm == RMALLOC_WORST_FIT && /* all others are smaller */
           class_set_last(&h->free.some) < size_class(h->free.loose->units);
}

static inline struct rdesc *tree_fit_alloc(struct heap *h, size_t size)
{
    const uint64_t units = tree_fit_units(h, size);
    struct rdesc *d = h->free.loose;

    if (d->units < units ||
        UNLIKELY(h->ragged || h->pool.free == NULL || h->allocs - h->frees >= h->most) ||
        !tree_fit_prefers_loose(h))
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
                                            UNLIKELY(h->free.unindexed != NULL)))) {
        h->ops->free(h, d);
        return;
    }
    h->frees++;
    h->used -= (uint64_t)d->units << h->shift;
    if (d->next == link_to_free(loose)) {
        tree_fit_merge(h, d, loose);
    } else {
        desc_set_state(d, DESC_LOOSE);
        h->free.loose = d;
        tree_fit_mark_free(d);
    }
}

#endif
