/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * next_fit_check.c: see next_fit_check.h; the invariants are those of next_fit.c.
 */
#include "alloc/next_fit_check.h"

#include "alloc/broken.h"
#include "alloc/next_fit_arena.h"

/* ---- walk, statistics ---- */

static int next_fit_visit_hole(const struct segment *s, uint64_t begin, uint64_t end,
                               heap_visit visit, void *arg)
{
    const rvmem_block_t b = {
        .offset = begin, .bytes = end - begin, .state = RVMEM_FREE, .segment = s->number};

    return begin < end ? visit(&b, arg) : 0;
}

static int next_fit_visit_block(const struct heap *h, const struct segment *s, struct rdesc *d,
                                heap_visit visit, void *arg)
{
    rvmem_block_t b = {.offset = d->offset,
                       .bytes = block_bytes(h, d),
                       .state = RVMEM_STUCK,
                       .segment = s->number};

    if (!next_fit_waits(d)) {
        b.state = RVMEM_USED;
        b.size = d->size;
        b.d = desc_handle(d);
    }
    return visit(&b, arg);
}

/* From `d` to the newest, while addresses ascend. */
static int next_fit_walk_ascending(const struct heap *h, const struct segment *s, struct rdesc *d,
                                   heap_visit visit, void *arg)
{
    const struct rdesc *last = next_fit_arena_of(h, s)->last;
    int result = next_fit_visit_block(h, s, d, visit, arg);

    for (; result == 0 && d != last && d->next->offset > d->offset; d = d->next)
        result = next_fit_visit_block(h, s, d->next, visit, arg);
    return result;
}

int next_fit_walk(const struct heap *h, const struct segment *s, heap_visit visit, void *arg)
{
    const struct arena *a = next_fit_arena_of(h, s);
    struct rdesc *d = next_fit_first(s);
    int result = 0;

    if (next_fit_empty(h, s))
        return next_fit_visit_hole(s, s->begin, s->end, visit, arg);
    if (a->last->offset >= d->offset) { /* not wrapped: hole, blocks, hole */
        result = next_fit_visit_hole(s, s->begin, d->offset, visit, arg);
        if (result == 0)
            result = next_fit_walk_ascending(h, s, d, visit, arg);
        return result != 0 ? result : next_fit_visit_hole(s, a->head, s->end, visit, arg);
    }
    while (d->next->offset >
           d->offset) /* wrapped: from the first one behind the end; the hole; from the oldest */
        d = d->next;
    result = next_fit_walk_ascending(h, s, d->next, visit, arg);
    if (result == 0)
        result = next_fit_visit_hole(s, a->head, next_fit_tail(s), visit, arg);
    return result != 0 ? result : next_fit_walk_ascending(h, s, next_fit_first(s), visit, arg);
}

void next_fit_stats(const struct heap *h, rvmem_stats_t *stats)
{
    stats->blocks_free = h->waiting;
    for (const struct segment *s = &h->first; s != NULL; s = s->next) {
        const struct arena *a = next_fit_arena_of(h, s);
        const bool in_two = !next_fit_wrapped(h, s) &&
                            !next_fit_empty(h, s); /* the hole is on both sides of the end */

        stats->blocks_free += a->limit > a->head;
        if (in_two)
            stats->blocks_free += next_fit_tail(s) > s->begin;
        if (!next_fit_empty(h, s))
            stats->bytes_stuck += in_two ? a->head - next_fit_tail(s)
                                         : s->end - next_fit_tail(s) + a->head - s->begin;
    }
    stats->bytes_stuck -= stats->bytes_used;
}

/* ---- check ---- */

struct totals {
    uint64_t in_use;
    uint32_t descriptors, handed_out, waiting;
};

/*
 * What must hold between a block and the one before it in the list. `laps` counts the ends of the
 * segment passed.
 */
static int next_fit_check_neighbors(const struct heap *h, const struct segment *s,
                                    const struct rdesc *prev, const struct rdesc *d, unsigned *laps,
                                    struct error *err)
{
    const uint64_t end = prev->offset + block_bytes(h, prev);

    if (d->offset == end) {
        if (next_fit_waits(prev) && next_fit_waits(d))
            return broken(err, "the neighbors at %llu and %llu are both free",
                          (unsigned long long)prev->offset, (unsigned long long)d->offset);
    } else if (end == s->end && d->offset == s->begin) {
        (*laps)++;
    } else {
        return broken(err, "after the block that ends at %llu comes one that begins at %llu",
                      (unsigned long long)end, (unsigned long long)d->offset);
    }
    if (*laps > 1 || (*laps == 1 && d->offset + block_bytes(h, d) > next_fit_tail(s)))
        return broken(err, "the block at %llu has overrun the oldest one, at %llu",
                      (unsigned long long)d->offset, (unsigned long long)next_fit_tail(s));
    return 0;
}

static int next_fit_check_arena(const struct heap *h, const struct segment *s, struct totals *t,
                                struct error *err)
{
    const struct rdesc *edge = &s->edge, *gap = &s->gap, *d, *prev = edge,
                       *last = next_fit_arena_of(h, s)->last;
    uint64_t head = s->begin, limit = s->end;
    unsigned laps = 0;
    int error;

    for (d = next_fit_first(s); prev != last; prev = d, d = d->next) {
        if ((d != gap && !desc_pool_holds(&h->pool, d)) || d->prev != prev ||
            t->descriptors > h->pool.made)
            return broken(err, "the list of blocks is torn after the block at %llu",
                          (unsigned long long)prev->offset);
        if ((desc_state(d) == DESC_GAP) != (d == gap) || desc_state(d) == DESC_POOLED ||
            desc_state(d) > DESC_GAP)
            return broken(err, "the block at %llu is in state %u", (unsigned long long)d->offset,
                          desc_state(d));
        error = fit_check_block(h, s, d, err);
        if (error == 0 && prev != edge)
            error = next_fit_check_neighbors(h, s, prev, d, &laps, err);
        if (error != 0)
            return error;
        t->descriptors += d != gap;
        t->handed_out += !next_fit_waits(d);
        t->waiting += next_fit_waits(d);
        t->in_use += next_fit_waits(d) ? 0 : block_bytes(h, d);
        if (d == gap &&
            (d->offset + block_bytes(h, d) != s->end || d == last || d->next->offset != s->begin))
            return broken(
                err, "the gap at %llu is not the last block of its segment, which ends at %llu",
                (unsigned long long)d->offset, (unsigned long long)s->end);
    }
    if (prev != edge) {
        if (next_fit_waits(next_fit_first(s)) || next_fit_waits(prev))
            return broken(err, "the oldest or the newest block is free");
        head = prev->offset + block_bytes(h, prev);
        limit = laps > 0 ? next_fit_tail(s) : s->end;
    }
    if (head != next_fit_arena_of(h, s)->head || limit != next_fit_arena_of(h, s)->limit)
        return broken(err, "head %llu and limit %llu should be %llu and %llu",
                      (unsigned long long)next_fit_arena_of(h, s)->head,
                      (unsigned long long)next_fit_arena_of(h, s)->limit, (unsigned long long)head,
                      (unsigned long long)limit);
    return 0;
}

int next_fit_check(const struct heap *h, struct error *err, uint32_t *descriptors,
                   uint32_t *handed_out)
{
    struct totals t = {.in_use = 0};
    int error;

    if (h->zero != h->at->zero)
        return broken(err,
                      "the memory of the heap is mapped at %llx, and its current segment at %llx",
                      (unsigned long long)h->zero, (unsigned long long)h->at->zero);
    for (const struct segment *s = &h->first; s != NULL; s = s->next) {
        error = next_fit_check_arena(h, s, &t, err);
        if (error != 0)
            return error;
    }
    if (t.in_use != next_fit_used(h))
        return broken(err, "%llu bytes are handed out, %llu are counted",
                      (unsigned long long)t.in_use, (unsigned long long)next_fit_used(h));
    if (t.waiting != h->waiting)
        return broken(err, "%u blocks wait, %u are counted", t.waiting, h->waiting);
    *descriptors = t.descriptors;
    *handed_out = t.handed_out;
    return 0;
}
