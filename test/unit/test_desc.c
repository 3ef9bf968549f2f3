/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools of descriptors: growth, limit, reuse, that the check sees damage; handles, and worn descriptors. */
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
        assert_int_equal(desc_state(d), DESC_OWNED);
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
    desc_pool_init(&pool, 10, sizeof(struct rdesc_message), 1);
    assert_int_equal(granted, before);
    assert_pooled(&pool, 0);
    desc_pool_destroy(&pool);
}

static void descriptors_are_distinct_aligned_and_of_their_pool(void **state)
{
    struct rdesc *d[1000], outside;
    struct desc_pool pool, other;

    (void)state;
    desc_pool_init(&pool, 100000, sizeof(struct rdesc_message), 1);
    desc_pool_init(&other, 100000, sizeof(struct rdesc_message), 1);
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
    desc_pool_init(&pool, UINT32_MAX, sizeof(struct rdesc_message), 1);
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
        desc_pool_init(&pool, limits[i], sizeof(struct rdesc_message), 1);
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
    desc_pool_init(&pool, 2, sizeof(struct rdesc_message), 1);
    a = take(&pool);
    b = take(&pool);
    desc_put(&pool, a);
    assert_int_equal(desc_state(a), DESC_POOLED);
    assert_int_equal(desc_state(b), DESC_OWNED);
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
    desc_pool_init(&pool, 1000000, sizeof(struct rdesc_message), 1);
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
    desc_pool_init(&pool, 1000, sizeof(struct rdesc_message), 1);
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
    struct rdesc *a, *b, *c, outside = {.word = 0};
    struct desc_pool pool;

    (void)state;
    desc_pool_init(&pool, 3, sizeof(struct rdesc_message), 1);
    a = take(&pool);
    b = take(&pool);
    c = take(&pool);
    desc_put(&pool, a);
    desc_put(&pool, b);
    assert_pooled(&pool, 2);
    desc_set_state(b, DESC_OWNED); /* in use, and on the free list */
    assert_damaged(&pool, "state 1");
    desc_set_state(b, DESC_POOLED);
    desc_set_state(c, DESC_POOLED); /* unused, and lost */
    assert_damaged(&pool, "free list");
    desc_set_state(c, DESC_OWNED);
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

/* ---- handles ---- */

/* The word of `d` as it is after so many lives of a descriptor that no list has. */
static void age(struct rdesc *d, uint64_t low, uint64_t high)
{
    d->word = (d->word & DESC_ADDRESS) | low | high << DESC_ADDRESS_BITS;
}

static const uint64_t high_most = (UINT64_C(1) << (64 - DESC_ADDRESS_BITS)) - 1;

static void a_handle_is_valid_in_one_life(void **state)
{
    static raddr_t handle[2000];
    struct desc_pool pool, other;
    struct rdesc *d;

    (void)state;
    desc_pool_init(&pool, 1, sizeof(struct rdesc), 4711);
    desc_pool_init(&other, 1, sizeof(struct rdesc), 4712);
    for (unsigned n = 0; n < 2000; n++) {
        d = take(&pool);
        handle[n] = desc_users_handle(d, pool.key);
        assert_ptr_equal(desc_of(handle[n]), d);
        assert_ptr_equal(desc_handle(d), handle[n]);
        assert_true(desc_is_users(d, handle[n], pool.key));
        assert_false(desc_is_users(d, handle[n], other.key));
        assert_int_equal(desc_owner(d), 4711);
        for (unsigned k = 0; k < n; k++)
            assert_false(desc_is_users(d, handle[k], pool.key));
        desc_set_state(d, DESC_SENT);
        assert_false(desc_is_users(d, handle[n], pool.key));
        desc_put(&pool, d);
        assert_false(desc_is_users(d, handle[n], pool.key));
        if (n == 1000)
            age(d, 0, high_most - 3); /* into the next part of the generations */
    }
    assert_int_equal(pool.resting, 0);
    desc_pool_destroy(&pool);
    desc_pool_destroy(&other);
}

/* The pool has as many as before, and none fails. */
static void a_worn_descriptor_rests(void **state)
{
    struct desc_pool pool;
    struct rdesc *d, *worn[3];

    (void)state;
    desc_pool_init(&pool, 2, sizeof(struct rdesc_message), 1);
    for (unsigned n = 0; n < 3; n++) {
        worn[n] = take(&pool);
        age(worn[n], DESC_GENERATION_LOW, high_most);
        desc_put(&pool, worn[n]);
        d = take(&pool);
        assert_ptr_not_equal(d, worn[n]);
        assert_int_equal(pool.resting, n + 1);
        assert_int_equal(desc_state(worn[n]), DESC_RESTING);
        desc_put(&pool, d);
        assert_pooled(&pool, pool.made);
    }
    assert_non_null(take(&pool));
    assert_non_null(take(&pool));
    assert_null(desc_take(&pool));
    desc_pool_destroy(&pool);
}

static void without_memory_a_worn_descriptor_begins_again(void **state)
{
    struct desc_pool pool;
    struct rdesc *d;

    (void)state;
    skip_unless_memory_can_be_cut_off();
    desc_pool_init(&pool, 1, sizeof(struct rdesc), 1);
    d = take(&pool);
    age(d, DESC_GENERATION_LOW, high_most);
    desc_put(&pool, d);
    denied_after = 0;
    assert_ptr_equal(take(&pool), d);
    denied_after = UINT32_MAX;
    assert_int_equal(pool.resting, 0);
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
        cmocka_unit_test(a_handle_is_valid_in_one_life),
        cmocka_unit_test(a_worn_descriptor_rests),
        cmocka_unit_test(without_memory_a_worn_descriptor_begins_again),
    };

    return cmocka_run_group_tests_name("desc", tests, NULL, NULL);
}
