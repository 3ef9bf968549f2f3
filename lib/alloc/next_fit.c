/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * next_fit.c: a circular arena for each segment (thesis §4.1.3, figure 4.6). The fast paths are in
 * next_fit.h.
 *
 * Blocks are allocated at the head and are freed, mostly, at the tail. They form a list in the
 * order of allocation, from the tail (edge.next, the oldest) to the head (last, the newest):
 *
 *      begin    tail               head      end        begin  head         tail             end
 *      |  free   |A|B|.freed.|C|D|  free  |             |D|E|F|   free      |A|B|.freed.|C|gap|
 *                not wrapped: limit = end                     wrapped: limit = tail
 *
 * A request that fits before the tail, but not between head and end, goes to the beginning; what it
 * skips becomes a gap, a block without an owner. An arena without blocks starts at its beginning
 * again. If a request does not fit into the arena that was allocated from last, the others are
 * tried cyclically. The state of that arena is in the heap itself (h->now, h->zero), for the fast
 * paths, that of the others in their segments.
 *
 * Invariants of each arena
 * 1. From the oldest to the newest, each block begins where the one before it ends, or at the
 *    beginning after one that ends at the end; the latter happens at most once, and never up to the
 *    oldest. Blocks and the hole from head to tail tile the segment.
 * 2. head is the end of the newest block; limit is the offset of the oldest if the newest precedes
 *    it, else the end. `head == limit` is a full arena; an empty arena has no blocks, so that the
 *    two differ.
 * 3. mark - head = peak - used, for the whole heap and the arena it is in: bytes in use grow with
 *    the head, so that they exceed the peak where the head passes the mark, and the fast paths need
 *    not count bytes in use.
 * 4. The first and the last block are allocated (DESC_OWNED, DESC_SENT). Those between may wait
 *    (DESC_FREED), or be the gap.
 * 5. No two waiting blocks are neighbors by address: they merge when the second is freed, and the
 *    gap absorbs the waiting block before it. At most two of them follow each other in the list, on
 *    either side of the end; every operation takes constant time, except for trying other arenas,
 *    and at most twice as many descriptors are in use as blocks allocated.
 *
 * Freeing the newest block rolls the head back, also over waiting blocks below it and over the gap.
 * This is safe because a waiting block has been freed at both ends (a writer frees only what it has
 * not sent, credits free only what the reader has freed), and the gap has no owner. It waited only
 * for the list to become short.
 */
#include "alloc/next_fit.h"

#include "alloc/next_fit_arena.h"
#include "alloc/next_fit_check.h"

#include <errno.h>

/* Makes this the arena of the fast paths. */
static void next_fit_enter(struct heap *h, struct segment *s)
{
    const uint64_t ahead = h->mark - h->now.head;

    h->at->arena = h->now;
    h->now = s->arena;
    h->zero = s->zero;
    h->at = s;
    h->mark = h->now.head + ahead;
}

/* Skips the rest before the end. */
static void next_fit_wrap(struct heap *h)
{
    struct segment *s = h->at;
    struct rdesc *gap = &s->gap;

    if (h->now.head < s->end) {
        gap->offset = h->now.head;
        gap->units = (uint32_t)((s->end - h->now.head + h->round_up) >> h->shift);
        gap->prev = h->now.last;
        h->now.last->next = gap;
        h->now.last = gap;
        h->waiting++;
    }
    h->now.limit = next_fit_tail(s);
    h->mark -= h->now.head - s->begin;
    h->now.head = s->begin;
}

/* Whether so many bytes fit at the beginning, when they do not fit at the head. */
static bool next_fit_fits_at_the_beginning(const struct heap *h, const struct segment *s,
                                           uint64_t need)
{
    return !next_fit_wrapped(h, s) && !next_fit_empty(h, s) && need <= next_fit_tail(s) - s->begin;
}

/*
 * Bytes of a block of `least` at the head, fewer than whole units at a short end; 0: it does not
 * fit.
 */
static uint64_t next_fit_need_at_head(const struct heap *h, const struct segment *s, size_t least)
{
    const uint64_t need = (least + h->round_up) & h->whole,
                   room = next_fit_arena_of(h, s)->limit - next_fit_arena_of(h, s)->head;

    return need <= room ? need : least <= room ? room : 0; /* only the end is not at a whole unit */
}

/* The first segment into which it fits, cyclically from the one allocated from last; or NULL. */
static struct segment *next_fit_find_segment(struct heap *h, size_t least)
{
    const uint64_t need = (least + h->round_up) & h->whole;
    struct segment *s = h->at;

    do {
        if (next_fit_need_at_head(h, s, least) != 0 || next_fit_fits_at_the_beginning(h, s, need))
            return s;
        s = s->next != NULL ? s->next : &h->first;
    } while (s != h->at);
    return NULL;
}

/*
 * What the fast path does not handle: size 0, a short last unit, wrapping, another segment, no
 * descriptor, or one that begins a new part of its generations.
 */
struct rdesc *next_fit_alloc_slow(struct heap *h, size_t size)
{
    const size_t least = size == 0 ? 1 : size;
    struct segment *s;
    struct rdesc *d;
    uint64_t need;
    int error;

    if (least > h->largest)
        return heap_refuse(h, -EMSGSIZE);
    s = next_fit_find_segment(h, least); /* no overflow: a segment has at most 2^51 bytes */
    if (s == NULL)
        return heap_refuse(h, -EAGAIN);
    if (h->pool.free == NULL) { /* before anything changes */
        error = desc_pool_grow(&h->pool);
        if (error != 0)
            return heap_refuse(h, error);
    }
    if (s != h->at)
        next_fit_enter(h, s);
    need = next_fit_need_at_head(h, s, least);
    if (need == 0) {
        next_fit_wrap(h);
        need = (least + h->round_up) & h->whole;
    }
    d = desc_take(&h->pool);
    next_fit_place(h, d, d->word, need, size);
    d->units = (uint32_t)((need + h->round_up) >> h->shift);
    return d;
}

/* Returns the descriptor of a block that was removed from the list. The gap keeps its own. */
static void next_fit_drop(struct heap *h, struct rdesc *d)
{
    h->waiting--;
    if (desc_state(d) != DESC_GAP)
        desc_put(&h->pool, d);
}

/*
 * Merges two waiting blocks that are consecutive in the list and by address. Neither is the last.
 */
static struct rdesc *next_fit_merge(struct heap *h, struct rdesc *low, struct rdesc *high)
{
    if (desc_state(high) ==
        DESC_GAP) { /* the gap stays; low is not the first, since that is allocated */
        high->offset = low->offset;
        high->units += low->units;
        high->prev = low->prev;
        low->prev->next = high;
        next_fit_drop(h, low);
        return high;
    }
    low->units += high->units;
    low->next = high->next;
    high->next->prev = low;
    next_fit_drop(h, high);
    return low;
}

static bool next_fit_mergeable(const struct rdesc *low, const struct rdesc *high)
{
    return next_fit_waits(low) && next_fit_waits(high) && low->offset < high->offset;
}

/* Sets head, limit and mark from the list; `in_use` bytes of the heap are allocated. */
static void next_fit_update(struct heap *h, uint64_t in_use)
{
    const struct segment *s = h->at;
    const struct rdesc *last = h->now.last;

    if (next_fit_empty(h, s)) {
        h->now.head = s->begin;
        h->now.limit = s->end;
    } else {
        h->now.head = last->offset + block_bytes(h, last);
        h->now.limit = next_fit_tail(s) > last->offset ? next_fit_tail(s) : s->end;
    }
    h->mark = h->now.head + h->peak - in_use;
}

/* Removes waiting blocks from the end of the list. The first block does not wait. */
static void next_fit_roll_back(struct heap *h)
{
    while (next_fit_waits(h->now.last)) {
        struct rdesc *d = h->now.last;

        h->now.last = d->prev;
        next_fit_drop(h, d);
    }
}

/* Removes waiting blocks from the beginning of the list. The last block does not wait. */
static void next_fit_move_tail(struct heap *h)
{
    struct rdesc *edge = &h->at->edge, *d = edge->next, *next;

    for (; next_fit_waits(d); d = next) {
        next = d->next;
        next_fit_drop(h, d);
    }
    d->prev = edge;
    edge->next = d;
}

/* The gap absorbs the waiting block before it. */
static void next_fit_free_before_gap(struct heap *h, struct rdesc *d)
{
    desc_set_state(d, DESC_FREED);
    h->waiting++;
    if (next_fit_mergeable(d->prev, d))
        d = next_fit_merge(h, d->prev, d);
    next_fit_merge(h, d, d->next);
}

/* `mask` is 0 or all ones. Arithmetic, which no compiler turns into a branch. */
static inline struct rdesc *next_fit_choose(uintptr_t mask, const struct rdesc *yes,
                                            const struct rdesc *no)
{
    return (struct rdesc *)(((uintptr_t)yes & mask) | ((uintptr_t)no & ~mask));
}

/*
 * Frees a block between two others: head and limit stay. Whether its neighbors wait is
 * unpredictable, so there is no branch on it: the lowest of the merged blocks keeps its descriptor,
 * those of the others return to the pool.
 */
static void next_fit_free_between(struct heap *h, struct rdesc *d)
{
    struct rdesc *prev = d->prev, *next = d->next, *pooled = h->pool.free;
    const uintptr_t with_prev = -(uintptr_t)(next_fit_waits(prev) & (prev->offset < d->offset));
    const uintptr_t with_next = -(uintptr_t)(next_fit_waits(next) & (next->offset > d->offset));
    struct rdesc *low = next_fit_choose(with_prev, prev, d),
                 *high = next_fit_choose(with_next, next->next, next);
    struct rdesc *gone = next_fit_choose(with_next, next, d);

    low->units =
        d->units + (prev->units & (uint32_t)with_prev) + (next->units & (uint32_t)with_next);
    low->next = high;
    high->prev = low;
    gone->word &= ~DESC_STATE_MASK; /* DESC_POOLED, as in desc_put() */
    gone->link = pooled;
    pooled = next_fit_choose(with_next, next, pooled);
    d->word = (d->word & ~DESC_STATE_MASK) |
              (desc_word(0, DESC_FREED) & ~(uint64_t)with_prev); /* or DESC_POOLED, which is 0 */
    d->link = pooled;
    h->pool.free = next_fit_choose(with_prev, d, pooled);
    h->waiting += 1 + (uint32_t)with_prev + (uint32_t)with_next; /* less one for each */
}

/* Frees a block of the current arena. */
static void next_fit_free_here(struct heap *h, struct rdesc *d)
{
    const uint64_t bytes = block_bytes(h, d);
    struct rdesc *edge = &h->at->edge;

    h->frees++;
    if (LIKELY(d != h->now.last && d->prev != edge)) {
        h->mark += bytes;
        if (UNLIKELY(desc_state(d->next) == DESC_GAP))
            next_fit_free_before_gap(h, d);
        else
            next_fit_free_between(h, d);
        return;
    }
    h->waiting++;
    desc_set_state(d, DESC_FREED);
    if (d != h->now.last) {
        next_fit_move_tail(h);
    } else if (d->prev != edge) {
        next_fit_roll_back(h);
    } else {
        h->now.last = edge;
        next_fit_drop(h, d);
    }
    next_fit_update(h, next_fit_used(h) - bytes);
}

/* The segment that a block is in; most often the one that the heap allocates from. */
static struct segment *next_fit_segment_of(struct heap *h, const struct rdesc *d)
{
    struct segment *s = h->at;

    while (UNLIKELY(d->offset - s->begin >= s->end - s->begin))
        s = s->next != NULL ? s->next : &h->first;
    return s;
}

void next_fit_free_slow(struct heap *h, struct rdesc *d)
{
    struct segment *at = h->at, *s = next_fit_segment_of(h, d);

    if (LIKELY(s == at)) {
        next_fit_free_here(h, d);
        return;
    }
    next_fit_enter(h, s);
    next_fit_free_here(h, d);
    next_fit_enter(h, at);
}

/*
 * Only the newest block of an arena has its tail beside free memory. mark - head = peak - used
 * stays true (invariant 3).
 */
static void next_fit_shrink(struct heap *h, struct rdesc *d, uint32_t units)
{
    struct segment *at = h->at, *s = next_fit_segment_of(h, d);

    if (d != next_fit_arena_of(h, s)->last)
        return;
    if (s != at)
        next_fit_enter(h, s);
    d->units = units;
    h->now.head = d->offset + ((uint64_t)units << h->shift);
    if (s != at)
        next_fit_enter(h, at);
}

static void next_fit_open(struct heap *h, uint64_t seed)
{
    (void)seed;
    desc_pool_init(&h->pool, h->most, sizeof(struct rdesc), h->owner);
}

static void next_fit_close(struct heap *h) { (void)h; }

static int next_fit_grow(struct heap *h, struct segment *s)
{
    s->arena = (struct arena){.head = s->begin, .limit = s->end, .last = &s->edge};
    if (h->at == NULL) {
        h->at = s;
        h->now = s->arena;
        h->zero = s->zero;
        next_fit_update(h, 0);
    }
    return 0;
}

static struct rdesc *next_fit_ops_alloc(struct heap *h, size_t size)
{
    return next_fit_alloc(h, size);
}
static void next_fit_ops_free(struct heap *h, struct rdesc *d) { next_fit_free(h, d); }

static uint64_t next_fit_larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t next_fit_largest(const struct heap *h)
{
    uint64_t most = 0;

    for (const struct segment *s = &h->first; s != NULL; s = s->next) {
        const struct arena *a = next_fit_arena_of(h, s);

        most = next_fit_larger(most, a->limit - a->head);
        if (!next_fit_wrapped(h, s) && !next_fit_empty(h, s))
            most = next_fit_larger(most, next_fit_tail(s) - s->begin);
    }
    return most;
}

/*
 * Free bytes after every sent block has been freed: the arena outside the oldest to the newest
 * unsent block.
 */
static uint64_t next_fit_unsent_room(const struct heap *h, const struct segment *s)
{
    const struct rdesc *prev = &s->edge, *d = next_fit_first(s), *oldest = NULL, *newest = NULL;
    uint64_t head;

    for (; prev != next_fit_arena_of(h, s)->last; prev = d, d = d->next)
        if (desc_state(d) == DESC_OWNED) {
            newest = d;
            oldest = oldest != NULL ? oldest : d;
        }
    if (newest == NULL)
        return s->end - s->begin;
    head = newest->offset + block_bytes(h, newest);
    return newest->offset < oldest->offset
               ? oldest->offset - head
               : next_fit_larger(s->end - head, oldest->offset - s->begin);
}

const struct fit_ops next_fit_ops = {
    .name = "next-fit",
    .open = next_fit_open,
    .close = next_fit_close,
    .grow = next_fit_grow,
    .alloc = next_fit_ops_alloc,
    .free = next_fit_ops_free,
    .shrink = next_fit_shrink,
    .used = next_fit_used,
    .largest = next_fit_largest,
    .unsent_room = next_fit_unsent_room,
    .walk = next_fit_walk,
    .stats = next_fit_stats,
    .check = next_fit_check,
};
