/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A next-fit heap of several segments, case by case. Random sequences are in test_heap_model.c.
 */
#include "next_fit_heap.h"

static void a_heap_that_is_full_goes_on_in_the_next_segment(void **state)
{
    struct heap *h = heap_of_units(4);
    struct rdesc *a = take(h, 3, 0), *b, *c;

    (void)state;
    assert_refused(h, 6 * UNIT, -EMSGSIZE);
    grow(h, 6 * UNIT);
    assert_int_equal(heap_largest_segment(h), 6 * UNIT);
    assert_int_equal(stats_of(h).segments, 2);
    assert_int_equal(stats_of(h).largest, 6 * UNIT);
    assert_refused(h, 6 * UNIT + 1, -EMSGSIZE);
    b = take(h, 2, 4); /* no space for it where the heap was */
    c = take(h, 1, 6); /* and on behind the last one, though there is space before it */
    assert_int_equal(heap_bytes_used(h), 6 * UNIT);
    assert_int_equal(stats_of(h).peak, 6 * UNIT);
    give(h, a); /* of the segment that the heap is not in */
    take(h, 3, 7);
    take(h, 4, 0);
    assert_refused(h, 1, -EAGAIN);
    give(h, b);
    give(h, c);
    take(h, 3, 4); /* before the tail of the second: the first is full */
    heap_destroy(h);
}

static void segments_are_tried_in_a_circle(void **state)
{
    struct heap *h = heap_of_units(2);
    struct rdesc *d[4];

    (void)state;
    for (unsigned i = 1; i < 4; i++)
        grow(h, 2 * UNIT);
    for (unsigned i = 0; i < 4; i++)
        d[i] = take(h, 2, 2 * i);
    assert_refused(h, 1, -EAGAIN);
    give(h, d[1]);
    give(h, d[2]);
    d[1] = take(h, 2, 2); /* from the last one on */
    give(h, d[3]);
    d[2] = take(h, 2, 4); /* behind the one that was given out last */
    d[3] = take(h, 2, 6);
    for (unsigned i = 0; i < 4; i++)
        give(h, d[i]);
    assert_int_equal(stats_of(h).blocks_free, 4);
    heap_destroy(h);
}

static void each_segment_is_an_arena_of_its_own(void **state)
{
    struct heap *h = heap_of_bytes(4 * UNIT + 7, UNIT, 0);
    struct rdesc *a, *b, *c, *d;

    (void)state;
    grow(h, 3 * UNIT + 5);
    a = heap_alloc(h, 3 * UNIT);
    b = heap_alloc(h, UNIT + 7); /* to the short end */
    assert_int_equal(b->units, 2);
    c = heap_alloc(h, 2 * UNIT);
    d = heap_alloc(h, UNIT + 5);
    assert_int_equal(c->offset, 5 * UNIT); /* at the next whole unit */
    assert_int_equal(d->offset, 7 * UNIT);
    assert_sound(h);
    assert_int_equal(heap_bytes_used(h), heap_bytes(h));
    give(h, a); /* the oldest of an arena that the heap is not in; */
    assert_int_equal(stats_of(h).largest, 3 * UNIT);
    give(h, d); /* the newest of the one that it is in */
    assert_int_equal(stats_of(h).bytes_free, 3 * UNIT + UNIT + 5);
    a = take(h, 2, 0); /* wraps: no gap, b ends at the end */
    give(h, b);
    assert_int_equal(stats_of(h).bytes_stuck, 0);
    assert_int_equal(stats_of(h).largest, 2 * UNIT + 7);
    give(h, c);
    give(h, a);
    assert_int_equal(stats_of(h).largest, 4 * UNIT + 7);
    assert_int_equal(heap_bytes_used(h), 0);
    heap_destroy(h);
}

static void what_is_freed_in_another_segment_is_merged_there(void **state)
{
    struct heap *h = heap_of_units(10);
    struct rdesc *d[5], *other;

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        d[i] = take(h, 2, 2 * i);
    grow(h, 4 * UNIT);
    other = take(h, 2, 10);
    give(h, d[1]);
    give(h, d[3]);
    assert_stuck(h, 4);
    assert_int_equal(stats_of(h).blocks_free, 3); /* two that wait, and a hole */
    give(h, d[2]);
    assert_stuck(h, 6);
    assert_int_equal(stats_of(h).blocks_free, 2);
    give(h, d[4]);
    assert_stuck(h, 0);
    give(h, other);
    give(h, d[0]);
    assert_int_equal(stats_of(h).largest, 10 * UNIT);
    heap_destroy(h);
}

static void a_segment_that_cannot_be_is_refused(void **state)
{
    struct heap_config cfg = {.unit_size = 1u << 20, .bytes = 1u << 20};
    struct heap *h;

    (void)state;
    assert_int_equal(heap_create(&h, &cfg), 0);
    assert_int_equal(heap_grow(h, NULL, 0), -EINVAL);
    assert_int_equal(heap_grow(h, (void *)(UINT64_C(1) << 20), 1u << 20),
                     -EINVAL);                                        /* the first is not mapped */
    assert_int_equal(heap_grow(h, NULL, UINT64_C(1) << 51), -EINVAL); /* one unit too many */
    assert_int_equal(heap_grow(h, NULL, (UINT64_C(1) << 51) - (1u << 20)), 0);
    assert_int_equal(heap_grow(h, NULL, 1), -EINVAL);
    assert_sound(h);
    assert_non_null(heap_alloc(h, (UINT64_C(1) << 51) - (1u << 20)));
    assert_sound(h);
    heap_destroy(h);
}

static void growth_without_memory_changes_nothing(void **state)
{
    struct heap *h;

    (void)state;
    skip_unless_memory_can_be_cut_off();
    h = heap_of_units(4);
    denied_after = 0;
    assert_int_equal(heap_grow(h, NULL, UNIT), -ENOMEM);
    denied_after = UINT32_MAX;
    assert_sound(h);
    assert_int_equal(stats_of(h).segments, 1);
    heap_destroy(h);
}

static void memory_of_a_segment_is_where_it_is_mapped(void **state)
{
    char *first = aligned_alloc(UNIT, 4 * UNIT), *second = aligned_alloc(UNIT, 8 * UNIT);
    struct heap_config cfg = {.unit_size = UNIT, .bytes = 4 * UNIT, .base = first};
    struct rdesc *d;
    struct heap *h;

    (void)state;
    assert_int_equal(heap_create(&h, &cfg), 0);
    assert_int_equal(heap_grow(h, NULL, 8 * UNIT), -EINVAL);
    assert_int_equal(heap_grow(h, second + 8, 7 * UNIT), -EINVAL);
    assert_int_equal(heap_grow(h, second, 8 * UNIT), 0);
    d = take(h, 3, 0);
    assert_ptr_equal(d->mem, first);
    assert_ptr_equal(take(h, 4, 4)->mem, second);
    assert_ptr_equal(take(h, 4, 8)->mem, second + 4 * UNIT);
    give(h, d);
    assert_ptr_equal(take(h, 4, 0)->mem, first);
    heap_destroy(h);
    free(first);
    free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_heap_that_is_full_goes_on_in_the_next_segment),
        cmocka_unit_test(segments_are_tried_in_a_circle),
        cmocka_unit_test(each_segment_is_an_arena_of_its_own),
        cmocka_unit_test(what_is_freed_in_another_segment_is_merged_there),
        cmocka_unit_test(a_segment_that_cannot_be_is_refused),
        cmocka_unit_test(growth_without_memory_changes_nothing),
        cmocka_unit_test(memory_of_a_segment_is_where_it_is_mapped),
    };

    return cmocka_run_group_tests_name("heap growth", tests, NULL, NULL);
}
