/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What first-, best-, worst- and random-fit need: segments, descriptors, and memory for them; and what happens without.
 */
#include "tree_fit_heap.h"
#include <rvmem.h>

/* ---- growth ---- */

static void a_segment_is_usable_at_once_and_no_block_is_in_two(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 2 * UNIT + 1, UNIT, 0);
        struct rdesc *a, *b;

        assert_refused(h, 4 * UNIT, -EMSGSIZE);
        assert_int_equal(heap_grow(h, NULL, 4 * UNIT), 0);
        assert_sound(h);
        assert_int_equal(heap_bytes(h), 6 * UNIT + 1);
        assert_int_equal(heap_largest_segment(h), 4 * UNIT);
        assert_int_equal(stats_of(h).segments, 2);
        assert_int_equal(stats_of(h).blocks_free, 2);
        assert_refused(h, 4 * UNIT + 1, -EMSGSIZE);
        b = take(h, 4);
        assert_int_equal(b->offset, 3 * UNIT); /* at the next whole unit */
        a = take_bytes(h, 2 * UNIT + 1);
        assert_int_equal(a->offset, 0);
        give(h, a);
        give(h, b);
        assert_int_equal(stats_of(h).blocks_free, 2); /* neighbours, and not one */
        assert_int_equal(stats_of(h).largest, 4 * UNIT);
        for (unsigned i = 0; i < 30;
             i++) { /* of growing lengths, so that there are classes that were not there */
            assert_int_equal(heap_grow(h, NULL, (UNIT << i % 20) + 1), 0);
            assert_sound(h);
        }
        assert_int_equal(take_bytes(h, (UNIT << 19) + 1)->size, (UNIT << 19) + 1);
        heap_destroy(h);
    }
}

static void memory_of_a_segment_is_where_it_is_mapped(void **state)
{
    char *first = aligned_alloc(UNIT, 4 * UNIT), *second = aligned_alloc(UNIT, 8 * UNIT);

    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap_config cfg = {
            .algorithm = fits[f], .unit_size = UNIT, .bytes = 4 * UNIT, .base = first};
        struct heap *h;

        assert_int_equal(heap_create(&h, &cfg), 0);
        assert_int_equal(heap_grow(h, NULL, 8 * UNIT), -EINVAL);
        assert_int_equal(heap_grow(h, second + 1, 7 * UNIT), -EINVAL);
        assert_int_equal(heap_grow(h, (void *)(UINTPTR_MAX - UNIT + 1), 2 * UNIT), -EINVAL);
        assert_int_equal(heap_grow(h, second, 0), -EINVAL);
        assert_int_equal(heap_grow(h, second, UINT64_MAX), -EINVAL);
        assert_int_equal(stats_of(h).segments, 1);
        assert_int_equal(heap_grow(h, second, 8 * UNIT), 0);
        for (unsigned i = 0; i < 6; i++) {
            struct rdesc *d = take(h, 2);

            assert_ptr_equal(d->mem, d->offset < 4 * UNIT ? first + d->offset
                                                          : second + d->offset - 4 * UNIT);
            memset(d->mem, (int)i, d->size);
        }
        heap_destroy(h);
    }
    free(first);
    free(second);
}

static void growth_without_memory_changes_nothing(void **state)
{
    (void)state;
    skip_unless_memory_can_be_cut_off();
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 40 * UNIT, UNIT, 0);
        rvmem_stats_t before, after;

        while (h->pool.free != NULL)
            take(h, 1);
        before = stats_of(h);
        for (unsigned k = 0; k < 2; k++) { /* for the segment, for a descriptor */
            denied_after = granted + k;
            assert_int_equal(heap_grow(h, NULL, 1000 * UNIT), -ENOMEM);
            denied_after = UINT32_MAX;
            assert_sound(h);
            after = stats_of(h);
            before.metadata = after.metadata;
            assert_memory_equal(&before, &after, sizeof(before));
        }
        assert_int_equal(heap_grow(h, NULL, 1000 * UNIT), 0);
        assert_sound(h);
        heap_destroy(h);
    }
}

/* ---- descriptors, memory ---- */

static void exactly_as_many_blocks_as_allowed_are_handed_out_however_scattered(void **state)
{
    enum { MOST = 50 };

    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 1000 * UNIT, UNIT, MOST);
        struct rdesc *d[MOST];

        assert_int_equal(heap_grow(h, NULL, 100 * UNIT), 0);
        assert_int_equal(heap_grow(h, NULL, 100 * UNIT), 0);
        for (unsigned round = 0; round < 20; round++) {
            for (unsigned i = 0; i < MOST; i++)
                d[i] = take(h, 1 + (i + round) % 7);
            assert_refused(h, 1, -ENOBUFS);
            assert_int_equal(stats_of(h).largest, 0);
            for (unsigned i = 0; i < MOST; i++)
                give(h, d[i * 7 % MOST]);
        }
        heap_destroy(h);
    }
    for (unsigned most = 1; most <= 3; most++) /* a free block between any two, and at both ends */
        for (unsigned f = 0; f < 1; f++) {
            struct heap *h = heap_of_bytes(RMALLOC_FIRST_FIT, 9 * UNIT, UNIT, most);

            for (unsigned i = 0; i < most; i++) {
                assert_non_null(heap_carve(h, (2 * i + 1) * UNIT, UNIT));
                assert_sound(h);
            }
            assert_int_equal(stats_of(h).blocks_free, most + 1);
            assert_null(heap_carve(h, 8 * UNIT, UNIT));
            assert_int_equal(heap_alloc_error(h), -ENOBUFS);
            assert_refused(h, 1, -ENOBUFS);
            heap_destroy(h);
        }
}

static void without_memory_for_a_descriptor_nothing_changes(void **state)
{
    (void)state;
    skip_unless_memory_can_be_cut_off();
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 100 * UNIT, UNIT, 0);
        struct rdesc *a = take(h, 60);

        while (h->pool.free != NULL)
            take(h, 1);
        denied_after = 0;
        assert_refused(h, 1, -ENOMEM);
        denied_after = UINT32_MAX;
        give(h, a);
        take(h, 1);
        heap_destroy(h);
    }
}

/* Blocks that come back need nodes; there is no memory for any. */
static void giving_back_never_fails_and_the_choice_stays_exact(void **state)
{
    enum { BLOCKS = 200 };

    (void)state;
    skip_unless_memory_can_be_cut_off();
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 4 * BLOCKS * UNIT, UNIT, 0);
        struct rdesc *d[BLOCKS];

        for (unsigned i = 0; i < BLOCKS; i++)
            d[i] = take(h, 1 + i % 4);
        denied_after = 0;
        for (unsigned i = 0; i < BLOCKS; i += 2)
            give(h, d[i]);
        assert_non_null(h->free.unindexed);
        assert_int_equal(stats_of(h).blocks_free, BLOCKS / 2 + 1);
        assert_int_equal(stats_of(h).largest, (4 * BLOCKS - BLOCKS / 4 * 10) * UNIT);
        assert_refused(h, 1, -ENOMEM);
        for (unsigned i = 1; i < BLOCKS / 2; i += 2) /* merged, unindexed or not */
            give(h, d[i]);
        assert_refused(h, 1, -ENOMEM);
        denied_after = UINT32_MAX;
        assert_non_null(heap_alloc(h, UNIT));
        assert_sound(h);
        assert_null(h->free.unindexed);
        for (unsigned i = BLOCKS / 2 + 1; i < BLOCKS; i += 2)
            give(h, d[i]);
        heap_destroy(h);
    }
}

/* Nodes for some blocks, and none for others: one of these may be the right one. */
static void nothing_is_allocated_while_a_block_is_in_no_index(void **state)
{
    enum { SIZES = 60 };
    static const rmalloc_fit_t by_class[] = {RMALLOC_BEST_FIT, RMALLOC_WORST_FIT};

    (void)state;
    skip_unless_memory_can_be_cut_off();
    for (unsigned f = 0; f < 2; f++) {
        struct heap *h = heap_of_bytes(by_class[f], 100 * SIZES * SIZES * UNIT, UNIT, 0);
        struct rdesc *d[SIZES];
        unsigned n = 0;

        for (unsigned i = 0; i < SIZES; i++) { /* each of another class */
            d[i] = take(h, by_class[f] == RMALLOC_BEST_FIT ? SIZES - i : 1 + i * i / 2);
            take(h, 1);
        }
        give(h, d[n++]);
        give(h, d[n++]); /* the first one goes into its list or index */
        denied_after = granted;
        while (h->free.unindexed == NULL && n < SIZES)
            give(h, d[n++]);
        assert_true(n > 4 && n < SIZES);
        assert_refused(h, UNIT, -ENOMEM);
        assert_refused(h, d[0]->units * UNIT, -ENOMEM);
        denied_after = UINT32_MAX;
        take(h, 1);
        assert_null(h->free.unindexed);
        heap_destroy(h);
    }
}

/* The same calls once more. */
static void after_warm_up_no_memory_is_asked_for(void **state)
{
    (void)state;
    skip_unless_memory_can_be_cut_off();
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 100000 * UNIT, UNIT, 0);
        struct rdesc *held[256] = {NULL};
        unsigned before = 0;

        for (unsigned round = 0; round < 3; round++) {
            unsigned random = 1;

            h->free.random = 7;
            for (unsigned i = 0; i < 50000; i++) {
                struct rdesc **slot;

                random = random * 1664525u + 1013904223u;
                slot = &held[random >> 24];
                if (*slot != NULL)
                    heap_free(h, *slot);
                *slot = heap_alloc(h, (random >> 4) % 5000);
                assert_non_null(*slot);
            }
            for (unsigned i = 0; i < 256; i++) {
                if (held[i] != NULL)
                    heap_free(h, held[i]);
                held[i] = NULL;
            }
            assert_sound(h);
            if (round == 0)
                before = granted;
        }
        assert_int_equal(granted, before);
        heap_destroy(h);
    }
}

static void memory_for_many_blocks_is_bounded(void **state)
{
    enum { BLOCKS = 100000 };
    static struct rdesc *d[BLOCKS];

    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], (uint64_t)BLOCKS * 2 * UNIT, UNIT, 0);
        rvmem_stats_t s;

        for (unsigned i = 0; i < BLOCKS; i++)
            d[i] = heap_alloc(h, i % 2 * UNIT + 1);
        for (unsigned i = 0; i < BLOCKS; i += 2)
            heap_free(h, d[i]);
        assert_sound(h);
        s = stats_of(h);
        assert_int_equal(s.blocks_free, BLOCKS / 2 + 1);
        assert_true((double)s.metadata / (double)(s.blocks_used + s.blocks_free) < 96);
        heap_destroy(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_is_usable_at_once_and_no_block_is_in_two),
        cmocka_unit_test(memory_of_a_segment_is_where_it_is_mapped),
        cmocka_unit_test(growth_without_memory_changes_nothing),
        cmocka_unit_test(exactly_as_many_blocks_as_allowed_are_handed_out_however_scattered),
        cmocka_unit_test(without_memory_for_a_descriptor_nothing_changes),
        cmocka_unit_test(giving_back_never_fails_and_the_choice_stays_exact),
        cmocka_unit_test(nothing_is_allocated_while_a_block_is_in_no_index),
        cmocka_unit_test(after_warm_up_no_memory_is_asked_for),
        cmocka_unit_test(memory_for_many_blocks_is_bounded),
    };

    return cmocka_run_group_tests_name("memory of tree fits", tests, NULL, NULL);
}
