/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A next-fit heap, case by case: its configuration, sizes, descriptors, memory and counters. Placement is in test_next_fit.c,
 * growth in test_heap_growth.c, what a heap reports in test_heap_walk.c. Random sequences are in test_heap_model.c.
 */
#include "next_fit_heap.h"
#include <rvmem.h>

/* ---- configuration ---- */

static void assert_config(struct heap_config cfg, int error, const char *word)
{
    struct error err = {""};
    struct heap *h = (struct heap *)&cfg;

    assert_int_equal(heap_config_check(&cfg, &err), error);
    if (strstr(err.text, word) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", err.text, word);
    assert_int_equal(heap_create(&h, &cfg), error);
    assert_ptr_equal(h, &cfg); /* outputs only on success */
}

static void an_invalid_configuration_is_refused_with_a_reason(void **state)
{
    const struct heap_config good = {.unit_size = UNIT, .bytes = 4096};
    struct heap_config cfg;
    static const uint32_t units[] = {0, 3, 63, 65, 2097152, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        cfg = good;
        cfg.unit_size = units[i];
        assert_config(cfg, -EINVAL, "power of two");
    }
    cfg = good;
    cfg.bytes = 0;
    assert_config(cfg, -EINVAL, "bytes is 0");
    cfg.bytes = (UINT64_C(1) << 31) * UNIT + 1;
    assert_config(cfg, -EINVAL, "2^31 units");
    cfg.bytes = UINT64_MAX;
    assert_config(cfg, -EINVAL, "2^31 units");
    cfg = good;
    cfg.base = (void *)(uintptr_t)(UNIT + 8);
    assert_config(cfg, -EINVAL, "aligned");
    cfg.base = (void *)(UINTPTR_MAX - UNIT + 1);
    assert_config(cfg, -EINVAL, "address space");
    cfg = good;
    cfg.algorithm = (rmalloc_fit_t)(RMALLOC_SEGREGATED_FIT + 1);
    assert_config(cfg, -EINVAL, "heuristic is 7");
    cfg.algorithm = (rmalloc_fit_t)-1;
    assert_config(cfg, -EINVAL, "heuristic is -1");
}

static void creation_without_memory_fails(void **state)
{
    struct heap_config cfg = {.unit_size = UNIT, .bytes = 4096};
    struct heap *h = NULL;

    (void)state;
    skip_unless_memory_can_be_cut_off();
    denied_after = 0;
    assert_int_equal(heap_create(&h, &cfg), -ENOMEM);
    denied_after = UINT32_MAX;
    assert_null(h);
    heap_destroy(NULL);
}

static void the_largest_range_is_managed_to_its_last_byte(void **state)
{
    const uint64_t bytes = UINT64_C(1) << 51; /* 2^31 units of 1 MiB */
    struct heap *h = heap_of_bytes(bytes, 1u << 20, 0);
    struct rdesc *all, *low, *high;

    (void)state;
    all = heap_alloc(h, bytes);
    assert_non_null(all);
    assert_int_equal(all->units, UINT32_C(1) << 31);
    assert_sound(h);
    assert_refused(h, 1, -EAGAIN);
    give(h, all);
    low = heap_alloc(h, 1);
    high = heap_alloc(h, bytes - (1 << 20));
    assert_non_null(low);
    assert_non_null(high);
    give(h, low); /* high begins at 1 MiB; a second one does not fit behind it, but before it */
    low = heap_alloc(h, 1 << 20);
    assert_non_null(low);
    assert_int_equal(low->offset, 0);
    assert_sound(h);
    heap_destroy(h);
}

/* ---- sizes ---- */

static void size_zero_takes_one_unit(void **state)
{
    struct heap *h = heap_of_units(2);
    struct rdesc *d = heap_alloc(h, 0);

    (void)state;
    assert_non_null(d);
    assert_sound(h);
    assert_int_equal(d->size, 0);
    assert_int_equal(d->units, 1);
    assert_int_equal(heap_bytes_used(h), UNIT);
    take(h, 1, 1);
    assert_refused(h, 0, -EAGAIN);
    heap_destroy(h);
}

static void a_block_is_whole_units(void **state)
{
    struct heap *h = heap_of_units(8);
    struct rdesc *d = heap_alloc(h, UNIT + 1);

    (void)state;
    assert_int_equal(d->size, UNIT + 1);
    assert_int_equal(d->units, 2);
    assert_int_equal(heap_bytes_used(h), 2 * UNIT);
    take(h, 1, 2);
    heap_destroy(h);
}

static void a_request_that_never_fits_differs_from_one_that_does_not_fit_now(void **state)
{
    struct heap *h = heap_of_units(4);

    (void)state;
    assert_refused(h, 4 * UNIT + 1, -EMSGSIZE);
    assert_refused(h, SIZE_MAX, -EMSGSIZE); /* rounding up overflows */
    assert_refused(h, SIZE_MAX - UNIT + 1, -EMSGSIZE);
    assert_refused(h, SIZE_MAX - UNIT, -EMSGSIZE);
    take(h, 1, 0);
    assert_refused(h, 4 * UNIT, -EAGAIN);
    assert_refused(h, 4 * UNIT + 1, -EMSGSIZE);
    heap_destroy(h);
}

static void a_short_last_unit_is_used_and_not_exceeded(void **state)
{
    struct heap *h = heap_of_bytes(100, UNIT, 0);
    struct rdesc *a, *b;

    (void)state;
    assert_int_equal(heap_bytes(h), 100);
    assert_int_equal(stats_of(h).largest, 100);
    a = heap_alloc(h, 100); /* every request up to the size succeeds in an empty heap */
    assert_non_null(a);
    assert_int_equal(a->units, 2);
    assert_int_equal(heap_bytes_used(h), 100);
    assert_sound(h);
    give(h, a);
    assert_refused(h, 101, -EMSGSIZE);
    a = heap_alloc(h, 1);
    assert_refused(h, 37, -EAGAIN);
    assert_int_equal(stats_of(h).largest, 36);
    b = heap_alloc(h, 36);
    assert_non_null(b);
    assert_int_equal(b->offset, UNIT);
    assert_int_equal(b->units, 1);
    assert_sound(h);
    assert_refused(h, 0, -EAGAIN);
    give(h, a); /* space before b, none behind it */
    a = take(h, 1, 0);
    give(h, a);
    give(h, b);
    heap_destroy(h);

    h = heap_of_bytes(5, UNIT, 0); /* nothing but a short unit */
    a = heap_alloc(h, 0);
    assert_non_null(a);
    assert_sound(h);
    assert_refused(h, 0, -EAGAIN);
    give(h, a);
    assert_non_null(heap_alloc(h, 5));
    heap_destroy(h);

    h = heap_of_bytes(3 * UNIT + 7, UNIT,
                      0); /* a gap that ends in one, and takes in what is freed before it */
    a = take(h, 2, 0);
    b = take(h, 1, 2);
    give(h, a);
    a = take(h, 2, 0);
    assert_int_equal(stats_of(h).bytes_stuck, 7);
    give(h, b);
    assert_stuck(h, 0);
    give(h, a);
    assert_non_null(heap_alloc(h, 3 * UNIT + 7));
    heap_destroy(h);
}

/* ---- descriptors ---- */

static void the_limit_of_descriptors_is_reported(void **state)
{
    struct heap *h = heap_of_bytes(10 * UNIT, UNIT, 3);
    struct rdesc *a = take(h, 2, 0), *b = take(h, 2, 2);

    (void)state;
    take(h, 2, 4);
    assert_refused(h, 1, -ENOBUFS);
    assert_int_equal(stats_of(h).largest, 0);
    give(h, a);
    assert_int_equal(stats_of(h).largest, 4 * UNIT);
    take(h, 2, 6);
    give(h, b);
    heap_destroy(h);

    h = heap_of_bytes(10 * UNIT, UNIT, 2); /* a gap needs none */
    a = take(h, 6, 0);
    take(h, 2, 6);
    give(h, a);
    take(h, 4, 0);
    assert_stuck(h, 2);
    heap_destroy(h);
}

static void without_memory_for_a_descriptor_nothing_changes(void **state)
{
    struct heap *h;
    struct rdesc *a;
    unsigned n = 60;

    (void)state;
    skip_unless_memory_can_be_cut_off();
    h = heap_of_units(100);
    a = take(h, 60, 0);
    while (h->pool.free != NULL)
        take(h, 1, n++);
    give(h, a); /* one descriptor again */
    take(h, 1, n++);
    denied_after = 0;
    assert_refused(h, 1, -ENOMEM);
    assert_refused(h, 60 * UNIT, -ENOMEM); /* would wrap: no gap is left behind */
    denied_after = UINT32_MAX;
    assert_stuck(h, 0);
    take(h, 1, n);
    heap_destroy(h);
}

static void after_warm_up_no_memory_is_asked_for(void **state)
{
    struct heap *h;
    struct rdesc *held[64] = {NULL}, *warm[2 * 64];
    unsigned before, random = 1;

    (void)state;
    skip_unless_memory_can_be_cut_off();
    h = heap_of_units(4096);
    for (unsigned i = 0; i < 2 * 64;
         i++) /* 64 blocks, and between any two of them one that waits */
        warm[i] = take(h, 1, i);
    for (unsigned i = 0; i < 2 * 64; i++)
        give(h, warm[i]);
    before = granted;
    for (unsigned i = 0; i < 200000; i++) {
        struct rdesc **slot;

        random = random * 1664525u + 1013904223u;
        slot = &held[i < 100000 ? i % 64 : random >> 26];
        if (*slot != NULL)
            heap_free(h, *slot);
        *slot = heap_alloc(h, random % 500);
    }
    assert_sound(h);
    assert_int_equal(granted, before);
    heap_destroy(h);
}

/* ---- memory, counters ---- */

static void memory_is_at_its_offset_and_a_shadow_has_none(void **state)
{
    char *buffer = aligned_alloc(UNIT, 8 * UNIT);
    struct heap_config cfg = {.unit_size = UNIT, .bytes = 8 * UNIT, .base = buffer};
    struct heap *mapped, *shadow = heap_of_units(8);
    struct rdesc *m, *s;

    (void)state;
    assert_int_equal(heap_create(&mapped, &cfg), 0);
    for (unsigned i = 1; i <= 3; i++) {
        m = take(mapped, i, i * (i - 1) / 2);
        s = take(shadow, i, i * (i - 1) / 2);
        assert_ptr_equal(m->mem, buffer + m->offset);
        memset(m->mem, (int)i, m->size);
        assert_null(s->mem);
    }
    heap_destroy(mapped);
    heap_destroy(shadow);
    free(buffer);
}

static void blocks_belong_to_whom_the_heap_was_made_for(void **state)
{
    const uint32_t channel = 4711;
    struct heap_config cfg = {.unit_size = UNIT, .bytes = 10 * UNIT, .owner = channel};
    struct rdesc *a, *b;
    struct heap *h;

    (void)state;
    assert_int_equal(heap_create(&h, &cfg), 0);
    a = heap_alloc(h, 6 * UNIT);
    b = heap_alloc(h, 2 * UNIT);
    assert_int_equal(desc_owner(a), channel);
    assert_sound(h);
    give(h, a);
    a = heap_alloc(h, 3 * UNIT); /* over a gap */
    assert_int_equal(a->offset, 0);
    assert_int_equal(desc_owner(a), channel);
    assert_sound(h);
    give(h, b);
    give(h, a);
    heap_destroy(h);
}

static void counters_say_what_happened(void **state)
{
    struct heap *h = heap_of_units(10);
    struct rdesc *a = take(h, 4, 0), *b = take(h, 3, 4);
    rvmem_stats_t s;

    (void)state;
    give(h, a);
    take(h, 2, 7);
    assert_null(heap_alloc(h, 100 * UNIT));
    assert_null(heap_alloc(h, 5 * UNIT));
    s = stats_of(h);
    assert_int_equal(s.bytes, 10 * UNIT);
    assert_int_equal(s.bytes_used, 5 * UNIT);
    assert_int_equal(s.bytes_stuck, 0);
    assert_int_equal(s.bytes_free, 5 * UNIT);
    assert_int_equal(s.largest, 4 * UNIT); /* 4 before the tail, 1 behind the head */
    assert_int_equal(s.peak, 7 * UNIT);
    assert_int_equal(s.allocs, 3);
    assert_int_equal(s.frees, 1);
    assert_int_equal(s.failures, 2);
    assert_int_equal(s.blocks_used, 2);
    give(h, b);
    take(h, 7, 0); /* wraps: 9 in use, and the peak with them */
    s = stats_of(h);
    assert_int_equal(s.bytes_used, 9 * UNIT);
    assert_int_equal(s.peak, 9 * UNIT);
    assert_int_equal(s.bytes_stuck, UNIT);
    heap_destroy(h);
}

static void a_fit_is_reached_through_its_table_too(void **state)
{
    struct heap *h = heap_of_units(4);
    struct rdesc *d = h->ops->alloc(h, 2 * UNIT);

    (void)state;
    assert_string_equal(h->ops->name, "next-fit");
    assert_sound(h);
    assert_int_equal(h->ops->used(h), 2 * UNIT);
    assert_int_equal(h->ops->largest(h), 2 * UNIT);
    h->ops->free(h, d);
    assert_sound(h);
    assert_int_equal(heap_bytes_used(h), 0);
    heap_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_invalid_configuration_is_refused_with_a_reason),
        cmocka_unit_test(creation_without_memory_fails),
        cmocka_unit_test(the_largest_range_is_managed_to_its_last_byte),
        cmocka_unit_test(size_zero_takes_one_unit),
        cmocka_unit_test(a_block_is_whole_units),
        cmocka_unit_test(a_request_that_never_fits_differs_from_one_that_does_not_fit_now),
        cmocka_unit_test(a_short_last_unit_is_used_and_not_exceeded),
        cmocka_unit_test(the_limit_of_descriptors_is_reported),
        cmocka_unit_test(without_memory_for_a_descriptor_nothing_changes),
        cmocka_unit_test(after_warm_up_no_memory_is_asked_for),
        cmocka_unit_test(memory_is_at_its_offset_and_a_shadow_has_none),
        cmocka_unit_test(blocks_belong_to_whom_the_heap_was_made_for),
        cmocka_unit_test(counters_say_what_happened),
        cmocka_unit_test(a_fit_is_reached_through_its_table_too),
    };

    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
