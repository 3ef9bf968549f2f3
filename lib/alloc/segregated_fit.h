/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segregated_fit.h: segregated-fit: the inline fast paths. The rest, and the
 * idea, are in segregated_fit.c.
 *
 * The fast paths push a freed block on the quick list of its size and pop it again: of all
 * descriptors only that of the block is read or written, and that of one that was freed a little earlier. Everything else is a call.
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
    uint64_t word;

    if (UNLIKELY(units > QUICK_UNITS))
        return NULL;
    quick = &h->segregated->quick[units - 1];
    d = quick->head;
    if (UNLIKELY(d == NULL))
        return NULL;
    word = (d->word & ~DESC_STATE_MASK) + h->pool.step;
    if (UNLIKELY(word < h->pool.step))
        return NULL;
    quick->head = d->link;
    quick->count--;
    d->word = word;
    d->size = size;
    h->allocs++;
    h->used += units << h->shift;
    if (UNLIKELY(h->used > h->peak))
        h->peak = h->used;
    return d;
}

/*
 * In a large heap a freed block is put into its quick list only after ARRIVING others. Its size,
 * which selects the list, is then in the cache: otherwise the next allocation would wait for it,
 * since a processor does not load the head of a list past a store whose address is open. Returns
 * the block whose turn it is, or NULL.
 */
static FORCE_INLINE struct rdesc *segregated_fit_arrive(struct segregated *s, struct rdesc *d)
{
    struct rdesc *arrived = s->arriving[s->oldest];

    s->arriving[s->oldest] = d;
    s->oldest = (s->oldest + 1) % ARRIVING;
    return arrived;
}

/*
 * Lets a freed block wait. False: h->ops->free() decides about *block, which is the freed block, and
 * nothing has changed; or a waiting one (DESC_FREED) whose quick list is full.
 */
static FORCE_INLINE bool segregated_fit_push(struct heap *h, struct rdesc **block)
{
    struct segregated *s = h->segregated;
    struct rdesc *d = *block;
    const uint64_t used = h->used - ((uint64_t)d->units << h->shift);
    struct quick_list *quick;

    static_assert((DESC_OWNED | DESC_FREED) == DESC_FREED && (DESC_SENT | DESC_FREED) == DESC_FREED,
                  "either becomes DESC_FREED by the same bits");
    if (UNLIKELY(d->units > s->units || (used == 0 && s->unlisted > 1))) /* another one waits */
        return false;
    h->frees++;
    h->used = used;
    desc_store_word(d, d->word | desc_word(0, DESC_FREED));
    if (h->pool.made >= ARRIVING_FROM && used != 0) { /* the only block of a heap is popped next */
        d = segregated_fit_arrive(s, d);
        if (UNLIKELY(d == NULL))
            return true;
    }
    quick = &s->quick[d->units - 1];
    *block = d;
    if (UNLIKELY(quick->count >= s->most))
        return false;
    d->link = quick->head;
    quick->head = d;
    quick->count++;
    return true;
}

static inline struct rdesc *segregated_fit_alloc(struct heap *h, size_t size)
{
    struct rdesc *d = segregated_fit_pop(h, size);

    return LIKELY(d != NULL) ? d : h->ops->alloc(h, size);
}

static inline void segregated_fit_free(struct heap *h, struct rdesc *d)
{
    if (UNLIKELY(!segregated_fit_push(h, &d)))
        h->ops->free(h, d);
}

#endif
