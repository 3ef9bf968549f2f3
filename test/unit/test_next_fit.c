/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where next-fit puts blocks, case by case: an arena that goes round, and what is given back out of order. Random sequences are in test_heap_model.c.
 */
#include "next_fit_heap.h"

/* ---- the arena ---- */

static void blocks_follow_each_other_until_the_heap_is_full(void **state)
{
    struct heap *h = heap_of_units(6);

    (void)state;
    take(h, 1, 0);
    take(h, 2, 1);
    take(h, 3, 3);
    assert_refused(h, 1, -EAGAIN);
    assert_int_equal(stats_of(h).largest, 0);
    assert_int_equal(heap_bytes_used(h), heap_bytes(h));
    heap_destroy(h);
}

static void an_empty_heap_starts_again_at_the_beginning(void **state)
{
    struct heap *h = heap_of_units(8);
    struct rdesc *a = take(h, 3, 0), *b = take(h, 3, 3);

    (void)state;
    give(h, a);
    give(h, b);
    a = take(h, 8, 0);
    give(h, a);
    take(h, 8, 0);
    heap_destroy(h);
}

static void what_does_not_fit_before_the_end_leaves_a_gap(void **state)
{
    struct heap *h = heap_of_units(10);
    struct rdesc *a = take(h, 4, 0), *b = take(h, 4, 4), *c;

    (void)state;
    give(h, a);
    assert_stuck(h, 0);
    c = take(h, 3, 0); /* 8 and 9 are skipped */
    assert_stuck(h, 2);
    assert_int_equal(stats_of(h).bytes_free, UNIT);
    assert_refused(h, 2 * UNIT, -EAGAIN);
    take(h, 1, 3);
    assert_refused(h, 1, -EAGAIN);
    give(h, b); /* the tail passes the gap */
    assert_stuck(h, 0);
    assert_int_equal(stats_of(h).largest, 6 * UNIT);
    give(h, c);
    take(h, 6, 4);
    heap_destroy(h);
}

static void a_request_that_fits_nowhere_leaves_no_gap(void **state)
{
    struct heap *h = heap_of_units(10);
    struct rdesc *a = take(h, 3, 0);

    (void)state;
    take(h, 4, 3);
    give(h, a);
    assert_refused(h, 4 * UNIT, -EAGAIN);
    assert_stuck(h, 0);
    take(h, 3, 7);
    take(h, 3, 0);
    heap_destroy(h);
}

static void a_full_heap_that_has_wrapped_is_not_taken_for_an_empty_one(void **state)
{
    struct heap *h = heap_of_units(8);
    struct rdesc *a = take(h, 4, 0), *b = take(h, 4, 4), *c;

    (void)state;
    give(h, a);
    c = take(h, 4, 0); /* head == tail == 4 */
    assert_refused(h, 1, -EAGAIN);
    assert_int_equal(stats_of(h).bytes_free, 0);
    assert_int_equal(stats_of(h).largest, 0);
    give(h, b);
    assert_int_equal(stats_of(h).bytes_free, 4 * UNIT);
    b = take(h, 4, 4);
    give(h, c);
    give(h, b);
    take(h, 8, 0);
    heap_destroy(h);
}

static void a_long_queue_of_uneven_sizes_goes_round_and_round(void **state)
{
    struct heap *h = heap_of_units(23);
    struct rdesc *queue[4] = {NULL}, *d;

    (void)state;
    for (unsigned i = 0; i < 5000; i++) {
        unsigned units = 1 + i * 7 % 5;

        if (queue[i % 4] != NULL)
            give(h, queue[i % 4]);
        d = heap_alloc(h, units * UNIT);
        assert_non_null(
            d); /* 3 * 5 + a gap of 4 at most + 5 is more than 23: but the sizes 1 3 5 2 4 follow each other */
        assert_sound(h);
        queue[i % 4] = d;
    }
    assert_int_equal(stats_of(h).allocs, 5000);
    assert_int_equal(stats_of(h).frees, 4996);
    heap_destroy(h);
}

/* ---- out of order ---- */

static void a_block_freed_behind_an_older_one_waits_for_it(void **state)
{
    struct heap *h = heap_of_units(6);
    struct rdesc *a = take(h, 2, 0), *b = take(h, 2, 2), *c = take(h, 2, 4);

    (void)state;
    give(h, b);
    assert_int_equal(desc_state(b), DESC_FREED);
    assert_stuck(h, 2);
    assert_int_equal(heap_bytes_used(h), 4 * UNIT);
    assert_refused(h, 1, -EAGAIN);
    give(h, a); /* both come back at once */
    assert_int_equal(desc_state(b), DESC_POOLED);
    assert_stuck(h, 0);
    take(h, 4, 0);
    assert_refused(h, 1, -EAGAIN);
    give(h, c);
    heap_destroy(h);
}

static void freed_neighbours_become_one_and_return_descriptors_early(void **state)
{
    struct heap *h = heap_of_units(10);
    struct rdesc *d[5];

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        d[i] = take(h, 2, 2 * i);
    give(h, d[1]);
    give(h, d[3]);
    assert_int_equal(desc_state(d[1]), DESC_FREED);
    assert_int_equal(desc_state(d[3]), DESC_FREED);
    give(h, d[2]); /* with the one before and the one behind */
    assert_int_equal((desc_state(d[1]) == DESC_FREED) + (desc_state(d[2]) == DESC_FREED) +
                         (desc_state(d[3]) == DESC_FREED),
                     1);
    assert_int_equal((desc_state(d[1]) == DESC_POOLED) + (desc_state(d[2]) == DESC_POOLED) +
                         (desc_state(d[3]) == DESC_POOLED),
                     2);
    assert_stuck(h, 6);
    give(h, d[0]);
    assert_stuck(h, 0);
    take(h, 8, 0);
    heap_destroy(h);

    h = heap_of_units(6); /* the later one first */
    for (unsigned i = 0; i < 3; i++)
        d[i] = take(h, 2, 2 * i);
    desc_set_state(h->first.edge.next, DESC_SENT);
    give(h, d[1]);
    give(h, d[0]);
    take(h, 4, 0);
    heap_destroy(h);
}

static void freed_blocks_at_both_ends_of_the_range_are_not_neighbours(void **state)
{
    struct heap *h = heap_of_units(8);
    struct rdesc *a = take(h, 4, 0), *b = take(h, 2, 4), *c = take(h, 2, 6), *d, *e;

    (void)state;
    give(h, a);
    d = take(h, 2, 0);
    e = take(h, 2, 2);
    give(h, c); /* b c | d e, with c at the end and d at the beginning, neither a gap */
    give(h, d);
    assert_int_equal(desc_state(c), DESC_FREED);
    assert_int_equal(desc_state(d), DESC_FREED);
    assert_int_equal(c->units, 2);
    assert_int_equal(d->units, 2);
    give(h, b);
    assert_int_equal(stats_of(h).largest, 4 * UNIT);
    take(h, 4, 4);
    give(h, e);
    heap_destroy(h);
}

static void the_gap_takes_in_what_is_freed_before_it(void **state)
{
    struct heap *h = heap_of_units(10);
    struct rdesc *a = take(h, 4, 0), *b = take(h, 2, 4), *c = take(h, 3, 6), *d = NULL;

    (void)state;
    give(h, a);
    d = take(h, 2, 0); /* the gap is unit 9 */
    assert_stuck(h, 1);
    give(h, c);
    assert_stuck(h, 4);
    assert_int_equal(desc_state(c), DESC_POOLED);
    give(h, b);
    assert_stuck(h, 0);
    assert_int_equal(stats_of(h).largest, 8 * UNIT);
    give(h, d);
    heap_destroy(h);
}

static void the_newest_rolls_the_head_back(void **state)
{
    struct heap *h = heap_of_units(6);
    struct rdesc *a = take(h, 2, 0), *b = take(h, 4, 2);

    (void)state;
    give(h, b);
    b = take(h, 3, 2);
    give(h, b);
    b = take(h, 4, 2);
    give(h, a);
    give(h, b);
    heap_destroy(h);
}

static void the_newest_rolls_back_over_all_that_waits_below_it(void **state)
{
    struct heap *h = heap_of_units(8);
    struct rdesc *a = take(h, 2, 0), *b = take(h, 2, 2), *c = take(h, 2, 4), *d = take(h, 2, 6);

    (void)state;
    give(h, b);
    give(h, c);
    assert_stuck(h, 4);
    give(h, d);
    assert_stuck(h, 0);
    take(h, 6, 2);
    give(h, a);
    heap_destroy(h);
}

static void the_newest_rolls_back_over_the_gap(void **state)
{
    struct heap *h = heap_of_units(10);
    struct rdesc *a = take(h, 4, 0), *b = take(h, 2, 4), *c = take(h, 2, 6), *d;

    (void)state;
    give(h, a);
    d = take(h, 4, 0); /* the gap is 8, 9 */
    give(h, c);        /* and 6, 7 with it */
    assert_stuck(h, 4);
    give(h, d);
    assert_stuck(h, 0);
    take(h, 4, 6); /* as if nothing had ever wrapped */
    take(h, 4, 0);
    give(h, b);
    heap_destroy(h);
}

static void the_newest_rolls_back_over_the_end_where_there_is_no_gap(void **state)
{
    struct heap *h = heap_of_units(8);
    struct rdesc *a = take(h, 4, 0), *b = take(h, 4, 4), *c;

    (void)state;
    give(h, a);
    c = take(h, 2, 0);
    give(h, c);
    assert_int_equal(stats_of(h).largest, 4 * UNIT);
    c = take(h, 4, 0);
    give(h, c);
    give(h, b);
    take(h, 8, 0);
    heap_destroy(h);
}

static void a_sent_block_is_freed_like_an_owned_one(void **state)
{
    struct heap *h = heap_of_units(6);
    struct rdesc *d[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        d[i] = take(h, 2, 2 * i);
        desc_set_state(d[i], DESC_SENT);
        d[i]->size = 1; /* rwrite_n */
    }
    give(h, d[1]);
    give(h, d[0]);
    assert_int_equal(heap_bytes_used(h), 2 * UNIT);
    give(h, d[2]);
    take(h, 6, 0);
    heap_destroy(h);
}

static void when_all_is_freed_all_can_be_had_whatever_the_order(void **state)
{
    static const unsigned char order[24][4] = {
        {0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 1, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 3, 2, 1},
        {1, 0, 2, 3}, {1, 0, 3, 2}, {1, 2, 0, 3}, {1, 2, 3, 0}, {1, 3, 0, 2}, {1, 3, 2, 0},
        {2, 0, 1, 3}, {2, 0, 3, 1}, {2, 1, 0, 3}, {2, 1, 3, 0}, {2, 3, 0, 1}, {2, 3, 1, 0},
        {3, 0, 1, 2}, {3, 0, 2, 1}, {3, 1, 0, 2}, {3, 1, 2, 0}, {3, 2, 0, 1}, {3, 2, 1, 0},
    };

    (void)state;
    for (int gap = 0; gap < 2; gap++)
        for (int i = 0; i < 24; i++) {
            struct heap *h = heap_of_units(8 + (unsigned)gap);
            struct rdesc *first = take(h, 4, 0), *d[4];

            d[0] = take(h, 2, 4);
            d[1] = take(h, 2, 6);
            give(h, first);
            d[2] = take(h, 2, 0); /* wrapped, over a gap of one unit or none */
            d[3] = take(h, 2, 2);
            for (int k = 0; k < 4; k++)
                give(h, d[order[i][k]]);
            assert_int_equal(heap_bytes_used(h), 0);
            assert_non_null(heap_alloc(h, heap_bytes(h)));
            assert_sound(h);
            heap_destroy(h);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_follow_each_other_until_the_heap_is_full),
        cmocka_unit_test(an_empty_heap_starts_again_at_the_beginning),
        cmocka_unit_test(what_does_not_fit_before_the_end_leaves_a_gap),
        cmocka_unit_test(a_request_that_fits_nowhere_leaves_no_gap),
        cmocka_unit_test(a_full_heap_that_has_wrapped_is_not_taken_for_an_empty_one),
        cmocka_unit_test(a_long_queue_of_uneven_sizes_goes_round_and_round),
        cmocka_unit_test(a_block_freed_behind_an_older_one_waits_for_it),
        cmocka_unit_test(freed_neighbours_become_one_and_return_descriptors_early),
        cmocka_unit_test(freed_blocks_at_both_ends_of_the_range_are_not_neighbours),
        cmocka_unit_test(the_gap_takes_in_what_is_freed_before_it),
        cmocka_unit_test(the_newest_rolls_the_head_back),
        cmocka_unit_test(the_newest_rolls_back_over_all_that_waits_below_it),
        cmocka_unit_test(the_newest_rolls_back_over_the_gap),
        cmocka_unit_test(the_newest_rolls_back_over_the_end_where_there_is_no_gap),
        cmocka_unit_test(a_sent_block_is_freed_like_an_owned_one),
        cmocka_unit_test(when_all_is_freed_all_can_be_had_whatever_the_order),
    };

    return cmocka_run_group_tests_name("next fit", tests, NULL, NULL);
}
