/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsend(3), rrecv(3), rpost(3), rtake(3), rshrink(3): messages without a descriptor, and blocks that become shorter. PUT and GET, in
 * several modes, with RMALLOC_DEBUG=1 and without.
 */
#include "test/lib/counts.h"
#include "test/lib/pair.h"

#define HEAP 4096

static void send_one(const struct pair *p, size_t bytes, uint64_t key)
{
    unsigned char buf[HEAP];

    pattern_fill(buf, bytes, key);
    CHECK_OK(p->w, rsend(p->w, buf, bytes, 0));
    memset(buf, 0xee, sizeof(buf)); /* it is the caller's again */
}

static void recv_one(const struct pair *p, size_t bytes, uint64_t key)
{
    unsigned char buf[HEAP + 8];
    size_t got = SIZE_MAX;

    memset(buf, 0x77, sizeof(buf));
    CHECK_OK(p->r, rrecv(p->r, buf, bytes, &got, 0));
    assert_int_equal(got, bytes);
    assert_true(pattern_same(buf, bytes, key));
    for (size_t i = bytes; i < bytes + 8; i++)
        assert_int_equal(buf[i], 0x77); /* nothing behind the message is written */
}

/* Every length in a slot, and some in the heap; each path of the copy. */
static void test_lengths(void **state)
{
    static const size_t more[] = {63, 64, 65, 1000, HEAP};
    struct pair p;

    pair_open(&p, op_of(state), HEAP);
    for (int lap = 0; lap < 20; lap++)
        for (size_t bytes = 0; bytes <= 50; bytes++) {
            send_one(&p, bytes, bytes + 100);
            recv_one(&p, bytes, bytes + 100);
        }
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        send_one(&p, more[i], i);
        recv_one(&p, more[i], i);
    }
    CHECK_OK(p.w, rsend(p.w, NULL, 0, 0));
    CHECK_OK(p.r, rrecv(p.r, NULL, 0, NULL, 0));
    pair_close(&p);
}

/* rsend, rwrite, rread and rrecv are of one order, and messages that are still owned do not matter. */
static void test_order(void **state)
{
    struct pair p;
    raddr_t held, d;

    pair_open(&p, op_of(state), HEAP);
    pair_send(&p, 700, 1);
    send_one(&p, 8, 2);
    send_one(&p, 300, 3);
    pair_send(&p, 30, 4);
    send_one(&p, 17, 5);
    held = pair_receive(&p, 700, 1);
    recv_one(&p, 8, 2);
    d = pair_receive(&p, 300, 3);
    assert_int_equal(rtag(p.r, d), 0);
    CHECK_OK(p.r, rfree(p.r, d));
    recv_one(&p, 30, 4);
    d = pair_receive(&p, 17, 5);
    assert_int_equal(rtag(p.r, d), 0);
    CHECK_OK(p.r, rfree(p.r, d));
    assert_true(pattern_same(rmem(p.r, held), 700, 1));
    CHECK_OK(p.r, rfree(p.r, held));
    pair_close(&p);
}

/* A message that does not fit is not consumed, its length is reported, and every call finds it again. */
static void test_too_little_room(void **state)
{
    static const size_t lengths[] = {1, 8, 40, 200};
    struct pair p;

    pair_open(&p, op_of(state), HEAP);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        size_t bytes = lengths[i], got = 0;
        unsigned char buf[256];

        memset(buf, 0x77, sizeof(buf));
        send_one(&p, bytes, i);
        CHECK_RC(-EMSGSIZE, p.r, rrecv(p.r, buf, bytes - 1, &got, 0));
        assert_int_equal(got, bytes);
        CHECK_RC(-EMSGSIZE, p.r, rrecv(p.r, NULL, 0, &got, R_NOWAIT));
        CHECK_RC(-EMSGSIZE, p.r, rrecv(p.r, buf, 0, NULL, R_NOWAIT));
        assert_non_null(strstr(rerror(p.r), "rrecv"));
        for (size_t k = 0; k < sizeof(buf); k++)
            assert_int_equal(buf[k], 0x77);
        if (i % 2 == 0)
            recv_one(&p, bytes, i);
        else
            pair_read_free(&p, bytes, i);
    }
    pair_close(&p);
}

/* R_NOWAIT: nothing there, no slot, no memory; and afterwards everything is as before. */
static void test_without_waiting(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 1024);
    char buf[1024] = {0};
    uint64_t word = 7;
    size_t got = 77;
    struct pair p;

    cfg.slots = 4;
    pair_open_with(&p, &cfg);
    assert_int_equal(rrecv(p.r, buf, sizeof(buf), &got, R_NOWAIT), R_PENDING);
    assert_int_equal(got, 77);
    for (int i = 0; i < 4; i++)
        CHECK_OK(p.w, rsend(p.w, &word, sizeof(word), R_NOWAIT));
    assert_int_equal(rsend(p.w, &word, sizeof(word), R_NOWAIT), R_PENDING);
    CHECK_OK(p.w, rset_timeout(p.w, 20));
    assert_int_equal(rsend(p.w, &word, sizeof(word), 0), -ETIMEDOUT);
    for (int i = 0; i < 4; i++) {
        word = 0;
        CHECK_OK(p.r, rrecv(p.r, &word, sizeof(word), &got, 0));
        assert_true(word == 7 && got == 8);
    }
    CHECK_OK(p.w, rsend(p.w, buf, 1024, 0));
    assert_int_equal(rsend(p.w, buf, 64, R_NOWAIT), R_PENDING); /* no memory */
    CHECK_OK(p.r, rrecv(p.r, buf, sizeof(buf), &got, 0));
    assert_int_equal(got, 1024);
    CHECK_OK(p.r, rset_timeout(p.r, 20));
    assert_int_equal(rrecv(p.r, buf, sizeof(buf), &got, 0), -ETIMEDOUT);
    CHECK_RC(R_SUCCESS, p.w, rsend(p.w, buf, 64, R_NOWAIT));
    pair_close(&p);
}

/* A message in its slot takes no descriptor: it is sent and received where every descriptor is owned by the program. */
static void test_no_descriptor(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), HEAP);
    struct pipe_counts w = {0};
    raddr_t mine, theirs, d;
    struct pair p;

    cfg.max_messages = 1;
    pair_open_with(&p, &cfg);
    pair_send(&p, 10, 1);
    theirs = pair_receive(&p, 10, 1);
    mine = pair_alloc(&p, 10, 2);
    CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 8, &d));
    if (getenv("RMALLOC_DEBUG") == NULL && !pair_over_network()) {
        for (uint64_t i = 0; i < 100; i++) {
            send_one(&p, i % 41, i);
            recv_one(&p, i % 41, i);
        }
        CHECK_OK(p.w, pipe_counts(p.w, &w));
        assert_int_equal(w.inline_messages, 101);
    }
    CHECK_OK(p.w, rfree(p.w, mine));
    CHECK_OK(p.r, rfree(p.r, theirs));
    pair_close(&p);
}

static void test_misuse(void **state)
{
    char buf[64] = {0};
    size_t got = 77;
    struct pair p;

    pair_open(&p, op_of(state), HEAP);
    CHECK_RC(-EINVAL, NULL, rsend(NULL, buf, 8, 0));
    CHECK_RC(-EINVAL, NULL, rrecv(NULL, buf, 8, &got, 0));
    CHECK_RC(-EBADF, p.r, rsend(p.r, buf, 8, 0));
    CHECK_RC(-EBADF, p.w, rrecv(p.w, buf, 8, &got, 0));
    CHECK_RC(-EINVAL, p.w, rsend(p.w, buf, 8, 2));
    CHECK_RC(-EINVAL, p.r, rrecv(p.r, buf, 8, &got, 4));
    CHECK_RC(-EINVAL, p.w, rsend(p.w, NULL, 8, 0));
    CHECK_RC(-EINVAL, p.r, rrecv(p.r, NULL, 8, &got, 0));
    CHECK_RC(-EMSGSIZE, p.w, rsend(p.w, buf, HEAP + 1, 0));
    assert_non_null(strstr(rerror(p.w), "rsend"));
    assert_int_equal(got, 77);
    send_one(&p, 20, 1);
    CHECK_OK(p.w, rclose(p.w));
    CHECK_RC(-ENOTCONN, p.w, rsend(p.w, buf, 8, 0));
    recv_one(&p, 20, 1);
    CHECK_RC(R_EOF, p.r, rrecv(p.r, buf, 8, &got, 0));
    CHECK_RC(R_EOF, p.r, rrecv(p.r, buf, 8, &got, R_NOWAIT));
    CHECK_OK(p.r, rclose(p.r));
    CHECK_RC(-ENOTCONN, p.r, rrecv(p.r, buf, 8, &got, 0));
}

/* ---- rpost, rtake ---- */

static void post_one(const struct pair *p, size_t bytes, uint64_t tag)
{
    unsigned char buf[HEAP];

    pattern_fill(buf, bytes, tag);
    CHECK_OK(p->w, rpost(p->w, buf, bytes, tag));
    memset(buf, 0xee, sizeof(buf)); /* it is the caller's again */
}

/* A message that is in flight arrives without a further call, but not at once. */
static int take_in_time(const struct pair *p, rtaken_t *m)
{
    double since = now_ms();
    int rc;

    do
        rc = rtake(p->r, m);
    while (rc == R_PENDING && pair_patience(since));
    return rc;
}

static void take_one(const struct pair *p, size_t bytes, uint64_t tag, uint64_t key)
{
    rtaken_t m = {.d = ANY_RADDR};

    CHECK_OK(p->r, take_in_time(p, &m));
    assert_true(m.bytes == bytes && m.tag == tag);
    assert_true(pattern_same(m.mem, bytes, key));
    assert_int_equal(m.d == ADDR_NULL, m.mem == (void *)m.slot);
    assert_int_equal(m.d == ADDR_NULL, bytes <= sizeof(m.slot));
    if (m.d == ADDR_NULL)
        return;
    assert_true(rmem(p->r, m.d) == m.mem && rsize(p->r, m.d) == bytes && rtag(p->r, m.d) == tag);
    CHECK_OK(p->r, rfree(p->r, m.d));
}

/* Every length in a slot, and some in the heap, with every bit of the tag. */
static void test_post_lengths(void **state)
{
    static const size_t more[] = {63, 64, 65, 1000, HEAP};
    struct pair p;

    pair_open(&p, op_of(state), HEAP);
    for (uint64_t lap = 0; lap < 64; lap++)
        for (size_t bytes = 0; bytes <= 50; bytes += 1 + lap % 3) {
            post_one(&p, bytes, UINT64_C(1) << lap | bytes);
            take_one(&p, bytes, UINT64_C(1) << lap | bytes, UINT64_C(1) << lap | bytes);
        }
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        post_one(&p, more[i], UINT64_MAX - i);
        take_one(&p, more[i], UINT64_MAX - i, UINT64_MAX - i);
    }
    CHECK_OK(p.w, rpost(p.w, NULL, 0, 5));
    take_one(&p, 0, 5, 5);
    pair_close(&p);
}

/* With the other calls in one order; what was sent without a tag has 0; messages that are still owned do not matter. */
static void test_post_order(void **state)
{
    rtaken_t held = {0};
    struct pair p;
    raddr_t d;

    pair_open(&p, op_of(state), HEAP);
    post_one(&p, 700, 1);
    post_one(&p, 8, 2);
    pair_send(&p, 300, 3);
    send_one(&p, 17, 4);
    post_one(&p, 30, 5);
    post_one(&p, 200, 6);
    CHECK_OK(p.r, take_in_time(&p, &held));
    d = pair_receive(&p, 8, 2);
    assert_int_equal(rtag(p.r, d), 2);
    CHECK_OK(p.r, rfree(p.r, d));
    take_one(&p, 300, 0, 3);
    take_one(&p, 17, 0, 4);
    recv_one(&p, 30, 5);
    take_one(&p, 200, 6, 6);
    assert_true(held.bytes == 700 && held.tag == 1 && pattern_same(held.mem, 700, 1));
    CHECK_OK(p.r, rfree(p.r, held.d));
    CHECK_RC(-EINVAL, p.r, rfree(p.r, held.d));
    pair_close(&p);
}

/* Nothing there, no slot, no memory: R_PENDING, and everything is as before. */
static void test_post_without_waiting(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 1024);
    rtaken_t m = {.tag = 77};
    char buf[1024] = {0};
    struct pair p;

    cfg.slots = 4;
    pair_open_with(&p, &cfg);
    assert_int_equal(rtake(p.r, &m), R_PENDING);
    assert_int_equal(m.tag, 77);
    for (uint64_t i = 0; i < 4; i++)
        post_one(&p, 8 * i, i);
    assert_int_equal(rpost(p.w, buf, 8, 9), R_PENDING);
    for (uint64_t i = 0; i < 4; i++)
        take_one(&p, 8 * i, i, i);
    post_one(&p, 1024, 8);
    assert_int_equal(rpost(p.w, buf, 64, 9), R_PENDING); /* no memory */
    take_one(&p, 1024, 8, 8);
    pair_close(&p);
}

/* A message in its slot takes no descriptor of either end. */
static void test_post_no_descriptor(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), HEAP);
    raddr_t mine, theirs;
    struct pair p;

    cfg.max_messages = 1;
    pair_open_with(&p, &cfg);
    pair_send(&p, 10, 1);
    theirs = pair_receive(&p, 10, 1);
    mine = pair_alloc(&p, 10, 2);
    for (uint64_t i = 0; i < 100 && getenv("RMALLOC_DEBUG") == NULL && !pair_over_network(); i++) {
        post_one(&p, i % 41, i);
        take_one(&p, i % 41, i, i);
    }
    CHECK_OK(p.w, rfree(p.w, mine));
    CHECK_OK(p.r, rfree(p.r, theirs));
    pair_close(&p);
}

static void test_post_misuse(void **state)
{
    char buf[64] = {0};
    struct pair p;
    rtaken_t m = {.tag = 77};

    pair_open(&p, op_of(state), HEAP);
    CHECK_RC(-EINVAL, NULL, rpost(NULL, buf, 8, 1));
    CHECK_RC(-EINVAL, NULL, rtake(NULL, &m));
    CHECK_RC(-EBADF, p.r, rpost(p.r, buf, 8, 1));
    CHECK_RC(-EBADF, p.w, rtake(p.w, &m));
    CHECK_RC(-EINVAL, p.w, rpost(p.w, NULL, 8, 1));
    CHECK_RC(-EINVAL, p.r, rtake(p.r, NULL));
    assert_non_null(strstr(rerror(p.r), "rtake"));
    CHECK_RC(-EMSGSIZE, p.w, rpost(p.w, buf, HEAP + 1, 1));
    assert_non_null(strstr(rerror(p.w), "rpost"));
    assert_int_equal(m.tag, 77);
    post_one(&p, 20, 1);
    CHECK_OK(p.w, rclose(p.w));
    CHECK_RC(-ENOTCONN, p.w, rpost(p.w, buf, 8, 1));
    take_one(&p, 20, 1, 1);
    CHECK_RC(R_EOF, p.r, take_in_time(&p, &m));
    CHECK_OK(p.r, rclose(p.r));
    CHECK_RC(-ENOTCONN, p.r, rtake(p.r, &m));
}

/* ---- rshrink ---- */

/* The youngest block: what is behind it is free at once, with every heuristic. */
static void test_shrink(void **state)
{
    raddr_t d, rest;
    struct pair p;

    pair_open(&p, op_of(state), HEAP);
    d = pair_alloc(&p, HEAP, 1);
    CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 1024, &rest));
    CHECK_OK(p.w, rshrink(p.w, d, 1000));
    assert_int_equal(rsize(p.w, d), 1000);
    assert_true(pattern_same(rmem(p.w, d), 1000, 1));
    rest = pair_alloc(&p, 3072, 2);
    CHECK_OK(p.w, rwrite(p.w, rest));
    CHECK_OK(p.w, rshrink(p.w, d, 1000)); /* nothing to free */
    CHECK_OK(p.w, rwrite(p.w, d));
    pair_read_free(&p, 3072, 2);
    pair_read_free(&p, 1000, 1);
    d = pair_alloc(&p, HEAP, 3); /* all of it has come back */
    CHECK_OK(p.w, rshrink(p.w, d, 0));
    assert_int_equal(rsize(p.w, d), 0);
    CHECK_OK(p.w, rfree(p.w, d));
    d = pair_alloc(&p, HEAP, 4);
    CHECK_OK(p.w, rfree(p.w, d));
    pair_close(&p);
}

/* rwrite_n frees the rest of the block, where memory is shared; everywhere the message has so many bytes. */
static void test_write_n(void **state)
{
    struct pair p;
    raddr_t d;

    pair_open(&p, op_of(state), HEAP);
    for (uint64_t i = 0; i < 4; i++) {
        d = pair_alloc(&p, HEAP - 1024 * i, i);
        CHECK_OK(p.w, rwrite_n(p.w, d, 1000));
        if (pair_over_network())
            pair_read_free(&p, 1000, i);
    }
    for (uint64_t i = 0; i < 4 && !pair_over_network(); i++)
        pair_read_free(&p, 1000, i);
    d = pair_alloc(&p, HEAP, 9);
    CHECK_RC(-EINVAL, p.w, rwrite_n(p.w, d, HEAP + 1));
    assert_int_equal(rsize(p.w, d), HEAP); /* as before */
    CHECK_OK(p.w, rwrite_n(p.w, d, HEAP));
    pair_read_free(&p, HEAP, 9);
    pair_close(&p);
}

static void test_shrink_misuse(void **state)
{
    struct pair p;
    raddr_t small, d;

    pair_open(&p, op_of(state), HEAP);
    d = pair_alloc(&p, 1000, 1);
    small = pair_alloc(&p, 30, 2);
    CHECK_RC(-EINVAL, p.w, rshrink(p.w, d, 1001));
    CHECK_RC(-EINVAL, p.w, rshrink(p.w, ADDR_NULL, 0));
    CHECK_RC(-EINVAL, NULL, rshrink(NULL, d, 0));
    CHECK_RC(-EBADF, p.r, rshrink(p.r, d, 0));
    assert_int_equal(rsize(p.w, d), 1000);
    CHECK_OK(p.w, rshrink(p.w, small, 7)); /* in its slot: only the length changes */
    CHECK_OK(p.w, rwrite(p.w, small));
    pair_read_free(&p, 7, 2);
    CHECK_OK(p.w, rwrite(p.w, d));
    CHECK_RC(-EINVAL, p.w, rshrink(p.w, d, 10)); /* sent */
    d = pair_receive(&p, 1000, 1);
    CHECK_RC(-EBADF, p.r, rshrink(p.r, d, 10));
    CHECK_OK(p.r, rfree(p.r, d));
    pair_close(&p);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_lengths),
        PUT_AND_GET(test_order),
        PUT_AND_GET(test_too_little_room),
        PUT_AND_GET(test_without_waiting),
        PUT_AND_GET(test_no_descriptor),
        PUT_AND_GET(test_misuse),
        PUT_AND_GET(test_post_lengths),
        PUT_AND_GET(test_post_order),
        PUT_AND_GET(test_post_without_waiting),
        PUT_AND_GET(test_post_no_descriptor),
        PUT_AND_GET(test_post_misuse),
        PUT_AND_GET(test_shrink),
        PUT_AND_GET(test_write_n),
        PUT_AND_GET(test_shrink_misuse),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
