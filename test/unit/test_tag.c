/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tags: rset_tag(3), rtag(3). Every kind of message in every heuristic with every mode, PUT and GET: what was set arrives with
 * that message and no other, and costs neither a slot nor a byte (statistics).
 */
#include "test/lib/pipe_modes.h"
#include "test/lib/counts.h"

enum { HEAP = 1 << 16, MESSAGES = 200 };

static uint64_t tag_of(uint64_t i)
{
    static const uint64_t edge[] = {
        0, 1, UINT64_MAX, UINT64_C(1) << 63, UINT64_C(0x0123456789abcdef), 0xff};

    return i < sizeof(edge) / sizeof(*edge) ? edge[i] : random_mix(i);
}

static raddr_t alloc_tagged(const struct pair *p, size_t size, uint64_t i)
{
    raddr_t d = pair_alloc(p, size, i);

    assert_int_equal(rtag(p->w, d), 0);
    CHECK_OK(p->w, rset_tag(p->w, d, ~tag_of(i))); /* the last one counts */
    CHECK_OK(p->w, rset_tag(p->w, d, tag_of(i)));
    assert_true(rtag(p->w, d) == tag_of(i));
    assert_true(pattern_same(rmem(p->w, d), size, i)); /* it is elsewhere */
    return d;
}

static void receive_tagged(const struct pair *p, size_t size, uint64_t i)
{
    raddr_t d = pair_receive(p, size, i);
    uint64_t header;

    assert_true(rtag(p->r, d) == tag_of(i));
    header = rtag(p->r, d);
    assert_true(header == tag_of(i));
    CHECK_OK(p->r, rset_tag(p->r, d, 4711)); /* it is the reader's own */
    assert_int_equal(rtag(p->r, d), 4711);
    CHECK_OK(p->r, rfree(p->r, d));
}

static size_t size_of(uint64_t i)
{
    static const size_t size[] = {0, 1, 8, 39, 40, 41, 64, 1000, 5000};

    return size[i % (sizeof(size) / sizeof(*size))];
}

/* one message after the other, by every call that sends one */
static void kinds(const struct mode *m)
{
    struct pipe_counts w = {0}, r = {0};
    struct pair p;
    uint64_t bytes = 0, small = 0;

    mode_open(&p, m, HEAP, 0);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        size_t size = size_of(i), sent = size;
        raddr_t d = alloc_tagged(&p, size, i);

        switch (i / 9 % 3) {
        case 0:
            CHECK_OK(p.w, rwrite(p.w, d));
            break;
        case 1:
            CHECK_OK(p.w, rwrite_nb(p.w, d));
            break;
        default:
            sent = size - size / 8 * 4 - size % 8; /* whole words of the pattern */
            CHECK_OK(p.w, rwrite_n(p.w, d, sent));
        }
        receive_tagged(&p, sent, i);
        bytes += sent;
        small += size <= 40;
    }
    w = stats(p.w);
    r = stats(p.r);
    /* a message is one slot, and its bytes are those of the payload */
    assert_int_equal(w.messages, MESSAGES);
    assert_int_equal(r.messages, MESSAGES);
    assert_int_equal(w.bytes, bytes);
    assert_int_equal(r.bytes, bytes);
    assert_int_equal(w.inline_messages, small);
    assert_int_equal(r.inline_messages, small);
    pair_close(&p);
}

/* a ring full of messages, each with its own tag; allocated in one order, sent in another */
static void ring_full(const struct mode *m)
{
    struct pair p;
    raddr_t d[64];
    struct pipe_counts w = {0};

    mode_open(&p, m, HEAP, 0);
    for (size_t i = 0; i < 64; i++)
        d[i] = alloc_tagged(&p, i % 2 * 100, i);
    for (size_t i = 0; i < 64; i++)
        CHECK_OK(
            p.w,
            rwrite_nb(p.w,
                      d[i ^ 1])); /* the ring has 64 slots: that all go in shows one slot each */
    w = stats(p.w);
    assert_int_equal(w.messages, 64);
    for (size_t i = 0; i < 64; i++)
        receive_tagged(&p, (i ^ 1) % 2 * 100, i ^ 1);
    pair_close(&p);
}

/* memory that comes back brings no tag along */
static void fresh(const struct mode *m)
{
    struct pair p;

    mode_open(&p, m, 256, 0);
    for (uint64_t i = 0; i < 50; i++) {
        size_t size = i % 3 == 0 ? 30 : 200;
        raddr_t d = pair_alloc(&p, size, i), got;

        assert_int_equal(rtag(p.w, d), 0);
        if (i % 5 == 0) {
            CHECK_OK(p.w, rset_tag(p.w, d, UINT64_MAX));
            CHECK_OK(p.w, rfree(p.w, d));
            continue;
        }
        if (i % 2 == 0)
            CHECK_OK(p.w, rset_tag(p.w, d, UINT64_MAX));
        CHECK_OK(p.w, rwrite(p.w, d));
        got = pair_receive(&p, size, i);
        assert_true(rtag(p.r, got) == (i % 2 == 0 ? UINT64_MAX : 0));
        CHECK_OK(p.r, rfree(p.r, got));
    }
    pair_close(&p);
}

static void refused(const struct mode *m)
{
    struct pair p;
    raddr_t d, got;

    CHECK_RC(-EINVAL, NULL, rset_tag(NULL, ADDR_NULL, 1));
    CHECK_ERRNO(EINVAL, rtag(NULL, ADDR_NULL));
    mode_open(&p, m, HEAP, 0);
    CHECK_RC(-EINVAL, p.w, rset_tag(p.w, ADDR_NULL, 1));
    assert_non_null(strstr(rerror(p.w), "rset_tag"));
    CHECK_ERRNO(EINVAL, rtag(p.w, ADDR_NULL));
    assert_non_null(strstr(rerror(p.w), "rtag"));
    d = pair_alloc(&p, 100, 1);
    CHECK_RC(-EINVAL, p.r, rset_tag(p.r, d, 1)); /* of the other end */
    CHECK_ERRNO(EINVAL, rtag(p.r, d));
    CHECK_OK(p.w, rset_tag(p.w, d, 5));
    CHECK_OK(p.w, rwrite(p.w, d));
    CHECK_RC(-EINVAL, p.w, rset_tag(p.w, d, 6)); /* handed over */
    CHECK_ERRNO(EINVAL, rtag(p.w, d));
    got = pair_receive(&p, 100, 1);
    assert_int_equal(rtag(p.r, got), 5);
    CHECK_OK(p.r, rfree(p.r, got));
    CHECK_RC(-EINVAL, p.r, rset_tag(p.r, got, 1)); /* given back */
    CHECK_ERRNO(EINVAL, rtag(p.r, got));
    pair_close(&p);
    CHECK_RC(-ENOTCONN, p.w, rset_tag(p.w, d, 1));
    CHECK_ERRNO(ENOTCONN, rtag(p.r, got));
}

static void test_kinds(void **unused) { (void)unused, in_every_mode(kinds); }
static void test_ring_full(void **unused) { (void)unused, in_every_mode(ring_full); }
static void test_fresh(void **unused) { (void)unused, in_every_mode(fresh); }
static void test_refused(void **unused) { (void)unused, in_every_mode(refused); }

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_kinds, tell_mode),
        cmocka_unit_test_teardown(test_ring_full, tell_mode),
        cmocka_unit_test_teardown(test_fresh, tell_mode),
        cmocka_unit_test_teardown(test_refused, tell_mode),
    };

    return cmocka_run_group_tests_name("tag", tests, pair_setup, pair_teardown);
}

int main(void)
{
    struct pair_child child[] = {{.debug = "0"}, {.debug = "1"}};

    return pair_children(child, sizeof(child) / sizeof(*child), group);
}
