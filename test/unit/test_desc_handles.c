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

/* ---- a malloc whose addresses have a tag in their upper bits ---- */

#define TAG (UINT64_C(0x2a) << 56)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
static const bool tags = false; /* another malloc is in force */
static bool tagged;
#else
static const bool tags = true;
static bool tagged;

void __libc_free(void *p);

void *aligned_alloc(size_t alignment, size_t size)
{
    void *p;

    if (posix_memalign(&p, alignment, size) != 0)
        return NULL;
    return tagged ? (void *)((uintptr_t)p | TAG) : p;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): instead of libc's */
void free(void *p) { __libc_free((void *)((uintptr_t)p & ~TAG)); }
#endif

static bool memory_is_tagged(void)
{
    void *(*volatile call)(size_t, size_t) = aligned_alloc;
    bool has_tag;
    void *p;

    tagged = tags;
    p = call(CACHE_LINE, CACHE_LINE);
    has_tag = ((uintptr_t)p & TAG) != 0; /* Valgrind has its own */
    free(p);
    return tags && has_tag;
}

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

/* So many that a pool has chunks of the largest size, whose memory goes back to the kernel between two pools. */
static void a_large_pool_is_no_exception(void **state)
{
    enum { COUNT = 200000, KEPT = 50 };
    raddr_t handle[KEPT];
    struct desc_pool pool;

    (void)state;
    for (uint32_t again = 0; again < 4; again++) {
        desc_pool_init(&pool, COUNT, sizeof(struct rdesc_message), 7);
        for (uint32_t i = 0; i < COUNT; i++) {
            struct rdesc *d = take(&pool);

            for (uint32_t k = 0; k < KEPT && again > 0 && i % (COUNT / KEPT) == 0; k++)
                assert_false(desc_is_users(desc_of(handle[k]), handle[k], pool.key));
            (void)d;
        }
        desc_pool_destroy(&pool);
        desc_pool_init(&pool, COUNT, sizeof(struct rdesc_message), 7);
        for (uint32_t i = 0; i < COUNT; i++) {
            raddr_t h = desc_users_handle(take(&pool), pool.key);

            if (i % (COUNT / KEPT) == 0)
                handle[i / (COUNT / KEPT)] = h;
        }
        desc_pool_destroy(&pool);
        for (uint32_t k = 0; k < KEPT; k++)
            assert_false(desc_is_users(desc_of(handle[k]), handle[k], pool.key));
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

/* Generations also in the upper bits: its next life is in the place of another one. */
static void wear(struct rdesc *d) { d->word |= DESC_GENERATION_LOW | ~(DESC_GENERATION_ONE - 1); }

struct worn {
    struct desc_pool pool;
    bool taken;
};

static void *take_behind_worn(void *argument)
{
    struct worn *w = argument;

    w->taken = desc_take(&w->pool) != NULL;
    return NULL;
}

/* A thread with a small stack takes a descriptor while all that are free are worn. */
static void worn_descriptors_need_no_stack(void **state)
{
    static struct rdesc *all[MOST];
    struct worn w = {.taken = false};
    pthread_attr_t attributes;
    pthread_t thread;

    (void)state;
    desc_pool_init(&w.pool, 2 * MOST, sizeof(struct rdesc), 9);
    for (uint32_t i = 0; i < MOST; i++)
        all[i] = take(&w.pool);
    for (uint32_t i = 0; i < MOST; i++) {
        wear(all[i]);
        desc_put(&w.pool, all[i]);
    }
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
    assert_int_equal(pthread_create(&thread, &attributes, take_behind_worn, &w), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    assert_true(w.taken && w.pool.resting == MOST);
    desc_pool_destroy(&w.pool);
}

/* The 2^24 ends and heaps that are opened next have other owners than one that stays open. */
static void owners_do_not_repeat_soon(void **state)
{
    const uint32_t owner = desc_owner_id();

    (void)state;
    for (uint32_t i = 0; i < (UINT32_C(1) << 24) + 2; i++)
        if (desc_owner_id() == owner)
            fail_msg("the same owner after %u", i + 1);
}

/* Each part of the word has its bits, for the first owner and for the last. */
static void an_owner_fills_its_bits(void **state)
{
    static const uint32_t owners[] = {1, DESC_OWNER_MOST};
    struct desc_pool pool;

    (void)state;
    for (int i = 0; i < 2; i++) {
        raddr_t before = ADDR_NULL;

        desc_pool_init(&pool, 1, sizeof(struct rdesc), owners[i]);
        for (uint32_t life = 0; life < 100; life++) {
            struct rdesc *d = take(&pool);
            raddr_t handle = desc_users_handle(d, pool.key);

            assert_true(desc_owner(d) == owners[i] && desc_state(d) == DESC_OWNED);
            assert_true(desc_is_users(d, handle, pool.key) && desc_of(handle) == d);
            assert_true(handle != before && handle == desc_handle(d));
            desc_put(&pool, d);
            assert_false(desc_is_users(d, handle, pool.key));
            before = handle;
        }
        desc_pool_destroy(&pool);
    }
}

/* A handle has no bits for the tag: the library takes memory that has none. */
static void a_malloc_that_tags_addresses_is_no_reason_to_fail(void **state)
{
    struct desc_pool pool;
    uint32_t made = 0;

    (void)state;
    if (!memory_is_tagged())
        skip();
    desc_pool_init(&pool, 3000, sizeof(struct rdesc_message), 11);
    while (made < 3000 && desc_take(&pool) != NULL)
        made++;
    tagged = false;
    assert_int_equal(made, 3000);
    desc_pool_destroy(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_of_a_pool_that_is_gone_is_never_valid),
        cmocka_unit_test(a_large_pool_is_no_exception),
        cmocka_unit_test(the_memory_of_a_pool_serves_the_next_one),
        cmocka_unit_test(idle_memory_is_bounded_by_what_was_in_use),
        cmocka_unit_test(a_small_pool_that_wears_grows_by_little),
        cmocka_unit_test(worn_descriptors_need_no_stack),
        cmocka_unit_test(owners_do_not_repeat_soon),
        cmocka_unit_test(an_owner_fills_its_bits),
        cmocka_unit_test(a_malloc_that_tags_addresses_is_no_reason_to_fail),
    };

    return cmocka_run_group_tests_name("desc_handles", tests, NULL, NULL);
}
