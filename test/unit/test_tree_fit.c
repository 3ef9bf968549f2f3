/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which block first-, best-, worst- and random-fit take, case by case, and what becomes of those that are given back. The memory
 * that they need is in test_tree_fit_memory.c, what they report in test_tree_fit_walk.c, size classes in test_size_class.c.
 * Random sequences are in test_heap_model.c.
 */
#include "alloc/tree_fit.h"
#include "tree_fit_heap.h"

static void assert_takes(rmalloc_fit_t fit, const char *map, unsigned units, unsigned at)
{
    struct heap *h = heap_like(fit, map);
    struct rdesc *d = take(h, units);

    if (d->offset != (uint64_t)at * UNIT)
        fail_msg("%s takes %u units of \"%s\" at %u, not at %u", h->ops->name, units, map,
                 (unsigned)(d->offset / UNIT), at);
    assert_int_equal(d->units, units);
    heap_destroy(h);
}

/* ---- which block ---- */

static void each_fit_takes_the_block_of_its_definition(void **state)
{
    static const char map[] = "aa..b.c....d...e..f.....g...";

    (void)state; /*            2     5 7    12  16 19    25 */
    assert_takes(RMALLOC_FIRST_FIT, map, 1, 2);
    assert_takes(RMALLOC_FIRST_FIT, map, 2, 2);
    assert_takes(RMALLOC_FIRST_FIT, map, 3, 7);
    assert_takes(RMALLOC_FIRST_FIT, map, 4, 7);
    assert_takes(RMALLOC_FIRST_FIT, map, 5, 19);
    assert_takes(RMALLOC_BEST_FIT, map, 1, 5);
    assert_takes(RMALLOC_BEST_FIT, map, 2, 2);
    assert_takes(RMALLOC_BEST_FIT, map, 3, 12);
    assert_takes(RMALLOC_BEST_FIT, map, 4, 7);
    assert_takes(RMALLOC_BEST_FIT, map, 5, 19);
    for (unsigned units = 1; units <= 5; units++)
        assert_takes(RMALLOC_WORST_FIT, map, units, 19);
    assert_takes(RMALLOC_RANDOM_FIT, map, 5, 19);
}

static void among_equals_the_lowest_is_taken(void **state)
{
    (void)state;
    assert_takes(RMALLOC_BEST_FIT, "a..b...c..d...e..f", 2, 1);
    assert_takes(RMALLOC_BEST_FIT, "a..b...c..d...e..f", 3, 4);
    assert_takes(RMALLOC_WORST_FIT, "a..b...c..d...e..f", 1, 4);
}

/* Sizes up to the largest list and beyond it: the smallest that suffices, among equals the lowest, loose or not. */
static void best_fit_crosses_from_lists_to_indices(void **state)
{
    static const unsigned units[] = {66, 64, 63, 64, 65, 66, 63, 65, 100, 1};
    static const unsigned takes[][2] = {{62, 2}, {63, 6}, {63, 1}, {63, 3}, {63, 4},
                                        {64, 7}, {64, 0}, {64, 5}, {65, 8}};
    const unsigned n = sizeof(units) / sizeof(units[0]);

    (void)state;
    for (unsigned last = 0; last < n; last++) {
        struct heap *h = heap_of_bytes(RMALLOC_BEST_FIT, 1000 * UNIT, UNIT, 0);
        struct rdesc *hole[sizeof(units) / sizeof(units[0])];
        uint64_t offset[sizeof(units) / sizeof(units[0])];

        for (unsigned i = 0; i < n; i++) {
            hole[i] = take(h, units[i]);
            offset[i] = hole[i]->offset;
            take(h, 1);
        }
        take(h, (unsigned)(stats_of(h).bytes_free / UNIT));
        for (unsigned i = 1; i <= n; i++) /* the one that is freed last is loose */
            give(h, hole[(last + i) % n]);
        for (unsigned i = 0; i < sizeof(takes) / sizeof(takes[0]); i++) {
            struct rdesc *d = take(h, takes[i][0]);

            assert_int_equal(d->offset, offset[takes[i][1]]);
        }
        heap_destroy(h);
    }
}

/* The last hole of heap_like() is loose; of those that are compared with it, each must be able to win. */
static void the_loose_block_is_compared_with_those_in_indices(void **state)
{
    (void)state;
    assert_takes(RMALLOC_FIRST_FIT, "a..b..c", 1, 1);
    assert_takes(RMALLOC_BEST_FIT, "a...b..c", 1, 5);
    assert_takes(RMALLOC_BEST_FIT, "a..b...c", 1, 1);
    assert_takes(RMALLOC_BEST_FIT, "a...b..c", 3, 1);
    assert_takes(RMALLOC_WORST_FIT, "a...b..c", 1, 1);
    assert_takes(RMALLOC_WORST_FIT, "a..b...c", 1, 4);
}

static void sizes_of_one_class_are_distinguished(void **state)
{
    struct rdesc *hole[4], *d;
    struct heap *h;

    (void)state;
    assert_int_equal(size_class(128), size_class(143));
    for (int best = 0; best < 2; best++) {
        h = heap_of_bytes(best ? RMALLOC_BEST_FIT : RMALLOC_WORST_FIT, 4096 * UNIT, UNIT, 0);
        for (unsigned i = 0; i < 4; i++) {
            static const unsigned units[] = {140, 129, 143, 135};

            hole[i] = take(h, units[i]);
            take(h, 1);
        }
        take(h, 4096 - 140 - 129 - 143 - 135 - 4);
        for (unsigned i = 0; i < 4; i++)
            give(h, hole[i]);
        d = take(h, 130);
        assert_int_equal(d->offset,
                         (best ? 140 + 1 + 129 + 1 + 143 + 1 : 140 + 1 + 129 + 1) * UNIT);
        heap_destroy(h);
    }
}

static void what_is_split_gives_its_low_end(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_like(fits[f], "a.....b");
        struct rdesc *d = take(h, 2);

        assert_int_equal(d->offset, UNIT);
        assert_map(h, "###...#");
        take(h, 3);
        assert_map(h, "#######");
        assert_refused(h, 1, -EAGAIN);
        heap_destroy(h);
    }
}

/* ---- giving back ---- */

static void neighbours_become_one_whatever_the_order(void **state)
{
    static const unsigned char order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                              {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    (void)state;
    for (unsigned f = 0; f < FITS; f++)
        for (unsigned o = 0; o < 6; o++) {
            struct heap *h = heap_of_bytes(fits[f], 8 * UNIT, UNIT, 0);
            struct rdesc *low = take(h, 1), *d[3], *high;
            uint32_t pooled, before;
            struct error err = {""};

            for (unsigned i = 0; i < 3; i++)
                d[i] = take(h, 2);
            high = take(h, 1);
            assert_int_equal(desc_pool_check(&h->pool, &err, &before), 0);
            for (unsigned i = 0; i < 3; i++)
                give(h, d[order[o][i]]);
            assert_map(h, "#......#");
            assert_int_equal(stats_of(h).blocks_free, 1);
            assert_int_equal(stats_of(h).largest, 6 * UNIT);
            assert_int_equal(desc_pool_check(&h->pool, &err, &pooled), 0);
            assert_int_equal(pooled, before + 2); /* two descriptors came back */
            give(h, low);
            give(h, high);
            assert_map(h, "........");
            take(h, 8);
            heap_destroy(h);
        }
}

static void what_comes_and_goes_on_top_changes_no_index(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 20 * UNIT, UNIT, 0);

        take(h, 3);
        for (unsigned i = 0; i < 100; i++) {
            struct rdesc *low = take(h, 1 + i % 3),
                         *high = take(h, i % 2 == 0 ? 2 : 17 - 1 - i % 3);

            give(h, high);
            give(h, low);
        }
        assert_int_equal(h->free.loose->units, 17);
        assert_int_equal(h->free.nodes.made + h->free.lists.made, 0); /* not even for a moment */
        heap_destroy(h);
    }
}

static void a_sent_block_is_freed_like_an_owned_one(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 6 * UNIT, UNIT, 0);
        struct rdesc *d[3];

        for (unsigned i = 0; i < 3; i++) {
            d[i] = take(h, 2);
            desc_set_state(d[i], DESC_SENT);
            d[i]->size = 1; /* rwrite_n */
            d[i]->link = d[0];
            d[i]->header = 77;
        }
        give(h, d[1]);
        give(h, d[0]);
        assert_int_equal(heap_bytes_used(h), 2 * UNIT);
        give(h, d[2]);
        assert_int_equal(stats_of(h).largest, 6 * UNIT);
        heap_destroy(h);
    }
}

/* Its place is taken by another descriptor, wherever the block was: loose, or in an index. */
static void a_worn_descriptor_is_replaced(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 8 * UNIT, UNIT, 4);
        struct rdesc *d[4], *again[2];

        for (unsigned i = 0; i < 4; i++)
            d[i] = take(h, 2);
        d[0]->word |= ~DESC_ADDRESS; /* the last of its generations */
        d[2]->word |= ~DESC_ADDRESS;
        give(h, d[0]);
        give(h, d[2]);
        for (unsigned i = 0; i < 2; i++) {
            again[i] = take(h, 2);
            assert_ptr_not_equal(again[i], d[0]);
            assert_ptr_not_equal(again[i], d[2]);
        }
        assert_int_equal(again[0]->offset + again[1]->offset, 4 * UNIT);
        assert_int_equal(desc_state(d[0]), DESC_RESTING);
        assert_int_equal(desc_state(d[2]), DESC_RESTING);
        assert_int_equal(h->pool.resting, 2);
        assert_null(heap_alloc(h, 1));
        give(h, d[1]);
        give(h, again[0]);
        give(h, d[3]);
        give(h, again[1]);
        assert_int_equal(stats_of(h).largest, 8 * UNIT);
        heap_destroy(h);
    }
}

/* ---- sizes ---- */

static void size_zero_takes_one_unit_and_requests_that_never_fit_are_distinguished(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 4 * UNIT, UNIT, 0);
        struct rdesc *d = take_bytes(h, 0);

        assert_int_equal(d->units, 1);
        assert_int_equal(take_bytes(h, UNIT + 1)->units, 2);
        assert_refused(h, 4 * UNIT + 1, -EMSGSIZE);
        assert_refused(h, SIZE_MAX, -EMSGSIZE);
        assert_refused(h, SIZE_MAX - UNIT + 1, -EMSGSIZE);
        assert_refused(h, 4 * UNIT, -EAGAIN);
        assert_refused(h, UNIT + 1, -EAGAIN);
        take_bytes(h, UNIT);
        assert_refused(h, 0, -EAGAIN);
        heap_destroy(h);
    }
}

static void a_request_passes_by_a_last_unit_that_is_too_short(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 9 * UNIT + 10, UNIT, 0);
        struct rdesc *hole, *last;

        take(h, 1);
        hole = take(h, 2);
        take(h, 5);
        last = take_bytes(h, UNIT + 10); /* 2 units, of which the second is short */
        assert_int_equal(last->units, 2);
        assert_int_equal(heap_bytes_used(h), heap_bytes(h));
        assert_refused(h, 0, -EAGAIN);
        give(h, last);
        assert_int_equal(stats_of(h).largest, UNIT + 10);
        assert_int_equal(stats_of(h).bytes_free, UNIT + 10);
        assert_refused(h, UNIT + 11, -EAGAIN);
        give(h, hole);
        assert_int_equal(stats_of(h).largest, 2 * UNIT);
        assert_ptr_equal(take_bytes(h, UNIT + 11), hole);
        assert_refused(h, UNIT + 11, -EAGAIN);
        assert_int_equal(take_bytes(h, UNIT + 10)->offset, 8 * UNIT);
        heap_destroy(h);

        h = heap_of_bytes(fits[f], 5, UNIT, 0); /* nothing but a short unit */
        take_bytes(h, 5);
        assert_int_equal(heap_bytes_used(h), 5);
        heap_destroy(h);
        h = heap_of_bytes(fits[f], 100, UNIT,
                          0); /* every request up to the size succeeds in an empty heap */
        assert_refused(h, 101, -EMSGSIZE);
        take_bytes(h, 100);
        heap_destroy(h);
    }
}

/* Several blocks with just enough units, all but one too short, whatever the fit prefers of them. */
static void the_next_best_is_taken_where_the_best_is_too_short(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++)
        for (unsigned which = 0; which < 3; which++) {
            struct heap *h = heap_of_bytes(fits[f], 2 * UNIT - (which == 0 ? 0 : 1), UNIT, 0);

            assert_int_equal(heap_grow(h, NULL, 2 * UNIT - (which == 1 ? 0 : 2)), 0);
            assert_int_equal(heap_grow(h, NULL, 2 * UNIT - (which == 2 ? 0 : 3)), 0);
            assert_int_equal(stats_of(h).largest, 2 * UNIT);
            assert_int_equal(take(h, 2)->offset, which * 2 * UNIT);
            assert_refused(h, 2 * UNIT, -EAGAIN);
            assert_int_equal(stats_of(h).largest, 2 * UNIT - (which == 0 ? 2 : 1));
            take_bytes(h, 2 * UNIT - (which == 0 ? 2 : 1));
            take_bytes(h, 1);
            heap_destroy(h);
        }
}

static void the_largest_range_is_managed_to_its_last_byte(void **state)
{
    const uint64_t bytes = UINT64_C(1) << 51; /* 2^31 units of 1 MiB */

    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], bytes, 1u << 20, 0);
        struct rdesc *all = take_bytes(h, bytes), *low, *high;

        assert_int_equal(all->units, UINT32_C(1) << 31);
        assert_refused(h, 1, -EAGAIN);
        assert_int_equal(heap_grow(h, NULL, 1), -EINVAL); /* 2^31 units and one */
        give(h, all);
        low = take_bytes(h, 1 << 20);
        high = take_bytes(h, bytes - (1 << 20));
        give(h, low);
        assert_refused(h, (1 << 20) + 1, -EAGAIN);
        give(h, high);
        assert_int_equal(stats_of(h).largest, bytes);
        heap_destroy(h);
    }
}

/* ---- random-fit ---- */

static void random_fit_takes_each_with_the_same_probability(void **state)
{
    enum { HOLES = 40, DRAWS = 40000 };
    struct heap *h = heap_of_bytes(RMALLOC_RANDOM_FIT, 3 * HOLES * UNIT - 7, UNIT, 0);
    unsigned taken[HOLES] = {0};
    struct rdesc *hole[HOLES];
    double chi = 0;

    (void)state;
    for (unsigned i = 0; i < HOLES; i++) {
        if (i < HOLES - 1) {
            hole[i] = take(h, 1 + i % 2);
            take(h, 2 - i % 2);
        } else {
            take(h, 1);
            hole[i] = take_bytes(h, 2 * UNIT - 7); /* too short for two whole units */
        }
    }
    for (unsigned i = 0; i < HOLES; i++)
        give(h, hole[i]);
    for (unsigned i = 0; i < DRAWS; i++) {
        struct rdesc *d = heap_alloc(
            h, UNIT + 1 + i % UNIT); /* 2 units; beyond 2 * UNIT - 7 the last is too short */

        assert_non_null(d);
        taken[d->offset / (3 * UNIT)]++;
        heap_free(h, d);
    }
    assert_sound(h);
    for (unsigned i = 0; i < HOLES; i++) {
        const double of = HOLES / 2.0 - 1 + (UNIT - 7.0) / UNIT;
        const double each = i % 2 == 0      ? 0
                            : i < HOLES - 1 ? DRAWS / of
                                            : DRAWS / of * (UNIT - 7.0) / UNIT;

        if (each == 0)
            assert_int_equal(taken[i], 0);
        else
            chi += (taken[i] - each) * (taken[i] - each) / each;
    }
    assert_true(
        chi <
        55); /* of 19 degrees of freedom: by chance in one of 20000 seeds, and this one is not drawn */
    heap_destroy(h);
}

static void the_same_seed_and_calls_give_the_same_places(void **state)
{
    struct heap_config cfg = {
        .algorithm = RMALLOC_RANDOM_FIT, .unit_size = UNIT, .bytes = 1000 * UNIT};
    struct rdesc *held[3][50] = {{NULL}};
    unsigned random = 1, different = 0;
    struct heap *h[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        cfg.seed = i < 2 ? 4711 : 4712;
        assert_int_equal(heap_create(&h[i], &cfg), 0);
    }
    for (unsigned k = 0; k < 5000; k++) {
        random = random * 1664525u + 1013904223u;
        for (unsigned i = 0; i < 3; i++) {
            struct rdesc **slot = &held[i][random >> 16 & 31];

            if (*slot != NULL)
                heap_free(h[i], *slot);
            *slot = heap_alloc(h[i], random >> 8 & 1023);
            assert_non_null(*slot);
        }
        assert_int_equal(held[0][random >> 16 & 31]->offset, held[1][random >> 16 & 31]->offset);
        different += held[0][random >> 16 & 31]->offset != held[2][random >> 16 & 31]->offset;
    }
    assert_true(different > 1000);
    for (unsigned i = 0; i < 3; i++) {
        assert_sound(h[i]);
        heap_destroy(h[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fit_takes_the_block_of_its_definition),
        cmocka_unit_test(among_equals_the_lowest_is_taken),
        cmocka_unit_test(best_fit_crosses_from_lists_to_indices),
        cmocka_unit_test(the_loose_block_is_compared_with_those_in_indices),
        cmocka_unit_test(sizes_of_one_class_are_distinguished),
        cmocka_unit_test(what_is_split_gives_its_low_end),
        cmocka_unit_test(neighbours_become_one_whatever_the_order),
        cmocka_unit_test(what_comes_and_goes_on_top_changes_no_index),
        cmocka_unit_test(a_sent_block_is_freed_like_an_owned_one),
        cmocka_unit_test(a_worn_descriptor_is_replaced),
        cmocka_unit_test(size_zero_takes_one_unit_and_requests_that_never_fit_are_distinguished),
        cmocka_unit_test(a_request_passes_by_a_last_unit_that_is_too_short),
        cmocka_unit_test(the_next_best_is_taken_where_the_best_is_too_short),
        cmocka_unit_test(the_largest_range_is_managed_to_its_last_byte),
        cmocka_unit_test(random_fit_takes_each_with_the_same_probability),
        cmocka_unit_test(the_same_seed_and_calls_give_the_same_places),
    };

    return cmocka_run_group_tests_name("tree fits", tests, NULL, NULL);
}
