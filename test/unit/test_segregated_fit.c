/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segregated-fit, case by case: which block is found, what waits and when it is merged, what may be
 * refused, descriptors, segments, and its check. Random sequences are in test_heap_model.c.
 */
#include "alloc/segregated_fit.h"
#include "tree_fit_heap.h"

static struct heap *heap_of_units(uint64_t units, uint32_t max_descriptors)
{
    return heap_of_bytes(RMALLOC_SEGREGATED_FIT, units * UNIT, UNIT, max_descriptors);
}

/* `n` holes of so many units, each behind a block of one unit. */
static void make_holes(struct heap *h, const unsigned *units, unsigned n)
{
    struct rdesc *hole[64];

    assert_true(n <= 64);
    for (unsigned i = 0; i < n; i++) {
        hole[i] = take(h, units[i]);
        take(h, 1);
    }
    for (unsigned i = 0; i < n; i++)
        give(h, hole[i]);
}

static void fine_classes_ascend_and_are_exact_where_small(void **state)
{
    uint32_t last = 0;

    (void)state;
    for (uint32_t units = 0; units <= FINE_EXACT; units++)
        assert_int_equal(fine_class(units), units);
    for (uint64_t units = 1; units <= UINT32_C(1) << 31; units += 1 + units / 999) {
        const uint32_t c = fine_class((uint32_t)units), above = fine_class_above((uint32_t)units),
                       least = fine_class_least(c);

        assert_true(c >= last && c < FINE_CLASSES);
        assert_true(least <= units && units - least <= units / 16);
        assert_int_equal(fine_class(least), c);
        assert_int_equal(above, least == units ? c : c + 1);
        last = c;
    }
    assert_int_equal(fine_class(UINT32_MAX), FINE_CLASSES - 1);
}

static void a_freed_block_waits_and_is_taken_again(void **state)
{
    struct heap *h = heap_of_units(64, 0);
    struct rdesc *d[4];

    (void)state;
    for (unsigned i = 0; i < 4; i++)
        d[i] = take(h, 3);
    give(h, d[1]);
    give(h, d[2]);
    assert_int_equal(segregated_waiting(h), 2);
    assert_int_equal(desc_state(d[1]), DESC_FREED);
    assert_int_equal(stats_of(h).blocks_free, 2); /* the two are one, and the rest */
    assert_map(h, "###......###"
                  "....................................................");
    assert_true(take(h, 3)->offset < 9 * UNIT);
    assert_true(take(h, 3)->offset < 9 * UNIT);
    assert_int_equal(segregated_waiting(h), 0);
    heap_destroy(h);
}

static void an_empty_heap_has_its_largest_block(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= 200; n = n * 2 + 1) {
        struct heap *h = heap_of_units(n, 0);
        struct rdesc *d[200];

        for (unsigned i = 0; i < n; i++)
            d[i] = take(h, 1);
        assert_refused(h, 1, -EAGAIN);
        for (unsigned i = 0; i < n; i++)
            give(h, d[(i * 7) % n == 0 || n % 7 == 0 ? i : (i * 7) % n]);
        assert_true(segregated_waiting(h) <= 1);
        assert_int_equal(stats_of(h).largest, n * UNIT);
        give(h, take(h, n));
        heap_destroy(h);
    }
}

static void a_request_that_does_not_fit_merges_what_waits(void **state)
{
    struct heap *h = heap_of_units(64, 0);
    struct rdesc *d[64];

    (void)state;
    for (unsigned i = 0; i < 64; i++)
        d[i] = take(h, 1);
    for (unsigned i = 0; i < 63; i++)
        give(h, d[i]);
    assert_int_equal(segregated_waiting(h), 63);
    assert_int_equal(stats_of(h).largest, 63 * UNIT);
    assert_refused(h, 64 * UNIT, -EAGAIN); /* more than is free: nothing is merged for it */
    assert_int_equal(segregated_waiting(h), 63);
    assert_int_equal(take(h, 63)->offset, 0);
    assert_int_equal(segregated_waiting(h), 0);
    heap_destroy(h);
}

static void a_failing_request_merges_once(void **state)
{
    struct heap *h = heap_of_units(32, 0);
    struct rdesc *d[32];

    (void)state;
    for (unsigned i = 0; i < 32; i++)
        d[i] = take(h, 1);
    for (unsigned i = 0; i < 32; i += 2)
        give(h, d[i]);
    assert_null(heap_alloc(h, 2 * UNIT));
    assert_int_equal(heap_alloc_error(h), -EAGAIN);
    assert_int_equal(segregated_waiting(h), 0);
    assert_int_equal(h->segregated->blocks, 16);
    assert_refused(h, 2 * UNIT, -EAGAIN);
    heap_destroy(h);
}

static void a_full_quick_list_merges_what_comes(void **state)
{
    const unsigned n = QUICK_FEW + 50;
    struct heap *h = heap_of_units(2 * n, 0);
    struct rdesc *d[2 * (QUICK_FEW + 50)];

    (void)state;
    for (unsigned i = 0; i < 2 * n; i++)
        d[i] = take(h, 1);
    for (unsigned i = 0; i < n; i++)
        give(h, d[2 * i]);
    assert_int_equal(segregated_waiting(h), QUICK_FEW);
    assert_int_equal(h->segregated->blocks, 50);
    for (unsigned i = 0; i < n; i++)
        take(h, 1);
    assert_refused(h, 1, -EAGAIN);
    heap_destroy(h);
}

/* Blocks of the request's own class: as many as are probed are found, and a larger class always is. */
static void a_block_of_its_own_class_is_found_among_the_first(void **state)
{
    unsigned units[SEGREGATED_PROBES + 1];

    (void)state;
    for (unsigned n = SEGREGATED_PROBES; n <= SEGREGATED_PROBES + 1; n++)
        for (int larger = 0; larger < 2; larger++) {
            struct heap *h = heap_of_units(40000, 0);

            for (unsigned i = 0; i < n; i++)
                units[i] = 1024; /* a class of 64 sizes */
            units[0] = 1087;     /* freed first, it is the last of the list */
            make_holes(h, units, n);
            take(h, 40000 - 1087 - 1024 * (n - 1) - n - (larger ? 1090 : 0));
            if (larger)
                assert_non_null(heap_alloc(h, 1087 * UNIT));
            else if (n <= SEGREGATED_PROBES)
                assert_int_equal(take(h, 1087)->offset, 0);
            else
                assert_refused(h, 1087 * UNIT, -EAGAIN);
            assert_int_equal(take(h, 1024)->units, 1024);
            heap_destroy(h);
        }
}

static void segments_of_an_empty_heap_are_all_compared(void **state)
{
    struct heap *h = heap_of_bytes(RMALLOC_SEGREGATED_FIT, 1087 * UNIT - 3, UNIT, 0);
    struct rdesc *d;

    (void)state;
    for (unsigned i = 0; i < 2 * SEGREGATED_PROBES; i++)
        assert_int_equal(heap_grow(h, NULL, 1024 * UNIT), 0);
    assert_sound(h);
    assert_int_equal(stats_of(h).largest, 1087 * UNIT - 3);
    d = take_bytes(h, 1087 * UNIT - 3);
    assert_int_equal(d->offset, 0);
    assert_refused(h, 1024 * UNIT + 1, -EAGAIN);
    assert_refused(h, 1087 * UNIT - 2, -EMSGSIZE);
    give(h, d);
    heap_destroy(h);
}

static void a_last_unit_that_is_short_is_used(void **state)
{
    struct heap *h = heap_of_bytes(RMALLOC_SEGREGATED_FIT, 9 * UNIT + 10, UNIT, 0);
    struct rdesc *last;

    (void)state;
    take(h, 8);
    last = take_bytes(h, UNIT + 10);
    assert_int_equal(last->units, 2);
    assert_int_equal(heap_bytes_used(h), heap_bytes(h));
    give(h, last);
    assert_int_equal(stats_of(h).largest, UNIT + 10);
    assert_refused(h, UNIT + 11, -EAGAIN);
    take_bytes(h, UNIT + 1);
    heap_destroy(h);
}

/* Blocks that wait have descriptors: they are merged before a request is refused for lack of one. */
static void descriptors_of_waiting_blocks_are_used(void **state)
{
    struct heap *h = heap_of_units(1000, 3);
    struct rdesc *d[3], *large;

    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 3; i++)
            d[i] = take(h, 1 + (round * 3 + i) % 40);
        assert_refused(h, 1, -ENOBUFS);
        give(h, d[1]);
        heap_shrink(h, d[0], 0);
        assert_sound(h);
        assert_int_equal(d[0]->units, 1);
        give(h, d[0]);
        large = take(h, 500);
        give(h, d[2]);
        give(h, large);
    }
    assert_int_equal(stats_of(h).largest, 1000 * UNIT);
    heap_destroy(h);
}

/* Blocks that wait count as allocated ones do: an allocation by which they would be too many merges them. */
static void no_more_blocks_wait_than_may_be_allocated(void **state)
{
    static const unsigned waiting[] = {1, 2, 1, 2, 1, 2};
    struct heap *h = heap_of_units(100, 3);
    struct rdesc *kept = take(h, 1);

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        give(h, take(h, i + 2));
        assert_int_equal(segregated_waiting(h), waiting[i]);
        assert_int_equal(h->segregated->unlisted, 1 + waiting[i]);
    }
    DAMAGE(h->most, 2, "allocated or wait");
    give(h, kept);
    heap_destroy(h);
}

/* A heap of one chunk of descriptors, all in blocks; the last two wait, side by side. */
static struct heap *make_short_of_descriptors(struct rdesc **kept)
{
    struct heap *h = heap_of_units(1000, 0);
    struct rdesc *d[2];

    kept[0] = take(h, 10);
    while (h->pool.made - heap_allocs(h) > 3)
        take(h, 1);
    for (unsigned i = 0; i < 2; i++)
        d[i] = take(h, 2 + i);
    for (unsigned i = 0; i < 2; i++)
        give(h, d[i]);
    assert_null(h->pool.free);
    assert_int_equal(segregated_waiting(h), 2);
    return h;
}

static void an_allocation_merges_what_waits_where_it_needs_a_descriptor(void **state)
{
    struct rdesc *kept;
    struct heap *h;

    (void)state;
    skip_unless_memory_can_be_cut_off();
    h = make_short_of_descriptors(&kept);
    denied_after = granted;
    for (unsigned i = 0; i < 2; i++) { /* two blocks have become part of a third */
        take(h, 10);
        assert_int_equal(segregated_waiting(h), 0);
    }
    assert_refused(h, 10 * UNIT, -ENOMEM);
    denied_after = UINT32_MAX;
    heap_destroy(h);
}

static void the_smallest_class_that_suffices_is_taken(void **state)
{
    static const unsigned units[] = {300, 40, 70};
    struct heap *h = heap_of_units(500, 100);
    struct rdesc *d[3], *between[4], *found;
    uint64_t offset[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        d[i] = take(h, units[i]);
        offset[i] = d[i]->offset;
        between[i] = take(h, 1);
    }
    between[3] = take(h, 500 - 300 - 40 - 70 - 3);
    for (unsigned i = 0; i < 3; i++)
        give(h, d[i]);
    assert_refused(h, 400 * UNIT, -EAGAIN); /* nothing waits any more */
    found = take(h, 41);
    assert_int_equal(found->offset, offset[2]);
    give(h, found);
    assert_refused(h, 400 * UNIT, -EAGAIN);
    found = take(h, 33);
    assert_int_equal(found->offset, offset[1]);
    give(h, found);
    assert_refused(h, 400 * UNIT, -EAGAIN);
    found = take(h, 100);
    assert_int_equal(found->offset, offset[0]);
    give(h, found);
    for (unsigned i = 0; i < 4; i++)
        give(h, between[i]);
    heap_destroy(h);
}

static void shrinking_merges_what_waits_where_it_needs_a_descriptor(void **state)
{
    struct rdesc *kept;
    struct heap *h;

    (void)state;
    skip_unless_memory_can_be_cut_off();
    h = make_short_of_descriptors(&kept);
    denied_after = granted;
    heap_shrink(h, kept, 4 * UNIT);
    denied_after = UINT32_MAX;
    assert_sound(h);
    assert_int_equal(kept->units, 4);
    assert_int_equal(segregated_waiting(h), 0);
    heap_destroy(h);
}

/* A heap of ARRIVING_FROM blocks and more of one unit, full. */
static struct heap *make_large(struct rdesc **d, unsigned n)
{
    struct heap *h = heap_of_units(n, 0);

    for (unsigned i = 0; i < n; i++) {
        d[i] = heap_alloc(h, UNIT);
        assert_non_null(d[i]);
    }
    assert_sound(h);
    assert_true(h->pool.made >= ARRIVING_FROM);
    return h;
}

static void in_a_large_heap_blocks_arrive_in_their_order(void **state)
{
    struct rdesc *d[ARRIVING_FROM];
    struct heap *h = make_large(d, ARRIVING_FROM);

    (void)state;
    for (unsigned i = 0; i < ARRIVING + 2; i++)
        give(h, d[2 * i]);
    assert_int_equal(segregated_waiting(h), ARRIVING + 2);
    assert_ptr_equal(take(h, 1), d[2]);
    assert_ptr_equal(take(h, 1), d[0]);
    assert_int_equal(segregated_waiting(h), ARRIVING);
    take(h, 1); /* none has arrived: all are merged */
    assert_int_equal(segregated_waiting(h), 0);
    assert_int_equal(h->segregated->blocks, ARRIVING - 1);
    heap_destroy(h);
}

static void in_a_large_heap_a_full_quick_list_merges_what_arrives(void **state)
{
    struct rdesc *d[ARRIVING_FROM];
    struct heap *h = make_large(d, ARRIVING_FROM);

    (void)state;
    for (unsigned i = 0; i < QUICK_FEW + ARRIVING + 5; i++)
        give(h, d[2 * i]);
    assert_int_equal(h->segregated->quick[0].count, QUICK_FEW);
    assert_int_equal(segregated_waiting(h), QUICK_FEW + ARRIVING);
    assert_int_equal(h->segregated->blocks, 5);
    assert_int_equal(desc_state(d[2 * (QUICK_FEW + 4)]), DESC_FREE);
    assert_int_equal(desc_state(d[2 * (QUICK_FEW + 5)]), DESC_FREED);
    DAMAGE(h->segregated->arriving[3], d[1], "is torn");
    DAMAGE(h->segregated->arriving[3], NULL, "are counted");
    heap_destroy(h);
}

static void quick_lists_become_longer_with_the_heap(void **state)
{
    uint32_t last = 0;

    (void)state;
    assert_int_equal(quick_most(0), QUICK_FEW);
    assert_int_equal(quick_most(QUICK_FEW * QUICK_SHARE), QUICK_FEW);
    assert_int_equal(quick_most((QUICK_FEW + 1) * QUICK_SHARE), QUICK_FEW + 1);
    assert_int_equal(quick_most(UINT32_MAX), QUICK_MOST);
    for (uint32_t descriptors = 0; descriptors < 1000000; descriptors += 77) {
        const uint32_t most = quick_most(descriptors);

        assert_true(most >= last && (most <= QUICK_FEW || most <= descriptors / QUICK_SHARE));
        last = most;
    }
}

/* Of the blocks of one size so many wait; all are merged before a request is refused. */
static void in_a_larger_heap_more_blocks_wait(void **state)
{
    enum { BLOCKS = 12000 };
    static struct rdesc *d[BLOCKS];
    struct heap *h = make_large(d, BLOCKS);
    const uint32_t most = quick_most(h->pool.made);

    (void)state;
    assert_true(most > 2 * QUICK_FEW && most < QUICK_MOST);
    for (unsigned i = 0; i < BLOCKS / 2; i++) {
        heap_free(h, d[i]);
        assert_true(segregated_waiting(h) <= most + ARRIVING);
    }
    assert_sound(h);
    assert_int_equal(h->segregated->quick[0].count, most);
    assert_int_equal(segregated_waiting(h), most + ARRIVING);
    DAMAGE(h->segregated->most, most + 1, "a quick list has up to");
    DAMAGE(h->segregated->most, most - 1, "is torn");
    for (unsigned i = 0; i < most; i++)
        d[i] = heap_alloc(h, UNIT);
    assert_int_equal(segregated_waiting(h), ARRIVING);
    for (unsigned i = 0; i < most; i++)
        heap_free(h, d[i]);
    assert_int_equal(take(h, BLOCKS / 2)->offset, 0);
    assert_int_equal(segregated_waiting(h), 0);
    assert_refused(h, UNIT, -EAGAIN);
    heap_destroy(h);
}

static void a_large_heap_is_one_block_when_it_is_empty(void **state)
{
    struct rdesc *d[ARRIVING_FROM];
    struct heap *h = make_large(d, ARRIVING_FROM);

    (void)state;
    for (unsigned i = 0; i < ARRIVING_FROM; i++)
        heap_free(h, d[(i * 7) % ARRIVING_FROM]);
    assert_sound(h);
    assert_int_equal(segregated_waiting(h), 0);
    for (unsigned i = 0; i < 3; i++) { /* a plain pair uses one descriptor */
        d[i] = take(h, 5);
        give(h, d[i]);
        assert_int_equal(segregated_waiting(h), 1);
        assert_ptr_equal(d[i], d[0]);
    }
    give(h, take(h, ARRIVING_FROM));
    heap_destroy(h);
}

/* A block with a short last unit does not wait, so that a smaller one never takes its place in a quick list. */
static void a_short_last_unit_does_not_wait(void **state)
{
    struct heap *h = heap_of_bytes(RMALLOC_SEGREGATED_FIT, 9 * UNIT + 10, UNIT, 0);
    struct rdesc *d[5];

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        d[i] = take_bytes(h, i < 4 ? 2 * UNIT : UNIT + 10);
    give(h, d[4]);
    assert_int_equal(segregated_waiting(h), 0);
    give(h, d[1]);
    assert_int_equal(segregated_waiting(h), 1);
    assert_ptr_equal(take_bytes(h, 2 * UNIT), d[1]);
    take_bytes(h, UNIT + 10);
    heap_destroy(h);
}

static void a_segment_without_memory_is_refused(void **state)
{
    struct heap *h = heap_of_units(100, 0);

    (void)state;
    skip_unless_memory_can_be_cut_off();
    while (h->pool.free != NULL)
        take(h, 1);
    for (unsigned more = 0; more < 2; more++) { /* no segment, no descriptor */
        denied_after = granted + more;
        assert_int_equal(heap_grow(h, NULL, 5000 * UNIT), -ENOMEM);
        denied_after = UINT32_MAX;
        assert_sound(h);
        assert_int_equal(stats_of(h).segments, 1);
    }
    assert_int_equal(heap_grow(h, NULL, 5000 * UNIT), 0);
    assert_sound(h);
    heap_destroy(h);
}

static void a_worn_descriptor_is_replaced(void **state)
{
    struct heap *h = heap_of_units(8, 4);
    struct rdesc *a = take(h, 2), *b = take(h, 2), *again;

    (void)state;
    b->word |= ~DESC_ADDRESS; /* the last of its generations */
    give(h, b);
    again = take(h, 2);
    assert_ptr_not_equal(again, b);
    assert_int_equal(again->offset, 2 * UNIT);
    assert_int_equal(desc_state(b), DESC_RESTING);
    give(h, a);
    give(h, again);
    heap_destroy(h);
}

static void the_check_sees_damage(void **state)
{
    struct heap *h = heap_of_units(400, 0);
    struct segregated *s = h->segregated;
    struct rdesc *d[40], *merged[2], *waits;

    (void)state;
    for (unsigned i = 0; i < 40; i++)
        d[i] = take(h, i < 4 ? 70 : 2);
    for (unsigned i = 4; i < 40; i += 2)
        give(h, d[i]); /* the first two are in a quick list */
    give(h, d[0]);
    give(h, d[2]);
    merged[0] = d[2];
    merged[1] = d[0];
    waits = s->quick[1].head;
    assert_non_null(waits);
    DAMAGE(h->used, h->used + 1, "handed out");
    DAMAGE(s->unlisted, s->unlisted + 1, "are counted");
    DAMAGE(s->units, 0, "waits");
    DAMAGE(s->blocks, s->blocks + 1, "are counted");
    DAMAGE(s->quick[1].count, s->quick[1].count + 1, "are counted");
    DAMAGE(s->quick[1].head, merged[0], "is torn");
    DAMAGE(s->some.word[0], s->some.word[0] | 4, "set of classes");
    DAMAGE(s->list[fine_class(70)], waits, "is torn");
    DAMAGE(merged[1]->back, merged[1], "is torn");
    DAMAGE(d[1]->next, d[2], "chain");
    DAMAGE(d[1]->offset, d[1]->offset + UNIT, "begins at");
    DAMAGE(waits->mem, (void *)s, "memory");
    DAMAGE(waits->units, waits->units + 1, "begins at");
    DAMAGE_STATE(d[1], DESC_LOOSE, "is in state");
    DAMAGE_STATE(waits, DESC_OWNED, "");
    DAMAGE(h->newest->edge.prev, &h->first.edge, "segment");
    heap_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fine_classes_ascend_and_are_exact_where_small),
        cmocka_unit_test(a_freed_block_waits_and_is_taken_again),
        cmocka_unit_test(an_empty_heap_has_its_largest_block),
        cmocka_unit_test(a_request_that_does_not_fit_merges_what_waits),
        cmocka_unit_test(a_failing_request_merges_once),
        cmocka_unit_test(a_full_quick_list_merges_what_comes),
        cmocka_unit_test(a_block_of_its_own_class_is_found_among_the_first),
        cmocka_unit_test(segments_of_an_empty_heap_are_all_compared),
        cmocka_unit_test(a_last_unit_that_is_short_is_used),
        cmocka_unit_test(descriptors_of_waiting_blocks_are_used),
        cmocka_unit_test(no_more_blocks_wait_than_may_be_allocated),
        cmocka_unit_test(an_allocation_merges_what_waits_where_it_needs_a_descriptor),
        cmocka_unit_test(the_smallest_class_that_suffices_is_taken),
        cmocka_unit_test(shrinking_merges_what_waits_where_it_needs_a_descriptor),
        cmocka_unit_test(in_a_large_heap_blocks_arrive_in_their_order),
        cmocka_unit_test(in_a_large_heap_a_full_quick_list_merges_what_arrives),
        cmocka_unit_test(quick_lists_become_longer_with_the_heap),
        cmocka_unit_test(in_a_larger_heap_more_blocks_wait),
        cmocka_unit_test(a_large_heap_is_one_block_when_it_is_empty),
        cmocka_unit_test(a_short_last_unit_does_not_wait),
        cmocka_unit_test(a_segment_without_memory_is_refused),
        cmocka_unit_test(a_worn_descriptor_is_replaced),
        cmocka_unit_test(the_check_sees_damage),
    };

    return cmocka_run_group_tests_name("segregated-fit", tests, NULL, NULL);
}
