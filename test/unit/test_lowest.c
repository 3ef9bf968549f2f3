/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists of one size beside an array that is searched for its lowest place; after every change the first block is compared, and
 * now and then every invariant is checked. Built twice: with nodes as they are, and with nodes of 3 entries (test_lowest_deep),
 * which makes deep trees of few blocks.
 *
 * The seed is printed. usage: test_lowest [seed [operations]], or MODEL_SEED and MODEL_OPERATIONS in the environment.
 */
#include "test/lib/allocation_failure.h"
#include "test/lib/random.h"
#include "alloc/lowest.h"

#include "util/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BLOCKS 4000u
#define LISTS 3u

static uint64_t seed, operations = 200000;
static uint64_t random_state;

static uint32_t random_below(uint32_t n) { return (uint32_t)(random_draw(&random_state) % n); }

/* ---- the model: the blocks of each list, in no order; a block's place is its offset ---- */

static struct rdesc blocks[BLOCKS];
static struct lowest list[LISTS];
static struct lowest_pool pool;
static struct rdesc *held[LISTS][BLOCKS];
static uint32_t count[LISTS];
static struct rdesc *idle[BLOCKS];
static uint32_t idles;

static void open_lists(void)
{
    lowest_pool_init(&pool);
    for (uint32_t i = 0; i < LISTS; i++) {
        lowest_init(&list[i]);
        count[i] = 0;
    }
    for (idles = 0; idles < BLOCKS; idles++)
        idle[idles] = &blocks[idles];
}

static bool may_have(const struct rdesc *block, uint64_t place, const void *arg)
{
    (void)arg;
    return block >= blocks && block < blocks + BLOCKS && block->offset == place;
}

static void assert_sound(void)
{
    uint32_t nodes = 0;
    struct error err = {""};

    for (uint32_t i = 0; i < LISTS; i++) {
        uint32_t found = 0;

        if (lowest_check(&list[i], may_have, NULL, BLOCKS + LOWEST_FANOUT, &found, &nodes, &err) !=
            0)
            fail_msg("list %u: %s", i, err.text);
        assert_int_equal(found, count[i]);
    }
    if (lowest_pool_check(&pool, nodes, &err) != 0)
        fail_msg("%s", err.text);
}

static void assert_first(uint32_t i)
{
    const struct rdesc *first = count[i] > 0 ? held[i][0] : NULL;

    for (uint32_t k = 1; k < count[i]; k++)
        first = held[i][k]->offset < first->offset ? held[i][k] : first;
    assert_int_equal(lowest_is_empty(&list[i]), first == NULL);
    if (first != NULL) {
        assert_ptr_equal(list[i].first.block, first);
        assert_int_equal(lowest_place(&list[i].first), first->offset);
    }
}

/* The places of a list are different: those of a block and its number. */
static int insert(uint32_t i, uint64_t range)
{
    const uint32_t which = random_below(idles);
    struct rdesc *d = idle[which];
    int error;

    d->offset = random_draw(&random_state) % range * BLOCKS + (uint64_t)(d - blocks);
    error = lowest_insert(&list[i], &pool, d->offset, d);
    if (error == 0) {
        idle[which] = idle[--idles];
        held[i][count[i]++] = d;
    }
    return error;
}

static void remove_one(uint32_t i, uint32_t which)
{
    struct rdesc *d = held[i][which];

    lowest_remove(&list[i], &pool, d);
    held[i][which] = held[i][--count[i]];
    idle[idles++] = d;
}

static void remove_first(uint32_t i)
{
    uint32_t which = 0;

    while (held[i][which] != list[i].first.block)
        which++;
    remove_one(i, which);
}

static void remove_all(void)
{
    for (uint32_t i = 0; i < LISTS; i++)
        while (count[i] > 0) {
            remove_first(i);
            assert_first(i);
        }
    assert_sound();
}

/* ---- tests ---- */

static void the_first_block_is_the_lowest(void **state)
{
    static const uint32_t most[] = {1, 3, 10, 60, 400, BLOCKS};

    (void)state;
    open_lists();
    for (uint64_t n = 0; n < operations; n++) {
        const uint32_t phase = (uint32_t)(n / 500), i = random_below(LISTS);
        const uint32_t grows = phase % 2 == 0 ? 60 : 40; /* in 100 */
        const uint64_t range = phase % 3 == 0 ? 1 : UINT32_C(1) << 15;

        if (count[i] > 0 && (random_below(100) >= grows || idles == 0 ||
                             count[i] >= most[phase / 4 % (sizeof(most) / sizeof(most[0]))])) {
            if (random_below(2) == 0)
                remove_first(i);
            else
                remove_one(i, random_below(count[i]));
        } else if (idles > 0) {
            assert_int_equal(insert(i, range), 0);
        }
        assert_first(i);
        if (n % 16 == 0)
            assert_sound();
    }
    remove_all();
    lowest_pool_destroy(&pool);
}

/* In the order of places, in the opposite one, and removed in both. */
static void orders_of_all_kinds_are_sorted(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 4; way++) {
        open_lists();
        for (uint32_t k = 0; k < BLOCKS; k++) {
            struct rdesc *d = &blocks[(way & 1) != 0 ? k : BLOCKS - 1 - k];

            d->offset = (uint64_t)(d - blocks);
            assert_int_equal(lowest_insert(&list[0], &pool, d->offset, d), 0);
            assert_int_equal(lowest_place(&list[0].first), (way & 1) != 0 ? 0 : d->offset);
        }
        for (uint32_t k = 0; k < BLOCKS; k++) {
            struct rdesc *d = (way & 2) != 0 ? list[0].first.block : &blocks[BLOCKS - 1 - k];

            assert_int_equal(lowest_place(&list[0].first), (way & 2) != 0 ? k : 0);
            lowest_remove(&list[0], &pool, d);
        }
        assert_true(lowest_is_empty(&list[0]));
        assert_sound();
        lowest_pool_destroy(&pool);
    }
}

/* A block takes a sixth of a node, whatever has been there before; nodes go from list to list. */
static void memory_is_bounded_and_used_again(void **state)
{
    const size_t node = sizeof(struct lowest_node);
    size_t made;

    (void)state;
    open_lists();
    for (uint32_t k = 0; k < BLOCKS; k++)
        assert_int_equal(insert(0, 1), 0);
    made = pool.made;
    assert_true(made < (BLOCKS / (LOWEST_FANOUT - 1) + 40) * node * 5 / 4 + 4096);
    for (uint32_t round = 0; round < 20; round++) {
        const uint32_t from = round % LISTS, to = (round + 1) % LISTS;

        while (count[from] > 0)
            remove_one(from, random_below(count[from]));
        while (idles > 0)
            assert_int_equal(insert(to, 1), 0);
        assert_sound();
        assert_true(pool.made <= made + LISTS * node * 2 + made / 3);
    }
    made = pool.made;
    for (uint32_t k = 0; k < 20000; k++) { /* a list that grows and shrinks by one takes no node */
        remove_first(2);
        assert_int_equal(insert(2, 1), 0);
    }
    assert_int_equal(pool.made, made);
    remove_all();
    lowest_pool_destroy(&pool);
}

static bool memory_is_short;

static bool one_is_denied(void) { return memory_is_short && random_below(2) == 0; }

static void without_memory_nothing_is_changed(void **state)
{
    uint32_t denied = 0;

    (void)state;
    skip_unless_memory_can_be_cut_off();
    denies = one_is_denied;
    memory_is_short = true;
    open_lists();
    for (uint32_t k = 0; k < 40 * BLOCKS && idles > 0; k++) {
        const uint32_t i = random_below(LISTS), before = count[i];

        if (insert(i, 1000) != 0) {
            denied++;
            assert_int_equal(count[i], before);
            assert_sound();
        }
        assert_first(i);
    }
    memory_is_short = false;
    denies = NULL;
    assert_true(denied > 0);
    remove_all();
    lowest_pool_destroy(&pool);
}

int main(int argc, char **argv)
{
    const char *s = argc > 1 ? argv[1] : getenv("MODEL_SEED");
    const char *n = argc > 2 ? argv[2] : getenv("MODEL_OPERATIONS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_block_is_the_lowest),
        cmocka_unit_test(orders_of_all_kinds_are_sorted),
        cmocka_unit_test(memory_is_bounded_and_used_again),
        cmocka_unit_test(without_memory_nothing_is_changed),
    };

    seed = s != NULL ? strtoull(s, NULL, 0) : (uint64_t)clock_now();
    random_state = seed;
    if (n != NULL)
        operations = strtoull(n, NULL, 0);
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests_name("lists of one size", tests, NULL, NULL);
}
