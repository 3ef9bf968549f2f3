/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads: different ends in different threads; one end in many (thread_sync); what ends the wait of another thread.
 * A failure in a thread is printed there, counted, and asserted by the test. Each test runs as PUT and as GET, with
 * RMALLOC_DEBUG=1 and without.
 */
#include "test/lib/pair.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "test/lib/counts.h"
#include <rpipe.h>

enum { THREAD_MESSAGES = 5000 };

static size_t thread_size(uint64_t i) { return random_mix(i) % 700; }

static void *writing(void *argument)
{
    struct pair *p = argument;

    for (uint64_t i = 0; i < THREAD_MESSAGES; i++) {
        raddr_t d = rmalloc(p->w, thread_size(i));

        CHECK(p->w, d != ADDR_NULL);
        pattern_fill(rmem(p->w, d), thread_size(i), i);
        CHECK(p->w, rwrite(p->w, d) == R_SUCCESS);
    }
    CHECK(p->w, rclose(p->w) == R_SUCCESS);
    return NULL;
}

static void *reading(void *argument)
{
    struct pair *p = argument;
    raddr_t d;
    size_t size;

    for (uint64_t i = 0; i < THREAD_MESSAGES; i++) {
        CHECK(p->r, rread(p->r, &d, &size) == R_SUCCESS);
        CHECK(p->r, size == thread_size(i) && pattern_same(rmem(p->r, d), size, i));
        CHECK(p->r, rfree(p->r, d) == R_SUCCESS);
    }
    CHECK(p->r, rread(p->r, &d, &size) == R_EOF);
    CHECK(p->r, rclose(p->r) == R_SUCCESS);
    return NULL;
}

/* the two ends, and different channels, in threads of their own: without thread_sync */
static void test_two_threads(void **state)
{
    enum { N = 3 };
    pthread_t w[N], r[N];
    struct pair p[N];

    atomic_store(&check_failures, 0);
    for (int i = 0; i < N; i++) {
        rpipe_config_t cfg = pair_config(op_of(state), i == 0 ? 700 : 4096);

        cfg.slots = i == 1 ? 2 : 64;
        pair_open_with(&p[i], &cfg);
        assert_int_equal(pthread_create(&w[i], NULL, writing, &p[i]), 0);
        assert_int_equal(pthread_create(&r[i], NULL, reading, &p[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(w[i], NULL);
        pthread_join(r[i], NULL);
    }
    assert_int_equal(atomic_load(&check_failures), 0);
}

/* thread_sync: many writers and many readers of the same two ends */
enum { LOAD_THREADS = 4, LOAD_MESSAGES = 2000 };

struct load {
    struct pair p;
    atomic_int writers_left;
    atomic_uchar seen[LOAD_THREADS][LOAD_MESSAGES];
};

struct member {
    struct load *load;
    uint64_t number;
};

static uint64_t load_key(uint64_t who, uint64_t i) { return who << 32 | i; }

static size_t load_size(uint64_t key) { return random_mix(~key) % 300; }

static void *load_write(const struct member *me, rch_t w)
{
    for (uint64_t i = 0; i < LOAD_MESSAGES; i++) {
        uint64_t key = load_key(me->number, i);
        raddr_t d;

        /* the unsent blocks of other threads are this end's own, too: they will be sent */
        while ((d = rmalloc(w, load_size(key))) == ADDR_NULL) {
            CHECK(w, errno == ENOBUFS);
            sched_yield();
        }
        (void)rset_tag(w, d, key);
        pattern_fill(rmem(w, d), load_size(key), key);
        CHECK(w, rwrite(w, d) == R_SUCCESS);
    }
    return NULL;
}

static void *load_writer(void *argument)
{
    const struct member *me = argument;
    rch_t w = me->load->p.w;

    (void)load_write(me, w);
    if (atomic_fetch_sub(&me->load->writers_left, 1) ==
        1) /* also after a fault: the readers wait for the end */
        CHECK(w, rclose(w) == R_SUCCESS);
    return NULL;
}

/* what one thread reads of one writing thread comes in the order in which that one wrote */
static void *load_reader(void *argument)
{
    const struct member *me = argument;
    rch_t r = me->load->p.r;
    int64_t last[LOAD_THREADS] = {-1, -1, -1, -1};
    raddr_t d;
    size_t size;
    int rc;

    while ((rc = rread(r, &d, &size)) == R_SUCCESS) {
        uint64_t key, who, i;

        key = rtag(r, d);
        who = key >> 32;
        i = key & 0xffffffff;
        CHECK(r, who < LOAD_THREADS && i < LOAD_MESSAGES && (int64_t)i > last[who]);
        last[who] = (int64_t)i;
        CHECK(r, size == load_size(key) && pattern_same(rmem(r, d), size, key));
        CHECK(r, atomic_fetch_add(&me->load->seen[who][i], 1) == 0);
        CHECK(r, rfree(r, d) == R_SUCCESS);
    }
    CHECK(r, rc == R_EOF);
    return NULL;
}

static void test_load(void **state)
{
    struct load *load = calloc(1, sizeof(*load));
    rpipe_config_t cfg = pair_config(op_of(state), 4096);
    struct member member[LOAD_THREADS];
    pthread_t w[LOAD_THREADS], r[LOAD_THREADS];

    assert_non_null(load);
    atomic_store(&check_failures, 0);
    atomic_store(&load->writers_left, LOAD_THREADS);
    cfg.flags |= RPIPE_THREADS;
    cfg.slots = 16;
    pair_open_with(&load->p, &cfg);
    for (size_t i = 0; i < LOAD_THREADS; i++) {
        member[i] = (struct member){load, i};
        assert_int_equal(pthread_create(&w[i], NULL, load_writer, &member[i]), 0);
        assert_int_equal(pthread_create(&r[i], NULL, load_reader, &member[i]), 0);
    }
    for (size_t i = 0; i < LOAD_THREADS; i++) {
        pthread_join(w[i], NULL);
        pthread_join(r[i], NULL);
    }
    assert_int_equal(atomic_load(&check_failures), 0);
    for (size_t k = 0; k < LOAD_THREADS; k++)
        for (size_t i = 0; i < LOAD_MESSAGES; i++)
            assert_int_equal(atomic_load(&load->seen[k][i]), 1);
    CHECK_OK(load->p.r, rclose(load->p.r));
    free(load);
}

/* a call that waits keeps no other thread from going on; rclose ends it */
struct waiter {
    struct pair *p;
    int rc;
    bool writer;
    raddr_t d; /* what it has got */
};

static void *wait_for_it(void *argument)
{
    struct waiter *me = argument;

    if (me->writer) {
        me->d = rmalloc(me->p->w, 1000);
        me->rc = me->d == ADDR_NULL ? -errno : R_SUCCESS;
    } else {
        me->rc = rread(me->p->r, &me->d, NULL);
    }
    return NULL;
}

static uint64_t sleeps(rch_t ch)
{
    struct pipe_counts st = {0};

    CHECK_OK(ch, pipe_counts(ch, &st));
    return st.sleeps;
}

/* adaptive waiting ends in sleep: then the other thread is surely in its call */
static void start_waiting(pthread_t *t, struct waiter *me, bool until_asleep)
{
    rch_t ch = me->writer ? me->p->w : me->p->r;
    uint64_t before = sleeps(ch);

    assert_int_equal(pthread_create(t, NULL, wait_for_it, me), 0);
    while (until_asleep && sleeps(ch) == before)
        sched_yield();
}

static void test_waiting_holds_no_lock(void **state)
{
    const size_t small =
        on_device_heap() ? 64 : 0; /* what a message of 30 bytes takes of the heap */
    rpipe_config_t cfg = pair_config(op_of(state), 1024 + 2 * small);
    struct waiter reader, writer;
    struct pair p;
    raddr_t held;
    pthread_t t;

    cfg.flags |= RPIPE_THREADS;
    cfg.timeout_ms = -1;
    pair_open_with(&p, &cfg);
    pair_send(&p, 1000, 1);
    held = pair_receive(&p, 1000, 1);

    /* one thread waits for a message, and this one frees what it holds */
    reader = (struct waiter){&p, 1, false, ADDR_NULL};
    start_waiting(&t, &reader, true);
    assert_true(pattern_same(rmem(p.r, held), 1000, 1));
    assert_int_equal(rsize(p.r, held), 1000);
    CHECK_OK(p.r, rfree(p.r, held));
    pair_send(&p, 30, 2);
    pthread_join(t, NULL);
    CHECK_RC(R_SUCCESS, p.r, reader.rc);
    CHECK_OK(p.r, rfree(p.r, reader.d));

    /* one thread waits for memory, and this one writes */
    pair_send(&p, 1000, 3);
    writer = (struct waiter){&p, 1, true, ADDR_NULL};
    start_waiting(&t, &writer, true);
    pair_send(&p, 30, 4);
    pair_read_free(&p, 1000, 3);
    pthread_join(t, NULL);
    CHECK_RC(R_SUCCESS, p.w, writer.rc);
    pair_read_free(&p, 30, 4);
    pair_close(&p);
}

static void test_close_ends_waits(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 1024);
    struct waiter reader, writer;
    struct pair p;
    pthread_t t;

    cfg.flags |= RPIPE_THREADS;
    cfg.timeout_ms = -1;
    for (int round = 0; round < 5; round++) {
        pair_open_with(&p, &cfg);
        pair_send(&p, 1000, 1);
        writer = (struct waiter){&p, 1, true, ADDR_NULL};
        start_waiting(&t, &writer, round % 2 == 0);
        CHECK_OK(p.w, rclose(p.w));
        pthread_join(t, NULL);
        CHECK_RC(-ENOTCONN, p.w, writer.rc);
        pair_read_free(&p, 1000, 1);
        CHECK_OK(p.r, rclose(p.r));

        pair_open_with(&p, &cfg);
        reader = (struct waiter){&p, 1, false, ADDR_NULL};
        start_waiting(&t, &reader, round % 2 == 0);
        CHECK_OK(p.r, rclose(p.r));
        pthread_join(t, NULL);
        CHECK_RC(-ENOTCONN, p.r, reader.rc);
        CHECK_OK(p.w, rclose(p.w));
    }
}

/* a thread in rread sees the other end close: R_EOF, -EPIPE, also without a deadline */
static void test_peer_close_wakes(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 1024);
    struct waiter reader, writer;
    struct pair p;
    pthread_t t;

    cfg.flags |= RPIPE_THREADS; /* for the statistics */
    cfg.timeout_ms = -1;
    pair_open_with(&p, &cfg);
    reader = (struct waiter){&p, 1, false, ADDR_NULL};
    start_waiting(&t, &reader, true);
    CHECK_OK(p.w, rclose(p.w));
    pthread_join(t, NULL);
    CHECK_RC(R_EOF, p.r, reader.rc);
    CHECK_OK(p.r, rclose(p.r));

    pair_open_with(&p, &cfg);
    pair_send(&p, 1000, 1);
    writer = (struct waiter){&p, 1, true, ADDR_NULL};
    start_waiting(&t, &writer, true);
    CHECK_OK(p.r, rclose(p.r));
    pthread_join(t, NULL);
    CHECK_RC(-EPIPE, p.w, writer.rc);
    CHECK_OK(p.w, rclose(p.w));
}

/* rpipe() and rclose() by many threads at the same time */
static void *opening(void *argument)
{
    uint32_t base = *(uint32_t *)argument;

    for (uint32_t i = 0; i < 100; i++) {
        rpipe_config_t cfg = {0}, w, r;
        struct pair p;
        raddr_t d;
        size_t size;

        cfg.peer = 0;
        cfg.op = i % 2 == 0 ? RPIPE_PUT : RPIPE_GET;
        cfg.heap_bytes = 1000;
        cfg.context = base + i % 3;
        w = pair_writer(cfg);
        r = pair_reader(cfg);
        CHECK(NULL, rpipe(&p.w, &w) == R_SUCCESS);
        CHECK(NULL, rpipe(&p.r, &r) == R_SUCCESS);
        d = rmalloc(p.w, 1000);
        CHECK(p.w, d != ADDR_NULL);
        pattern_fill(rmem(p.w, d), 1000, base + i);
        CHECK(p.w, rwrite(p.w, d) == R_SUCCESS);
        CHECK(p.r, rread(p.r, &d, &size) == R_SUCCESS);
        CHECK(p.r, size == 1000 && pattern_same(rmem(p.r, d), size, base + i));
        CHECK(p.r, rclose(p.r) == R_SUCCESS);
        CHECK(p.w, rclose(p.w) == R_SUCCESS);
    }
    return NULL;
}

static void test_open_in_threads(void **state)
{
    enum { N = 6 };
    uint32_t base[N];
    pthread_t t[N];

    (void)state;
    atomic_store(&check_failures, 0);
    for (uint32_t i = 0; i < N; i++) {
        base[i] = 0x10000000u * (i + 1);
        assert_int_equal(pthread_create(&t[i], NULL, opening, &base[i]), 0);
    }
    for (uint32_t i = 0; i < N; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(atomic_load(&check_failures), 0);
}

/*
 * A thread that is cancelled in a call ends behind it, and not in it: the message that the call returns is not lost, no lock
 * stays behind, and another thread goes on with the same end. So it is with a thread that ends by itself.
 */
struct leaving {
    struct pair *p;
    _Atomic int read; /* messages */
};

static void *read_until_cancelled(void *argument)
{
    struct leaving *me = argument;
    raddr_t d;

    for (;;) {
        if (rread(me->p->r, &d, NULL) != R_SUCCESS || rfree(me->p->r, d) != R_SUCCESS)
            return NULL;
        atomic_fetch_add(&me->read, 1);
        pthread_testcancel();
    }
}

static void *read_one_and_leave(void *argument)
{
    struct leaving *me = argument;
    raddr_t d;

    if (rread(me->p->r, &d, NULL) == R_SUCCESS && rfree(me->p->r, d) == R_SUCCESS)
        atomic_fetch_add(&me->read, 1);
    pthread_exit(me);
}

static void test_threads_that_leave(void **state)
{
    rpipe_config_t cfg = pair_config(op_of(state), 4096);
    struct leaving me = {0};
    struct pair p;
    pthread_t t;
    void *result;

    cfg.timeout_ms = -1;
    for (int round = 0; round < 6; round++) {
        bool shared = round % 2 == 1, asleep = shared && round > 2;
        uint64_t before;

        cfg.flags = shared ? RPIPE_THREADS : 0; /* for the statistics, too */
        pair_open_with(&p, &cfg);
        me.p = &p;
        atomic_store(&me.read, 0);
        before = sleeps(p.r);
        assert_int_equal(pthread_create(&t, NULL, read_until_cancelled, &me), 0);
        while (asleep && sleeps(p.r) == before)
            sched_yield();
        assert_int_equal(pthread_cancel(t), 0);
        pair_send(&p, 1000, 1);
        pthread_join(t, &result);
        assert_true(result == PTHREAD_CANCELED);
        if (atomic_load(&me.read) == 0) /* it was notified before it began */
            pair_read_free(&p, 1000, 1);
        assert_int_equal(pthread_create(&t, NULL, read_one_and_leave, &me), 0);
        pair_send(&p, 2000, 2);
        pthread_join(t, &result);
        assert_true(result == &me);
        pair_send(&p, 30, 3);
        pair_read_free(&p, 30, 3);
        pair_close(&p);
    }
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_two_threads),           PUT_AND_GET(test_load),
        PUT_AND_GET(test_waiting_holds_no_lock), PUT_AND_GET(test_close_ends_waits),
        PUT_AND_GET(test_peer_close_wakes),      cmocka_unit_test(test_open_in_threads),
        PUT_AND_GET(test_threads_that_leave),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
