/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_cast.c: casts of one process, from rcast(3) alone: arguments that are refused, calls of the other side, a cast without readers, a
 * closed handle, and what is left after rexit.
 */
#include "test/lib/check.h"
#include <rcast.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static rcast_t cast_alone(uint64_t context)
{
    rcast_config_t cfg = {.context = context};
    rcast_t c = NULL;

    CHECK_OK(NULL, rcast_open(&c, &cfg, NULL, 1));
    assert_non_null(c);
    return c;
}

static void test_refused(void **state)
{
    static const int twice[] = {0, 0}, none[] = {1};
    static const rcast_config_t bad[] = {
        {.writer = 1},        {.writer = -1},
        {.timeout_ms = -3},   {.context = UINT64_C(1) << 61},
        {.heap_bytes = 4095}, {.heap_bytes = UINT64_MAX},
        {.slots = 1},         {.slots = 3},
        {.slots = 131072},    {.zero = 1},
    };
    rcast_config_t cfg = {.context = 1};
    rcast_t c = NULL;

    (void)state;
    CHECK_RC(-EINVAL, NULL, rcast_open(NULL, &cfg, NULL, 1));
    CHECK_RC(-EINVAL, NULL, rcast_open(&c, NULL, NULL, 1));
    CHECK_RC(-EINVAL, NULL, rcast_open(&c, &cfg, NULL, 0));
    CHECK_RC(-EINVAL, NULL, rcast_open(&c, &cfg, NULL, 65537));
    CHECK_RC(-ENOENT, NULL, rcast_open(&c, &cfg, NULL, 2));
    CHECK_RC(-EINVAL, NULL, rcast_open(&c, &cfg, twice, 2));
    CHECK_RC(-ENOENT, NULL, rcast_open(&c, &cfg, none, 1));
    CHECK_RC(-EINVAL, NULL, (rcast_open)(&c, &cfg, NULL, 1, sizeof(cfg) - 1));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK_RC(-EINVAL, NULL, rcast_open(&c, &bad[i], NULL, 1));
    assert_null(c);
    c = cast_alone(1);
    CHECK_RC(-EEXIST, NULL, rcast_open(&c, &cfg, NULL, 1));
    CHECK_OK(NULL, rcast_close(c));
}

/* A writer without readers: memory is there, and cannot be sent. */
static void test_alone(void **state)
{
    rcast_t c = cast_alone(2);
    void *mem[65], *more = NULL;

    (void)state;
    assert_int_equal(rcast_count(c), 0);
    assert_int_equal(rcast_lost(c), -1);
    for (int i = 0; i < 64; i++) {
        CHECK_OK(NULL, rcast_alloc(c, i % 2 == 0 ? 48 : 5000, &mem[i], 0));
        assert_int_equal((uintptr_t)mem[i] % 16, 0);
        memset(mem[i], i, i % 2 == 0 ? 48 : 5000);
    }
    CHECK_RC(-ENOBUFS, NULL, rcast_alloc(c, 1, &more, 0));
    for (int i = 0; i < 64; i++)
        assert_int_equal(*(unsigned char *)mem[i], i);
    CHECK_RC(-EPIPE, NULL, rcast_write(c, mem[0], 8, 0)); /* still the caller's */
    CHECK_RC(-EPIPE, NULL, rcast_send(c, mem[1], 5000, R_NOWAIT));
    for (int i = 63; i >= 0; i--)
        CHECK_OK(NULL, rcast_free(c, mem[i]));
    CHECK_RC(-EINVAL, NULL, rcast_free(c, mem[0]));
    CHECK_RC(-EMSGSIZE, NULL, rcast_alloc(c, (1 << 20) + 1, &more, 0));
    CHECK_OK(NULL, rcast_alloc(c, 1 << 20, &more, 0));
    CHECK_RC(-ENOBUFS, NULL, rcast_alloc(c, 64, &mem[0], 0));
    CHECK_OK(NULL, rcast_close(c));
}

static void test_misuse(void **state)
{
    rcast_t c = cast_alone(3);
    const void *mem;
    size_t bytes;
    char buf[8] = "";
    void *own;

    (void)state;
    CHECK_RC(-EINVAL, NULL, rcast_alloc(NULL, 1, &own, 0));
    CHECK_RC(-EINVAL, NULL, rcast_alloc(c, 1, NULL, 0));
    CHECK_RC(-EINVAL, NULL, rcast_alloc(c, 1, &own, 2));
    CHECK_RC(-EINVAL, NULL, rcast_write(c, buf, 1, 0));
    CHECK_RC(-EINVAL, NULL, rcast_write(c, NULL, 0, 0));
    CHECK_RC(-EINVAL, NULL, rcast_send(c, NULL, 1, 0));
    CHECK_RC(-EINVAL, NULL, rcast_send(NULL, buf, 1, 0));
    CHECK_RC(-EINVAL, NULL, rcast_free(c, NULL));
    CHECK_RC(-EINVAL, NULL, rcast_set_timeout(c, -3));
    CHECK_OK(NULL, rcast_set_timeout(c, R_AT_ONCE));
    CHECK_RC(-EBADF, NULL, rcast_read(c, &mem, &bytes, 0));
    CHECK_ERROR(NULL, "rcast_read: this member is a writer");
    CHECK_RC(-EBADF, NULL, rcast_recv(c, buf, sizeof(buf), &bytes, 0));
    CHECK_OK(NULL, rcast_close(c));
    CHECK_RC(-ENOTCONN, NULL, rcast_close(c));
    CHECK_RC(-ENOTCONN, NULL, rcast_send(c, buf, 1, 0));
    CHECK_RC(-ENOTCONN, NULL, rcast_free(c, buf));
    CHECK_RC(-ENOTCONN, NULL, rcast_count(c));
    CHECK_RC(-EINVAL, NULL, rcast_close(NULL));
}

static void test_after_rexit(void **state)
{
    rcast_t c = cast_alone(4);
    char buf[8] = "";

    (void)state;
    CHECK_OK(NULL, rexit());
    CHECK_RC(-ENOTCONN, NULL, rcast_send(c, buf, 1, 0));
    CHECK_RC(-ENOTCONN, NULL, rcast_close(c));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_after_rexit),
    };

    CHECK_OK(NULL, rinit(NULL, NULL));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
