/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The behaviour of a next-fit heap, case by case; after every operation every invariant is checked. Sequences that
 * nobody thought of are in test_heap_model.c.
 */
#include "alloc/heap.h"

#include "alloc/fit.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UNIT 64u

static unsigned granted, denied_after = UINT32_MAX;

void *aligned_alloc(size_t alignment, size_t size)
{
    void *p;

    if (granted >= denied_after || posix_memalign(&p, alignment, size) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    granted++;
    return p;
}

/* Valgrind puts its own in the place of this one. */
static void skip_unless_memory_can_be_cut_off(void)
{
    void *(*volatile call)(size_t, size_t) = aligned_alloc;
    unsigned before = granted;

    free(call(CACHE_LINE, CACHE_LINE));
    if (granted == before)
        skip();
}

static void assert_sound(const struct heap *h)
{
    char why[256] = "";

    if (heap_check(h, why, sizeof(why)) != 0)
        fail_msg("%s", why);
}

static struct heap *heap_of_bytes(uint64_t bytes, uint32_t unit, uint32_t max_descriptors)
{
    struct heap_config cfg = {.unit_size = unit, .bytes = bytes, .max_descriptors = max_descriptors};
    struct heap *h;

    assert_int_equal(heap_create(&h, &cfg), 0);
    assert_sound(h);
    return h;
}

static struct heap *heap_of_units(unsigned units) { return heap_of_bytes(units * UNIT, UNIT, 0); }

static rdma_vmem_stats_t stats_of(const struct heap *h)
{
    rdma_vmem_stats_t s;

    heap_get_stats(h, &s);
    assert_int_equal(s.bytes, s.bytes_used + s.bytes_stuck + s.bytes_free);
    return s;
}

/* `units` whole units, which must come to lie at unit `at`. */
static struct rdesc *take(struct heap *h, unsigned units, unsigned at)
{
    struct rdesc *d = heap_alloc(h, units * UNIT);

    assert_non_null(d);
    assert_sound(h);
    assert_int_equal(d->state, DESC_OWNED);
    assert_int_equal(d->size, units * UNIT);
    assert_int_equal(d->units, units);
    assert_int_equal(d->offset, at * UNIT);
    assert_int_equal(d->owner, h->owner);
    return d;
}

static void give(struct heap *h, struct rdesc *d)
{
    heap_free(h, d);
    assert_sound(h);
}

static void assert_refused(struct heap *h, size_t size, int error)
{
    rdma_vmem_stats_t before = stats_of(h), after;

    assert_null(heap_alloc(h, size));
    assert_int_equal(heap_alloc_error(h), error);
    assert_sound(h);
    after = stats_of(h);
    assert_int_equal(after.failures, before.failures + 1);
    after.failures--;
    assert_memory_equal(&before, &after, sizeof(before));
}

static void assert_stuck(const struct heap *h, unsigned units)
{
    assert_int_equal(stats_of(h).bytes_stuck, units * UNIT);
}

/* ---- configuration ---- */

static void assert_config(struct heap_config cfg, int error, const char *word)
{
    char why[256] = "";
    struct heap *h = (struct heap *)&cfg;

    assert_int_equal(heap_config_check(&cfg, why, sizeof(why)), error);
    if (strstr(why, word) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, word);
    assert_int_equal(heap_create(&h, &cfg), error);
    assert_ptr_equal(h, &cfg); /* outputs only on success */
}

static void a_bad_configuration_is_refused_with_a_sentence(void **state)
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
    assert_config(cfg, -EINVAL, "alloc_size is 0");
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
    cfg.algorithm = (rmalloc_algorithm_t)(RANDOM_FIT + 1);
    assert_config(cfg, -EINVAL, "algorithm is 5");
    cfg.algorithm = (rmalloc_algorithm_t)-1;
    assert_config(cfg, -EINVAL, "algorithm is -1");
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

static void what_can_never_fit_is_told_from_what_does_not_fit_now(void **state)
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
    give(h, a); /* room before b, none behind it */
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

    h = heap_of_bytes(3 * UNIT + 7, UNIT, 0); /* a gap that ends in one, and takes in what is freed before it */
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
    assert_int_equal(b->state, DESC_FREED);
    assert_stuck(h, 2);
    assert_int_equal(heap_bytes_used(h), 4 * UNIT);
    assert_refused(h, 1, -EAGAIN);
    give(h, a); /* both come back at once */
    assert_int_equal(b->state, DESC_POOLED);
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
    assert_int_equal(d[1]->state, DESC_FREED);
    assert_int_equal(d[3]->state, DESC_FREED);
    give(h, d[2]); /* with the one before and the one behind */
    assert_int_equal((d[1]->state == DESC_FREED) + (d[2]->state == DESC_FREED) + (d[3]->state == DESC_FREED), 1);
    assert_int_equal((d[1]->state == DESC_POOLED) + (d[2]->state == DESC_POOLED) + (d[3]->state == DESC_POOLED), 2);
    assert_stuck(h, 6);
    give(h, d[0]);
    assert_stuck(h, 0);
    take(h, 8, 0);
    heap_destroy(h);

    h = heap_of_units(6); /* the later one first */
    for (unsigned i = 0; i < 3; i++)
        d[i] = take(h, 2, 2 * i);
    h->first.edge.next->state = DESC_SENT;
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
    assert_int_equal(c->state, DESC_FREED);
    assert_int_equal(d->state, DESC_FREED);
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
    assert_int_equal(c->state, DESC_POOLED);
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
        d[i]->state = DESC_SENT;
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
        {0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 1, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 3, 2, 1}, {1, 0, 2, 3}, {1, 0, 3, 2},
        {1, 2, 0, 3}, {1, 2, 3, 0}, {1, 3, 0, 2}, {1, 3, 2, 0}, {2, 0, 1, 3}, {2, 0, 3, 1}, {2, 1, 0, 3}, {2, 1, 3, 0},
        {2, 3, 0, 1}, {2, 3, 1, 0}, {3, 0, 1, 2}, {3, 0, 2, 1}, {3, 1, 0, 2}, {3, 1, 2, 0}, {3, 2, 0, 1}, {3, 2, 1, 0},
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

/* ---- descriptors ---- */

static void the_limit_of_descriptors_is_told(void **state)
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
    for (unsigned i = 0; i < 2 * 64; i++) /* 64 blocks, and between any two of them one that waits */
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
    assert_int_equal(a->owner, channel);
    assert_sound(h);
    give(h, a);
    a = heap_alloc(h, 3 * UNIT); /* over a gap */
    assert_int_equal(a->offset, 0);
    assert_int_equal(a->owner, channel);
    assert_sound(h);
    give(h, b);
    give(h, a);
    heap_destroy(h);
}

static void counters_say_what_happened(void **state)
{
    struct heap *h = heap_of_units(10);
    struct rdesc *a = take(h, 4, 0), *b = take(h, 3, 4);
    rdma_vmem_stats_t s;

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

/* ---- growth ---- */

static void grow(struct heap *h, uint64_t bytes)
{
    assert_int_equal(heap_grow(h, NULL, bytes), 0);
    assert_sound(h);
}

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
    b = take(h, 2, 4); /* no room for it where the heap was */
    c = take(h, 1, 6); /* and on behind the last one, though there is room before it */
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
    assert_int_equal(heap_grow(h, (void *)(UINT64_C(1) << 20), 1u << 20), -EINVAL); /* the first is not mapped */
    assert_int_equal(heap_grow(h, NULL, UINT64_C(1) << 51), -EINVAL);               /* one unit too many */
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

/* ---- what stands in the way, walk ---- */

static void unsent_room_is_what_there_is_when_all_that_was_sent_is_back(void **state)
{
    struct heap *h = heap_of_units(10);
    struct rdesc *a, *b, *c, *d;

    (void)state;
    assert_int_equal(heap_unsent_room(h), 10 * UNIT);
    a = take(h, 4, 0);
    b = take(h, 2, 4);
    c = take(h, 2, 6);
    a->state = DESC_SENT;
    assert_int_equal(heap_unsent_room(h), 4 * UNIT); /* before b, and two behind c */
    c->state = DESC_SENT;
    assert_int_equal(heap_unsent_room(h), 4 * UNIT);
    b->state = DESC_SENT;
    assert_int_equal(heap_unsent_room(h), 10 * UNIT);
    give(h, a);
    d = take(h, 3, 0); /* over a gap */
    assert_int_equal(heap_unsent_room(h), 7 * UNIT);
    c->state = DESC_OWNED;
    assert_int_equal(heap_unsent_room(h), 3 * UNIT); /* wrapped, between d and c */
    d->state = DESC_SENT;
    assert_int_equal(heap_unsent_room(h), 6 * UNIT);
    grow(h, 7 * UNIT);
    assert_int_equal(heap_unsent_room(h), 7 * UNIT);
    heap_destroy(h);
}

struct visits {
    rdma_vmem_block_t seen[16];
    unsigned count;
};

static int note(const rdma_vmem_block_t *b, void *arg)
{
    struct visits *v = arg;

    v->seen[v->count++] = *b;
    return v->count == 3 && v->seen[15].size == 1 ? -5 : 0;
}

/* `f` free, `s` stuck, `u` used, each with its length in units. */
static void assert_walk(const struct heap *h, const char *expected)
{
    struct visits v = {.count = 0};
    char found[64] = "";
    uint64_t end = 0;

    assert_int_equal(heap_walk(h, note, &v), 0);
    for (unsigned i = 0; i < v.count; i++) {
        const rdma_vmem_block_t *b = &v.seen[i];
        char one[8];

        assert_int_equal(b->offset, end);
        end += b->bytes;
        assert_int_equal(b->d != NULL, b->state == RDMA_BLOCK_USED);
        assert_int_equal(b->size, b->d != NULL ? b->d->size : 0);
        snprintf(one, sizeof(one), "%c%u ", "fus"[b->state], (unsigned)(b->bytes / UNIT));
        strcat(found, one);
    }
    assert_string_equal(found, expected);
    assert_int_equal(stats_of(h).blocks_free + stats_of(h).blocks_used, v.count);
}

static void a_walk_visits_every_block_by_address(void **state)
{
    struct heap *h = heap_of_units(10);
    struct visits v = {.seen[15].size = 1};
    struct rdesc *a, *b, *c, *d, *e;

    (void)state;
    assert_walk(h, "f10 ");
    a = take(h, 2, 0);
    b = take(h, 3, 2);
    c = take(h, 2, 5);
    assert_walk(h, "u2 u3 u2 f3 ");
    give(h, b);
    assert_walk(h, "u2 s3 u2 f3 ");
    give(h, a);
    assert_walk(h, "f5 u2 f3 ");
    d = take(h, 2, 7);
    e = take(h, 3, 0); /* over a gap of one */
    assert_walk(h, "u3 f2 u2 u2 s1 ");
    give(h, d); /* with the gap */
    assert_walk(h, "u3 f2 u2 s3 ");
    grow(h, 2 * UNIT);
    assert_walk(h, "u3 f2 u2 s3 f2 ");
    take(h, 2, 3);
    assert_walk(h, "u3 u2 u2 s3 f2 ");
    assert_int_equal(heap_walk(h, note, &v), -5);
    assert_int_equal(v.count, 3);
    give(h, c);
    give(h, e);
    heap_destroy(h);
}

static void carving_is_not_for_next_fit(void **state)
{
    struct heap *h = heap_of_units(4);

    (void)state;
    assert_null(heap_carve(h, 0, UNIT));
    assert_int_equal(heap_alloc_error(h), -ENOTSUP);
    assert_sound(h);
    heap_destroy(h);
}

/* ---- the check ---- */

static void assert_broken(const struct heap *h, const char *word, int line)
{
    char why[256] = "";

    if (heap_check(h, why, sizeof(why)) != -EUCLEAN || strstr(why, word) == NULL)
        fail_msg("line %d: the check said \"%s\", nothing of \"%s\"", line, why, word);
}

/* Puts a wrong value in one place, lets the check find it, puts the right one back. */
#define DAMAGE(place, wrong, word)                                                                                     \
    do {                                                                                                               \
        __typeof__(place) right_ = (place);                                                                            \
        (place) = (wrong);                                                                                             \
        assert_broken(h, word, __LINE__);                                                                              \
        (place) = right_;                                                                                              \
        assert_sound(h);                                                                                               \
    } while (0)

static void the_check_sees_damage(void **state)
{
    struct heap *h = heap_of_units(16);
    struct rdesc *a = take(h, 4, 0), *b = take(h, 2, 4), *c = take(h, 2, 6), *d = take(h, 2, 8), *e = take(h, 4, 10);
    struct rdesc *f, *g, stranger;

    (void)state;
    give(h, a);
    f = take(h, 3, 0); /* over a gap of 2 */
    give(h, c);
    stranger = *d;
    g = heap_alloc(h, UNIT);
    assert_non_null(g);
    /* b, c freed, d, e, the gap, f, g */
    DAMAGE(b->state, DESC_POOLED, "state 0");
    DAMAGE(b->state, 9, "state 9");
    DAMAGE(d->state, DESC_GAP, "state 4");
    DAMAGE(d->state, DESC_FREED, "both free");
    DAMAGE(e->state, DESC_FREED, "both free");
    DAMAGE(b->state, DESC_FREED, "both free");
    DAMAGE(f->state, DESC_FREED, "handed out");
    DAMAGE(g->state, DESC_FREED, "newest");
    DAMAGE(c->state, DESC_OWNED, "handed out");
    DAMAGE(d->whose, desc_owned_by(h->owner + 1), "owner");
    DAMAGE(d->offset, d->offset + 1, "aligned");
    DAMAGE(d->offset, d->offset + UNIT, "begins at");
    DAMAGE(d->offset, h->bytes, "beyond");
    DAMAGE(d->units, 0, "empty");
    DAMAGE(d->units, d->units + 1, "begins at");
    DAMAGE(d->units, 1u << 30, "beyond");
    DAMAGE(d->size, d->size + 1, "holds");
    DAMAGE(d->mem, h, "memory");
    DAMAGE(d->prev, b, "torn");
    DAMAGE(d->next, f, "torn");
    DAMAGE(d->next, &stranger, "torn");
    DAMAGE(g->units, g->units + 1, "overrun");
    DAMAGE(h->first.gap.offset, h->first.gap.offset - UNIT, "begins at");
    DAMAGE(h->first.gap.units, 1, "");
    DAMAGE(h->now.last, f, "head");
    DAMAGE(h->now.head, h->now.head + UNIT, "head");
    DAMAGE(h->now.limit, h->bytes, "limit");
    DAMAGE(h->mark, h->mark + UNIT, "counted");
    DAMAGE(h->peak, h->bytes + UNIT, "counted");
    DAMAGE(h->waiting, h->waiting + 1, "wait");
    DAMAGE(h->zero, h->zero + UNIT, "segment");
    DAMAGE(h->bytes, h->bytes + UNIT, "segments");
    DAMAGE(h->segments, 2, "segments");
    DAMAGE(h->first.begin, UNIT, "begin");
    DAMAGE(h->allocs, h->allocs + 1, "handed out");
    DAMAGE(h->frees, h->frees + 1, "handed out");
    DAMAGE(h->pool.free, h->pool.free->link, "free list");
    DAMAGE(h->pool.made, h->pool.made + 1, "counted");
    DAMAGE(h->pool.free->state, DESC_OWNED, "state 1");
    h->peak += h->bytes; /* consistent with the mark, and impossible */
    h->mark += h->bytes;
    assert_broken(h, "peak", __LINE__);
    heap_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_configuration_is_refused_with_a_sentence),
        cmocka_unit_test(creation_without_memory_fails),
        cmocka_unit_test(the_largest_range_is_managed_to_its_last_byte),
        cmocka_unit_test(size_zero_takes_one_unit),
        cmocka_unit_test(a_block_is_whole_units),
        cmocka_unit_test(what_can_never_fit_is_told_from_what_does_not_fit_now),
        cmocka_unit_test(a_short_last_unit_is_used_and_not_exceeded),
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
        cmocka_unit_test(the_limit_of_descriptors_is_told),
        cmocka_unit_test(without_memory_for_a_descriptor_nothing_changes),
        cmocka_unit_test(after_warm_up_no_memory_is_asked_for),
        cmocka_unit_test(memory_is_at_its_offset_and_a_shadow_has_none),
        cmocka_unit_test(blocks_belong_to_whom_the_heap_was_made_for),
        cmocka_unit_test(counters_say_what_happened),
        cmocka_unit_test(a_fit_is_reached_through_its_table_too),
        cmocka_unit_test(a_heap_that_is_full_goes_on_in_the_next_segment),
        cmocka_unit_test(segments_are_tried_in_a_circle),
        cmocka_unit_test(each_segment_is_an_arena_of_its_own),
        cmocka_unit_test(what_is_freed_in_another_segment_is_merged_there),
        cmocka_unit_test(a_segment_that_cannot_be_is_refused),
        cmocka_unit_test(growth_without_memory_changes_nothing),
        cmocka_unit_test(memory_of_a_segment_is_where_it_is_mapped),
        cmocka_unit_test(unsent_room_is_what_there_is_when_all_that_was_sent_is_back),
        cmocka_unit_test(a_walk_visits_every_block_by_address),
        cmocka_unit_test(carving_is_not_for_next_fit),
        cmocka_unit_test(the_check_sees_damage),
    };

    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
