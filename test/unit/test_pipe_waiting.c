/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What waits, and what ends it: deadlines, the join, rfd with epoll, rpoll. Time is never asserted but as a
 * deadline that was not too early, and not absurdly late. Each test runs as PUT and as GET, with RMALLOC_DEBUG=1 and
 * without.
 */
#include "test/lib/pair.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include "test/lib/counts.h"
#include <rpipe.h>

/* ---- deadlines ---- */

static double begun;

static void begin(void) { begun = now_ms(); }

static void passed(double least)
{
    double ms = now_ms() - begun;

    if (ms < least - 1.0 || ms > least + CHECK_LATE_MS)
        fail_msg("a deadline of %.0f ms took %.1f ms", least, ms);
}

static void test_set_timeout(void **state)
{
    struct pair p;

    pair_open(&p, op_of(state), 4096);
    CHECK_OK(p.r, rset_timeout(p.r, -1));
    CHECK_OK(p.r, rset_timeout(p.r, R_AT_ONCE));
    CHECK_OK(p.r, rset_timeout(p.r, INT32_MAX));
    CHECK_RC(-EINVAL, p.r, rset_timeout(p.r, -3));
    CHECK_RC(-EINVAL, p.r, rset_timeout(p.r, INT32_MIN));
    pair_close(&p);
}

/* every waiting call; afterwards the channel is as good as before */
static void test_deadlines(void **state)
{
    static const int deadlines[] = {0, 1, 30};
    rpipe_config_t cfg =
        pair_config(op_of(state), on_device_heap() ? 1024 + 64 : 1024); /* 64: of the third */
    raddr_t d = ANY_RADDR, third;
    struct pipe_counts before = {0}, st = {0};
    struct pair p;
    size_t size = 77;
    int ready = 7;

    cfg.slots = 2;
    pair_open_with(&p, &cfg);
    for (size_t i = 0; i < sizeof(deadlines) / sizeof(*deadlines); i++) {
        int ms = deadlines[i];

        CHECK_OK(p.r, rset_timeout(p.r, ms == 0 ? R_AT_ONCE : ms));
        CHECK_OK(p.w, rset_timeout(p.w, ms == 0 ? R_AT_ONCE : ms));
        CHECK_OK(p.r, pipe_counts(p.r, &before));
        begin();
        CHECK_RC(-ETIMEDOUT, p.r, rread(p.r, &d, &size));
        passed(ms);
        CHECK_OK(p.r, pipe_counts(p.r, &st));
        assert_int_equal(st.stalls_ring, before.stalls_ring + 1);
        begin();
        CHECK_RC(-ETIMEDOUT, p.r, rread(p.r, &d, &size));
        passed(ms);
        if (ms > 0) {
            begin();
            CHECK_RC(-ETIMEDOUT, p.r, rpoll(&p.r, 1, &ready, ms));
            passed(ms);
        }

        pair_send(&p, 500, 1);
        pair_send(&p, 500, 2);
        begin();
        CHECK_OK(p.w, pipe_counts(p.w, &before));
        CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, 500)); /* the heap is full */
        passed(ms);
        CHECK_OK(p.w, pipe_counts(p.w, &st));
        assert_int_equal(st.stalls_heap, before.stalls_heap + 1); /* calls, not polls */
        begin();
        CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, 500));
        passed(ms);
        third = pair_alloc(&p, 10, 3);
        begin();
        CHECK_RC(-ETIMEDOUT, p.w, rwrite(p.w, third)); /* the ring is full */
        passed(ms);
        CHECK_OK(p.w, pipe_counts(p.w, &st));
        assert_int_equal(st.stalls_ring, before.stalls_ring + 1);
        begin();
        CHECK_RC(-ETIMEDOUT, p.w, rwrite_n(p.w, third, 5));
        passed(ms);
        assert_int_equal(rsize(p.w, third), 10);
        CHECK_OK(p.w, rflush(p.w));
        assert_string_not_equal(rerror(p.w), "no error");

        pair_read_free(&p, 500, 1);
        pair_read_free(&p, 500, 2);
        CHECK_OK(p.w, rwrite(p.w, third));
        pair_read_free(&p, 10, 3);
        assert_true(d == ANY_RADDR && size == 77 && ready == 7);
    }
    pair_close(&p);
}

/* from the configuration */
static void test_configured_deadline(void **state)
{
    rpipe_config_t cfg = pair_reader(pair_config(op_of(state), 1024));
    raddr_t d;
    rch_t r;

    cfg.timeout_ms = 30;
    CHECK_OK(NULL, rpipe(&r, &cfg));
    begin();
    CHECK_RC(-ETIMEDOUT, r, rread(r, &d, NULL));
    passed(30);
    CHECK_OK(r, rclose(r));
}

/* a channel whose other end is not there */
static void test_unjoined(void **state)
{
    /* a message of 40 bytes is in its slot; in memory of a device it takes 64 of the heap, which with PUT is not here */
    const bool here = !on_device_heap() || op_of(state) == RPIPE_GET;
    rpipe_config_t cfg = pair_config(op_of(state), on_device_heap() ? 1024 + 64 : 1024),
                   w = pair_writer(cfg), r = pair_reader(cfg);
    struct pair p;
    raddr_t d = ANY_RADDR, small;
    int rc;

    w.timeout_ms = 20;
    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_OK(p.w, rflush(p.w)); /* nothing has been written */
    begin();
    CHECK_RC(-ETIMEDOUT, p.w, rwait(p.w));
    passed(20);
    small = rmalloc(p.w, 40); /* rides in a slot */
    assert_true((small != ADDR_NULL) == here);
    if (here) {
        pattern_fill(rmem(p.w, small), 40, 1);
        CHECK_RC(R_PENDING, p.w, rwrite_nb(p.w, small));
        begin();
        CHECK_RC(-ETIMEDOUT, p.w, rwrite(p.w, small));
        passed(20);
    }
    rc = rmalloc_nb(p.w, 1024, &d);
    if (op_of(state) == RPIPE_PUT) { /* the heap is not here */
        CHECK_RC(R_PENDING, p.w, rc);
        CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, 1024));
    } else {
        CHECK_RC(R_SUCCESS, p.w, rc);
        CHECK_OK(p.w, rfree(p.w, d));
    }
    CHECK_OK(p.w, rset_timeout(p.w, 60000));
    CHECK_OK(NULL, rpipe(&p.r, &r));
    if (!here)
        small = pair_alloc(&p, 40, 1);
    CHECK_OK(p.w, rwrite(p.w, small)); /* waits for the join */
    pair_read_free(&p, 40, 1);
    pair_close(&p);

    r.timeout_ms = 20;
    CHECK_OK(NULL, rpipe(&p.r, &r));
    begin();
    CHECK_RC(-ETIMEDOUT, p.r, rwait(p.r));
    passed(20);
    CHECK_RC(R_PENDING, p.r, rread_nb(p.r, &d, NULL));
    CHECK_RC(-ETIMEDOUT, p.r, rread(p.r, &d, NULL));
    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_OK(p.w, rwait(p.w));
    pair_close(&p);
}

/* the error message of a join that does not come names what the peer has opened instead */
static void test_other_ctx(void **state)
{
    rpipe_config_t w = pair_writer(pair_config(op_of(state), 1024)), r = pair_reader(w);
    char mine[16], theirs[16];
    struct pair p;

    w.timeout_ms = r.timeout_ms = 20;
    w.context = 1234567;
    r = pair_reader(w);
    r.context = 7654321;
    snprintf(mine, sizeof(mine), "%llu", (unsigned long long)w.context);
    snprintf(theirs, sizeof(theirs), "%llu", (unsigned long long)r.context);
    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_OK(NULL, rpipe(&p.r, &r));
    CHECK_RC(-ETIMEDOUT, p.w, rwait(p.w));
    assert_non_null(strstr(rerror(p.w), theirs));
    CHECK_RC(-ETIMEDOUT, p.r, rwait(p.r));
    assert_non_null(strstr(rerror(p.r), mine));
    pair_close(&p);
}

/* a handler of a signal does not end a wait */
static volatile sig_atomic_t signals;

static void on_alarm(int number)
{
    (void)number;
    signals++;
}

static void test_signals(void **state)
{
    const struct itimerval every_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction act = {.sa_handler = on_alarm}, before;
    struct pair p;
    raddr_t d;
    int ready;

    pair_open(&p, op_of(state), 1024);
    CHECK_OK(p.r, rset_timeout(p.r, 100));
    signals = 0;
    sigaction(SIGALRM, &act, &before);
    setitimer(ITIMER_REAL, &every_ms, NULL);
    begin();
    int rc = rread(p.r, &d, NULL);
    int polled = rpoll(&p.r, 1, &ready, 100);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    passed(200);
    CHECK_RC(-ETIMEDOUT, p.r, rc);
    CHECK_RC(-ETIMEDOUT, p.r, polled);
    assert_true(signals > 0);
    pair_close(&p);
}

/* ---- rfd ---- */

static int poll_fd(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n = poll(&p, 1, ms);

    assert_true(n >= 0);
    if (n == 1)
        assert_int_equal(p.revents, POLLIN);
    return n;
}

/* it may be readable for nothing for a while, but not for ever: a process that waits with it must come to sleep */
static void quiet(rch_t r, int fd)
{
    double start = now_ms();
    raddr_t d;

    while (poll_fd(fd, 1) == 1) {
        CHECK_RC(R_PENDING, r, rread_nb(r, &d, NULL));
        if (now_ms() - start > CHECK_LATE_MS)
            fail_msg("the descriptor of an empty channel stays readable");
    }
}

static void test_fd(void **state)
{
    struct pair p;
    raddr_t d;
    int fd;

    pair_open(&p, op_of(state), 4096);
    fd = rfd(p.r);
    assert_true(fd >= 0);
    assert_int_equal(rfd(p.r), fd);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    for (uint64_t i = 0; i < 200; i++) {
        size_t size = i % 2 == 0 ? 10 : 1000;

        if (i % 4 == 0)
            quiet(p.r, fd);
        pair_send(&p, size, i);
        pair_send(&p, size, ~i);
        assert_int_equal(poll_fd(fd, 10000), 1);
        assert_int_equal(poll_fd(fd, 10000), 1); /* level-triggered: a poll changes nothing */
        CHECK_OK(p.r, rread_nb(p.r, &d, NULL));  /* one per wake-up */
        assert_true(pattern_same(rmem(p.r, d), size, i));
        CHECK_OK(p.r, rfree(p.r, d));
        assert_int_equal(poll_fd(fd, 10000), 1); /* there is one more */
        CHECK_OK(p.r, rread_nb(p.r, &d, NULL));
        assert_true(pattern_same(rmem(p.r, d), size, ~i));
        CHECK_OK(p.r, rfree(p.r, d));
        if (i % 3 == 0)
            CHECK_RC(R_PENDING, p.r, rread_nb(p.r, &d, NULL)); /* until R_PENDING */
    }
    quiet(p.r, fd);
    pair_send(&p, 10, 1);
    CHECK_OK(p.w, rclose(p.w));
    assert_int_equal(poll_fd(fd, 10000), 1);
    pair_read_free(&p, 10, 1);
    for (int i = 0; i < 5; i++) { /* the end: for ever */
        assert_int_equal(poll_fd(fd, 10000), 1);
        CHECK_RC(R_EOF, p.r, rread_nb(p.r, &d, NULL));
    }
    assert_int_equal(rfd(p.r), fd);
    CHECK_OK(p.r, rclose(p.r));
}

#define BUSY_MESSAGES 3000

static void *keep_writing(void *arg)
{
    struct pair *p = arg;

    for (uint64_t i = 0; i < BUSY_MESSAGES; i++)
        pair_send(p, 100, i);
    return NULL;
}

/* A writer that uses each slot as soon as it has come back, and the reader in event mode: no count of messages is refused. */
static void test_fd_with_a_busy_writer(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 4096);
    struct pair p;
    pthread_t thread;
    int fd, rc;

    cfg.slots = 2;
    pair_open_with(&p, &cfg);
    fd = rfd(p.r);
    assert_true(fd >= 0);
    assert_int_equal(pthread_create(&thread, NULL, keep_writing, &p), 0);
    for (uint64_t i = 0; i < BUSY_MESSAGES; i++) {
        raddr_t d;

        while ((rc = rread_nb(p.r, &d, NULL)) == R_PENDING)
            assert_int_equal(poll_fd(fd, 10000), 1);
        CHECK_OK(p.r, rc);
        assert_true(pattern_same(rmem(p.r, d), 100, i));
        CHECK_OK(p.r, rfree(p.r, d));
    }
    pthread_join(thread, NULL);
    pair_close(&p);
}

/* the descriptor is older than the join; the close of an empty channel wakes, too */
static void test_fd_before_join(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 4096), w = pair_writer(cfg),
                   r = pair_reader(cfg);

    for (uint64_t i = 0; i < 50; i++) {
        struct pair p;
        raddr_t d;
        int fd, rc;

        CHECK_OK(NULL, rpipe(&p.r, &r));
        fd = rfd(p.r);
        assert_true(fd >= 0);
        CHECK_OK(NULL, rpipe(&p.w, &w));
        if (i % 3 != 0) {
            pair_send(&p, 200, i);
            do { /* readable for nothing is allowed */
                assert_int_equal(poll_fd(fd, 10000), 1);
                rc = rread_nb(p.r, &d, NULL);
            } while (rc == R_PENDING);
            CHECK_OK(p.r, rc);
            assert_true(pattern_same(rmem(p.r, d), 200, i));
            CHECK_OK(p.r, rfree(p.r, d));
            if (i % 3 == 1)
                quiet(p.r, fd);
        }
        CHECK_OK(p.w, rclose(p.w));
        do {
            assert_int_equal(poll_fd(fd, 10000), 1);
            rc = rread_nb(p.r, &d, NULL);
        } while (rc == R_PENDING);
        CHECK_RC(R_EOF, p.r, rc);
        assert_int_equal(poll_fd(fd, 10000), 1);
        CHECK_OK(p.r, rclose(p.r));
    }
}

/* epoll over several channels, with messages, waiting reads and rpoll in between */
static void test_epoll(void **state)
{
    enum { N = 8 };
    struct epoll_event event = {.events = EPOLLIN};
    struct pair p[N];
    uint64_t sent[N] = {0}, got[N] = {0};
    int set = epoll_create1(EPOLL_CLOEXEC), ended = 0;

    assert_true(set >= 0);
    for (size_t i = 0; i < N; i++) {
        pair_open(&p[i], op_of(state), 4096);
        event.data.u64 = i;
        assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, rfd(p[i].r), &event), 0);
    }
    for (uint64_t round = 0; ended < N; round++) {
        size_t k = random_mix(round) % N;

        if (round < 3000 && sent[k] - got[k] < 8) {
            pair_send(&p[k], 10 + k * 20, sent[k]);
            sent[k]++;
        }
        for (size_t i = 0; round >= 3000 && i < N; i++)
            if (p[i].w != NULL) {
                CHECK_OK(p[i].w, rclose(p[i].w));
                p[i].w = NULL;
            }
        if (round % 3 != 0 && round < 3000)
            continue;
        assert_true(epoll_wait(set, &event, 1, 10000) == 1); /* something is there or has ended */
        k = event.data.u64;
        raddr_t d;
        int rc = rread_nb(p[k].r, &d, NULL);

        if (rc == R_SUCCESS) {
            assert_true(pattern_same(rmem(p[k].r, d), 10 + k * 20, got[k]));
            CHECK_OK(p[k].r, rfree(p[k].r, d));
            got[k]++;
        } else if (rc == R_EOF) {
            assert_true(got[k] == sent[k]);
            assert_int_equal(epoll_ctl(set, EPOLL_CTL_DEL, rfd(p[k].r), NULL), 0);
            CHECK_OK(p[k].r, rclose(p[k].r));
            ended++;
        } else {
            CHECK_RC(R_PENDING, p[k].r, rc);
        }
    }
    close(set);
}

/* ---- rpoll ---- */

static unsigned ready_mask(const int *ready, int n)
{
    unsigned mask = 0;

    for (int i = 0; i < n; i++)
        mask |= (unsigned)(ready[i] != 0) << i;
    return mask;
}

static void test_poll(void **state)
{
    enum { N = 16 };
    struct pair p[N];
    rch_t r[N + 2];
    int ready[N + 2], i;
    double since;

    for (i = 0; i < N; i++) {
        pair_open(&p[i], op_of(state), 4096);
        r[i] = p[i].r;
    }
    memset(ready, 7, sizeof(ready));
    CHECK_RC(R_PENDING, NULL, rpoll(r, N, ready, 0));
    begin();
    CHECK_RC(-ETIMEDOUT, NULL, rpoll(r, N, ready, 20));
    passed(20);
    for (i = 0; i < N; i++)
        assert_int_equal(ready[i], 0x07070707); /* written on success only */
    for (int round = 0; round < 100; round++) {
        unsigned mask = (unsigned)random_mix((uint64_t)round) & 0xffff;

        for (i = 0; i < N; i++)
            if (mask >> i & 1)
                pair_send(&p[i], 100, (uint64_t)round);
        if (mask == 0)
            continue;
        r[N] = r[3]; /* the same end twice */
        r[N + 1] = r[0];
        since = now_ms();
        do
            CHECK_OK(NULL, rpoll(r, N + 2, ready, round % 2 == 0 ? 0 : -1));
        while (ready_mask(ready, N) != mask && pair_patience(since));
        assert_int_equal(ready_mask(ready, N), mask);
        assert_int_equal(ready[N], mask >> 3 & 1);
        assert_int_equal(ready[N + 1], mask & 1);
        for (i = 0; i < N; i++)
            if (mask >> i & 1)
                pair_read_free(&p[i], 100, (uint64_t)round);
    }
    CHECK_OK(p[5].w, rclose(p[5].w)); /* R_EOF is ready, and stays so */
    for (int round = 0; round < 3; round++) {
        raddr_t d;

        CHECK_OK(NULL, rpoll(r, N, ready, 10000));
        for (i = 0; i < N; i++)
            assert_int_equal(ready[i], i == 5);
        CHECK_RC(R_EOF, r[5], rread(r[5], &d, NULL));
    }

    memset(ready, 7, sizeof(ready));
    CHECK_RC(-EINVAL, NULL, rpoll(NULL, 1, ready, 0));
    CHECK_RC(-EINVAL, NULL, rpoll(r, 1, NULL, 0));
    CHECK_RC(-EINVAL, NULL, rpoll(r, 0, ready, 0));
    CHECK_RC(-EINVAL, NULL, rpoll(r, -1, ready, 0));
    CHECK_RC(-EINVAL, NULL, rpoll(r, 65537, ready, 0));
    CHECK_RC(-EINVAL, NULL, rpoll(r, 1, ready, -2));
    r[N] = NULL;
    CHECK_RC(-EINVAL, NULL, rpoll(r, N + 1, ready, 0));
    r[N] = p[2].w;
    CHECK_RC(-EBADF, p[2].w, rpoll(r, N + 1, ready, 0));
    CHECK_OK(r[7], rclose(r[7]));
    CHECK_RC(-ENOTCONN, r[7], rpoll(r, N, ready, 0));
    for (i = 0; i < N + 2; i++)
        assert_int_equal(ready[i], 0x07070707);
    for (i = 0; i < N; i++) {
        if (i != 5)
            CHECK_OK(p[i].w, rclose(p[i].w));
        if (i != 7)
            CHECK_OK(p[i].r, rclose(p[i].r));
    }
}

/* ends that are not joined are not ready, and do not hide those that are */
static void test_poll_unjoined(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 4096), w = pair_writer(cfg),
                   r = pair_reader(cfg);
    rch_t both[2];
    struct pair p, q;
    int ready[2];

    pair_open(&p, op_of(state), 4096);
    CHECK_OK(NULL, rpipe(&q.r, &r));
    both[0] = q.r;
    both[1] = p.r;
    CHECK_RC(R_PENDING, NULL, rpoll(both, 2, ready, 0));
    CHECK_RC(-ETIMEDOUT, NULL, rpoll(both, 2, ready, 10));
    pair_send(&p, 10, 1);
    CHECK_OK(NULL, rpoll(both, 2, ready, -1));
    assert_true(ready[0] == 0 && ready[1] == 1);
    pair_read_free(&p, 10, 1);
    CHECK_OK(NULL, rpipe(&q.w, &w));
    pair_send(&q, 10, 2); /* waits for the join of the writer; the reader may join later */
    CHECK_OK(NULL, rpoll(both, 2, ready, -1));
    assert_true(ready[0] == 1 && ready[1] == 0);
    pair_read_free(&q, 10, 2);
    pair_close(&p);
    pair_close(&q);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_set_timeout),
        PUT_AND_GET(test_deadlines),
        PUT_AND_GET(test_configured_deadline),
        PUT_AND_GET(test_unjoined),
        PUT_AND_GET(test_other_ctx),
        PUT_AND_GET(test_signals),
        PUT_AND_GET(test_fd),
        PUT_AND_GET(test_fd_with_a_busy_writer),
        PUT_AND_GET(test_fd_before_join),
        PUT_AND_GET(test_epoll),
        PUT_AND_GET(test_poll),
        PUT_AND_GET(test_poll_unjoined),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
