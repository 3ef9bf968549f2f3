/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap.c: what is common to all heuristics: creation, growth, dispatch, statistics, the common part
 * of the check.
 *
 * Invariants in addition to those of the heuristic: used <= peak <= bytes; allocs - frees blocks
 * are allocated; every descriptor is either in the pool or in a block; segments follow each other,
 * each at the next whole unit.
 */
#include "alloc/heap.h"

#include "alloc/best_fit.h"
#include "alloc/broken.h"
#include "alloc/fit.h"
#include "alloc/next_fit.h"
#include "alloc/segregated_fit.h"
#include "alloc/tree_fit.h"
#include "alloc/tree_fit_cut.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT_MAX (UINT32_C(1) << 20)
#define UNITS_MAX (UINT64_C(1) << 31)

static const struct fit_ops *const heap_fits[] = {
    [RMALLOC_NEXT_FIT] = &next_fit_ops,     [RMALLOC_FIRST_FIT] = &first_fit_ops,
    [RMALLOC_BEST_FIT] = &best_fit_ops,     [RMALLOC_WORST_FIT] = &worst_fit_ops,
    [RMALLOC_RANDOM_FIT] = &random_fit_ops, [RMALLOC_SEGREGATED_FIT] = &segregated_fit_ops,
};

int heap_config_check(const struct heap_config *cfg, struct error *err)
{
    const uint32_t unit = cfg->unit_size;

    if (unit == 0 || unit > UNIT_MAX || (unit & (unit - 1)) != 0)
        error_note(err,
                   "unit_bytes is %u; it must be 0 (the default) or a power of two from 1 to %u",
                   unit, UNIT_MAX);
    else if (cfg->bytes == 0)
        error_note(err, "bytes is 0; it must be at least 1");
    else if (cfg->bytes > UNITS_MAX * unit)
        error_note(err,
                   "bytes is %llu; with units of %u bytes it must be at most %llu (2^31 units): "
                   "make unit_bytes larger",
                   (unsigned long long)cfg->bytes, unit, (unsigned long long)(UNITS_MAX * unit));
    else if (((uintptr_t)cfg->base & (unit - 1)) != 0)
        error_note(err, "buffer is %p; it must be aligned to unit_bytes, %u", cfg->base, unit);
    else if ((uintptr_t)cfg->base > UINTPTR_MAX - cfg->bytes)
        error_note(err, "buffer is %p and bytes is %llu; together they exceed the address space",
                   cfg->base, (unsigned long long)cfg->bytes);
    else if ((size_t)cfg->algorithm >= sizeof(heap_fits) / sizeof(heap_fits[0]))
        error_note(err,
                   "heuristic is %d; it must be RMALLOC_FIT_DEFAULT, or RMALLOC_NEXT_FIT to "
                   "RMALLOC_SEGREGATED_FIT",
                   (int)cfg->algorithm);
    else
        return 0;
    return -EINVAL;
}

/* ---- segments ---- */

static uint64_t heap_whole_units(const struct heap *h, uint64_t bytes)
{
    return (bytes + h->round_up) & h->whole;
}

static void heap_fill_segment(const struct heap *h, struct segment *s, uint64_t begin, void *base,
                              uint64_t bytes)
{
    const uint32_t owner = h->owner & DESC_OWNER_MOST;

    s->begin = begin;
    s->end = begin + bytes;
    s->zero = (uintptr_t)base - (uintptr_t)begin;
    s->edge = (struct rdesc){.offset = begin, .word = desc_word(owner, DESC_POOLED)};
    s->edge.prev = s->edge.next = &s->edge;
    s->gap = (struct rdesc){.word = desc_word(owner, DESC_GAP)};
}

/* Adds a segment to the totals, after the heuristic has added it. */
static void heap_count_segment(struct heap *h, struct segment *s)
{
    const uint64_t bytes = s->end - s->begin;

    s->number = h->segments++;
    h->newest = s;
    h->bytes += bytes;
    if (bytes > h->largest)
        h->largest = bytes;
    h->ragged = h->ragged || (bytes & h->round_up) != 0;
}

int heap_create(struct heap **heap, const struct heap_config *cfg)
{
    struct heap *h;
    struct error err = {""};
    int error = heap_config_check(cfg, &err);

    if (error != 0)
        return error;
    h = aligned_alloc(CACHE_LINE, sizeof(*h));
    if (h == NULL)
        return -ENOMEM;
    memset(h, 0, sizeof(*h));
    h->round_up = cfg->unit_size - 1;
    h->whole = ~h->round_up;
    h->shift = (uint32_t)__builtin_ctz(cfg->unit_size);
    h->mapped = cfg->base != NULL ? UINTPTR_MAX : 0;
    h->owner = cfg->owner != 0 ? cfg->owner : desc_owner_id();
    h->algorithm = cfg->algorithm != RMALLOC_FIT_DEFAULT ? cfg->algorithm : RMALLOC_NEXT_FIT;
    h->ops = heap_fits[h->algorithm];
    h->most = cfg->max_descriptors != 0 ? cfg->max_descriptors : DESC_LIMIT_DEFAULT;
    heap_fill_segment(h, &h->first, 0, cfg->base, cfg->bytes);
    h->ops->open(h, cfg->seed);
    error = h->ops->grow(h, &h->first);
    if (error != 0) {
        heap_destroy(h);
        return error;
    }
    heap_count_segment(h, &h->first);
    *heap = h;
    return 0;
}

void heap_destroy(struct heap *h)
{
    struct segment *s, *next;

    if (h == NULL)
        return;
    for (s = h->first.next; s != NULL; s = next) {
        next = s->next;
        free(s);
    }
    h->ops->close(h);
    desc_pool_destroy(&h->pool);
    free(h);
}

int heap_grow(struct heap *h, void *base, uint64_t bytes)
{
    const uint64_t begin = heap_whole_units(h, h->newest->end), most = UNITS_MAX << h->shift;
    struct segment *s;
    int error;

    if (bytes == 0 || bytes > most - begin || (base != NULL) != (h->mapped != 0) ||
        ((uintptr_t)base & h->round_up) != 0 || (uintptr_t)base > UINTPTR_MAX - bytes)
        return -EINVAL;
    s = aligned_alloc(CACHE_LINE, sizeof(*s));
    if (s == NULL)
        return -ENOMEM;
    memset(s, 0, sizeof(*s));
    heap_fill_segment(h, s, begin, base, bytes);
    error = h->ops->grow(h, s);
    if (error != 0) {
        free(s);
        return error;
    }
    h->newest->next = s;
    heap_count_segment(h, s);
    return 0;
}

/* ---- dispatch ---- */

/* Functions of their own, so that next-fit, the default of pipes, needs no stack frame. */
static NOINLINE struct rdesc *heap_alloc_other(struct heap *h, size_t size)
{
    struct rdesc *d;

    if (h->algorithm == RMALLOC_SEGREGATED_FIT)
        return segregated_fit_alloc(h, size);
    if (h->algorithm != RMALLOC_BEST_FIT)
        return tree_fit_alloc(h, size);
    d = best_fit_take(h, size);
    return d != NULL ? d : h->ops->alloc(h, size);
}

static NOINLINE void heap_free_other(struct heap *h, struct rdesc *d)
{
    if (h->algorithm == RMALLOC_SEGREGATED_FIT)
        segregated_fit_free(h, d);
    else
        tree_fit_free(h, d);
}

struct rdesc *heap_alloc(struct heap *h, size_t size)
{
    if (LIKELY(h->algorithm == RMALLOC_NEXT_FIT))
        return next_fit_alloc(h, size);
    return heap_alloc_other(h, size);
}

void heap_free(struct heap *h, struct rdesc *d)
{
    if (LIKELY(h->algorithm == RMALLOC_NEXT_FIT))
        next_fit_free(h, d);
    else
        heap_free_other(h, d);
}

void heap_shrink(struct heap *h, struct rdesc *d, size_t bytes)
{
    const uint64_t units = bytes == 0 ? 1 : ((bytes - 1) >> h->shift) + 1;

    d->size = bytes;
    if (units < d->units)
        h->ops->shrink(h, d, (uint32_t)units);
}

struct rdesc *heap_carve(struct heap *h, uint64_t offset, size_t size)
{
    return h->algorithm == RMALLOC_FIRST_FIT ? tree_fit_carve(h, offset, size)
                                             : heap_refuse(h, -ENOTSUP);
}

int heap_walk(const struct heap *h, heap_visit visit, void *arg)
{
    int result = 0;

    for (const struct segment *s = &h->first; s != NULL && result == 0; s = s->next)
        result = h->ops->walk(h, s, visit, arg);
    return result;
}

uint64_t heap_unsent_room(const struct heap *h)
{
    uint64_t most = 0;

    for (const struct segment *s = &h->first; s != NULL; s = s->next) {
        uint64_t room = h->ops->unsent_room(h, s);

        most = room > most ? room : most;
    }
    return most;
}

uint64_t heap_block_bytes(const struct heap *h, const struct rdesc *d) { return block_bytes(h, d); }

bool heap_has_descriptor(const struct heap *h, const struct rdesc *d)
{
    return desc_pool_holds(&h->pool, d);
}

int heap_alloc_error(const struct heap *h) { return h->error; }
uint64_t heap_allocs(const struct heap *h) { return h->allocs; }
uint64_t heap_bytes(const struct heap *h) { return h->bytes; }
uint64_t heap_bytes_used(const struct heap *h) { return h->ops->used(h); }
uint64_t heap_largest_segment(const struct heap *h) { return h->largest; }

/* ---- statistics, check ---- */

/* Whether there is a descriptor for one more block, or could be. */
static bool heap_may_hand_out(const struct heap *h)
{
    const bool waits = h->segregated != NULL && segregated_waiting(h) > 0; /* merging gives one */

    return h->allocs - h->frees < h->most &&
           (h->pool.free != NULL || !desc_pool_is_full(&h->pool) || waits);
}

void heap_get_stats(const struct heap *h, rvmem_stats_t *stats)
{
    *stats = (rvmem_stats_t){
        .bytes = h->bytes,
        .bytes_used = h->ops->used(h),
        .largest = heap_may_hand_out(h) ? h->ops->largest(h) : 0,
        .peak = h->peak,
        .allocs = h->allocs,
        .frees = h->frees,
        .failures = h->failures,
        .blocks_used = h->allocs - h->frees,
        .segments = h->segments,
        .metadata =
            sizeof(*h) + (h->segments - 1) * sizeof(struct segment) + desc_pool_bytes(&h->pool),
    };
    h->ops->stats(h, stats);
    stats->bytes_free = stats->bytes - stats->bytes_used - stats->bytes_stuck;
}

static int heap_check_segments(const struct heap *h, struct error *err)
{
    const struct segment *s = &h->first, *last = s;
    uint64_t bytes = 0, largest = 0, begin = 0;
    uint32_t number = 0;

    for (; s != NULL && number <= h->segments; last = s, s = s->next) {
        const uint64_t length = s->end - s->begin;

        if (s->begin != begin || s->end <= s->begin || s->number != number++)
            return broken(err, "segment %u is from %llu to %llu; it must begin at %llu", s->number,
                          (unsigned long long)s->begin, (unsigned long long)s->end,
                          (unsigned long long)begin);
        begin = heap_whole_units(h, s->end);
        bytes += length;
        largest = length > largest ? length : largest;
    }
    if (number != h->segments || last != h->newest || bytes != h->bytes || largest != h->largest)
        return broken(err,
                      "%u segments of %llu bytes, at most %llu, are counted as %u, %llu and %llu",
                      number, (unsigned long long)bytes, (unsigned long long)largest, h->segments,
                      (unsigned long long)h->bytes, (unsigned long long)h->largest);
    return 0;
}

int heap_check(const struct heap *h, struct error *err)
{
    const uint64_t used = h->ops->used(h);
    uint32_t in_blocks, handed_out, pooled = 0;
    int error = heap_check_segments(h, err);

    if (error == 0)
        error = h->ops->check(h, err, &in_blocks, &handed_out);
    if (error == 0)
        error = desc_pool_check(&h->pool, err, &pooled);
    if (error != 0)
        return error;
    if (pooled + in_blocks != h->pool.made)
        return broken(err, "of %u descriptors %u are in the pool and %u in blocks", h->pool.made,
                      pooled, in_blocks);
    if (h->allocs - h->frees != handed_out)
        return broken(err, "%u blocks are handed out, after %llu allocations and %llu frees",
                      handed_out, (unsigned long long)h->allocs, (unsigned long long)h->frees);
    if (used > h->peak || h->peak > h->bytes)
        return broken(err, "%llu bytes are handed out, at the peak %llu, of %llu",
                      (unsigned long long)used, (unsigned long long)h->peak,
                      (unsigned long long)h->bytes);
    return 0;
}
