/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * next_fit.h: the inline fast paths of next-fit. The rest, and the idea, are in next_fit.c.
 *
 * They handle a block that fits at the head, and freeing the newest block, or the oldest one, if
 * its neighbor is allocated and the end of the range is not between them. Everything else is a
 * call.
 */
#ifndef ALLOC_NEXT_FIT_H
#define ALLOC_NEXT_FIT_H

#include "alloc/fit.h"

extern const struct fit_ops next_fit_ops;

struct rdesc *next_fit_alloc_slow(struct heap *h, size_t size) NOINLINE;
/* Not cold: every block that is freed out of order takes this path. */
void next_fit_free_slow(struct heap *h, struct rdesc *d) __attribute__((noinline));

/*
 * The code is ordered for few taken branches, which cost more than anything else here: the path of
 * the newest block, alone or not, falls through. The newest block is h->now.last, whose next is
 * undefined; the prev of the oldest is the segment's edge.
 */

/* Makes `d`, which is in no list, the newest block: `need` bytes at the head. `word`: that of its next life. */
static inline struct rdesc *next_fit_place(struct heap *h, struct rdesc *d, uint64_t word,
                                           uint64_t need, size_t size)
{
    struct rdesc *last = h->now.last;
    uint64_t offset = h->now.head, head = offset + need;

    last->next = d; /* the oldest, if last is the edge */
    h->now.last = d;
    h->now.head = head;
    h->allocs++;
    d->mem = address_of(h, h->zero, offset);
    d->size = size;
    d->offset = offset;
    d->units = (uint32_t)(need >> h->shift);
    d->word = word;
    d->prev = last;
    if (UNLIKELY(head > h->mark)) {
        h->peak += head - h->mark;
        h->mark = head;
    }
    return d;
}

static inline struct rdesc *next_fit_alloc(struct heap *h, size_t size)
{
    uint64_t need = (size + h->round_up) & h->whole; /* 0 if size is 0, or if the sum overflows */
    struct rdesc *d = h->pool.free;
    uint64_t word;

    if (UNLIKELY(need - 1 >= h->now.limit - h->now.head || /* also if need is 0 */
                 d == NULL || !desc_next_word(&h->pool, d, &word)))
        return next_fit_alloc_slow(h, size);
    h->pool.free = d->link;
    return next_fit_place(h, d, word, need, size);
}

static inline void next_fit_free(struct heap *h, struct rdesc *d)
{
    struct rdesc *prev = d->prev, *next = d->next, *edge = &h->at->edge;
    uint64_t offset = d->offset, alone;

    if (LIKELY(d == h->now.last && desc_state(prev) < DESC_FREED &&
               prev->offset <= offset)) {                 /* the newest: roll back */
        alone = prev == edge ? offset - prev->offset : 0; /* start again at the beginning */
        h->now.last = prev;
        h->now.head = offset - alone;
        h->mark -= alone;
    } else if (d != h->now.last && prev == edge && desc_state(next) < DESC_FREED &&
               next->offset > offset) {
        edge->next = next; /* the oldest: move the tail */
        next->prev = prev;
        h->mark += next->offset - offset;
        if (h->now.limit == offset)
            h->now.limit = next->offset;
    } else {
        next_fit_free_slow(h, d);
        return;
    }
    h->frees++;
    desc_put(&h->pool, d);
}

#endif
