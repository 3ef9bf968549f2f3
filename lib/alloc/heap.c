/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap.c: what is the same for every heuristic: creation, dispatch, statistics, the common part of the check.
 *
 * Invariants beyond those of the fit: used <= peak <= bytes; allocs - frees blocks are handed out; every descriptor
 * is either in the pool or in a block.
 */
#include "alloc/heap.h"

#include "alloc/fit.h"
#include "alloc/next_fit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT_MAX (UINT32_C(1) << 20)
#define UNITS_MAX (UINT64_C(1) << 31)

/* By rmalloc_algorithm_t. NULL: known, and not in this version. */
static const struct {
    const char *name;
    const struct fit_ops *ops;
} fits[] = {
    [NEXT_FIT] = {"NEXT_FIT", &next_fit_ops}, [FIRST_FIT] = {"FIRST_FIT", NULL},   [BEST_FIT] = {"BEST_FIT", NULL},
    [WORST_FIT] = {"WORST_FIT", NULL},        [RANDOM_FIT] = {"RANDOM_FIT", NULL},
};

int heap_broken(char *why, size_t why_bytes, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, why_bytes, format, args);
    va_end(args);
    return -EUCLEAN;
}

int heap_config_check(const struct heap_config *cfg, char *why, size_t why_bytes)
{
    const uint32_t unit = cfg->unit_size;
    const size_t algorithm = (size_t)cfg->algorithm;

    if (unit == 0 || unit > UNIT_MAX || (unit & (unit - 1)) != 0)
        snprintf(why, why_bytes, "unit_size is %u; it must be a power of two from 1 to %u", unit, UNIT_MAX);
    else if (cfg->bytes == 0)
        snprintf(why, why_bytes, "alloc_size is 0; it must be at least 1");
    else if (cfg->bytes > UNITS_MAX * unit)
        snprintf(why, why_bytes, "alloc_size is %llu; with units of %u bytes it must be at most %llu (2^31 units)",
                 (unsigned long long)cfg->bytes, unit, (unsigned long long)(UNITS_MAX * unit));
    else if (((uintptr_t)cfg->base & (unit - 1)) != 0)
        snprintf(why, why_bytes, "the buffer at %p is not aligned to a unit of %u bytes", cfg->base, unit);
    else if ((uintptr_t)cfg->base > UINTPTR_MAX - cfg->bytes)
        snprintf(why, why_bytes, "the buffer at %p of %llu bytes leads beyond the address space", cfg->base,
                 (unsigned long long)cfg->bytes);
    else if (algorithm >= sizeof(fits) / sizeof(fits[0]))
        snprintf(why, why_bytes, "algorithm is %d; it must be one of NEXT_FIT .. RANDOM_FIT", (int)cfg->algorithm);
    else if (fits[algorithm].ops == NULL) {
        snprintf(why, why_bytes, "algorithm is %s; this version has NEXT_FIT only", fits[algorithm].name);
        return -ENOTSUP;
    } else {
        return 0;
    }
    return -EINVAL;
}

int heap_create(struct heap **heap, const struct heap_config *cfg)
{
    struct heap *h;
    char why[160];
    int error = heap_config_check(cfg, why, sizeof(why));

    if (error != 0)
        return error;
    h = aligned_alloc(CACHE_LINE, sizeof(*h));
    if (h == NULL)
        return -ENOMEM;
    memset(h, 0, sizeof(*h));
    h->round_up = cfg->unit_size - 1;
    h->whole = ~h->round_up;
    h->shift = (uint32_t)__builtin_ctz(cfg->unit_size);
    h->base = cfg->base;
    h->owner = cfg->owner != 0 ? cfg->owner : desc_owner_id();
    h->whose = desc_owned_by(h->owner);
    h->bytes = cfg->bytes;
    h->algorithm = cfg->algorithm;
    h->ops = fits[cfg->algorithm].ops;
    desc_pool_init(&h->pool, cfg->max_descriptors != 0 ? cfg->max_descriptors : DESC_LIMIT_DEFAULT,
                   sizeof(struct rdesc));
    error = h->ops->open(h, cfg);
    if (error != 0) {
        free(h);
        return error;
    }
    *heap = h;
    return 0;
}

void heap_destroy(struct heap *h)
{
    if (h == NULL)
        return;
    h->ops->close(h);
    desc_pool_destroy(&h->pool);
    free(h);
}

struct rdesc *heap_alloc(struct heap *h, size_t size)
{
    if (LIKELY(h->algorithm == NEXT_FIT))
        return next_fit_alloc(h, size);
    return h->ops->alloc(h, size);
}

void heap_free(struct heap *h, struct rdesc *d)
{
    if (LIKELY(h->algorithm == NEXT_FIT))
        next_fit_free(h, d);
    else
        h->ops->free(h, d);
}

int heap_alloc_error(const struct heap *h) { return h->error; }
uint64_t heap_bytes(const struct heap *h) { return h->bytes; }
uint64_t heap_bytes_used(const struct heap *h) { return h->ops->used(h); }

void heap_get_stats(const struct heap *h, rdma_vmem_stats_t *stats)
{
    *stats = (rdma_vmem_stats_t){
        .bytes = h->bytes,
        .bytes_used = h->ops->used(h),
        .bytes_stuck = h->ops->stuck(h),
        .largest = h->pool.free != NULL || h->pool.made < h->pool.limit ? h->ops->largest(h) : 0,
        .peak = h->peak,
        .allocs = h->allocs,
        .frees = h->frees,
        .failures = h->failures,
        .blocks_used = h->allocs - h->frees,
    };
    stats->bytes_free = stats->bytes - stats->bytes_used - stats->bytes_stuck;
}

int heap_check(const struct heap *h, char *why, size_t why_bytes)
{
    const uint64_t used = h->ops->used(h);
    uint32_t in_blocks, handed_out, pooled;
    int error = h->ops->check(h, why, why_bytes, &in_blocks, &handed_out);

    if (error != 0)
        return error;
    error = desc_pool_check(&h->pool, why, why_bytes, &pooled);
    if (error != 0)
        return error;
    if (pooled + in_blocks != h->pool.made)
        return heap_broken(why, why_bytes, "of %u descriptors %u are in the pool and %u in blocks", h->pool.made,
                           pooled, in_blocks);
    if (h->allocs - h->frees != handed_out)
        return heap_broken(why, why_bytes, "%u blocks are handed out, after %llu allocations and %llu frees",
                           handed_out, (unsigned long long)h->allocs, (unsigned long long)h->frees);
    if (used > h->peak || h->peak > h->bytes)
        return heap_broken(why, why_bytes, "%llu bytes are handed out, at the peak %llu, of %llu",
                           (unsigned long long)used, (unsigned long long)h->peak, (unsigned long long)h->bytes);
    return 0;
}

uint64_t heap_largest_segment(const struct heap *h) { return h->bytes; }

uint64_t heap_unsent_room(const struct heap *h)
{
    (void)h;
    return UINT64_MAX; /* nothing is known to stand in the way */
}

int heap_grow(struct heap *h, void *base, uint64_t bytes)
{
    (void)h;
    (void)base;
    (void)bytes;
    return -ENOTSUP;
}
