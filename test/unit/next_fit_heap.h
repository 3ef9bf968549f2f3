/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * next_fit_heap.h: next-fit heaps, of units; every block is taken at the expected place.
 */
#ifndef TEST_UNIT_NEXT_FIT_HEAP_H
#define TEST_UNIT_NEXT_FIT_HEAP_H

#include "heap_checks.h"

static inline struct heap *heap_of_bytes(uint64_t bytes, uint32_t unit, uint32_t max_descriptors)
{
    struct heap_config cfg = {
        .unit_size = unit, .bytes = bytes, .max_descriptors = max_descriptors};
    struct heap *h = NULL; /* a link-time optimizer does not see that the assertion ends the test */

    assert_int_equal(heap_create(&h, &cfg), 0);
    assert_sound(h);
    return h;
}

static inline struct heap *heap_of_units(unsigned units)
{
    return heap_of_bytes(units * UNIT, UNIT, 0);
}

/* `units` whole units, which must be at unit `at`. */
static inline struct rdesc *take(struct heap *h, unsigned units, unsigned at)
{
    struct rdesc *d = heap_alloc(h, units * UNIT);

    assert_non_null(d);
    assert_sound(h);
    assert_int_equal(desc_state(d), DESC_OWNED);
    assert_int_equal(d->size, units * UNIT);
    assert_int_equal(d->units, units);
    assert_int_equal(d->offset, at * UNIT);
    assert_int_equal(desc_owner(d), h->owner & DESC_OWNER_MOST);
    return d;
}

static inline void assert_stuck(const struct heap *h, unsigned units)
{
    assert_int_equal(stats_of(h).bytes_stuck, units * UNIT);
}

static inline void grow(struct heap *h, uint64_t bytes)
{
    assert_int_equal(heap_grow(h, NULL, bytes), 0);
    assert_sound(h);
}

#endif
