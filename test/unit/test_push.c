/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_push.c: when a reader asks for pushed payloads (push.h): the rule by itself, then as calls follow it; and that payloads which
 * are pushed arrive.
 */
#include "rpipe/data/push.h"
#include "test/lib/pair.h"

#define HEAP 65536
#define ROW 8 /* waits that are judged together */

/* ---- the rule ---- */

struct judged {
    struct ring_control control;
    struct push_waits waits;
};

static uint32_t announced(struct judged *j)
{
    return atomic_load_explicit(&j->control.push_below, memory_order_relaxed);
}

/* `count` waits of so many polls, each for the message `gap` behind the one before. */
static uint32_t judge(struct judged *j, int count, uint64_t gap, uint32_t polls)
{
    for (int i = 0; i < count; i++) {
        j->waits.polls = polls;
        push_judge(&j->control, &j->waits, j->waits.number + gap, j->waits.taken + gap);
    }
    return announced(j);
}

static void test_eight_long_waits_announce(void **state)
{
    struct judged j = {0};

    (void)state;
    assert_int_equal(judge(&j, ROW - 1, 1, 10), 0);
    assert_true(judge(&j, 1, 1, 10) > 1024);
}

static void test_the_shortest_wait_counts(void **state)
{
    struct judged shortest = {0}, all = {0};

    (void)state;
    judge(&shortest, 3, 1, 20);
    judge(&shortest, 1, 1, 5);
    judge(&shortest, ROW - 4, 1, 20);
    assert_int_equal(announced(&shortest), judge(&all, ROW, 1, 5));
    assert_true(announced(&shortest) > 64);
    assert_true(announced(&shortest) < 1024);
}

static void test_one_short_wait_ends_it(void **state)
{
    struct judged j = {0};

    (void)state;
    assert_true(judge(&j, ROW, 1, 20) > 0);
    assert_int_equal(judge(&j, 1, 1, 1), 0);
    assert_int_equal(judge(&j, ROW - 1, 1, 20), 0); /* the row begins anew */
}

static void test_messages_between_waits_end_it(void **state)
{
    struct judged j = {0};

    (void)state;
    assert_true(judge(&j, ROW, 2, 20) > 0);
    assert_int_equal(judge(&j, 1, 3, 20), 0);
    assert_int_equal(judge(&j, 3 * ROW, 64, 20), 0);
}

static void test_the_length_is_limited(void **state)
{
    struct judged j = {0};

    (void)state;
    assert_int_equal(judge(&j, ROW, 1, UINT32_MAX), PUSH_MOST + 1);
    assert_int_equal(judge(&j, ROW, 1, PUSH_WHOLE_WAIT), PUSH_MOST + 1);
}

static void test_numbers_wrap(void **state)
{
    struct judged j = {.waits.number = UINT64_MAX - 3};

    (void)state;
    assert_true(judge(&j, ROW, 1, 20) > 0);
}

/* ---- calls ---- */

static uint32_t below(const struct pair *p)
{
    return atomic_load_explicit(&p->r->ring->control.push_below, memory_order_relaxed);
}

/* The reader finds nothing so often, then a message. */
static void message_after(const struct pair *p, int polls, bool copied, size_t size, uint64_t key)
{
    char received[4096];
    raddr_t d;
    int rc;

    for (int i = 0; i < polls; i++) {
        rc = copied ? rrecv(p->r, received, sizeof(received), NULL, R_NOWAIT)
                    : rread_nb(p->r, &d, NULL);
        assert_int_equal(rc, R_PENDING);
    }
    pair_send(p, size, key);
    pair_read_free(p, size, key);
}

static void test_calls(bool copied, rpipe_op_t op)
{
    static const size_t sizes[] = {0, 1, 41, 64, 100, 1000, PUSH_MOST, PUSH_MOST + 1, 4096};
    struct pair p;
    uint64_t key = 0;

    pair_open(&p, op, HEAP);
    assert_int_equal(below(&p), 0);
    for (int i = 0; i <= ROW; i++)
        message_after(&p, 30, copied, 100, key++);
    message_after(&p, 1, copied, 100, key++);
    assert_int_equal(below(&p), PUSH_MOST + 1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        message_after(&p, 30, copied, sizes[i], key++);
    for (int i = 0; i < 4; i++) /* a stream */
        message_after(&p, 0, copied, 100, key++);
    message_after(&p, 30, copied, 100, key++);
    assert_int_equal(below(&p), 0);
    pair_close(&p);
}

static void test_rread(void **state)
{
    (void)state;
    test_calls(false, RPIPE_PUT);
    test_calls(false, RPIPE_GET);
}

static void test_rrecv(void **state)
{
    (void)state;
    test_calls(true, RPIPE_PUT);
}

/* Waits for messages that ride in their slot are judged by nothing. */
static void test_small_messages_change_nothing(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p, RPIPE_PUT, HEAP);
    for (uint64_t i = 0; i <= ROW; i++)
        message_after(&p, 30, false, 100, i);
    message_after(&p, 30, false, 8, 0);
    assert_int_equal(below(&p), PUSH_MOST + 1);
    for (uint64_t i = 1; i < 3 * ROW; i++)
        message_after(&p, 1, false, 8, i);
    assert_int_equal(below(&p), PUSH_MOST + 1);
    message_after(&p, 30, false, 100, 0); /* it is not one of a row */
    message_after(&p, 30, false, 100, 1);
    assert_int_equal(below(&p), 0);
    pair_close(&p);
}

/* Whatever a peer stores there: payloads arrive. */
static void test_any_value_is_only_a_hint(void **state)
{
    static const uint32_t values[] = {1, 64, PUSH_MOST + 1, UINT32_MAX};
    struct pair p;

    (void)state;
    pair_open(&p, RPIPE_PUT, HEAP);
    for (uint32_t i = 0; i < 4; i++) {
        atomic_store(&p.r->ring->control.push_below, values[i]);
        message_after(&p, 0, false, 30000, i);
        message_after(&p, 0, false, 64, i);
    }
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eight_long_waits_announce),
        cmocka_unit_test(test_the_shortest_wait_counts),
        cmocka_unit_test(test_one_short_wait_ends_it),
        cmocka_unit_test(test_messages_between_waits_end_it),
        cmocka_unit_test(test_the_length_is_limited),
        cmocka_unit_test(test_numbers_wrap),
        cmocka_unit_test(test_rread),
        cmocka_unit_test(test_rrecv),
        cmocka_unit_test(test_small_messages_change_nothing),
        cmocka_unit_test(test_any_value_is_only_a_hint),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
