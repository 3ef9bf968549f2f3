/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap_shrink(): the units behind the new size of a block are free at once, with every heuristic; with next-fit only behind
 * the newest block of a segment. Sequences at random are in test_heap_model.c.
 */
#include "heap_checks.h"

#define HEURISTICS 5

static struct heap *heap_of(rmalloc_fit_t algorithm, uint64_t bytes)
{
    struct heap_config cfg = {.algorithm = algorithm, .unit_size = UNIT, .bytes = bytes, .seed = 7};
    struct heap *h = NULL;

    assert_int_equal(heap_create(&h, &cfg), 0);
    return h;
}

static struct rdesc *take(struct heap *h, size_t bytes)
{
    struct rdesc *d = heap_alloc(h, bytes);

    assert_non_null(d);
    assert_sound(h);
    return d;
}

static void shrink(struct heap *h, struct rdesc *d, size_t bytes, uint32_t units)
{
    const uint64_t offset = d->offset;
    const enum desc_state state = desc_state(d);

    heap_shrink(h, d, bytes);
    assert_sound(h);
    assert_int_equal(d->size, bytes);
    assert_int_equal(d->units, units);
    assert_int_equal(d->offset, offset);
    assert_int_equal(desc_state(d), state);
}

static void the_newest_block_gives_its_tail_back_at_once(void **state)
{
    (void)state;
    for (int f = RMALLOC_NEXT_FIT; f <= RMALLOC_SEGREGATED_FIT; f++) {
        struct heap *h = heap_of((rmalloc_fit_t)f, 10 * UNIT);
        struct rdesc *a = take(h, 2 * UNIT), *b = take(h, 6 * UNIT), *c;

        assert_int_equal(a->offset, 0);
        shrink(h, b, 3 * UNIT + 1, 4);
        assert_int_equal(stats_of(h).bytes_used, 6 * UNIT);
        assert_int_equal(stats_of(h).largest, 4 * UNIT);
        assert_int_equal(stats_of(h).peak, 8 * UNIT);
        c = take(h, 4 * UNIT); /* the tail, and what was free behind it */
        assert_int_equal(c->offset, 6 * UNIT);
        give(h, b);
        give(h, c);
        give(h, a);
        assert_int_equal(stats_of(h).largest, 10 * UNIT);
        heap_destroy(h);
    }
}

static void a_block_between_others_gives_its_tail_back_except_with_next_fit(void **state)
{
    (void)state;
    for (int f = RMALLOC_NEXT_FIT; f <= RMALLOC_SEGREGATED_FIT; f++) {
        struct heap *h = heap_of((rmalloc_fit_t)f, 10 * UNIT);
        struct rdesc *a = take(h, 2 * UNIT), *b = take(h, 6 * UNIT), *c = take(h, 2 * UNIT), *d;

        if (f == RMALLOC_NEXT_FIT) {
            shrink(h, b, UNIT, 6);
            assert_refused(h, 1, -EAGAIN);
            give(h, a);
            give(h, b);
            assert_int_equal(stats_of(h).largest, 8 * UNIT);
        } else {
            shrink(h, b, UNIT, 1);
            assert_int_equal(stats_of(h).largest, 5 * UNIT);
            d = take(h, 5 * UNIT);
            assert_int_equal(d->offset, 3 * UNIT);
            shrink(h, d, 4 * UNIT, 4);
            shrink(h, d, 2 * UNIT, 2); /* merges with the tail before */
            assert_int_equal(stats_of(h).blocks_free, 1);
            assert_int_equal(stats_of(h).largest, 3 * UNIT);
            give(h, a);
            give(h, d);
            give(h, b);
            assert_int_equal(stats_of(h).largest, 8 * UNIT);
        }
        give(h, c);
        heap_destroy(h);
    }
}

/* The tail merges with a free neighbor that is in an index, and with one that is loose. */
static void the_tail_merges_with_the_free_block_behind_it(void **state)
{
    (void)state;
    for (int f = RMALLOC_FIRST_FIT; f < HEURISTICS; f++)
        for (int indexed = 0; indexed < 2; indexed++) {
            struct heap *h = heap_of((rmalloc_fit_t)f, 12 * UNIT);
            struct rdesc *a = take(h, 4 * UNIT), *b = take(h, 2 * UNIT), *c = take(h, 2 * UNIT),
                         *d = take(h, 2 * UNIT), *e = take(h, 2 * UNIT);

            give(h, b);
            if (indexed)
                give(h, d); /* now the loose one */
            assert_int_equal(desc_state(b), indexed ? DESC_FREE : DESC_LOOSE);
            shrink(h, a, UNIT, 1);
            assert_int_equal(stats_of(h).blocks_free, 1 + indexed);
            assert_int_equal(stats_of(h).largest, 5 * UNIT);
            give(h, a);
            give(h, c);
            give(h, e);
            if (!indexed)
                give(h, d);
            assert_int_equal(stats_of(h).largest, 12 * UNIT);
            heap_destroy(h);
        }
}

static void a_size_within_the_last_unit_or_0_frees_what_it_can(void **state)
{
    (void)state;
    for (int f = RMALLOC_NEXT_FIT; f <= RMALLOC_SEGREGATED_FIT; f++) {
        struct heap *h = heap_of((rmalloc_fit_t)f, 5 * UNIT + 7);
        struct rdesc *d = take(h, 5 * UNIT + 7); /* with the short last unit */

        assert_int_equal(d->units, 6);
        shrink(h, d, 5 * UNIT + 7, 6);
        shrink(h, d, 5 * UNIT + 1, 6);
        assert_int_equal(stats_of(h).bytes_used, 5 * UNIT + 7);
        shrink(h, d, 5 * UNIT, 5);
        assert_int_equal(stats_of(h).bytes_used, 5 * UNIT);
        assert_int_equal(stats_of(h).largest, 7);
        shrink(h, d, 0, 1);
        shrink(h, d, 0, 1);
        assert_int_equal(stats_of(h).bytes_used, UNIT);
        assert_int_equal(stats_of(h).largest, 4 * UNIT + 7);
        give(h, d);
        assert_int_equal(stats_of(h).largest, 5 * UNIT + 7);
        heap_destroy(h);
    }
}

static void a_sent_block_can_shrink(void **state)
{
    (void)state;
    for (int f = RMALLOC_NEXT_FIT; f <= RMALLOC_SEGREGATED_FIT; f++) {
        struct heap *h = heap_of((rmalloc_fit_t)f, 4 * UNIT);
        struct rdesc *d = take(h, 4 * UNIT);

        desc_set_state(d, DESC_SENT);
        shrink(h, d, 1, 1);
        assert_int_equal(stats_of(h).largest, 3 * UNIT);
        give(h, d);
        heap_destroy(h);
    }
}

static void next_fit_shrinks_the_newest_block_of_a_segment_that_it_has_left(void **state)
{
    struct heap *h = heap_of(RMALLOC_NEXT_FIT, 4 * UNIT);
    struct rdesc *a = take(h, 3 * UNIT), *b, *c;

    (void)state;
    assert_int_equal(heap_grow(h, NULL, 4 * UNIT), 0);
    b = take(h, 3 * UNIT);
    assert_int_equal(b->offset, 4 * UNIT);
    shrink(h, a, UNIT, 1);
    assert_int_equal(stats_of(h).bytes_used, 4 * UNIT);
    assert_int_equal(stats_of(h).largest, 3 * UNIT);
    c = take(h, UNIT); /* it still allocates from the second */
    assert_int_equal(c->offset, 7 * UNIT);
    c = take(h, 3 * UNIT);
    assert_int_equal(c->offset, UNIT);
    heap_destroy(h);
}

/* The newest is before the oldest, which is then what the free units behind it end at. */
static void next_fit_shrinks_the_newest_block_after_it_has_wrapped(void **state)
{
    struct heap *h = heap_of(RMALLOC_NEXT_FIT, 8 * UNIT);
    struct rdesc *a = take(h, 5 * UNIT), *b = take(h, 2 * UNIT), *c;

    (void)state;
    give(h, a);
    c = take(h, 5 * UNIT);
    assert_int_equal(c->offset, 0);
    assert_refused(h, 1, -EAGAIN);
    shrink(h, c, 2 * UNIT, 2);
    assert_int_equal(stats_of(h).largest, 3 * UNIT);
    a = take(h, 3 * UNIT);
    assert_int_equal(a->offset, 2 * UNIT);
    shrink(h, c, UNIT, 2); /* no longer the newest */
    give(h, b);
    give(h, a);
    give(h, c);
    assert_int_equal(stats_of(h).largest, 8 * UNIT);
    heap_destroy(h);
}

/* Fills the heap with blocks until another one would need memory for its descriptor. */
static void without_memory_for_a_descriptor_the_block_keeps_its_units(void **state)
{
    (void)state;
    skip_unless_memory_can_be_cut_off();
    for (int f = RMALLOC_FIRST_FIT; f < HEURISTICS; f++) {
        struct heap *h = heap_of((rmalloc_fit_t)f, 1024 * UNIT);
        struct rdesc *first = take(h, 4 * UNIT);

        while (h->pool.free != NULL)
            take(h, 4 * UNIT);
        denied_after = granted;
        shrink(h, first, UNIT, 4);
        denied_after = UINT32_MAX;
        shrink(h, first, UNIT, 1);
        heap_destroy(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_block_gives_its_tail_back_at_once),
        cmocka_unit_test(a_block_between_others_gives_its_tail_back_except_with_next_fit),
        cmocka_unit_test(the_tail_merges_with_the_free_block_behind_it),
        cmocka_unit_test(a_size_within_the_last_unit_or_0_frees_what_it_can),
        cmocka_unit_test(a_sent_block_can_shrink),
        cmocka_unit_test(next_fit_shrinks_the_newest_block_of_a_segment_that_it_has_left),
        cmocka_unit_test(next_fit_shrinks_the_newest_block_after_it_has_wrapped),
        cmocka_unit_test(without_memory_for_a_descriptor_the_block_keeps_its_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
