/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * next_fit.c: a circular arena (thesis §4.1.3, figure 4.6). The short paths are in next_fit.h.
 *
 * Blocks are taken at the head and come back, mostly, at the tail. They hang in the list in the order of allocation,
 * from the tail (list.next, the oldest) to the head (last, the newest):
 *
 *      0        tail               head    bytes        0     head         tail             bytes
 *      |  free   |A|B|.freed.|C|D|  free  |             |D|E|F|   free      |A|B|.freed.|C|gap|
 *                not wrapped: limit = bytes                   wrapped: limit = tail
 *
 * A request that does not fit between head and end, but before the tail, goes to 0; what it skips becomes a gap, a
 * block that nobody owns. A heap without blocks starts again at 0.
 *
 * Invariants
 * 1. From the oldest to the newest, each block begins where the one before it ends, or at 0 after one that ends at
 *    the end of the range; this happens at most once, and never as far as the oldest. So blocks and the hole from
 *    head to tail tile the range.
 * 2. head is the end of the newest block; limit is the offset of the oldest if the newest lies before it, else the
 *    end of the range. `head == limit` is a full heap, and `no blocks` an empty one: the two cannot be mistaken.
 * 3. mark - head is peak - used: what is handed out grows with the head, so its peak is passed where the head passes
 *    the mark, and the short paths need not count what is in use.
 * 4. First and last block are handed out (DESC_OWNED, DESC_SENT). Those between may wait (DESC_FREED), or be the gap.
 * 5. No two that wait are neighbours by address: they are merged when the second is given back, and the gap takes in
 *    what lies before it. So at most two of them follow each other in the list, on either side of the end of the
 *    range; every operation takes constant time, and there are at most twice as many descriptors in use as blocks
 *    handed out.
 *
 * Giving back the newest rolls the head back, also over what waits below it and over the gap. That is safe because
 * whatever waits has been given back: nobody holds it, here or at the other end (a writer frees only what it never
 * sent, credits free only what the reader has freed), and the gap was never anybody's. It waited only for the list to
 * become short.
 */
#include "alloc/next_fit.h"

#include <errno.h>

static bool waits(const struct rdesc *d) { return d->state >= DESC_FREED; }

static bool wrapped(const struct heap *h) { return h->limit != h->bytes; }

/* Where the oldest block begins, which is what the head may not reach once it has wrapped. */
static uint64_t tail(const struct heap *h) { return next_fit_first(h)->offset; }

static uint64_t used(const struct heap *h) { return h->peak + h->head - h->mark; }

static bool empty(const struct heap *h) { return h->last == &h->list; }

/* Skips what is left before the end of the range. */
static void wrap(struct heap *h)
{
    struct rdesc *gap = &h->gap;

    if (h->head < h->bytes) {
        gap->offset = h->head;
        gap->units = (uint32_t)((h->bytes - h->head + h->round_up) >> h->shift);
        gap->prev = h->last;
        h->last->next = gap;
        h->last = gap;
    }
    h->limit = tail(h);
    h->mark -= h->head;
    h->head = 0;
}

static struct rdesc *fail(struct heap *h, int error)
{
    h->failures++;
    h->error = error;
    return NULL;
}

/* Whatever does not simply fit at the head: size 0, a block that ends in a short last unit, wrapping, no descriptor. */
struct rdesc *next_fit_alloc_slow(struct heap *h, size_t size)
{
    size_t least = size == 0 ? 1 : size;
    uint64_t need, room = h->limit - h->head;
    struct rdesc *d;
    bool wraps = false;
    int error;

    if (least > h->bytes)
        return fail(h, -EMSGSIZE);
    need = (least + h->round_up) & h->whole; /* no overflow: bytes is at most 2^51 */
    if (need > room && least <= room)        /* only the end of the range is not at a whole unit */
        need = room;
    if (need > room) {
        wraps = !wrapped(h) && !empty(h) && need <= tail(h);
        if (!wraps)
            return fail(h, -EAGAIN);
    }
    if (h->pool.free == NULL) { /* before anything is changed */
        error = desc_pool_grow(&h->pool);
        if (error != 0)
            return fail(h, error);
    }
    if (wraps)
        wrap(h);
    d = next_fit_place(h, h->pool.free, need, size);
    d->units = (uint32_t)((need + h->round_up) >> h->shift);
    return d;
}

/* Gives back the descriptor of a block that has left the list. The gap keeps its own. */
static void drop(struct heap *h, struct rdesc *d)
{
    if (d != &h->gap)
        desc_put(&h->pool, d);
}

/* Makes one of two that wait and follow each other, in the list and by address. */
static struct rdesc *merge(struct heap *h, struct rdesc *low, struct rdesc *high)
{
    if (high == &h->gap) { /* the gap stays, and low is not the first: something is handed out before it */
        high->offset = low->offset;
        high->units += low->units;
        high->prev = low->prev;
        low->prev->next = high;
        drop(h, low);
        return high;
    }
    low->units += high->units;
    low->next = high->next;
    if (high == h->last)
        h->last = low;
    else
        high->next->prev = low;
    drop(h, high);
    return low;
}

static bool mergeable(const struct rdesc *low, const struct rdesc *high)
{
    return waits(low) && waits(high) && low->offset < high->offset;
}

/* Brings head, limit and mark in accord with the list, of which `in_use` bytes are handed out. */
static void settle(struct heap *h, uint64_t in_use)
{
    const struct rdesc *last = h->last;

    if (empty(h)) {
        h->head = 0;
        h->limit = h->bytes;
    } else {
        h->head = last->offset + block_bytes(h, last);
        h->limit = tail(h) > last->offset ? tail(h) : h->bytes;
    }
    h->mark = h->head + h->peak - in_use;
}

/* Takes from the end of the list what waits there. The first block does not. */
static void roll_back(struct heap *h)
{
    while (waits(h->last)) {
        struct rdesc *d = h->last;

        h->last = d->prev;
        drop(h, d);
    }
}

/* Takes from the beginning of the list what waits there. The last block does not. */
static void move_tail(struct heap *h)
{
    struct rdesc *first = next_fit_first(h), *next;

    for (; waits(first); first = next) {
        next = first->next;
        drop(h, first);
    }
    first->prev = &h->list;
    h->list.next = first;
}

/* One that is not alone: next_fit_free() sees to that. */
void next_fit_free_slow(struct heap *h, struct rdesc *d)
{
    uint64_t in_use = used(h) - block_bytes(h, d);

    h->frees++;
    d->state = DESC_FREED;
    if (d == h->last) {
        roll_back(h);
    } else if (d == next_fit_first(h)) {
        move_tail(h);
    } else { /* between two others: head and limit stay where they are */
        if (mergeable(d->prev, d))
            d = merge(h, d->prev, d);
        if (mergeable(d, d->next))
            merge(h, d, d->next);
        h->mark = h->head + h->peak - in_use;
        return;
    }
    settle(h, in_use);
}

static int next_fit_open(struct heap *h, const struct heap_config *cfg)
{
    (void)cfg;
    h->list = (struct rdesc){.state = DESC_POOLED, .owner = h->owner & DESC_OWNER_MOST};
    h->last = &h->list;
    h->gap = (struct rdesc){.state = DESC_GAP, .owner = h->owner & DESC_OWNER_MOST};
    settle(h, 0);
    return 0;
}

static void next_fit_close(struct heap *h) { (void)h; }

static struct rdesc *next_fit_ops_alloc(struct heap *h, size_t size) { return next_fit_alloc(h, size); }
static void next_fit_ops_free(struct heap *h, struct rdesc *d) { next_fit_free(h, d); }

static uint64_t next_fit_largest(const struct heap *h)
{
    uint64_t room = h->limit - h->head, before = wrapped(h) || empty(h) ? 0 : tail(h);

    return room > before ? room : before;
}

static uint64_t next_fit_stuck(const struct heap *h)
{
    if (empty(h))
        return 0;
    return (wrapped(h) ? h->bytes - tail(h) + h->head : h->head - tail(h)) - used(h);
}

/* What must hold of one block, wherever it hangs. */
static int check_block(const struct heap *h, const struct rdesc *d, char *why, size_t n)
{
    const unsigned long long at = d->offset;

    if ((d->state == DESC_GAP) != (d == &h->gap) || d->state == DESC_POOLED || d->state > DESC_GAP)
        return heap_broken(why, n, "the block at %llu is in state %u", at, d->state);
    if (d->owner != h->owner)
        return heap_broken(why, n, "the block at %llu belongs to another owner", at);
    if (d->units == 0 || (d->offset & h->round_up) != 0 || d->offset >= h->bytes ||
        (uint64_t)d->units << h->shift > h->bytes - d->offset + h->round_up)
        return heap_broken(why, n, "the block at %llu of %u units is not aligned, empty, or beyond the end", at,
                           d->units);
    if (waits(d))
        return 0;
    if (d->size > block_bytes(h, d))
        return heap_broken(why, n, "the block at %llu holds %zu bytes in %u units", at, d->size, d->units);
    if (d->mem != (h->base != NULL ? h->base + d->offset : NULL))
        return heap_broken(why, n, "the memory of the block at %llu is not at its offset", at);
    return 0;
}

/* What must hold between a block and the one before it in the list. `laps` counts the ends of the range passed. */
static int check_neighbours(const struct heap *h, const struct rdesc *prev, const struct rdesc *d, unsigned *laps,
                            char *why, size_t n)
{
    const uint64_t end = prev->offset + block_bytes(h, prev);

    if (d->offset == end) {
        if (waits(prev) && waits(d))
            return heap_broken(why, n, "the neighbours at %llu and %llu are both free",
                               (unsigned long long)prev->offset, (unsigned long long)d->offset);
    } else if (end == h->bytes && d->offset == 0) {
        (*laps)++;
    } else {
        return heap_broken(why, n, "after the block that ends at %llu comes one that begins at %llu",
                           (unsigned long long)end, (unsigned long long)d->offset);
    }
    if (*laps > 1 || (*laps == 1 && d->offset + block_bytes(h, d) > tail(h)))
        return heap_broken(why, n, "the block at %llu has overrun the oldest one, at %llu",
                           (unsigned long long)d->offset, (unsigned long long)tail(h));
    return 0;
}

static int next_fit_check(const struct heap *h, char *why, size_t n, uint32_t *descriptors, uint32_t *handed_out)
{
    const struct rdesc *list = &h->list, *d, *prev = list;
    uint64_t head = 0, limit = h->bytes, in_use = 0;
    uint32_t pooled = 0, out = 0;
    unsigned laps = 0;
    int error;

    for (d = next_fit_first(h); prev != h->last; prev = d, d = d->next) {
        if ((d != &h->gap && !desc_pool_holds(&h->pool, d)) || d->prev != prev || pooled > h->pool.made)
            return heap_broken(why, n, "the list of blocks is torn after the block at %llu",
                               (unsigned long long)prev->offset);
        error = check_block(h, d, why, n);
        if (error == 0 && prev != list)
            error = check_neighbours(h, prev, d, &laps, why, n);
        if (error != 0)
            return error;
        pooled += d != &h->gap;
        if (!waits(d)) {
            out++;
            in_use += block_bytes(h, d);
        }
        if (d == &h->gap && (d->offset + block_bytes(h, d) != h->bytes || d == h->last || d->next->offset != 0))
            return heap_broken(why, n, "the gap at %llu is not at the end of the range", (unsigned long long)d->offset);
    }
    if (prev != list) {
        if (waits(next_fit_first(h)) || waits(prev))
            return heap_broken(why, n, "the oldest or the newest block is free");
        head = prev->offset + block_bytes(h, prev);
        limit = laps > 0 ? tail(h) : h->bytes;
    }
    if (head != h->head || limit != h->limit)
        return heap_broken(why, n, "head %llu and limit %llu should be %llu and %llu", (unsigned long long)h->head,
                           (unsigned long long)h->limit, (unsigned long long)head, (unsigned long long)limit);
    if (in_use != used(h))
        return heap_broken(why, n, "%llu bytes are handed out, %llu are counted", (unsigned long long)in_use,
                           (unsigned long long)used(h));
    *descriptors = pooled;
    *handed_out = out;
    return 0;
}

const struct fit_ops next_fit_ops = {
    .name = "next-fit",
    .open = next_fit_open,
    .close = next_fit_close,
    .alloc = next_fit_ops_alloc,
    .free = next_fit_ops_free,
    .used = used,
    .largest = next_fit_largest,
    .stuck = next_fit_stuck,
    .check = next_fit_check,
};
