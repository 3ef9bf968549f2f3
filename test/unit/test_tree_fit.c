/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The behaviour of first-, best-, worst- and random-fit, case by case; after every operation every invariant is checked.
 * Sequences that nobody thought of are in test_heap_model.c. Size classes are here too.
 *
 * A heap is written as a string, one letter for each unit: the same letter is one block, a dot is free.
 */
#include "alloc/heap.h"

#include "alloc/fit.h"
#include "alloc/tree_fit.h"
#include "util/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
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

static const rmalloc_algorithm_t fits[] = {FIRST_FIT, BEST_FIT, WORST_FIT, RANDOM_FIT};

#define FITS 4

static void assert_sound(const struct heap *h)
{
    char why[256] = "";

    if (heap_check(h, why, sizeof(why)) != 0)
        fail_msg("%s: %s", h->ops->name, why);
}

static struct heap *heap_of_bytes(rmalloc_algorithm_t fit, uint64_t bytes, uint32_t unit, uint32_t max_descriptors)
{
    struct heap_config cfg = {
        .algorithm = fit, .unit_size = unit, .bytes = bytes, .max_descriptors = max_descriptors, .seed = 7};
    struct heap *h;

    assert_int_equal(heap_create(&h, &cfg), 0);
    assert_sound(h);
    return h;
}

static rdma_vmem_stats_t stats_of(const struct heap *h)
{
    rdma_vmem_stats_t s;

    heap_get_stats(h, &s);
    assert_int_equal(s.bytes, s.bytes_used + s.bytes_stuck + s.bytes_free);
    assert_int_equal(s.bytes_stuck, 0);
    return s;
}

static struct rdesc *take_bytes(struct heap *h, size_t size)
{
    struct rdesc *d = heap_alloc(h, size);

    assert_non_null(d);
    assert_sound(h);
    assert_int_equal(d->state, DESC_OWNED);
    assert_int_equal(d->size, size);
    return d;
}

static struct rdesc *take(struct heap *h, unsigned units) { return take_bytes(h, (size_t)units * UNIT); }

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

/* ---- heaps as strings ---- */

/* Carves blocks for the letters of `map` out of a first-fit heap, and takes them in order from any other. */
static struct heap *heap_like(rmalloc_algorithm_t fit, const char *map)
{
    const size_t units = strlen(map);
    struct heap *h = heap_of_bytes(fit, units * UNIT, UNIT, 0);
    struct rdesc *hole[64];
    unsigned holes = 0;

    for (size_t at = 0, n; at < units; at += n) {
        struct rdesc *d;

        for (n = 1; at + n < units && map[at + n] == map[at];)
            n++;
        d = take(h, (unsigned)n); /* from an empty heap every fit takes what lies behind the last */
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

static int draw(const rdma_vmem_block_t *b, void *arg)
{
    struct picture *p = arg;

    for (uint64_t u = b->offset / UNIT; u < (b->offset + b->bytes + UNIT - 1) / UNIT; u++)
        p->map[u] = b->state == RDMA_BLOCK_FREE ? '.' : '#';
    return 0;
}

/* What is free and what is not, as a string of dots and crosses. */
static void assert_map(const struct heap *h, const char *expected)
{
    struct picture p = {""};

    assert_int_equal(heap_walk(h, draw, &p), 0);
    assert_string_equal(p.map, expected);
}

static void assert_takes(rmalloc_algorithm_t fit, const char *map, unsigned units, unsigned at)
{
    struct heap *h = heap_like(fit, map);
    struct rdesc *d = take(h, units);

    if (d->offset != (uint64_t)at * UNIT)
        fail_msg("%s takes %u units of \"%s\" at %u, not at %u", h->ops->name, units, map, (unsigned)(d->offset / UNIT),
                 at);
    assert_int_equal(d->units, units);
    heap_destroy(h);
}

/* ---- which block ---- */

static void each_fit_takes_the_block_of_its_definition(void **state)
{
    static const char map[] = "aa..b.c....d...e..f.....g...";

    (void)state; /*            2     5 7    12  16 19    25 */
    assert_takes(FIRST_FIT, map, 1, 2);
    assert_takes(FIRST_FIT, map, 2, 2);
    assert_takes(FIRST_FIT, map, 3, 7);
    assert_takes(FIRST_FIT, map, 4, 7);
    assert_takes(FIRST_FIT, map, 5, 19);
    assert_takes(BEST_FIT, map, 1, 5);
    assert_takes(BEST_FIT, map, 2, 2);
    assert_takes(BEST_FIT, map, 3, 12);
    assert_takes(BEST_FIT, map, 4, 7);
    assert_takes(BEST_FIT, map, 5, 19);
    for (unsigned units = 1; units <= 5; units++)
        assert_takes(WORST_FIT, map, units, 19);
    assert_takes(RANDOM_FIT, map, 5, 19);
}

static void among_equals_the_lowest_is_taken(void **state)
{
    (void)state;
    assert_takes(BEST_FIT, "a..b...c..d...e..f", 2, 1);
    assert_takes(BEST_FIT, "a..b...c..d...e..f", 3, 4);
    assert_takes(WORST_FIT, "a..b...c..d...e..f", 1, 4);
}

/* The last hole of heap_like() is loose; of those that are compared with it, each must be able to win. */
static void the_loose_block_is_compared_with_those_in_indices(void **state)
{
    (void)state;
    assert_takes(FIRST_FIT, "a..b..c", 1, 1);
    assert_takes(BEST_FIT, "a...b..c", 1, 5);
    assert_takes(BEST_FIT, "a..b...c", 1, 1);
    assert_takes(BEST_FIT, "a...b..c", 3, 1);
    assert_takes(WORST_FIT, "a...b..c", 1, 1);
    assert_takes(WORST_FIT, "a..b...c", 1, 4);
}

static void sizes_of_one_class_are_told_apart(void **state)
{
    struct rdesc *hole[4], *d;
    struct heap *h;

    (void)state;
    assert_int_equal(size_class(128), size_class(143));
    for (int best = 0; best < 2; best++) {
        h = heap_of_bytes(best ? BEST_FIT : WORST_FIT, 4096 * UNIT, UNIT, 0);
        for (unsigned i = 0; i < 4; i++) {
            static const unsigned units[] = {140, 129, 143, 135};

            hole[i] = take(h, units[i]);
            take(h, 1);
        }
        take(h, 4096 - 140 - 129 - 143 - 135 - 4);
        for (unsigned i = 0; i < 4; i++)
            give(h, hole[i]);
        d = take(h, 130);
        assert_int_equal(d->offset, (best ? 140 + 1 + 129 + 1 + 143 + 1 : 140 + 1 + 129 + 1) * UNIT);
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
    static const unsigned char order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    (void)state;
    for (unsigned f = 0; f < FITS; f++)
        for (unsigned o = 0; o < 6; o++) {
            struct heap *h = heap_of_bytes(fits[f], 8 * UNIT, UNIT, 0);
            struct rdesc *low = take(h, 1), *d[3], *high;
            uint32_t pooled, before;
            char why[128];

            for (unsigned i = 0; i < 3; i++)
                d[i] = take(h, 2);
            high = take(h, 1);
            assert_int_equal(desc_pool_check(&h->pool, why, sizeof(why), &before), 0);
            for (unsigned i = 0; i < 3; i++)
                give(h, d[order[o][i]]);
            assert_map(h, "#......#");
            assert_int_equal(stats_of(h).blocks_free, 1);
            assert_int_equal(stats_of(h).largest, 6 * UNIT);
            assert_int_equal(desc_pool_check(&h->pool, why, sizeof(why), &pooled), 0);
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
            struct rdesc *low = take(h, 1 + i % 3), *high = take(h, i % 2 == 0 ? 2 : 17 - 1 - i % 3);

            give(h, high);
            give(h, low);
        }
        assert_int_equal(h->free.loose->units, 17);
        assert_int_equal(h->free.nodes.made, 0); /* not even for a moment */
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
            d[i]->state = DESC_SENT;
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

/* ---- sizes ---- */

static void size_zero_takes_one_unit_and_what_cannot_fit_is_told_apart(void **state)
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
        h = heap_of_bytes(fits[f], 100, UNIT, 0); /* every request up to the size succeeds in an empty heap */
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
    struct heap *h = heap_of_bytes(RANDOM_FIT, 3 * HOLES * UNIT - 7, UNIT, 0);
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
        struct rdesc *d = heap_alloc(h, UNIT + 1 + i % UNIT); /* 2 units; beyond 2 * UNIT - 7 the last is too short */

        assert_non_null(d);
        taken[d->offset / (3 * UNIT)]++;
        heap_free(h, d);
    }
    assert_sound(h);
    for (unsigned i = 0; i < HOLES; i++) {
        const double of = HOLES / 2.0 - 1 + (UNIT - 7.0) / UNIT;
        const double each = i % 2 == 0 ? 0 : i < HOLES - 1 ? DRAWS / of : DRAWS / of * (UNIT - 7.0) / UNIT;

        if (each == 0)
            assert_int_equal(taken[i], 0);
        else
            chi += (taken[i] - each) * (taken[i] - each) / each;
    }
    assert_true(chi < 55); /* of 19 degrees of freedom: by chance in one of 20000 seeds, and this one is not drawn */
    heap_destroy(h);
}

static void the_same_seed_and_calls_give_the_same_places(void **state)
{
    struct heap_config cfg = {.algorithm = RANDOM_FIT, .unit_size = UNIT, .bytes = 1000 * UNIT};
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

/* ---- growth ---- */

static void a_segment_is_usable_at_once_and_no_block_lies_in_two(void **state)
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
        for (unsigned i = 0; i < 30; i++) { /* of growing lengths, so that there are classes that were not there */
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
        struct heap_config cfg = {.algorithm = fits[f], .unit_size = UNIT, .bytes = 4 * UNIT, .base = first};
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

            assert_ptr_equal(d->mem, d->offset < 4 * UNIT ? first + d->offset : second + d->offset - 4 * UNIT);
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
        rdma_vmem_stats_t before, after;

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
            struct heap *h = heap_of_bytes(FIRST_FIT, 9 * UNIT, UNIT, most);

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
        assert_non_null(h->free.homeless);
        assert_int_equal(stats_of(h).blocks_free, BLOCKS / 2 + 1);
        assert_int_equal(stats_of(h).largest, (4 * BLOCKS - BLOCKS / 4 * 10) * UNIT);
        assert_refused(h, 1, -ENOMEM);
        for (unsigned i = 1; i < BLOCKS / 2; i += 2) /* merged, homeless or not */
            give(h, d[i]);
        assert_refused(h, 1, -ENOMEM);
        denied_after = UINT32_MAX;
        assert_non_null(heap_alloc(h, UNIT));
        assert_sound(h);
        assert_null(h->free.homeless);
        for (unsigned i = BLOCKS / 2 + 1; i < BLOCKS; i += 2)
            give(h, d[i]);
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
        rdma_vmem_stats_t s;

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

/* ---- what stands in the way, a place that somebody else has chosen ---- */

static void unsent_room_is_what_there_is_when_all_that_was_sent_is_back(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 10 * UNIT, UNIT, 0);
        struct rdesc *d[5];

        assert_int_equal(heap_unsent_room(h), 10 * UNIT);
        for (unsigned i = 0; i < 5; i++)
            d[i] = take(h, 2);
        assert_int_equal(heap_unsent_room(h), 0);
        d[0]->state = DESC_SENT;
        d[1]->state = DESC_SENT;
        assert_int_equal(heap_unsent_room(h), 4 * UNIT);
        give(h, d[3]);
        d[4]->state = DESC_SENT;
        assert_int_equal(heap_unsent_room(h), 4 * UNIT);
        d[2]->state = DESC_SENT;
        assert_int_equal(heap_unsent_room(h), 10 * UNIT);
        assert_int_equal(heap_grow(h, NULL, 10 * UNIT + 1), 0);
        assert_int_equal(heap_unsent_room(h), 10 * UNIT + 1); /* not both */
        heap_destroy(h);
    }
}

static void assert_not_carved(struct heap *h, uint64_t offset, size_t size, int error)
{
    rdma_vmem_stats_t before = stats_of(h), after;

    assert_null(heap_carve(h, offset, size));
    assert_int_equal(heap_alloc_error(h), error);
    assert_sound(h);
    after = stats_of(h);
    after.failures--;
    assert_memory_equal(&before, &after, sizeof(before));
}

static struct rdesc *carve(struct heap *h, unsigned at, size_t size)
{
    struct rdesc *d = heap_carve(h, (uint64_t)at * UNIT, size);

    assert_non_null(d);
    assert_sound(h);
    assert_int_equal(d->offset, at * UNIT);
    assert_int_equal(d->size, size);
    assert_int_equal(d->state, DESC_OWNED);
    return d;
}

static void a_block_can_be_carved_anywhere(void **state)
{
    struct heap *h = heap_of_bytes(FIRST_FIT, 10 * UNIT, UNIT, 0), *other = heap_of_bytes(BEST_FIT, UNIT, UNIT, 0);
    struct rdesc *a, *b, *c;

    (void)state;
    a = carve(h, 4, 2 * UNIT);
    assert_map(h, "....##....");
    b = carve(h, 0, 1);
    c = carve(h, 9, UNIT);
    assert_map(h, "#...##...#");
    assert_not_carved(h, 3 * UNIT, 2 * UNIT, -EAGAIN);
    assert_not_carved(h, 5 * UNIT, UNIT, -EAGAIN);
    assert_not_carved(h, 0, 0, -EAGAIN);
    assert_not_carved(h, 10 * UNIT, 1, -EAGAIN);
    assert_not_carved(h, UINT64_MAX - UNIT + 1, 1, -EAGAIN);
    assert_not_carved(h, UNIT + 1, 1, -EINVAL);
    assert_not_carved(h, UNIT, SIZE_MAX, -EMSGSIZE);
    carve(h, 1, 3 * UNIT);
    carve(h, 7, 0);
    assert_map(h, "######.#.#");
    give(h, a);
    give(h, b);
    give(h, c);
    assert_map(h, ".###...#..");
    heap_destroy(h);
    assert_null(heap_carve(other, 0, 1));
    assert_int_equal(heap_alloc_error(other), -ENOTSUP);
    heap_destroy(other);

    h = heap_of_bytes(FIRST_FIT, 3 * UNIT + 9, UNIT, 0);
    assert_int_equal(heap_grow(h, NULL, 2 * UNIT), 0);
    assert_not_carved(h, 3 * UNIT, 10, -EAGAIN); /* the last unit of the first segment is short */
    assert_not_carved(h, 2 * UNIT, 2 * UNIT, -EAGAIN);
    carve(h, 3, 9);
    carve(h, 4, 2 * UNIT);
    heap_destroy(h);
}

/* The reader's second instance: it is given places, in the order of reading, and gives them back in any order. */
static void a_second_instance_follows_the_first(void **state)
{
    struct heap *first = heap_of_bytes(BEST_FIT, 500 * UNIT, UNIT, 0);
    struct heap *second = heap_of_bytes(FIRST_FIT, 500 * UNIT, UNIT, 0);
    struct rdesc *a[64] = {NULL}, *b[64] = {NULL};
    unsigned random = 1;

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        unsigned k;

        random = random * 1664525u + 1013904223u;
        k = random >> 26;
        if (a[k] != NULL) {
            heap_free(first, a[k]);
            heap_free(second, b[k]);
            a[k] = NULL;
        } else {
            a[k] = heap_alloc(first, (random >> 8) % 1000);
            if (a[k] != NULL)
                b[k] = carve(second, (unsigned)(a[k]->offset / UNIT), a[k]->size);
        }
        if (i % 64 == 0)
            assert_sound(first);
    }
    assert_int_equal(heap_bytes_used(first), heap_bytes_used(second));
    assert_int_equal(stats_of(first).blocks_free, stats_of(second).blocks_free);
    heap_destroy(first);
    heap_destroy(second);
}

/* ---- walk ---- */

struct visits {
    rdma_vmem_block_t seen[16];
    unsigned count, stop_after;
};

static int note(const rdma_vmem_block_t *b, void *arg)
{
    struct visits *v = arg;

    v->seen[v->count++] = *b;
    return v->count == v->stop_after ? 77 : 0;
}

static void a_walk_visits_every_block_by_address(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 4 * UNIT + 5, UNIT, 0);
        struct rdesc *a = take_bytes(h, 100), *b = take_bytes(h, 0), *c = take_bytes(h, UNIT + 5);
        struct visits v = {.stop_after = 0};

        give(h, b);
        assert_int_equal(heap_grow(h, NULL, 3 * UNIT), 0);
        assert_int_equal(heap_walk(h, note, &v), 0);
        assert_int_equal(v.count, 4);
        assert_memory_equal(&v.seen[0],
                            &((rdma_vmem_block_t){.bytes = 2 * UNIT, .size = 100, .d = a, .state = RDMA_BLOCK_USED}),
                            sizeof(v.seen[0]));
        assert_memory_equal(&v.seen[1], &((rdma_vmem_block_t){.offset = 2 * UNIT, .bytes = UNIT}), sizeof(v.seen[0]));
        assert_memory_equal(
            &v.seen[2],
            &((rdma_vmem_block_t){
                .offset = 3 * UNIT, .bytes = UNIT + 5, .size = UNIT + 5, .d = c, .state = RDMA_BLOCK_USED}),
            sizeof(v.seen[0]));
        assert_memory_equal(&v.seen[3], &((rdma_vmem_block_t){.offset = 5 * UNIT, .bytes = 3 * UNIT, .segment = 1}),
                            sizeof(v.seen[0]));
        for (unsigned n = 1; n <= 4; n++) {
            v = (struct visits){.stop_after = n};
            assert_int_equal(heap_walk(h, note, &v), 77);
            assert_int_equal(v.count, n);
        }
        heap_destroy(h);
    }
}

/* ---- size classes ---- */

static void size_classes_ascend_and_are_exact_where_small(void **state)
{
    uint32_t last = 0;

    (void)state;
    for (uint32_t units = 1; units <= 15; units++)
        assert_int_equal(size_class(units), units);
    for (uint64_t units = 16; units <= UINT32_MAX; units += units < 100000 ? 1 : units / 999) {
        uint32_t c = size_class((uint32_t)units), octave = c / 8 - 1;

        assert_true(c == last || c == last + 1 || last == 0);
        last = c;
        assert_true(c < SIZE_CLASSES);
        assert_int_equal(units >> octave, c % 8 + 8); /* an eighth of an octave */
    }
    assert_int_equal(size_class(UINT32_MAX), SIZE_CLASSES - 1);
}

static void a_set_of_classes_is_searched(void **state)
{
    struct class_set set = {.words = 0};
    bool there[SIZE_CLASSES] = {false};
    unsigned random = 1;

    (void)state;
    assert_int_equal(class_set_from(&set, 0), SIZE_CLASS_NONE);
    assert_int_equal(class_set_last(&set), SIZE_CLASS_NONE);
    for (unsigned i = 0; i < 50000; i++) {
        uint32_t c, from, expected, last = SIZE_CLASS_NONE;

        random = random * 1664525u + 1013904223u;
        c = (random >> 8) % SIZE_CLASSES;
        there[c] = (random >> 20) % (i / 1000 % 10 + 2) == 0;
        if (there[c])
            class_set_add(&set, c);
        else
            class_set_remove(&set, c);
        from = (random >> 4) % SIZE_CLASSES;
        for (expected = from; expected < SIZE_CLASSES && !there[expected];)
            expected++;
        assert_int_equal(class_set_from(&set, from), expected < SIZE_CLASSES ? expected : SIZE_CLASS_NONE);
        for (uint32_t k = 0; k < SIZE_CLASSES; k++)
            last = there[k] ? k : last;
        assert_int_equal(class_set_last(&set), last);
    }
}

/* ---- the check ---- */

static void assert_broken(const struct heap *h, const char *word, int line)
{
    char why[256] = "";

    if (heap_check(h, why, sizeof(why)) != -EUCLEAN || strstr(why, word) == NULL)
        fail_msg("line %d, %s: the check said \"%s\", nothing of \"%s\"", line, h->ops->name, why, word);
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
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 32 * UNIT, UNIT, 0);
        struct rdesc *a = take(h, 4), *b = take(h, 2), *c = take(h, 3), *d = take(h, 2), *e = take(h, 2), stranger;
        struct index *index;

        give(h, b);
        give(h, d); /* a b-free c d-free e rest: b and the rest are in an index, d is loose */
        stranger = *c;
        index = &h->free.index[tree_fit_class(b->units, fits[f])];
        assert_int_equal(b->state, DESC_FREE);
        assert_int_equal(d->state, DESC_LOOSE);
        DAMAGE(c->state, DESC_POOLED, "state 0");
        DAMAGE(c->state, DESC_FREED, "state 3");
        DAMAGE(c->state, DESC_FREE, "torn");
        DAMAGE(b->state, DESC_OWNED, "torn");
        DAMAGE(b->state, DESC_LOOSE, "homeless");
        DAMAGE(d->state, DESC_FREE, "index");
        DAMAGE(c->whose, desc_owned_by(h->owner + 1), "owner");
        DAMAGE(c->offset, c->offset + 1, "begins at");
        DAMAGE(b->units, 0, "empty");
        DAMAGE(b->units, 3, "index");
        DAMAGE(e->units, 30, "beyond");
        DAMAGE(e->units, 3, "begins at");
        DAMAGE(c->size, c->size + 1, "holds");
        DAMAGE(c->mem, h, "memory");
        DAMAGE(b->mem, h, "memory");
        DAMAGE(c->prev, b, "torn"); /* which is free */
        DAMAGE(e->prev, d->prev, "torn");
        DAMAGE(a->next, link_to_free(c), "torn");
        DAMAGE(c->next, &stranger, "torn");
        DAMAGE(h->first.edge.prev, a, "last block");
        DAMAGE(h->free.loose, tree_fit_none(h), "homeless");
        DAMAGE(h->free.homeless, d, "loose");
        DAMAGE(h->free.indexed, h->free.indexed + 1, "counted");
        DAMAGE(h->free.some.words, 0, "classes");
        DAMAGE(h->free.some.word[1], 1, "classes");
        DAMAGE(index->count, index->count + 1, "counted");
        DAMAGE(h->free.nodes.made, h->free.nodes.made + 1, "node pool");
        DAMAGE(h->used, h->used + UNIT, "counted");
        DAMAGE(h->peak, UNIT, "peak");
        DAMAGE(h->allocs, h->allocs + 1, "handed out");
        DAMAGE(h->bytes, h->bytes + 1, "segments");
        DAMAGE(h->largest, h->largest + 1, "segments");
        DAMAGE(h->first.end, h->first.end + UNIT, "");
        DAMAGE(h->pool.free, h->pool.free->link, "free list");
        heap_destroy(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fit_takes_the_block_of_its_definition),
        cmocka_unit_test(among_equals_the_lowest_is_taken),
        cmocka_unit_test(the_loose_block_is_compared_with_those_in_indices),
        cmocka_unit_test(sizes_of_one_class_are_told_apart),
        cmocka_unit_test(what_is_split_gives_its_low_end),
        cmocka_unit_test(neighbours_become_one_whatever_the_order),
        cmocka_unit_test(what_comes_and_goes_on_top_changes_no_index),
        cmocka_unit_test(a_sent_block_is_freed_like_an_owned_one),
        cmocka_unit_test(size_zero_takes_one_unit_and_what_cannot_fit_is_told_apart),
        cmocka_unit_test(a_request_passes_by_a_last_unit_that_is_too_short),
        cmocka_unit_test(the_next_best_is_taken_where_the_best_is_too_short),
        cmocka_unit_test(the_largest_range_is_managed_to_its_last_byte),
        cmocka_unit_test(random_fit_takes_each_with_the_same_probability),
        cmocka_unit_test(the_same_seed_and_calls_give_the_same_places),
        cmocka_unit_test(a_segment_is_usable_at_once_and_no_block_lies_in_two),
        cmocka_unit_test(memory_of_a_segment_is_where_it_is_mapped),
        cmocka_unit_test(growth_without_memory_changes_nothing),
        cmocka_unit_test(exactly_as_many_blocks_as_allowed_are_handed_out_however_scattered),
        cmocka_unit_test(without_memory_for_a_descriptor_nothing_changes),
        cmocka_unit_test(giving_back_never_fails_and_the_choice_stays_exact),
        cmocka_unit_test(after_warm_up_no_memory_is_asked_for),
        cmocka_unit_test(memory_for_many_blocks_is_bounded),
        cmocka_unit_test(unsent_room_is_what_there_is_when_all_that_was_sent_is_back),
        cmocka_unit_test(a_block_can_be_carved_anywhere),
        cmocka_unit_test(a_second_instance_follows_the_first),
        cmocka_unit_test(a_walk_visits_every_block_by_address),
        cmocka_unit_test(size_classes_ascend_and_are_exact_where_small),
        cmocka_unit_test(a_set_of_classes_is_searched),
        cmocka_unit_test(the_check_sees_damage),
    };

    return cmocka_run_group_tests_name("tree fits", tests, NULL, NULL);
}
