/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segregated_fit.h: segregated-fit: the inline fast paths. The rest, and the
 * idea, are in segregated_fit.c.
 *
 * The fast paths push a freed block on the quick list of its size and pop it again: of all
 * descriptors only that of the block is read or written. Everything else is a call.
 */
#ifndef ALLOC_SEGREGATED_FIT_H
#define ALLOC_SEGREGATED_FIT_H

#include "alloc/segregated.h"

extern const struct fit_ops segregated_fit_ops;

/* The newest waiting block of this size; NULL: h->ops->alloc() decides. */
static FORCE_INLINE struct rdesc *segregated_fit_pop(struct heap *h, size_t size)
{
    const uint64_t units = tree_fit_units(h, size);
    struct quick_list *quick;
    struct rdesc *d;

    if (UNLIKELY(units > QUICK_UNITS || h->ragged || h->allocs - h->frees >= h->most))
        return NULL;
    quick = &h->segregated->quick[units - 1];
    d = quick->head;
    if (UNLIKELY(d == NULL))
        return NULL;
    quick->head = d->link;
    quick->count--;
    h->segregated->waiting--;
    return tree_fit_hand_out(h, d, size, units << h->shift);
}

/* Lets a freed block wait; false, and nothing has changed: h->ops->free() decides. */
static FORCE_INLINE bool segregated_fit_push(struct heap *h, struct rdesc *d)
{
    struct segregated *s = h->segregated;
    const uint64_t used = h->used - ((uint64_t)d->units << h->shift);
    struct quick_list *quick;

    static_assert((DESC_OWNED | DESC_FREED) == DESC_FREED && (DESC_SENT | DESC_FREED) == DESC_FREED,
                  "either becomes DESC_FREED by the same bits");
    if (UNLIKELY(d->units > QUICK_UNITS || h->ragged || (used == 0 && s->waiting > 0)))
        return false;
    quick = &s->quick[d->units - 1];
    if (UNLIKELY(quick->count >= QUICK_MOST))
        return false;
    h->frees++;
    h->used = used;
    desc_store_word(d, d->word | desc_word(0, DESC_FREED));
    d->link = quick->head;
    quick->head = d;
    quick->count++;
    s->waiting++;
    return true;
}

static inline struct rdesc *segregated_fit_alloc(struct heap *h, size_t size)
{
    struct rdesc *d = segregated_fit_pop(h, size);

    return LIKELY(d != NULL) ? d : h->ops->alloc(h, size);
}

static inline void segregated_fit_free(struct heap *h, struct rdesc *d)
{
    if (UNLIKELY(!segregated_fit_push(h, d)))
        h->ops->free(h, d);
}

#endif
