/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_fit_heap.h: first-, best-, worst- and random-fit heaps.
 *
 * A heap is written as a string, one letter for each unit: the same letter is one block, a dot is free.
 */
#ifndef TEST_UNIT_TREE_FIT_HEAP_H
#define TEST_UNIT_TREE_FIT_HEAP_H

#include "heap_checks.h"
#include <rvmem.h>

static const rmalloc_fit_t fits[] = {RMALLOC_FIRST_FIT, RMALLOC_BEST_FIT, RMALLOC_WORST_FIT,
                                     RMALLOC_RANDOM_FIT};

#define FITS 4

static inline struct heap *heap_of_bytes(rmalloc_fit_t fit, uint64_t bytes, uint32_t unit,
                                         uint32_t max_descriptors)
{
    struct heap_config cfg = {.algorithm = fit,
                              .unit_size = unit,
                              .bytes = bytes,
                              .max_descriptors = max_descriptors,
                              .seed = 7};
    struct heap *h = NULL; /* a link-time optimizer does not see that the assertion ends the test */

    assert_int_equal(heap_create(&h, &cfg), 0);
    assert_sound(h);
    return h;
}

static inline struct rdesc *take_bytes(struct heap *h, size_t size)
{
    struct rdesc *d = heap_alloc(h, size);

    assert_non_null(d);
    assert_sound(h);
    assert_int_equal(desc_state(d), DESC_OWNED);
    assert_int_equal(d->size, size);
    return d;
}

static inline struct rdesc *take(struct heap *h, unsigned units)
{
    return take_bytes(h, (size_t)units * UNIT);
}

/* Carves blocks for the letters of `map` out of a first-fit heap, and takes them in order from any other. */
static inline struct heap *heap_like(rmalloc_fit_t fit, const char *map)
{
    const size_t units = strlen(map);
    struct heap *h = heap_of_bytes(fit, units * UNIT, UNIT, 0);
    struct rdesc *hole[64];
    unsigned holes = 0;

    for (size_t at = 0, n; at < units; at += n) {
        struct rdesc *d;

        for (n = 1; at + n < units && map[at + n] == map[at];)
            n++;
        d = take(h, (unsigned)n); /* from an empty heap every fit takes what is behind the last */
        assert_int_equal(d->offset, at * UNIT);
        if (map[at] == '.')
            hole[holes++] = d;
    }
    for (unsigned i = 0; i < holes; i++)
        give(h, hole[i]);
    return h;
}

struct picture {
    char map[65];
};

static inline int draw(const rvmem_block_t *b, void *arg)
{
    struct picture *p = arg;

    for (uint64_t u = b->offset / UNIT; u < (b->offset + b->bytes + UNIT - 1) / UNIT; u++)
        p->map[u] = b->state == RVMEM_FREE ? '.' : '#';
    return 0;
}

/* What is free and what is not, as a string of dots and crosses. */
static inline void assert_map(const struct heap *h, const char *expected)
{
    struct picture p = {""};

    assert_int_equal(heap_walk(h, draw, &p), 0);
    assert_string_equal(p.map, expected);
}

#endif
