/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a channel to oneself: order, sizes, memory, headers, statistics. Each test runs as PUT
 * and as GET, in several modes, and all of them with RMALLOC_DEBUG=1 too. test_pipe_lives.c has the
 * end and incarnations, test_pipe_misuse.c misuse, test_pipe_waiting.c waiting.
 */
#include "test/lib/pair.h"
#include "test/lib/counts.h"
#include <rpipe.h>

/* sizes around every border that a message can meet */
static void test_sizes(void **state)
{
    static const size_t sizes[] = {0,   1,   7,   8,   39,  40,   41,   63,   64,    65,
                                   127, 128, 129, 255, 256, 4095, 4096, 4097, 65535, 65536};
    struct pair p;

    pair_open(&p, op_of(state), 65536);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        pair_send(&p, sizes[i], i);
        pair_read_free(&p, sizes[i], i);
    }
    pair_close(&p);
}

/* units other than the default, heaps that are not whole units; the alignment of rmem(3) at both ends */
static void test_units(void **state)
{
    for (uint32_t unit = 1; unit <= 1u << 20; unit *= 4) {
        rpipe_config_t cfg = pair_config(op_of(state), 10 * (uint64_t)unit + 77);
        struct pair p;

        cfg.unit_bytes = unit;
        pair_open_with(&p, &cfg);
        for (uint64_t key = 0; key < 40; key++) {
            size_t size = key % 2 == 0
                              ? key
                              : random_mix(key) % (5 * (size_t)unit + 100) % (cfg.heap_bytes + 1);
            size_t align = on_device_heap() ? 1
                           : size > 40      ? unit
                                            : 16; /* memory of its own there */
            raddr_t d = pair_alloc(&p, size, key);

            assert_int_equal((uintptr_t)rmem(p.w, d) % align, 0);
            CHECK_OK(p.w, rwrite(p.w, d));
            d = pair_receive(&p, size, key);
            assert_int_equal((uintptr_t)rmem(p.r, d) % align, 0);
            assert_ptr_equal(rmem(p.r, d), rmem(p.r, d));
            CHECK_OK(p.r, rfree(p.r, d));
        }
        /* the largest message, after whatever was before */
        pair_send(&p, cfg.heap_bytes, unit);
        pair_read_free(&p, cfg.heap_bytes, unit);
        pair_close(&p);
    }
}

/* the smallest channels that are allowed */
static void test_smallest(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 1);
    struct pair p;

    cfg.slots = 2;
    cfg.inline_max = RPIPE_INLINE_NONE; /* so that the one byte is in the heap */
    pair_open_with(&p, &cfg);
    for (uint64_t key = 0; key < 1000; key++) {
        pair_send(&p, key % 3 != 0, key);
        pair_read_free(&p, key % 3 != 0, key);
    }
    pair_close(&p);
}

/* read in the order of writing, whatever the order of allocation and of freeing */
static void test_orders(void **state)
{
    enum { N = 32 };
    rpipe_config_t cfg = pair_config(op_of(state), N * 512);
    raddr_t mine[N], theirs[N];
    struct pair p;

    pair_open_with(&p, &cfg);
    for (uint64_t round = 0; round < 200; round++) {
        size_t order[N], size[N];

        for (size_t i = 0; i < N; i++) {
            size[i] = random_mix(round * N + i) % (i % 2 == 0 ? 42 : 256);
            mine[i] = pair_alloc(&p, size[i], round + i);
            order[i] = i;
        }
        for (size_t i = N - 1; i > 0; i--) {
            size_t j = random_mix(round + i) % (i + 1), t = order[i];

            order[i] = order[j];
            order[j] = t;
        }
        for (size_t i = 0; i < N; i++)
            CHECK_OK(p.w, rwrite(p.w, mine[order[i]]));
        for (size_t i = 0; i < N; i++)
            theirs[i] = pair_receive(&p, size[order[i]], round + order[i]);
        for (size_t i = 0; i < N; i++) /* what is held stays as it is, while others are freed */
            assert_true(pattern_same(rmem(p.r, theirs[i]), size[order[i]], round + order[i]));
        for (size_t i = 0; i < N; i++) {
            size_t k = order[(i + round) % N];

            assert_true(pattern_same(rmem(p.r, theirs[k]), size[order[k]], round + order[k]));
            CHECK_OK(p.r, rfree(p.r, theirs[k]));
        }
    }
    pair_close(&p);
}

/*
 * Liveness: after any traffic, when the reader has freed all and the writer holds nothing, the whole heap can be had,
 * without waiting.
 */
static void test_whole_heap(void **state)
{
    const size_t heap = 20 * 64;
    struct pair p;
    raddr_t d;

    pair_open(&p, op_of(state), heap);
    for (uint64_t i = 0; i < 2000; i++) {
        size_t size = random_mix(i) % (heap + 1);
        raddr_t unsent = ADDR_NULL;

        if (size < heap / 2 && i % 3 == 0)
            CHECK_OK(p.w, rmalloc_nb(p.w, random_mix(~i) % (heap / 4), &unsent));
        if (rmalloc_nb(p.w, size, &d) == R_SUCCESS) {
            pattern_fill(rmem(p.w, d), size, i);
            CHECK_OK(p.w, rwrite(p.w, d));
            pair_read_free(&p, size, i);
        }
        if (unsent != ADDR_NULL)
            CHECK_OK(p.w, rfree(p.w, unsent));
        CHECK_OK(p.w, rmalloc_nb(p.w, heap, &d));
        CHECK_OK(p.w, rfree(p.w, d));
    }
    pair_close(&p);
}

/* many more messages than slots and heap: everything is used again and again, and nothing is mixed up */
static void test_stream(void **state)
{
    enum { WINDOW = 4, MESSAGES = 20000 };
    rpipe_config_t cfg = pair_config(op_of(state), 4096);
    raddr_t held[WINDOW] = {ADDR_NULL};
    size_t size[WINDOW] = {0};
    struct pair p;

    cfg.slots = 4;
    pair_open_with(&p, &cfg);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        size_t k = i % WINDOW, victim = random_mix(i) % WINDOW;
        double since;

        if (held[victim] != ADDR_NULL) { /* out of order */
            CHECK_OK(p.r, rfree(p.r, held[victim]));
            held[victim] = ADDR_NULL;
        }
        if (held[k] != ADDR_NULL) {
            assert_true(pattern_same(rmem(p.r, held[k]), size[k], i - WINDOW));
            CHECK_OK(p.r, rfree(p.r, held[k]));
        }
        size[k] = random_mix(i) % 600;
        since = now_ms();
        while (true) { /* an old message that is held can keep the heap: let go of the oldest */
            raddr_t d;
            int rc = rmalloc_nb(p.w, size[k], &d);
            size_t oldest;

            if (rc == R_SUCCESS) {
                pattern_fill(rmem(p.w, d), size[k], i);
                CHECK_OK(p.w, rwrite(p.w, d));
                break;
            }
            CHECK_RC(R_PENDING, p.w, rc);
            for (oldest = 1; oldest < WINDOW && held[(k + oldest) % WINDOW] == ADDR_NULL; oldest++)
                ;
            if (oldest == WINDOW && pair_patience(since)) /* what has been freed is on its way */
                continue;
            assert_true(oldest < WINDOW); /* else nothing is in the way */
            CHECK_OK(p.r, rfree(p.r, held[(k + oldest) % WINDOW]));
            held[(k + oldest) % WINDOW] = ADDR_NULL;
        }
        held[k] = pair_receive(&p, size[k], i);
    }
    pair_close(&p);
}

static void test_zero_size(void **state)
{
    struct pair p;
    raddr_t d;
    size_t size = 9;

    pair_open(&p, op_of(state), 64);
    for (uint64_t i = 0; i < 300; i++) {
        assert_non_null(((d = rmalloc(p.w, 0)) != ADDR_NULL ? rmem(p.w, d) : NULL));
        errno = 0;
        assert_int_equal(rsize(p.w, d), 0);
        assert_int_equal(errno, 0);
        (void)rset_tag(p.w, d, i);
        CHECK_OK(p.w, rwrite(p.w, d));
        assert_non_null((rread(p.r, &d, &size) == R_SUCCESS ? rmem(p.r, d) : NULL));
        assert_int_equal(size, 0);
        errno = 0;
        assert_int_equal(rsize(p.r, d), 0);
        assert_int_equal(errno, 0);
        assert_int_equal(rtag(p.r, d), i);
        CHECK_OK(p.r, rfree(p.r, d));
    }
    pair_close(&p);
}

/* zero after rmalloc, also where another message had one; travels with inline, heap and empty messages */
static void test_header(void **state)
{
    static const size_t sizes[] = {0, 1, 40, 41, 64, 200, 1024};
    struct pair p;

    pair_open(&p, op_of(state), 1024);
    for (uint64_t i = 0; i < 700; i++) {
        size_t size = sizes[i % 7];
        raddr_t d = pair_alloc(&p, size, i);
        uint64_t header, key = random_mix(i);

        header = rtag(p.w, d);
        assert_true(header == 0);
        if (i % 5 != 0)
            (void)rset_tag(p.w, d, key);
        else
            key = 0;
        assert_true(pattern_same(rmem(p.w, d), size, i));
        CHECK_OK(p.w, rwrite(p.w, d));
        d = pair_receive(&p, size, i);
        header = rtag(p.r, d);
        assert_true(header == key);
        CHECK_OK(p.r, rfree(p.r, d));
    }
    pair_close(&p);
}

/* only the first bytes: of all of the memory, which comes back all */
static void test_write_n(void **state)
{
    static const size_t asked[] = {0, 1, 40, 41, 64, 100, 1000, 4096};
    struct pair p;
    raddr_t d;

    pair_open(&p, op_of(state), 4096);
    for (uint64_t i = 0; i < 2000; i++) {
        size_t size = asked[i % 8], bytes = random_mix(i) % (size + 1);
        uint64_t key = ~i;

        d = pair_alloc(&p, size, i);
        (void)rset_tag(p.w, d, key);
        CHECK_RC(-EINVAL, p.w, rwrite_n(p.w, d, size + 1));
        CHECK_RC(-EINVAL, p.w, rwrite_n(p.w, d, SIZE_MAX));
        assert_int_equal(rsize(p.w, d), size);
        CHECK_OK(p.w, rwrite_n(p.w, d, bytes));
        CHECK_RC(-EINVAL, p.w, rwrite(p.w, d));
        d = pair_receive(&p, bytes, i);
        assert_int_equal(rtag(p.r, d), key);
        CHECK_OK(p.r, rfree(p.r, d));
    }
    CHECK_OK(p.w, rmalloc_nb(p.w, 4096, &d));
    CHECK_OK(p.w, rfree(p.w, d));
    pair_close(&p);
}

/* a PUT reader may write to what it has read; no other end sees it */
static void test_scribble(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p, RPIPE_PUT, 1024);
    for (uint64_t i = 0; i < 100; i++) {
        size_t size = i % 2 == 0 ? 40 : 500;
        raddr_t d;

        pair_send(&p, size, i);
        d = pair_receive(&p, size, i);
        memset(rmem(p.r, d), 0xff, size);
        CHECK_OK(p.r, rfree(p.r, d));
    }
    pair_close(&p);
}

/* inline_max limits what is stored in the slot; counters show it */
static void test_inline_max(void **state)
{
    static const int given[] = {RPIPE_INLINE_NONE, 1, 10, 39, 40, 0};

    for (size_t g = 0; g < sizeof(given) / sizeof(*given); g++) {
        uint32_t limit = given[g] < 0 || on_device_heap() ? 0 /* nothing is in slots there */
                         : given[g] == 0                  ? 40
                                                          : (uint32_t)given[g];
        rpipe_config_t cfg = pair_config(op_of(state), 4096);
        struct pipe_counts w = {0}, r = {0};
        struct pair p;

        cfg.inline_max = given[g];
        pair_open_with(&p, &cfg);
        for (size_t size = 0; size <= 50; size++) {
            pair_send(&p, size, size);
            pair_read_free(&p, size, size);
        }
        CHECK_OK(p.w, pipe_counts(p.w, &w));
        CHECK_OK(p.r, pipe_counts(p.r, &r));
        assert_int_equal(w.inline_messages, limit + 1);
        assert_int_equal(r.inline_messages, limit + 1);
        pair_close(&p);
    }
}

/* Slots that no end has given, at both ends, and taken over by an end that leaves all sizes open. */
static void test_slots_by_default(void **state)
{
    const uint32_t expected = pair_over_network() ? 512 : 64;

    for (int adopts = 0; adopts < 2; adopts++) {
        rpipe_config_t cfg = pair_config(op_of(state), 4096), w = pair_writer(cfg),
                       r = pair_reader(cfg);
        struct pipe_counts counts = {0};
        struct pair p;

        if (adopts == 1 && cfg.op == RPIPE_PUT)
            w.heap_bytes = 0;
        else if (adopts == 1)
            r.heap_bytes = 0;
        CHECK_OK(NULL, rpipe(&p.w, &w));
        CHECK_OK(NULL, rpipe(&p.r, &r));
        CHECK_OK(p.w, rwait(p.w));
        CHECK_OK(p.r, rwait(p.r));
        CHECK_OK(p.w, pipe_counts(p.w, &counts));
        assert_int_equal(counts.slots, expected);
        CHECK_OK(p.r, pipe_counts(p.r, &counts));
        assert_int_equal(counts.slots, expected);
        pair_close(&p);
    }
}

static void test_stats(void **state)
{
    /* a message of 10 bytes is in its slot, or in 64 bytes of the heap */
    const uint64_t in_slot = on_device_heap() ? 0 : 1, small = 64 * (1 - in_slot);
    rpipe_config_t cfg = pair_config(op_of(state), 64 * 64 + 1 + small);
    struct pipe_counts w = {0}, r = {0};
    struct pair p;
    raddr_t unsent, a, b, none;

    cfg.slots = 4;
    pair_open_with(&p, &cfg);
    memset(&w, 0xff, sizeof(w));
    CHECK_OK(p.w, pipe_counts(p.w, &w));
    CHECK_OK(p.r, pipe_counts(p.r, &r));
    assert_int_equal(
        w.messages + w.bytes + w.inline_messages + w.held + w.stalls_heap + w.heap_used, 0);
    assert_int_equal(
        r.messages + r.bytes + r.inline_messages + r.held + r.heap_used + r.credit_fetches, 0);
    assert_int_equal(w.heap_bytes, 65 * 64 + small);
    assert_int_equal(r.heap_bytes, 65 * 64 + small);
    assert_int_equal(w.slots, 4);
    assert_int_equal(r.slots, 4);
    assert_int_equal(w.incarnation, 1);
    assert_int_equal(r.incarnation, 1);

    unsent = pair_alloc(&p, 100, 0);
    pair_send(&p, 10, 1);
    pair_send(&p, 1000, 2);
    a = pair_receive(&p, 10, 1);
    b = pair_receive(&p, 1000, 2);
    CHECK_RC(R_PENDING, p.r, rread_nb(p.r, &none, NULL));
    CHECK_OK(p.w, pipe_counts(p.w, &w));
    CHECK_OK(p.r, pipe_counts(p.r, &r));
    assert_int_equal(w.messages, 2);
    assert_int_equal(w.bytes, 1010);
    assert_int_equal(w.inline_messages, in_slot);
    assert_int_equal(w.held, 1);
    assert_int_equal(w.heap_used, 1024 + small); /* the unsent message is held, not outstanding */
    assert_int_equal(r.messages, 2);
    assert_int_equal(r.bytes, 1010);
    assert_int_equal(r.inline_messages, in_slot);
    assert_int_equal(r.held, 2);
    assert_int_equal(r.heap_used, 1024 + small);
    assert_int_equal(r.credit_fetches, 0);
    assert_int_equal(r.stalls_heap, 0);
    assert_true(r.stalls_ring >= 1);

    assert_int_equal(w.stalls_heap, 0);
    CHECK_RC(R_PENDING, p.w,
             rmalloc_nb(p.w, 3000, &none)); /* there would be free memory if b came back */
    CHECK_OK(p.w, pipe_counts(p.w, &w));
    assert_int_equal(w.stalls_heap, 1);
    assert_true(w.credit_fetches >= 1 || pair_over_network()); /* full queues: no fetch */

    CHECK_OK(p.r, rfree(p.r, a));
    CHECK_OK(p.r, rfree(p.r, b));
    CHECK_OK(p.w, rfree(p.w, unsent));
    CHECK_OK(p.w, pipe_counts(p.w, &w));
    CHECK_OK(p.r, pipe_counts(p.r, &r));
    assert_int_equal(w.held, 0);
    assert_int_equal(r.held, 0);
    assert_int_equal(r.heap_used, 0);
    pair_close(&p);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_sizes),      PUT_AND_GET(test_units),
        PUT_AND_GET(test_smallest),   PUT_AND_GET(test_orders),
        PUT_AND_GET(test_whole_heap), PUT_AND_GET(test_stream),
        PUT_AND_GET(test_zero_size),  PUT_AND_GET(test_header),
        PUT_AND_GET(test_write_n),    cmocka_unit_test(test_scribble),
        PUT_AND_GET(test_inline_max), PUT_AND_GET(test_slots_by_default),
        PUT_AND_GET(test_stats),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
