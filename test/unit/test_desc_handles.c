/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of descriptors whose pool is gone, and the memory of such pools. */
#include "alloc/desc.h"

#include "test/lib/resources.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MOST 50000

static struct rdesc *take(struct desc_pool *pool)
{
    struct rdesc *d = desc_take(pool);

    assert_non_null(d);
    return d;
}

/* It stays readable, and its generations go on where they ended. */
static void a_handle_of_a_pool_that_is_gone_is_never_valid(void **state)
{
    static const uint32_t strides[] = {sizeof(struct rdesc), sizeof(struct rdesc_message)};
    static raddr_t handle[MOST];
    struct desc_pool pool;
    uint32_t owner = 100;

    (void)state;
    for (uint32_t count = 1; count <= MOST; count = count * 7 + 3, owner++) {
        for (uint32_t again = 0; again < 8; again++) {
            desc_pool_init(&pool, count, strides[again & 1],
                           owner + again / 4); /* also of the same owner */
            for (uint32_t i = 0; i < count; i++)
                take(&pool);
            for (uint32_t i = 0; i < count && again > 0; i++)
                assert_false(desc_is_users(desc_of(handle[i]), handle[i], pool.key));
            desc_pool_destroy(&pool);
            for (uint32_t i = 0; i < count && again > 0; i++)
                assert_false(desc_is_users(desc_of(handle[i]), handle[i], pool.key));
            desc_pool_init(&pool, count, strides[again & 1], owner);
            for (uint32_t i = 0; i < count; i++)
                handle[i] = desc_users_handle(take(&pool), pool.key);
            desc_pool_destroy(&pool);
        }
    }
}

/* A million pools one after the other need as much memory as a few of them. */
static void the_memory_of_a_pool_serves_the_next_one(void **state)
{
    struct desc_pool pool;
    uintptr_t least = UINTPTR_MAX, most = 0;

    (void)state;
    for (unsigned n = 0; n < 1000000; n++) {
        uintptr_t d;

        desc_pool_init(&pool, 1000000, sizeof(struct rdesc_message), n);
        d = (uintptr_t)take(&pool);
        if (n >= 10) {
            assert_true(d >= least && d <= most);
        } else {
            least = d < least ? d : least;
            most = d > most ? d : most;
        }
        desc_pool_destroy(&pool);
    }
}

static void *pools_of_two_sizes(void *unused)
{
    struct desc_pool large, small[9];

    (void)unused;
    for (unsigned n = 0; n < 20000; n++) {
        desc_pool_init(&large, 15, sizeof(struct rdesc_message), n);
        (void)desc_take(&large);
        for (unsigned i = 0; i < 9; i++) {
            desc_pool_init(&small[i], 8, sizeof(struct rdesc_message), n);
            (void)desc_take(&small[i]);
        }
        desc_pool_destroy(&large);
        for (unsigned i = 0; i < 9; i++)
            desc_pool_destroy(&small[i]);
    }
    return NULL;
}

/* Nor do pools of several sizes, and of several threads at the same time, leave memory that is not used again. */
static void idle_memory_is_bounded_by_what_was_in_use(void **state)
{
    pthread_t thread[2];
    size_t before;

    (void)state;
    pools_of_two_sizes(NULL);
    before = resources_heap_bytes();
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, pools_of_two_sizes, NULL), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_true(resources_heap_bytes() <= before + 100000);
}

/* A pool at its limit, whose descriptors wear out, grows by what it lacks. */
static void a_small_pool_that_wears_grows_by_little(void **state)
{
    struct desc_pool pool;

    (void)state;
    desc_pool_init(&pool, 4, sizeof(struct rdesc_message), 7);
    for (unsigned n = 0; n < 20000; n++) {
        struct rdesc *d = take(&pool);

        desc_rest(&pool, d); /* as after its last life */
    }
    assert_true(desc_pool_bytes(&pool) <= 20004 * (sizeof(struct rdesc_message) + CACHE_LINE));
    desc_pool_destroy(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_of_a_pool_that_is_gone_is_never_valid),
        cmocka_unit_test(the_memory_of_a_pool_serves_the_next_one),
        cmocka_unit_test(idle_memory_is_bounded_by_what_was_in_use),
        cmocka_unit_test(a_small_pool_that_wears_grows_by_little),
    };

    return cmocka_run_group_tests_name("desc_handles", tests, NULL, NULL);
}
