/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_eager.c: GET over a network: a payload within RPIPE_EAGER comes with its message, a larger one is fetched, which the reader's counter of reads shows; and
 * what is always fetched. Over the simulated network, which ends the process where memory changes or is given back before its time.
 *
 *     test_eager
 *     PAIR_NET=2 test_eager     another seed; 3 and so on
 */
#include "test/lib/counts.h"
#include "test/lib/pair.h"
#include "test/lib/random.h"

enum { HEAP = 64 << 10, HELD = 8, MESSAGES = 400 };

static size_t limit; /* RPIPE_EAGER */

static uint64_t reads(const struct pair *p)
{
    struct pipe_transport t = {0};

    CHECK_OK(p->r, pipe_transport(p->r, &t));
    return t.gets;
}

static void open_get(struct pair *p, uint64_t heap, uint64_t most)
{
    rpipe_config_t cfg = pair_config(RPIPE_GET, heap);

    cfg.max_heap_bytes = most;
    cfg.slots = 8;
    cfg.grow_after_us = 1;
    pair_open_with(p, &cfg);
}

/* One message after the other, of each size. */
static void test_sizes_around_the_limit(void **state)
{
    size_t sizes[] = {0,     8,         41,        64,      limit / 2, limit - (limit > 0),
                      limit, limit + 1, 2 * limit, HEAP / 2};
    struct pair p;

    (void)state;
    open_get(&p, HEAP, 0);
    for (size_t i = 0; i < 10 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t size = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
        uint64_t before = reads(&p);

        pair_send(&p, size, i);
        pair_read_free(&p, size, i);
        assert_int_equal(reads(&p) - before, size > 40 && size > limit);
    }
    pair_close(&p);
}

/* What counts is what is sent, not what was allocated. */
static void test_a_message_that_became_shorter(void **state)
{
    struct pair p;
    raddr_t d;

    (void)state;
    open_get(&p, HEAP, 0);
    for (uint64_t i = 0; i < 10; i++) {
        uint64_t before = reads(&p);

        d = pair_alloc(&p, HEAP / 4, i);
        CHECK_OK(p.w, rwrite_n(p.w, d, 1000));
        pair_read_free(&p, 1000, i);
        assert_int_equal(reads(&p) - before, limit < 1000);
    }
    pair_close(&p);
}

/*
 * A heap that is full most of the time, so that blocks are used again at once, by messages that are fetched and such that are not; the
 * reader holds some, and frees them in another order.
 */
static void test_blocks_are_used_again(void **state)
{
    raddr_t held[HELD] = {ADDR_NULL};
    uint64_t number[HELD] = {0}, random = 1;
    size_t bytes[HELD] = {0};
    struct pair p;

    (void)state;
    open_get(&p, HEAP, 0);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        size_t at = (i ^ 1) % HELD, size = 41 + random_draw(&random) % 2000;

        if (held[at] != ADDR_NULL) {
            assert_true(pattern_same(rmem(p.r, held[at]), bytes[at], number[at]));
            CHECK_OK(p.r, rfree(p.r, held[at]));
        }
        pair_send(&p, size, i);
        held[at] = pair_receive(&p, size, i);
        bytes[at] = size, number[at] = i;
    }
    for (size_t at = 0; at < HELD; at++)
        if (held[at] != ADDR_NULL) {
            assert_true(pattern_same(rmem(p.r, held[at]), bytes[at], number[at]));
            CHECK_OK(p.r, rfree(p.r, held[at]));
        }
    pair_close(&p);
}

/* As many in flight as fit, and the order is that of rwrite, whichever payload is there first. */
static void test_many_in_flight(void **state)
{
    struct pair p;

    (void)state;
    open_get(&p, HEAP, 0);
    for (uint64_t i = 0; i < MESSAGES / 8; i++) {
        for (uint64_t k = 0; k < 8; k++)
            pair_send(&p, k % 2 == 0 ? 100 : 4000, 8 * i + k);
        for (uint64_t k = 0; k < 8; k++)
            pair_read_free(&p, k % 2 == 0 ? 100 : 4000, 8 * i + k);
    }
    pair_close(&p);
}

/* The key is that of the first segment. */
static void test_messages_beyond_the_first_segment_are_fetched(void **state)
{
    enum { N = 24, SIZE = 512, FIRST = 2048 };
    raddr_t held[N];
    struct pair p;

    (void)state;
    open_get(&p, FIRST, 16 * FIRST);
    for (uint64_t i = 0; i < N; i++) {
        pair_send(&p, SIZE, i);
        held[i] = pair_receive(&p, SIZE, i);
    }
    assert_int_equal(reads(&p), limit == 0 ? N : N - FIRST / SIZE);
    for (size_t i = 0; i < N; i++) {
        assert_true(pattern_same(rmem(p.r, held[i]), SIZE, i));
        CHECK_OK(p.r, rfree(p.r, held[i]));
    }
    pair_close(&p);
}

/* From memory of the program, and from a part of a block: fetched. Into memory of the program: as from anywhere. */
static void test_regions(void **state)
{
    enum { SIZE = 640 };
    static uint8_t from[SIZE], into[SIZE];
    rregion_t source, part, target;
    struct pair p;
    size_t got;

    (void)state;
    open_get(&p, HEAP, 0);
    CHECK_OK(p.w, rregion_open(&source, p.w, from, SIZE));
    CHECK_OK(p.w, rregion_open(&part, p.w, NULL, SIZE));
    CHECK_OK(p.r, rregion_open(&target, p.r, into, SIZE));
    for (uint64_t i = 0; i < 30; i++) {
        rregion_t region = i % 3 == 0 ? source : part;
        uint64_t before = reads(&p);
        int word;

        if (i % 3 == 2) {
            pair_send(&p, SIZE, i);
        } else {
            pattern_fill(rregion_mem(region), SIZE, i);
            CHECK_OK(p.w, rwrite_from(p.w, region, 0, SIZE, 0, &word, 0));
        }
        if (i % 2 == 0) {
            pair_read_free(&p, SIZE, i);
        } else {
            CHECK_OK(p.r, rread_into(p.r, target, 0, SIZE, &got, NULL, 0));
            assert_int_equal(got, SIZE);
            assert_true(pattern_same(into, SIZE, i));
        }
        if (i % 3 == 2)
            assert_int_equal(reads(&p) - before, limit < SIZE);
        else
            assert_true(reads(&p) - before >= 1);
        CHECK_OK(p.w, rdone(p.w, NULL, 0));
    }
    CHECK_OK(NULL, rregion_close(source));
    CHECK_OK(NULL, rregion_close(part));
    CHECK_OK(NULL, rregion_close(target));
    pair_close(&p);
}

/* The close message promises the payloads too: nothing is fetched after it. */
static void test_the_writer_closes_first(void **state)
{
    raddr_t d;

    (void)state;
    for (uint64_t n = 1; n <= 8; n++) {
        struct pair p;

        open_get(&p, HEAP, 0);
        for (uint64_t i = 0; i < n; i++)
            pair_send(&p, 500, i);
        CHECK_OK(p.w, rclose(p.w));
        for (uint64_t i = 0; i < n; i++)
            pair_read_free(&p, 500, i);
        CHECK_RC(R_EOF, p.r, rread(p.r, &d, NULL));
        assert_int_equal(reads(&p), limit < 500 ? n : 0);
        CHECK_OK(p.r, rclose(p.r));
    }
}

/* Payloads are in flight to memory of an end that has closed: it stays until the writer has closed, too. */
static void test_the_reader_closes_first(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 8; n++) {
        struct pair p;

        open_get(&p, HEAP, 0);
        for (uint64_t i = 0; i < 8; i++)
            pair_send(&p, 500, i);
        for (uint64_t i = 0; i < n; i++)
            pair_read_free(&p, 500, i);
        CHECK_OK(p.r, rclose(p.r));
        (void)rclose(p.w);
    }
}

/* With PUT nothing is fetched, whatever the setting. */
static void test_put(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p, RPIPE_PUT, HEAP);
    for (uint64_t i = 0; i < 10; i++) {
        pair_send(&p, i * 1000, i);
        pair_read_free(&p, i * 1000, i);
    }
    assert_int_equal(reads(&p), 0);
    pair_close(&p);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_around_the_limit),
        cmocka_unit_test(test_a_message_that_became_shorter),
        cmocka_unit_test(test_blocks_are_used_again),
        cmocka_unit_test(test_many_in_flight),
        cmocka_unit_test(test_messages_beyond_the_first_segment_are_fetched),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_the_writer_closes_first),
        cmocka_unit_test(test_the_reader_closes_first),
        cmocka_unit_test(test_put),
    };

    limit = (size_t)strtoul(getenv("RPIPE_EAGER"), NULL, 10);
    return cmocka_run_group_tests_name("eager", tests, pair_setup, pair_teardown);
}

int main(void)
{
    struct pair_child child[] = {
        {NULL, NULL, "0", NULL, "", 0, NULL},
        {NULL, NULL, "1", NULL, "lazy scribble", 0, NULL},
        {"PAIR_MODE", "tags 2 0", "1", NULL, "scribble", 0, NULL},
        {"PAIR_MODE", "tags 1 100", "0", NULL, "order", 0, NULL},
        {"PAIR_MODE", "channel 3 0", "1", NULL, "scribble target", 0, NULL},
        {"PAIR_MODE", "channel 0 0", "0", NULL, "lazy", 0, NULL},
        {"RPIPE_EAGER", "0", "0", NULL, "", 0, NULL},
        {"RPIPE_FIRST", "4294967280", "0", NULL, "", 0, NULL},
    };

    setenv("PAIR_NET", "1", 0);
    setenv("RPIPE_EAGER", "1000", 1);
    return pair_children(child, sizeof(child) / sizeof(*child), group);
}
