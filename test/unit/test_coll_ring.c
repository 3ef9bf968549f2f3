/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_coll_ring.c: the heap of a member of a team: blocks follow each other, and are free again in their order; a near block goes back to the
 * beginning; what is left out at the end is free again with the blocks before it.
 */
#include "coll/engine/ring.h"

#include "test/lib/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define HEAP (4 * (size_t)RING_NEAR)
#define QUARTER ((size_t)RING_NEAR / 4)

static size_t ring_at(struct ring *r, uint64_t number, size_t bytes, bool near)
{
    size_t at = SIZE_MAX;

    return ring_alloc(r, number, bytes, near, &at) ? at : SIZE_MAX;
}

static void blocks_follow_each_other(void **state)
{
    struct ring r;

    (void)state;
    ring_init(&r, HEAP);
    assert_int_equal(ring_at(&r, 1, HEAP / 2, false), 0);
    assert_int_equal(ring_at(&r, 2, HEAP / 4, false), HEAP / 2);
    assert_int_equal(ring_at(&r, 3, HEAP / 2, false), SIZE_MAX); /* it would wrap */
    ring_release(&r, 2);
    assert_int_equal(ring_at(&r, 3, HEAP / 2, false), 0);
    assert_int_equal(ring_at(&r, 4, 64, false), SIZE_MAX); /* block 2 begins there */
    ring_release(&r, 4);
    assert_int_equal(ring_at(&r, 5, HEAP, false), 0); /* an empty ring begins anew */
}

static void near_blocks_go_back(void **state)
{
    struct ring r;

    (void)state;
    ring_init(&r, HEAP);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(ring_at(&r, 1 + i, QUARTER, true), i * QUARTER);
    ring_release(&r, 3);
    assert_int_equal(ring_at(&r, 5, QUARTER, true), 0);
    assert_int_equal(ring_at(&r, 6, QUARTER, true), QUARTER);
    assert_int_equal(ring_at(&r, 7, QUARTER, true), SIZE_MAX); /* block 3 */
    ring_release(&r, 5);
    assert_int_equal(ring_at(&r, 7, QUARTER, true), 2 * QUARTER);
}

/* Block 2 goes back, and is the oldest when block 1 is free: all behind it can be used. */
static void what_is_left_out_is_free_again(void **state)
{
    struct ring r;

    (void)state;
    ring_init(&r, HEAP);
    assert_int_equal(ring_at(&r, 1, QUARTER, true), 0);
    assert_int_equal(ring_at(&r, 2, 3 * QUARTER, true), QUARTER);
    ring_release(&r, 2);
    assert_int_equal(ring_at(&r, 3, QUARTER, true), 0);
    ring_release(&r, 3);
    assert_int_equal(ring_at(&r, 4, HEAP - QUARTER, false), QUARTER);
}

/* Random blocks never overlap one that is in use. */
static void blocks_do_not_overlap(void **state)
{
    enum { STEPS = 200000 };
    static unsigned char used[HEAP / 4096]; /* blocks are whole pages here */
    struct {
        uint64_t number;
        size_t at, pages;
    } block[RING_BLOCKS];
    uint64_t random = 7, number = 0;
    size_t first = 0, count = 0;
    struct ring r;

    (void)state;
    ring_init(&r, HEAP);
    memset(used, 0, sizeof(used));
    for (int i = 0; i < STEPS; i++) {
        size_t pages = 1 + random_draw(&random) % 40, at;

        if (random_draw(&random) % 3 == 0 && count > 0) { /* frees some of the oldest */
            size_t n = 1 + random_draw(&random) % count;

            ring_release(&r, block[(first + n - 1) % RING_BLOCKS].number + 1);
            for (; n > 0; n--, count--, first = (first + 1) % RING_BLOCKS)
                memset(used + block[first].at, 0, block[first].pages);
        }
        at = ring_at(&r, ++number, pages * 4096, random_draw(&random) % 2 == 0);
        if (at == SIZE_MAX)
            continue;
        assert_true(at % 4096 == 0 && at + pages * 4096 <= HEAP && count < RING_BLOCKS);
        for (size_t k = 0; k < pages; k++)
            assert_int_equal(used[at / 4096 + k]++, 0);
        block[(first + count) % RING_BLOCKS].number = number;
        block[(first + count) % RING_BLOCKS].at = at / 4096;
        block[(first + count++) % RING_BLOCKS].pages = pages;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_follow_each_other),
        cmocka_unit_test(near_blocks_go_back),
        cmocka_unit_test(what_is_left_out_is_free_again),
        cmocka_unit_test(blocks_do_not_overlap),
    };

    return cmocka_run_group_tests_name("the heap of a team", tests, NULL, NULL);
}
