/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_board.c: boards with one member, from rboard(3) alone: memory, arguments that are refused, sleeps and wake-ups between threads,
 * failures, and what is left after rexit.
 */
#include "test/lib/check.h"
#include <rpipe.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static rboard_t board_open(uint64_t context, uint64_t bytes)
{
    rboard_config_t cfg = {.context = context, .bytes = bytes};
    rboard_t b;

    CHECK_OK(NULL, rboard_open(&b, &cfg, NULL, 1));
    CHECK_OK(NULL, rboard_wait(b));
    return b;
}

static void test_memory(void **state)
{
    static const uint64_t sizes[] = {0, 1, 4032, 4033, 4096, 100000, UINT64_C(8) << 20};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        rboard_t b = board_open(i, sizes[i]);
        unsigned char *own = rboard_mem(b);
        const uint64_t bytes = sizes[i] == 0 ? 4096 : sizes[i];

        assert_non_null(own);
        assert_int_equal((uintptr_t)own % 4096, 0);
        assert_ptr_equal(own, rboard_mem_of(b, 0));
        assert_null(rboard_mem_of(b, 1));
        assert_null(rboard_mem_of(b, -1));
        assert_int_equal(rboard_host(b, 0), 0);
        assert_int_equal(rboard_host(b, 1), -EINVAL);
        for (uint64_t at = 0; at < bytes; at++)
            assert_int_equal(own[at], 0);
        memset(own, 0xff, bytes); /* the line behind it is the library's */
        rboard_wake(b, own);
        CHECK_OK(NULL, rboard_close(b));
    }
}

static void test_refused(void **state)
{
    static const int twice[] = {0, 0}, none[] = {1}, negative[] = {-1};
    static const uint64_t too_much[] = {UINT64_MAX};
    rboard_config_t cfg = {.context = 1}, bad;
    rboard_t b = NULL, second;

    (void)state;
    CHECK_RC(-EINVAL, NULL, rboard_open(NULL, &cfg, NULL, 1));
    CHECK_RC(-EINVAL, NULL, rboard_open(&b, NULL, NULL, 1));
    CHECK_RC(-EINVAL, NULL, rboard_open(&b, &cfg, NULL, 0));
    CHECK_RC(-EINVAL, NULL, rboard_open(&b, &cfg, NULL, 65537));
    CHECK_RC(-ENOENT, NULL, rboard_open(&b, &cfg, NULL, 2));
    CHECK_RC(-EINVAL, NULL, rboard_open(&b, &cfg, twice, 2));
    CHECK_ERROR(NULL, "twice");
    CHECK_RC(-ENOENT, NULL, rboard_open(&b, &cfg, none, 1));
    CHECK_RC(-ENOENT, NULL, rboard_open(&b, &cfg, negative, 1));
    CHECK_RC(-EINVAL, NULL, (rboard_open)(&b, &cfg, NULL, 1, sizeof(cfg) - 1));
    bad = (rboard_config_t){.context = UINT64_C(1) << 61};
    CHECK_RC(-EINVAL, NULL, rboard_open(&b, &bad, NULL, 1));
    bad = (rboard_config_t){.bytes = UINT64_MAX};
    CHECK_RC(-EINVAL, NULL, rboard_open(&b, &bad, NULL, 1));
    bad = (rboard_config_t){.timeout_ms = -3};
    CHECK_RC(-EINVAL, NULL, rboard_open(&b, &bad, NULL, 1));
    bad = (rboard_config_t){.flags = ~RBOARD_GO_ON};
    CHECK_RC(-EINVAL, NULL, rboard_open(&b, &bad, NULL, 1));
    bad = (rboard_config_t){.each = too_much};
    CHECK_RC(-EINVAL, NULL, rboard_open(&b, &bad, NULL, 1));
    assert_null(b);
    CHECK_OK(NULL, rboard_open(&b, &cfg, NULL, 1));
    assert_int_equal(rboard_state(b, 0), 0);
    assert_int_equal(rboard_state(b, 1), -EINVAL);
    assert_int_equal(rboard_state(NULL, 0), -EINVAL);
    rboard_wake_one(b, rboard_mem(b), 0);
    rboard_wake_one(b, rboard_mem(b), 1);
    CHECK_RC(-EEXIST, NULL, rboard_open(&second, &cfg, NULL, 1));
    CHECK_OK(NULL, rboard_close(b));
    CHECK_RC(-EINVAL, NULL, rboard_close(NULL));
    CHECK_RC(-EINVAL, NULL, rboard_wait(NULL));
    assert_null(rboard_mem(NULL));
    assert_null(rboard_mem_of(NULL, 0));
    assert_int_equal(rboard_lost(NULL, NULL), -EINVAL);
}

static void test_sleep_refused(void **state)
{
    rboard_t b = board_open(2, 64);
    char *own = rboard_mem(b);
    rboard_word_t word = {own, 0}, wrong = {own + 2, 0}, null = {NULL, 0}, many[65];

    (void)state;
    for (size_t i = 0; i < 65; i++)
        many[i] = word;
    CHECK_RC(-EINVAL, NULL, rboard_sleep(NULL, &word, 1, 0));
    CHECK_RC(-EINVAL, NULL, rboard_sleep(b, NULL, 1, 0));
    CHECK_RC(-EINVAL, NULL, rboard_sleep(b, &word, 0, 0));
    CHECK_RC(-EINVAL, NULL, rboard_sleep(b, many, 65, 0));
    CHECK_RC(-EINVAL, NULL, rboard_sleep(b, &word, 1, -2));
    CHECK_RC(-EINVAL, NULL, rboard_sleep(b, &wrong, 1, 0));
    CHECK_RC(-EINVAL, NULL, rboard_sleep(b, &null, 1, 0));
    CHECK_RC(-ETIMEDOUT, NULL, rboard_sleep(b, many, 64, 0));
    CHECK_RC(-ETIMEDOUT, NULL, rboard_sleep(b, many, 64, 20));
    word.seen = 1;
    CHECK_OK(NULL, rboard_sleep(b, &word, 1, R_FOREVER));
    CHECK_OK(NULL, rboard_close(b));
}

/* ---- between threads of one member ---- */

#define ROUNDS 3000

static rboard_t passed;
static _Atomic uint32_t *pass_words; /* each side stores one, and sleeps on the other */

static void pass_wait(int word, uint32_t value)
{
    rboard_word_t w = {&pass_words[word * 16], 0};

    while ((w.seen = atomic_load_explicit(&pass_words[word * 16], memory_order_acquire)) != value)
        CHECK_OK(NULL, rboard_sleep(passed, &w, 1, R_FOREVER));
}

static void pass_store(int word, uint32_t value)
{
    atomic_store_explicit(&pass_words[word * 16], value, memory_order_release);
    rboard_wake(passed, &pass_words[word * 16]);
}

static void *answer(void *unused)
{
    (void)unused;
    for (uint32_t k = 1; k <= ROUNDS; k++) {
        pass_wait(0, k);
        pass_store(1, k);
    }
    return NULL;
}

/* A wake-up that is lost is a hang. */
static void test_pass(void **state)
{
    pthread_t thread;

    (void)state;
    passed = board_open(3, 4096);
    pass_words = rboard_mem(passed);
    assert_int_equal(pthread_create(&thread, NULL, answer, NULL), 0);
    for (uint32_t k = 1; k <= ROUNDS; k++) {
        pass_store(0, k);
        pass_wait(1, k);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    CHECK_OK(NULL, rboard_close(passed));
}

static void *fail_later(void *board)
{
    compute_ms(20);
    CHECK_OK(NULL, rboard_fail(board, -EIO));
    return NULL;
}

static void test_fail(void **state)
{
    rboard_t b = board_open(4, 64);
    rboard_word_t word = {rboard_mem(b), 0};
    int member = 7;
    pthread_t thread;

    (void)state;
    assert_int_equal(rboard_lost(b, &member), 0);
    assert_int_equal(member, 7);
    CHECK_RC(-EINVAL, NULL, rboard_fail(b, 0));
    CHECK_RC(-EINVAL, NULL, rboard_fail(b, -4096));
    assert_int_equal(pthread_create(&thread, NULL, fail_later, b), 0);
    CHECK_RC(-EIO, NULL, rboard_sleep(b, &word, 1, R_FOREVER));
    CHECK_ERROR(NULL, "member 0, rank 0");
    assert_int_equal(pthread_join(thread, NULL), 0);
    CHECK_OK(NULL, rboard_fail(b, -EPERM)); /* the first one stays */
    assert_int_equal(rboard_lost(b, &member), -EIO);
    assert_int_equal(member, 0);
    CHECK_RC(-EIO, NULL, rboard_wait(b));
    CHECK_OK(NULL, rboard_close(b));
}

/* A board of one member has no member to post to; what several do is in mp_board. */
static void test_post_refused(void **state)
{
    rboard_t b = board_open(6, 64);
    uint64_t word = 7;
    int member = 7;

    (void)state;
    CHECK_RC(-EINVAL, NULL, rboard_post(b, 0, 1));
    CHECK_ERROR(NULL, "another one than this");
    CHECK_RC(-EINVAL, NULL, rboard_post(b, 1, 1));
    CHECK_RC(-EINVAL, NULL, rboard_post(b, -1, 1));
    CHECK_RC(-EINVAL, NULL, rboard_post(NULL, 0, 1));
    CHECK_RC(R_PENDING, NULL, rboard_take(b, &member, &word));
    assert_int_equal(member, 7);
    assert_int_equal(word, 7);
    CHECK_RC(-EINVAL, NULL, rboard_take(b, NULL, &word));
    CHECK_RC(-EINVAL, NULL, rboard_take(b, &member, NULL));
    CHECK_RC(-EINVAL, NULL, rboard_take(NULL, &member, &word));
    CHECK_OK(NULL, rboard_close(b));
}

/* ---- rexit ---- */

static rboard_t left;

static void *sleep_until_exit(void *started)
{
    rboard_word_t word = {rboard_mem(left), 0};

    atomic_store((atomic_int *)started, 1);
    return (void *)(intptr_t)rboard_sleep(left, &word, 1, R_FOREVER);
}

static int leave(void)
{
    atomic_int started = 0;
    pthread_t thread;
    uint64_t said;
    int member;
    void *rc;

    left = board_open(5, 64);
    if (pthread_create(&thread, NULL, sleep_until_exit, &started) != 0)
        return 1;
    while (atomic_load(&started) == 0)
        ;
    compute_ms(20);
    CHECK_OK(NULL, rexit());
    pthread_join(thread, &rc);
    REQUIRE((intptr_t)rc == -ENOTCONN);
    REQUIRE(rboard_mem(left) == NULL && rboard_mem_of(left, 0) == NULL);
    rboard_wake(left, &started);
    CHECK_RC(-ENOTCONN, NULL, rboard_wait(left));
    CHECK_RC(-ENOTCONN, NULL, rboard_post(left, 0, 1));
    CHECK_RC(-ENOTCONN, NULL, rboard_take(left, &member, &said));
    CHECK_RC(-ENOTCONN, NULL, rboard_close(left));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_sleep_refused), cmocka_unit_test(test_pass),
        cmocka_unit_test(test_fail),          cmocka_unit_test(test_post_refused),
    };
    rboard_config_t cfg = {0};
    rboard_t b;
    int rc;

    if (rboard_open(&b, &cfg, NULL, 1) != -ENOTCONN || rinit(NULL, NULL) != R_SUCCESS)
        return 1;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    return rc != 0 ? rc : leave();
}
