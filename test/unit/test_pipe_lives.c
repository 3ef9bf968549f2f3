/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a channel to oneself, its incarnations, and many channels at a time. Each test runs as
 * PUT and as GET, in several modes, and all of them with RMALLOC_DEBUG=1 too.
 */
#include "test/lib/pair.h"
#include "test/lib/counts.h"
#include <rpipe.h>

/* ---- the end ---- */

static void test_eof(void **state)
{
    struct pair p;
    raddr_t d = ANY_RADDR, first;
    size_t size = 77;
    struct pipe_counts st = {0};
    int fd_ready;

    pair_open(&p, op_of(state), 4096);
    pair_send(&p, 30, 1);
    pair_send(&p, 2000, 2);
    pair_send(&p, 0, 3);
    assert_non_null(rmalloc(p.w, 100)); /* allocated and not written: dropped */
    first = pair_receive(&p, 30, 1);
    CHECK_OK(p.w, rclose(p.w));
    d = pair_receive(&p, 2000, 2);
    CHECK_OK(p.r, rwait(p.r));
    pair_read_free(&p, 0, 3);
    for (int i = 0; i < 3; i++) {
        raddr_t none = ANY_RADDR;

        CHECK_RC(R_EOF, p.r, rread(p.r, &none, &size));
        CHECK_RC(R_EOF, p.r, rread_nb(p.r, &none, &size));
        assert_true(none == ANY_RADDR && size == 77);
        assert_string_not_equal(rerror(p.r), "no error");
    }
    CHECK_OK(p.r, rpoll(&p.r, 1, &fd_ready, 0));
    assert_int_equal(fd_ready, 1);
    /* what is held stays */
    assert_true(pattern_same(rmem(p.r, first), 30, 1));
    assert_true(pattern_same(rmem(p.r, d), 2000, 2));
    CHECK_OK(p.r, pipe_counts(p.r, &st));
    assert_int_equal(st.held, 2);
    CHECK_OK(p.r, rfree(p.r, d));
    CHECK_OK(p.r, rfree(p.r, first));
    CHECK_OK(p.r, rclose(p.r));
}

/* -EPIPE is certain where a call would have to wait: at the latest when so many slots are full */
static void assert_write_fails(rch_t w, int slots)
{
    int rc = R_SUCCESS, i;

    for (i = 0; i <= slots && rc == R_SUCCESS; i++) {
        raddr_t d = rmalloc(w, i % 2 == 0 ? 10 : 50);

        rc = d != ADDR_NULL ? rwrite(w, d) : -errno;
        if (d != ADDR_NULL && rc != R_SUCCESS)
            CHECK_OK(w, rfree(w, d)); /* it stayed ours */
    }
    CHECK_RC(-EPIPE, w, rc);
}

/* what was not sent stays the writer's */
static void test_reader_closes(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 65536);
    struct pair p;
    struct pipe_counts st = {0};
    raddr_t d, held;

    cfg.slots = 8;
    pair_open_with(&p, &cfg);
    held = pair_alloc(&p, 300, 5);
    pair_send(&p, 300, 1);
    pair_send(&p, 10, 1);
    (void)pair_receive(&p, 300, 1);
    CHECK_OK(p.r, rclose(p.r));
    assert_write_fails(p.w, 8);
    CHECK_RC(-EPIPE, p.w, rwrite(p.w, held));
    CHECK_RC(-EPIPE, p.w, rwrite_nb(p.w, held));
    CHECK_RC(-EPIPE, p.w, rwrite_n(p.w, held, 1));
    CHECK_RC(-EPIPE, p.w, rflush(p.w));
    CHECK_RC(-EPIPE, p.w, rmalloc_nb(p.w, 65536, &d)); /* it could only wait */
    CHECK_ERRNO(EPIPE, rmalloc(p.w, 65536));
    CHECK_OK(p.w, rwait(p.w)); /* closed in order */
    assert_true(pattern_same(rmem(p.w, held), 300, 5));
    assert_int_equal(rsize(p.w, held), 300);
    CHECK_OK(p.w, pipe_counts(p.w, &st));
    assert_int_equal(st.held, 1);
    CHECK_OK(p.w, rfree(p.w, held));
    CHECK_OK(p.w, rclose(p.w));
}

/* ---- incarnations ---- */

static void test_reopen(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 4096);
    struct pipe_counts st = {0};
    struct pair p;

    for (uint32_t i = 1; i <= 200; i++) {
        pair_open_with(&p, &cfg);
        pair_send(&p, 30, i);
        pair_send(&p, 3000, ~i);
        pair_read_free(&p, 30, i);
        if (i % 2 == 0)
            pair_read_free(&p, 3000, ~i);
        CHECK_OK(p.w, pipe_counts(p.w, &st));
        assert_int_equal(st.incarnation, i);
        CHECK_OK(p.r, pipe_counts(p.r, &st));
        assert_int_equal(st.incarnation, i);
        if (i % 3 == 0) {
            CHECK_OK(p.r, rclose(p.r));
            CHECK_OK(p.w, rclose(p.w));
        } else {
            pair_close(&p);
        }
    }
}

/* the n-th opening of one end belongs to the n-th of the other, no matter how far one is ahead */
static void test_ahead(void **state)
{
    enum { AHEAD = 20 };
    rpipe_config_t cfg = pair_config(op_of(state), 4096), w = pair_writer(cfg),
                   r = pair_reader(cfg);
    struct pair p;
    raddr_t d;

    for (int i = 0; i < AHEAD; i++) { /* the writer comes and goes */
        CHECK_OK(NULL, rpipe(&p.w, &w));
        CHECK_OK(p.w, rclose(p.w));
    }
    CHECK_OK(NULL, rpipe(&p.w, &w));
    for (int i = 0; i < AHEAD; i++) {
        CHECK_OK(NULL, rpipe(&p.r, &r));
        if (i % 2 == 0)
            CHECK_OK(p.r, rwait(p.r)); /* joins nevertheless */
        CHECK_RC(R_EOF, p.r, rread(p.r, &d, NULL));
        CHECK_OK(p.r, rclose(p.r));
    }
    CHECK_OK(NULL, rpipe(&p.r, &r));
    pair_send(&p, 1000, 1);
    pair_read_free(&p, 1000, 1);
    pair_close(&p);

    for (int i = 0; i < AHEAD; i++) { /* the reader comes and goes */
        CHECK_OK(NULL, rpipe(&p.r, &r));
        CHECK_OK(p.r, rclose(p.r));
    }
    CHECK_OK(NULL, rpipe(&p.r, &r));
    for (int i = 0; i < AHEAD; i++) {
        CHECK_OK(NULL, rpipe(&p.w, &w));
        if (i % 2 == 0)
            CHECK_OK(p.w, rwait(p.w));
        assert_write_fails(p.w, 64);
        CHECK_OK(p.w, rclose(p.w));
    }
    CHECK_OK(NULL, rpipe(&p.w, &w));
    pair_send(&p, 1000, 1);
    pair_read_free(&p, 1000, 1);
    pair_close(&p);
}

/* the writer is in its next life while the reader still reads from the last one */
static void test_overlapping_lives(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 4096), w = pair_writer(cfg),
                   r = pair_reader(cfg);
    struct pair p, next;
    raddr_t held, d;

    pair_open_with(&p, &cfg);
    pair_send(&p, 3000, 1);
    pair_send(&p, 20, 2);
    held = pair_receive(&p, 3000, 1);
    CHECK_OK(p.w, rclose(p.w));
    CHECK_OK(NULL, rpipe(&next.w, &w));
    if (cfg.op == RPIPE_GET) { /* its heap is its own: it may be filled before the join */
        CHECK_OK(next.w, rmalloc_nb(next.w, 4096, &d));
        memset(rmem(next.w, d), 0xff, 4096);
        CHECK_OK(next.w, rfree(next.w, d));
    }
    CHECK_OK(next.w, rset_timeout(next.w, 20));
    CHECK_RC(-ETIMEDOUT, next.w, rwait(next.w)); /* not joined to the old reader */
    CHECK_OK(next.w, rset_timeout(next.w, 60000));
    assert_true(pattern_same(rmem(p.r, held), 3000, 1));
    pair_read_free(&p, 20, 2);
    CHECK_RC(R_EOF, p.r, rread(p.r, &d, NULL));
    assert_true(pattern_same(rmem(p.r, held), 3000, 1));
    CHECK_OK(p.r, rclose(p.r));
    CHECK_OK(NULL, rpipe(&next.r, &r));
    CHECK_OK(next.w, rwait(next.w));
    pair_send(&next, 3000, 3);
    pair_read_free(&next, 3000, 3);
    pair_close(&next);
}

/* many channels at a time: what belongs to one is in no other */
static void test_many(void **state)
{
    enum { N = 200 };
    struct pair p[N];

    for (size_t i = 0; i < N; i++)
        pair_open(&p[i], op_of(state), 1024);
    for (uint64_t round = 0; round < 10; round++) {
        for (size_t i = 0; i < N; i++) {
            pair_send(&p[i], 20, round * N + i);
            pair_send(&p[i], 200 + i, ~(round * N + i));
        }
        for (size_t i = N; i-- > 0;) {
            pair_read_free(&p[i], 20, round * N + i);
            pair_read_free(&p[i], 200 + i, ~(round * N + i));
        }
    }
    for (size_t i = 0; i < N; i++)
        pair_close(&p[i]);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_eof),   PUT_AND_GET(test_reader_closes),     PUT_AND_GET(test_reopen),
        PUT_AND_GET(test_ahead), PUT_AND_GET(test_overlapping_lives), PUT_AND_GET(test_many),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
