/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rduplex(3): a pipe each way. To oneself it is a loop; what it is between two is shown with plain pipes at the other end, and by two
 * processes in test/mpi/mp_compose.c. PUT and GET, in several modes, with RMALLOC_DEBUG=1 and without.
 */
#include "test/lib/group_pair.h"
#include "test/lib/v01.h"

static void test_loop(void **state)
{
    rpipe_config_t cfg = fan_config(op_of(state), 4096, 1);
    rduplex_t dx = NULL;
    struct pair p;

    CHECK_OK(NULL, rduplex(&dx, &cfg));
    assert_non_null(dx);
    CHECK_OK(NULL, rduplex_wait(dx));
    p.w = rduplex_out(dx);
    p.r = rduplex_in(dx);
    assert_true(p.w != NULL && p.r != NULL && p.w != p.r);
    assert_true(rduplex_out(dx) == p.w && rduplex_in(dx) == p.r);
    for (uint64_t i = 0; i < 300; i++) {
        pair_send(&p, i % 3 == 0 ? 20 : 700, i);
        pair_read_free(&p, i % 3 == 0 ? 20 : 700, i);
    }
    CHECK_RC(-EBADF, p.w, rread_nb(p.w, &(raddr_t){NULL}, NULL)); /* plain ends, each of one side */
    CHECK_ERRNO(EBADF, rmalloc(p.r, 8));
    CHECK_OK(NULL, rduplex_close(dx));
}

/* the configuration selects the RDMA-active end: it does not matter */
static void test_active(void **state)
{
    for (int active = 0; active < 2; active++) {
        rpipe_config_t cfg = fan_config(op_of(state), 4096, 1);
        rduplex_t dx;
        struct pair p;

        cfg.role = active == 1 ? RPIPE_WRITER : RPIPE_READER;
        CHECK_OK(NULL, rduplex(&dx, &cfg));
        p.w = rduplex_out(dx);
        p.r = rduplex_in(dx);
        pair_send(&p, 500, 1);
        pair_read_free(&p, 500, 1);
        CHECK_OK(NULL, rduplex_close(dx));
    }
}

/* one direction ends before the other */
static void test_half_close(void **state)
{
    rpipe_config_t cfg = fan_config(op_of(state), 4096, 1);
    raddr_t d = ANY_RADDR;
    struct pair p, other;
    rduplex_t dx;

    CHECK_OK(NULL, rduplex(&dx, &cfg));
    p.w = rduplex_out(dx);
    p.r = rduplex_in(dx);
    pair_send(&p, 100, 1);
    CHECK_OK(p.w, rclose(p.w));
    CHECK_ERRNO(ENOTCONN, rduplex_out(dx));
    assert_true(rduplex_in(dx) == p.r);
    pair_read_free(&p, 100, 1);
    CHECK_RC(R_EOF, p.r, rread(p.r, &d, NULL));
    /* ends are used again: the object must not take others' for its own */
    for (int i = 0; i < 40; i++) {
        pair_open(&other, op_of(state), 1024);
        CHECK_ERRNO(ENOTCONN, rduplex_out(dx));
        if (i < 39)
            pair_close(&other);
    }
    CHECK_OK(NULL, rduplex_close(dx));
    pair_send(&other, 100, 2);
    pair_read_free(&other, 100, 2);
    pair_close(&other);
}

static void test_again(void **state)
{
    rpipe_config_t cfg = fan_config(op_of(state), 4096, 1);

    for (uint64_t i = 0; i < 20; i++) {
        rduplex_t dx;
        struct pair p;

        CHECK_OK(NULL, rduplex(&dx, &cfg));
        CHECK_RC(-EEXIST, NULL, rduplex(&(rduplex_t){NULL}, &cfg));
        p.w = rduplex_out(dx);
        p.r = rduplex_in(dx);
        pair_send(&p, 100, i);
        pair_read_free(&p, 100, i);
        CHECK_OK(NULL, rduplex_close(dx));
    }
}

static void test_refused(void **state)
{
    rpipe_config_t cfg = fan_config(op_of(state), 4096, 1);
    rduplex_t dx = (rduplex_t)(uintptr_t)0x51, open;
    rscatter_t other;

    CHECK_RC(-EINVAL, NULL, rduplex(NULL, &cfg));
    CHECK_RC(-EINVAL, NULL, rduplex(&dx, NULL));
    cfg.peer = 1;
    CHECK_RC(-ENOENT, NULL, rduplex(&dx, &cfg));
    assert_non_null(strstr(rerror(NULL), "rduplex"));
    assert_true(dx == (rduplex_t)(uintptr_t)0x51);
    CHECK_RC(-EINVAL, NULL, rduplex_wait(NULL));
    CHECK_RC(-EINVAL, NULL, rduplex_close(NULL));
    CHECK_ERRNO(EINVAL, rduplex_out(NULL));
    CHECK_ERRNO(EINVAL, rduplex_in(NULL));
    cfg.peer = 0;
    cfg.op = (rpipe_op_t)2;
    CHECK_RC(-EINVAL, NULL, rduplex(&dx, &cfg));
    assert_non_null(strstr(rerror(NULL), "RPIPE_PUT"));
    cfg.op = op_of(state);
    CHECK_OK(NULL, rduplex(&open, &cfg));
    CHECK_OK(NULL, rduplex_close(open));
    CHECK_RC(-ENOTCONN, NULL, rduplex_close(open));
    CHECK_RC(-ENOTCONN, NULL, rduplex_wait(open));
    CHECK_ERRNO(ENOTCONN, rduplex_in(open));
    cfg = fan_config(op_of(state), 4096, 1);
    CHECK_OK(NULL, rscatter(&other, &cfg, fan_self, 1));
    CHECK_RC(-ENOTCONN, NULL, rduplex_close((rduplex_t)(void *)other)); /* of another kind */
    CHECK_OK(NULL, rscatter_close(other));
}

/* no peer comes */
static void test_deadline(void **state)
{
    rpipe_config_t cfg = fan_config(op_of(state), 4096, 1);
    rscatter_t sc;

    cfg.timeout_ms = 20;
    CHECK_OK(NULL, rscatter(&sc, &cfg, fan_self, 1));
    CHECK_RC(-ETIMEDOUT, NULL, rscatter_wait(sc));
    assert_int_equal(rscatter_who(sc), 0);
    assert_int_equal(rscatter_live(sc), 1);
    CHECK_OK(NULL, rscatter_close(sc));
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_loop),  PUT_AND_GET(test_active),  PUT_AND_GET(test_half_close),
        PUT_AND_GET(test_again), PUT_AND_GET(test_refused), PUT_AND_GET(test_deadline),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
