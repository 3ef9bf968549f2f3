/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an invalid call returns: wrong end, wrong descriptor, closed channel, limits; and that it had no
 * effect. Each test runs as PUT and as GET, with RMALLOC_DEBUG=1 and without.
 */
#include "test/lib/pair.h"
#include "test/lib/counts.h"
#include <rinfo.h>
#include <rvmem.h>
#include <rpipe.h>

/* every call on ch, none of which may do anything; d is anything */
static void all_refused(int code, rch_t ch, raddr_t d)
{
    raddr_t out = ANY_RADDR;
    size_t size = 77;
    struct pipe_counts st = {0}, st_before = {0};
    int ready = 7;

    memset(&st, 0x5a, sizeof(st));
    st_before = st;
    CHECK_RC(code, ch, rwait(ch));
    CHECK_RC(code, ch, rset_timeout(ch, 1));
    CHECK_RC(code, ch, rwrite(ch, d));
    CHECK_RC(code, ch, rwrite_n(ch, d, 0));
    CHECK_RC(code, ch, rwrite_nb(ch, d));
    CHECK_RC(code, ch, rread(ch, &out, &size));
    CHECK_RC(code, ch, rread_nb(ch, &out, &size));
    CHECK_RC(code, ch, rflush(ch));
    CHECK_RC(code, ch, rfree(ch, d));
    CHECK_RC(code, ch, rmalloc_nb(ch, 1, &out));
    CHECK_RC(code, ch, rfd(ch));
    CHECK_RC(code, ch, pipe_counts(ch, &st));
    CHECK_RC(code, ch, rpoll(&ch, 1, &ready, 0));
    CHECK_ERRNO(-code, rmalloc(ch, 1));
    CHECK_ERRNO(-code, rmem(ch, d));
    CHECK_ERRNO(-code, rsize(ch, d));
    CHECK_RC(code, ch, rset_tag(ch, d, 1));
    CHECK_ERRNO(-code, rtag(ch, d));
    CHECK_RC(code, ch, rclose(ch));
    assert_true(out == ANY_RADDR && size == 77 && ready == 7);
    assert_memory_equal(&st, &st_before, sizeof(st));
    assert_string_not_equal(rerror(NULL), "no error");
}

static void test_null_channel(void **state)
{
    (void)state;
    all_refused(-EINVAL, NULL, ADDR_NULL);
}

static void test_after_close(void **state)
{
    struct pair p;
    raddr_t d, e;

    pair_open(&p, op_of(state), 4096);
    assert_string_equal(rerror(p.r), "no error");
    pair_send(&p, 100, 1);
    d = pair_receive(&p, 100, 1);
    e = pair_alloc(&p, 100, 2);
    CHECK_RC(-EBADF, p.r, rflush(p.r));
    assert_string_not_equal(rerror(p.r), "no error");
    pair_close(&p);
    all_refused(-ENOTCONN, p.w, e);
    all_refused(-ENOTCONN, p.r, d);
    all_refused(-ENOTCONN, p.r, ADDR_NULL);           /* comes before -EINVAL */
    assert_string_not_equal(rerror(p.r), "no error"); /* can still be asked for */
    assert_non_null(rerror(p.w));
}

static void *error_of(void *ch) { return (void *)(uintptr_t)rerror(ch); }

/* rerror(3): the messages of the last 64 pipes that were closed are kept, and a call on a closed pipe has one in every thread. */
static void test_error_after_close(void **state)
{
    struct pair p;
    rch_t failed, unused;
    pthread_t thread;
    void *message;
    char before[256];

    pair_open(&p, op_of(state), 4096);
    failed = p.w;
    unused = p.r;
    CHECK_RC(-EINVAL, failed, rsend(failed, NULL, 1, 0));
    snprintf(before, sizeof(before), "%s", rerror(failed));
    assert_string_not_equal(before, "no error");
    pair_close(&p);
    for (int closed = 2; closed < 64; closed += 2) {
        pair_open(&p, op_of(state), 4096);
        assert_true(p.w != failed && p.r != failed && p.w != unused && p.r != unused);
        pair_close(&p);
    }
    assert_string_equal(rerror(failed), before);
    assert_string_equal(rerror(unused), "no error");

    CHECK_RC(-ENOTCONN, unused, rwait(unused));
    assert_non_null(strstr(rerror(NULL), "rwait: the pipe has been closed"));
    assert_int_equal(pthread_create(&thread, NULL, error_of, unused), 0);
    assert_int_equal(pthread_join(thread, &message), 0);
    assert_non_null(strstr(message, "closed"));
    assert_string_equal(rerror(failed), before);
}

static void test_null_outputs(void **state)
{
    struct pair p;
    raddr_t d;

    pair_open(&p, op_of(state), 4096);
    pair_send(&p, 10, 1);
    CHECK_RC(-EINVAL, p.r, rread(p.r, NULL, NULL));
    CHECK_RC(-EINVAL, p.r, rread_nb(p.r, NULL, NULL));
    CHECK_RC(-EINVAL, p.w, rmalloc_nb(p.w, 1, NULL));
    CHECK_RC(-EINVAL, p.r, rinfo_count(p.r, "messages", NULL));
    CHECK_OK(p.r, rread(p.r, &d, NULL)); /* was not taken by those */
    assert_true(pattern_same(rmem(p.r, d), 10, 1));
    CHECK_OK(p.r, rfree(p.r, d));
    pair_send(&p, 10, 2);
    assert_non_null((rread(p.r, &d, NULL) == R_SUCCESS ? rmem(p.r, d) : NULL));
    pair_close(&p);
}

static void test_wrong_end(void **state)
{
    struct pair p;
    raddr_t d = ANY_RADDR, mine, theirs;
    size_t size = 77;
    int ready = 7;

    pair_open(&p, op_of(state), 4096);
    mine = pair_alloc(&p, 100, 1);
    pair_send(&p, 100, 2);
    theirs = pair_receive(&p, 100, 2);

    CHECK_RC(-EBADF, p.w, rread(p.w, &d, &size));
    CHECK_RC(-EBADF, p.w, rread_nb(p.w, &d, &size));
    CHECK_RC(-EBADF, p.w, rread(p.w, &d, &size));
    CHECK_RC(-EBADF, p.w, rfd(p.w));
    CHECK_RC(-EBADF, p.w, rpoll(&p.w, 1, &ready, 0));
    CHECK_ERRNO(EBADF, rmalloc(p.r, 1));
    CHECK_ERRNO(EBADF, rmalloc(p.r, 1));
    CHECK_RC(-EBADF, p.r, rmalloc_nb(p.r, 1, &d));
    CHECK_RC(-EBADF, p.r, rwrite(p.r, theirs));
    CHECK_RC(-EBADF, p.r, rwrite_n(p.r, theirs, 1));
    CHECK_RC(-EBADF, p.r, rwrite_nb(p.r, theirs));
    CHECK_RC(-EBADF, p.r, rflush(p.r));
    assert_true(d == ANY_RADDR && size == 77 && ready == 7);

    assert_true(pattern_same(rmem(p.r, theirs), 100, 2));
    CHECK_OK(p.r, rfree(p.r, theirs));
    CHECK_OK(p.w, rwrite(p.w, mine));
    pair_read_free(&p, 100, 1);
    pair_close(&p);
}

/* d is not the caller's on this end */
static void not_owned(rch_t ch, raddr_t d, bool writer)
{
    CHECK_RC(-EINVAL, ch, rfree(ch, d));
    CHECK_ERRNO(EINVAL, rmem(ch, d));
    CHECK_ERRNO(EINVAL, rsize(ch, d));
    CHECK_ERRNO(EINVAL, rtag(ch, d));
    if (writer) {
        CHECK_RC(-EINVAL, ch, rwrite(ch, d));
        CHECK_RC(-EINVAL, ch, rwrite_nb(ch, d));
        CHECK_RC(-EINVAL, ch, rwrite_n(ch, d, 0));
    }
}

/* stale descriptors, as long as their place has not been used again */
static void test_stale(void **state)
{
    static const size_t sizes[] = {0, 40, 41, 1000};
    struct pair p;
    struct pipe_counts st = {0};

    pair_open(&p, op_of(state), 4096);
    not_owned(p.w, ADDR_NULL, true);
    not_owned(p.r, ADDR_NULL, false);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        raddr_t w, r, unsent;

        unsent = pair_alloc(&p, sizes[i], i); /* freed unsent */
        CHECK_OK(p.w, rfree(p.w, unsent));
        not_owned(p.w, unsent, true);
        w = pair_alloc(&p, sizes[i], i); /* written */
        CHECK_OK(p.w, rwrite(p.w, w));
        not_owned(p.w, w, true);
        r = pair_receive(&p, sizes[i], i); /* read and freed */
        CHECK_OK(p.r, rfree(p.r, r));
        not_owned(p.r, r, false);
    }
    CHECK_OK(p.w, pipe_counts(p.w, &st));
    assert_int_equal(st.held, 0);
    CHECK_OK(p.r, pipe_counts(p.r, &st));
    assert_int_equal(st.held, 0);
    for (uint64_t i = 0; i < 100; i++) { /* no harm was done */
        pair_send(&p, 4096, i);
        pair_read_free(&p, 4096, i);
    }
    pair_close(&p);
}

/* descriptors of the other end, and of other channels */
static void test_foreign(void **state)
{
    static const size_t sizes[] = {0, 40, 41, 1000};
    struct pair p, q;

    pair_open(&p, op_of(state), 4096);
    pair_open(&q, op_of(state), 4096);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        raddr_t pw, pr, qw, qr;

        pair_send(&p, sizes[i], 1);
        pair_send(&q, sizes[i], 2);
        pr = pair_receive(&p, sizes[i], 1);
        qr = pair_receive(&q, sizes[i], 2);
        pw = pair_alloc(&p, sizes[i], 3);
        qw = pair_alloc(&q, sizes[i], 4);
        not_owned(p.w, pr, true);
        not_owned(p.r, pw, false);
        not_owned(p.w, qw, true);
        not_owned(p.w, qr, true);
        not_owned(p.r, qr, false);
        not_owned(q.r, pr, false);
        not_owned(q.w, pw, true);
        assert_true(pattern_same(rmem(p.r, pr), sizes[i], 1));
        assert_true(pattern_same(rmem(q.r, qr), sizes[i], 2));
        CHECK_OK(p.r, rfree(p.r, pr));
        CHECK_OK(q.r, rfree(q.r, qr));
        CHECK_OK(p.w, rwrite(p.w, pw));
        CHECK_OK(q.w, rwrite(q.w, qw));
        pair_read_free(&p, sizes[i], 3);
        pair_read_free(&q, sizes[i], 4);
    }
    pair_close(&p);
    pair_close(&q);
}

/* ---- limits ---- */

static void test_emsgsize(void **state)
{
    static const size_t more[] = {1, 63, 64, 1000000};
    struct pair p;
    raddr_t d = ANY_RADDR;

    pair_open(&p, op_of(state), 1000);
    for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++) {
        CHECK_ERRNO(EMSGSIZE, rmalloc(p.w, 1000 + more[i]));
        CHECK_ERRNO(EMSGSIZE, rmalloc(p.w, 1000 + more[i]));
        CHECK_RC(-EMSGSIZE, p.w, rmalloc_nb(p.w, 1000 + more[i], &d));
        assert_non_null(strstr(rerror(p.w), "1000"));
    }
    for (int shift = 0; shift < 8; shift++)
        CHECK_ERRNO(EMSGSIZE, rmalloc(p.w, SIZE_MAX - (size_t)shift * 8));
    assert_true(d == ANY_RADDR);
    pair_send(&p, 1000, 1);
    pair_read_free(&p, 1000, 1);
    pair_close(&p);

    /* a small heap limits messages that would ride in a slot, too */
    pair_open(&p, op_of(state), 8);
    CHECK_ERRNO(EMSGSIZE, rmalloc(p.w, 9));
    pair_send(&p, 8, 1);
    pair_read_free(&p, 8, 1);
    pair_close(&p);
}

/* ENOBUFS is the caller's to cure, R_PENDING the reader's; neither is a wait */
static void test_enobufs(void **state)
{
    struct pair p;
    raddr_t a, b, c, d = ANY_RADDR;
    int round;

    pair_open(&p, op_of(state), 1024);
    CHECK_OK(p.w, rset_timeout(p.w, -1));
    for (round = 0; round < 20; round++) {
        a = pair_alloc(&p, 512, 1);
        b = pair_alloc(&p, 512, 2);
        CHECK_ERRNO(ENOBUFS, rmalloc(p.w, 64)); /* at once, though the deadline is never */
        CHECK_ERRNO(ENOBUFS, rmalloc(p.w, 64));
        CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 64, &d));
        assert_true(d == ANY_RADDR);
        if (!on_device_heap()) {       /* nothing is in slots there */
            c = pair_alloc(&p, 40, 3); /* takes no heap */
            CHECK_OK(p.w, rwrite(p.w, c));
            pair_read_free(&p, 40, 3);
        }
        /* sent: not read, read, then freed. As long as the reader has something to free it is a wait */
        CHECK_OK(p.w, rwrite(p.w, a));
        CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 512, &d));
        CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 513, &d));
        a = pair_receive(&p, 512, 1);
        CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 513, &d));
        CHECK_OK(p.r, rfree(p.r, a));
        CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 513, &d));
        assert_true(d == ANY_RADDR);
        CHECK_OK(p.w, rfree(p.w, b));
        CHECK_OK(p.w, rmalloc_nb(p.w, 1024, &d));
        CHECK_OK(p.w, rfree(p.w, d));
        d = ANY_RADDR;
    }
    pair_close(&p);
}

/*
 * Four messages fill the heap; the reader holds the first, and frees the others, the last one first. Blocks, and next-fit in every
 * mode: it keeps all behind it. Any other heuristic: it keeps its own memory.
 */
static void test_oldest_held(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 1024);
    raddr_t held[4], got[3] = {ADDR_NULL}, d = ANY_RADDR;
    struct pair p;

    pair_open_with(&p, &cfg);
    for (uint64_t i = 0; i < 4; i++)
        pair_send(&p, 256, i);
    for (uint64_t i = 0; i < 4; i++)
        held[i] = pair_receive(&p, 256, i);
    CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 256, &d));
    for (size_t i = 3; i > 0; i--) {
        CHECK_OK(p.r, rfree(p.r, held[i]));
        if (cfg.mode == RPIPE_SYNC_BLOCKS) {
            CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 256, &d));
        } else if (cfg.heuristic ==
                   RMALLOC_NEXT_FIT) { /* but the youngest come back, the youngest first */
            CHECK_OK(p.w, rmalloc_nb(p.w, 256 * (4 - i), &d));
            CHECK_OK(p.w, rfree(p.w, d));
            d = ANY_RADDR;
            CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 256 * (4 - i) + 1, &d));
        } else {
            CHECK_OK(p.w, rmalloc_nb(p.w, 256, &got[i - 1]));
        }
    }
    assert_true(d == ANY_RADDR);
    assert_true(pattern_same(rmem(p.r, held[0]), 256, 0));
    if (cfg.heuristic != RMALLOC_NEXT_FIT) {
        CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 256, &d));
        for (size_t i = 0; i < 3; i++)
            CHECK_OK(p.w, rfree(p.w, got[i]));
        CHECK_OK(p.w, rmalloc_nb(p.w, 768, &got[0])); /* in one block again */
        CHECK_OK(p.w, rfree(p.w, got[0]));
    }
    CHECK_OK(p.r, rfree(p.r, held[0]));
    CHECK_OK(p.w, rmalloc_nb(p.w, 1024, &d));
    pair_close(&p);
}

static void test_ring_full(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 4096);
    struct pair p;
    raddr_t d;

    cfg.slots = 4;
    pair_open_with(&p, &cfg);
    CHECK_RC(-EINVAL, p.w, rset_timeout(p.w, -3)); /* sets an error message */
    for (uint64_t round = 0; round < 50; round++) {
        size_t size = round % 2 == 0 ? 20 : 200;
        char before[512];

        for (uint64_t i = 0; i < 4; i++)
            pair_send(&p, size, round + i);
        d = pair_alloc(&p, size, round + 4);
        snprintf(before, sizeof(before), "%s", rerror(p.w));
        CHECK_RC(R_PENDING, p.w, rwrite_nb(p.w, d));
        CHECK_RC(R_PENDING, p.w, rwrite_nb(p.w, d));
        assert_string_equal(rerror(p.w), before); /* R_PENDING is no failure */
        assert_int_equal(rsize(p.w, d), size);
        assert_true(pattern_same(rmem(p.w, d), size, round + 4));
        /* a slot is free when its message has been read, however long it is held */
        raddr_t first = pair_receive(&p, size, round);
        CHECK_OK(p.w, rwrite_nb(p.w, d));
        for (uint64_t i = 1; i < 5; i++)
            pair_read_free(&p, size, round + i);
        CHECK_OK(p.r, rfree(p.r, first));
        CHECK_RC(R_PENDING, p.r, rread_nb(p.r, &d, NULL));
    }
    pair_close(&p);
}

/* a limit of each end on its own */
static void test_max_descriptors(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 65536), w = pair_writer(cfg),
                   r = pair_reader(cfg);
    struct pair p;
    raddr_t held[3], mine[5], d = ANY_RADDR;
    size_t size = 77;

    w.max_messages = 5;
    r.max_messages = 3;
    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_OK(NULL, rpipe(&p.r, &r));
    CHECK_OK(p.w, rwait(p.w));
    for (int round = 0; round < 20; round++) {
        size_t bytes = round % 2 == 0 ? 30 : 300;

        for (size_t i = 0; i < 5; i++)
            mine[i] = pair_alloc(&p, bytes, i);
        CHECK_ERRNO(ENOBUFS, rmalloc(p.w, bytes));
        CHECK_ERRNO(ENOBUFS, rmalloc(p.w, bytes - 1));
        CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, bytes + 1, &d));
        for (size_t i = 0; i < 5; i++)
            CHECK_OK(p.w, rwrite(p.w, mine[i]));
        for (size_t i = 0; i < 3; i++)
            held[i] = pair_receive(&p, bytes, i);
        CHECK_RC(-ENOBUFS, p.r, rread(p.r, &d, &size));
        CHECK_RC(-ENOBUFS, p.r, rread_nb(p.r, &d, &size));
        CHECK_RC(-ENOBUFS, p.r, rread(p.r, &d, &size));
        assert_non_null(strstr(rerror(p.r), "3"));
        assert_true(d == ANY_RADDR && size == 77);
        if (bytes == 300) /* sent and not freed ones stand in the way: the reader can cure that */
            CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, bytes, &d));
        for (size_t i = 0; i < 3; i++)
            CHECK_OK(p.r, rfree(p.r, held[i]));
        for (size_t i = 3; i < 5; i++)
            pair_read_free(&p, bytes, i);
        CHECK_OK(p.w, rmalloc_nb(p.w, bytes, &mine[0]));
        CHECK_OK(p.w, rfree(p.w, mine[0]));
        assert_true(d == ANY_RADDR);
    }
    pair_close(&p);
}

/* ---- disagreement ---- */

static void test_disagreement(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 4096), w = pair_writer(cfg),
                   r = pair_reader(cfg);
    raddr_t d = ANY_RADDR;
    size_t size = 77;
    struct pair p;
    int ready = 0;

    r.heap_bytes = 12345;
    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_OK(NULL, rpipe(&p.r, &r));
    for (int i = 0; i < 2; i++) {
        const rch_t both[2] = {p.w, p.r};

        for (int k = 0; k < 2; k++) {
            CHECK_RC(-EPROTO, both[k], rwait(both[k]));
            assert_non_null(strstr(rerror(both[k]), "12345"));
            assert_non_null(strstr(rerror(both[k]), "4096"));
        }
        CHECK_RC(-EPROTO, p.r, rread(p.r, &d, &size));
        CHECK_RC(-EPROTO, p.r, rread_nb(p.r, &d, &size));
        CHECK_RC(-EPROTO, p.r, rread(p.r, &d, &size));
        CHECK_ERRNO(EPROTO, rmalloc(p.w, 100));
        CHECK_ERRNO(EPROTO, rmalloc(p.w, 1));
        CHECK_RC(-EPROTO, p.w, rmalloc_nb(p.w, 100, &d));
        CHECK_RC(-EPROTO, p.w, rflush(p.w));
        CHECK_OK(p.r, rpoll(&p.r, 1, &ready, -1)); /* an error is not a wait */
        assert_int_equal(ready, 1);
        assert_true(d == ANY_RADDR && size == 77);
    }
    pair_close(&p);
    r.heap_bytes = 4096; /* better the next time */
    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_OK(NULL, rpipe(&p.r, &r));
    pair_send(&p, 4096, 1);
    pair_read_free(&p, 4096, 1);
    pair_close(&p);
}

/* ---- fork ---- */

static int in_child(const struct pair *p, raddr_t held, raddr_t mine)
{
    rpipe_config_t cfg = pair_writer(pair_config(RPIPE_PUT, 4096));
    rvmem_config_t vmem_cfg = {.bytes = 1000};
    rvmem_t vmem;
    raddr_t d;
    rch_t ch;
    char byte = 0, all = 0;

    if (rread_nb(p->r, &d, NULL) != -ENOTCONN || rread(p->r, &d, NULL) != -ENOTCONN ||
        rfree(p->r, held) != -ENOTCONN || rwrite(p->w, mine) != -ENOTCONN ||
        rmalloc_nb(p->w, 10, &d) != -ENOTCONN || rmem(p->r, held) != NULL ||
        rclose(p->w) != -ENOTCONN || rclose(p->r) != -ENOTCONN)
        return 1;
    if (strstr(rerror(NULL), "parent") == NULL)
        return 2;
    if (rpipe(&ch, &cfg) != -ENOTCONN || rexit() != -ENOTCONN || rinit(NULL, NULL) != -EALREADY)
        return 3;
    if (network_barrier() != -ENOTCONN || network_allgather(&byte, 1, &all) != -ENOTCONN ||
        network_send(0, &byte, 1) != -ENOTCONN || network_recv(0, &byte, 1) != -ENOTCONN)
        return 4;
    if (rvmem_create(&vmem, &vmem_cfg) != R_SUCCESS || (d = rvmem_alloc(vmem, 1000)) == ADDR_NULL ||
        rvmem_destroy(vmem) != R_SUCCESS)
        return 5;
    return 0;
}

static void test_fork(void **state)
{
    struct pair p;
    raddr_t held, mine;
    int status;
    pid_t pid;

    pair_open(&p, op_of(state), 4096);
    pair_send(&p, 1000, 1);
    pair_send(&p, 1000, 2);
    held = pair_receive(&p, 1000, 1);
    mine = pair_alloc(&p, 1000, 3);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(in_child(&p, held, mine));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    /* the parent goes on as if nothing had been */
    assert_true(pattern_same(rmem(p.r, held), 1000, 1));
    CHECK_OK(p.r, rfree(p.r, held));
    pair_read_free(&p, 1000, 2);
    CHECK_OK(p.w, rwrite(p.w, mine));
    pair_read_free(&p, 1000, 3);
    pair_close(&p);
    pair_open(&p, op_of(state), 4096);
    pair_close(&p);
}

/* the last test: rexit with open channels, and what is left after it */
static void test_after_rexit(void **state)
{
    struct pair p;
    raddr_t d;

    (void)state;
    pair_open(&p, RPIPE_PUT, 4096);
    pair_send(&p, 100, 1);
    d = pair_receive(&p, 100, 1);
    assert_int_equal(network_ranks(), 1);
    CHECK_OK(NULL, rexit());
    all_refused(-ENOTCONN, p.w, d);
    all_refused(-ENOTCONN, p.r, d);
    all_refused(-ENOTCONN, NULL, ADDR_NULL);
    CHECK_RC(-ENOTCONN, NULL, rexit());
    CHECK_RC(-EALREADY, NULL, rinit(NULL, NULL));
    assert_int_equal(network_rank(), -ENOTCONN);
    assert_int_equal(network_ranks(), -ENOTCONN);
    assert_int_equal(rprogress(), R_SUCCESS);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_channel), PUT_AND_GET(test_after_close),
        PUT_AND_GET(test_error_after_close), PUT_AND_GET(test_null_outputs),
        PUT_AND_GET(test_wrong_end),         PUT_AND_GET(test_stale),
        PUT_AND_GET(test_foreign),           PUT_AND_GET(test_emsgsize),
        PUT_AND_GET(test_enobufs),           PUT_AND_GET(test_oldest_held),
        PUT_AND_GET(test_ring_full),         PUT_AND_GET(test_max_descriptors),
        PUT_AND_GET(test_disagreement),      PUT_AND_GET(test_fork),
        cmocka_unit_test(test_after_rexit),
    };

    return cmocka_run_group_tests(tests, pair_setup, NULL);
}

int main(void) { return pair_main(group); }
