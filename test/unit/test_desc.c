/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools of descriptors: growth, limit, reuse, and that the check sees damage. */
#include "test/lib/allocation_failure.h"

#include "alloc/desc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rdesc *take(struct desc_pool *pool)
{
    struct rdesc *d = desc_take(pool);

    if (d != NULL)
        d->state = DESC_OWNED;
    return d;
}

static void assert_pooled(const struct desc_pool *pool, uint32_t expected)
{
    struct error err = {""};
    uint32_t pooled = UINT32_MAX;

    if (desc_pool_check(pool, &err, &pooled) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(pooled, expected);
}

static void assert_damaged(const struct desc_pool *pool, const char *word)
{
    struct error err = {""};
    uint32_t pooled = 77;

    assert_int_equal(desc_pool_check(pool, &err, &pooled), -EUCLEAN);
    assert_int_equal(pooled, 77); /* outputs only on success */
    assert_non_null(strstr(err.text, word));
}

static void a_new_pool_has_asked_for_no_memory(void **state)
{
    struct desc_pool pool;
    unsigned before = granted;

    (void)state;
    desc_pool_init(&pool, 10, sizeof(struct rdesc_message));
    assert_int_equal(granted, before);
    assert_pooled(&pool, 0);
    desc_pool_destroy(&pool);
}

static void descriptors_are_distinct_aligned_and_of_their_pool(void **state)
{
    struct rdesc *d[1000], outside;
    struct desc_pool pool, other;

    (void)state;
    desc_pool_init(&pool, 100000, sizeof(struct rdesc_message));
    desc_pool_init(&other, 100000, sizeof(struct rdesc_message));
    assert_non_null(take(&other));
    for (int i = 0; i < 1000; i++) {
        d[i] = take(&pool);
        assert_non_null(d[i]);
        assert_int_equal((uintptr_t)d[i] % CACHE_LINE, 0);
        assert_true(desc_pool_holds(&pool, d[i]));
        assert_false(desc_pool_holds(&other, d[i]));
        desc_payload(d[i])[DESC_INLINE_MAX - 1] = (uint8_t)i;
        d[i]->size = (size_t)i;
    }
    for (int i = 0; i < 1000; i++) { /* none was written into by another */
        assert_int_equal(d[i]->size, i);
        assert_int_equal(desc_payload(d[i])[DESC_INLINE_MAX - 1], i & 255);
    }
    assert_false(desc_pool_holds(&pool, &outside));
    assert_false(desc_pool_holds(&pool, NULL));
    assert_false(desc_pool_holds(&pool, (struct rdesc *)(void *)((char *)d[0] + 8)));
    desc_pool_destroy(&other);
    desc_pool_destroy(&pool);
}

/* From 8 MiB on it grows by huge pages, if the kernel has them; they are given back to it. */
static void a_large_pool_is_of_whole_huge_pages(void **state)
{
    const size_t huge = (size_t)2 << 20, some = 5 * huge / sizeof(struct rdesc_message);
    struct rdesc *first, *last;
    struct desc_pool pool;
    unsigned before;

    (void)state;
    desc_pool_init(&pool, UINT32_MAX, sizeof(struct rdesc_message));
    first = take(&pool);
    assert_non_null(first);
    last = first;
    for (size_t i = 1; i < some; i++) {
        last = take(&pool);
        assert_non_null(last);
        last->size = i;
    }
    before = granted;
    assert_int_equal((uintptr_t)pool.chunks % huge, 0); /* the newest */
    for (size_t i = 0; i < some; i++)
        assert_non_null(take(&pool));
    assert_int_equal(granted, before);
    assert_int_equal(last->size, some - 1);
    assert_true(desc_pool_holds(&pool, first) && desc_pool_holds(&pool, last));
    assert_true(desc_pool_bytes(&pool) >= 2 * some * sizeof(struct rdesc_message));
    desc_put(&pool, first);
    desc_put(&pool, last);
    assert_pooled(&pool, pool.made - (uint32_t)(2 * some) + 2);
    desc_pool_destroy(&pool);
    assert_int_equal(desc_pool_bytes(&pool), 0);
}

static void the_limit_is_kept_exactly(void **state)
{
    static const uint32_t limits[] = {0, 1, 15, 16, 17, 33, 1000, 20000};
    struct desc_pool pool;

    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        desc_pool_init(&pool, limits[i], sizeof(struct rdesc_message));
        for (uint32_t k = 0; k < limits[i]; k++)
            assert_non_null(take(&pool));
        assert_null(desc_take(&pool));
        assert_int_equal(desc_pool_grow(&pool), -ENOBUFS);
        assert_int_equal(pool.made, limits[i]);
        assert_pooled(&pool, 0);
        desc_pool_destroy(&pool);
    }
}

static void what_is_put_back_is_pooled_and_taken_next(void **state)
{
    struct rdesc *a, *b;
    struct desc_pool pool;

    (void)state;
    desc_pool_init(&pool, 2, sizeof(struct rdesc_message));
    a = take(&pool);
    b = take(&pool);
    desc_put(&pool, a);
    assert_int_equal(a->state, DESC_POOLED);
    assert_int_equal(b->state, DESC_OWNED);
    assert_pooled(&pool, 1);
    assert_ptr_equal(take(&pool), a);
    desc_pool_destroy(&pool);
}

static void after_warm_up_no_memory_is_asked_for(void **state)
{
    struct rdesc *d[500];
    struct desc_pool pool;
    unsigned before = 0;

    (void)state;
    skip_unless_memory_can_be_cut_off();
    desc_pool_init(&pool, 1000000, sizeof(struct rdesc_message));
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 500; i++)
            assert_non_null(d[i] = take(&pool));
        for (int i = 0; i < 500; i++)
            desc_put(&pool, d[i]);
        if (round == 0)
            before = granted;
    }
    assert_int_equal(granted, before);
    desc_pool_destroy(&pool);
}

static void without_memory_the_pool_stays_as_it_was(void **state)
{
    struct desc_pool pool;
    uint32_t made;

    (void)state;
    skip_unless_memory_can_be_cut_off();
    desc_pool_init(&pool, 1000, sizeof(struct rdesc_message));
    while (pool.made < 64 || pool.free != NULL)
        assert_non_null(take(&pool));
    made = pool.made;
    denied_after = 0;
    assert_int_equal(desc_pool_grow(&pool), -ENOMEM);
    assert_null(desc_take(&pool));
    denied_after = UINT32_MAX;
    assert_int_equal(pool.made, made);
    assert_pooled(&pool, 0);
    assert_non_null(take(&pool));
    desc_pool_destroy(&pool);
}

static void the_check_sees_damage(void **state)
{
    struct rdesc *a, *b, *c, outside = {.state = DESC_POOLED};
    struct desc_pool pool;

    (void)state;
    desc_pool_init(&pool, 3, sizeof(struct rdesc_message));
    a = take(&pool);
    b = take(&pool);
    c = take(&pool);
    desc_put(&pool, a);
    desc_put(&pool, b);
    assert_pooled(&pool, 2);
    b->state = DESC_OWNED; /* in use, and on the free list */
    assert_damaged(&pool, "state 1");
    b->state = DESC_POOLED;
    c->state = DESC_POOLED; /* unused, and lost */
    assert_damaged(&pool, "free list");
    c->state = DESC_OWNED;
    b->link = b; /* a circle */
    assert_damaged(&pool, "free list");
    b->link = &outside;
    assert_damaged(&pool, "out of it");
    b->link = a;
    pool.made = 2;
    assert_damaged(&pool, "2 counted");
    pool.made = 3;
    assert_pooled(&pool, 2);
    desc_pool_destroy(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_pool_has_asked_for_no_memory),
        cmocka_unit_test(descriptors_are_distinct_aligned_and_of_their_pool),
        cmocka_unit_test(a_large_pool_is_of_whole_huge_pages),
        cmocka_unit_test(the_limit_is_kept_exactly),
        cmocka_unit_test(what_is_put_back_is_pooled_and_taken_next),
        cmocka_unit_test(after_warm_up_no_memory_is_asked_for),
        cmocka_unit_test(without_memory_the_pool_stays_as_it_was),
        cmocka_unit_test(the_check_sees_damage),
    };

    return cmocka_run_group_tests_name("desc", tests, NULL, NULL);
}
