/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: opening and closing, what a pipe describes, threads that each have their own, locks per message (counted, not
 * timed), and the mistakes. Over shared memory, and over a network with RPIPE_BTL.
 */
#include "test/lib/count_locks.h"
#include "test/lib/counts.h"
#include "test/lib/pair.h"

#include <rpipe.h>

static const char *network(void)
{
    const char *btl = getenv("RPIPE_BTL");

    return btl != NULL ? btl : "shm";
}

static void pair_open_in(struct pair *p, rpipe_op_t op, rstream_t stream)
{
    rpipe_config_t cfg = pair_config(op, 65536);

    cfg.stream = stream;
    pair_open_with(p, &cfg);
}

/* ---- opening and closing ---- */

static void test_open_close(rpipe_op_t op)
{
    rstream_t stream = NULL;
    struct pair p[3];

    CHECK_OK(NULL, rstream_open(&stream, NULL));
    CHECK_OK(NULL, rstream_close(stream));
    CHECK_OK(NULL, rstream_open(&stream, NULL));
    for (size_t i = 0; i < 3; i++)
        pair_open_in(&p[i], op, stream);
    CHECK_RC(-EBUSY, NULL, rstream_close(stream));
    if (strstr(rerror(NULL), "6 pipes") == NULL || strstr(rerror(NULL), "context") == NULL)
        fail_msg("the pipe is not named: %s", rerror(NULL));
    for (uint64_t i = 0; i < 300; i++) {
        pair_send(&p[i % 3], i % 2 == 0 ? 8 : 500, i);
        pair_read_free(&p[i % 3], i % 2 == 0 ? 8 : 500, i);
    }
    pair_close(&p[1]);
    pair_open_in(&p[1], op, stream);
    pair_send(&p[1], 8, 1);
    pair_read_free(&p[1], 8, 1);
    for (size_t i = 0; i < 3; i++)
        pair_close(&p[i]);
    CHECK_OK(NULL, rstream_close(stream));
}

static void test_describe(rpipe_op_t op)
{
    static const char *const name[] = {
        [RSTREAM_DYNAMIC] = "dynamic",     [RSTREAM_EVERYWHERE] = "everywhere",
        [RSTREAM_2XDYNAMIC] = "2xdynamic", [RSTREAM_SHARED_DYNAMIC] = "shared dynamic",
        [RSTREAM_STATIC] = "static",       [RSTREAM_THREADS] = "threads"};

    for (int share = RSTREAM_DYNAMIC; share <= RSTREAM_THREADS; share++) {
        rstream_config_t cfg = {.share = (rstream_share_t)share};
        rinfo_pipe_t info;
        rstream_t stream;
        struct pair p;

        CHECK_OK(NULL, rstream_open(&stream, &cfg));
        pair_open_in(&p, op, stream);
        CHECK_OK(p.w, rinfo_describe(p.w, &info));
        print_message("%s: %s\n", name[share], info.why);
        if (strstr(info.why, "stream: ") == NULL)
            fail_msg("nothing about the stream: %s", info.why);
        if (strcmp(network(), "verbs") == 0 && strstr(info.why, name[share]) == NULL)
            fail_msg("not the category that was asked for: %s", info.why);
        if ((strcmp(network(), "tcp") == 0 || strcmp(network(), "ofi") == 0) &&
            strstr(info.why, share != RSTREAM_THREADS
                                 ? "stream: everywhere"
                                 : "stream: threads; as without a stream") == NULL)
            fail_msg("not what a stream has of %s: %s", network(), info.why);
        pair_send(&p, 8, 1);
        pair_read_free(&p, 8, 1);
        pair_close(&p);
        CHECK_OK(NULL, rstream_close(stream));
    }
}

/* A connection lives until both ends are closed, and the stream may be gone then. */
static void test_closed_before_pipe(rpipe_op_t op)
{
    rpipe_config_t cfg = pair_config(op, 65536), w = pair_writer(cfg), r = pair_reader(cfg);
    rstream_t stream;
    struct pair p;

    CHECK_OK(NULL, rstream_open(&stream, NULL));
    w.stream = stream;
    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_OK(NULL, rpipe(&p.r, &r));
    CHECK_OK(p.w, rwait(p.w));
    pair_send(&p, 8, 5);
    if (op == RPIPE_GET)
        pair_read_free(&p, 8, 5);
    CHECK_OK(p.w, rclose(p.w));
    CHECK_OK(NULL, rstream_close(stream));
    if (op == RPIPE_PUT)
        pair_read_free(&p, 8, 5);
    CHECK_OK(p.r, rclose(p.r));
}

/* ---- threads ---- */

#define THREADS_MOST 16
#define MESSAGES 512u

/*
 * Locks of the library in so many messages. Over tcp and ofi the service thread drives a stream whose thread has not run for a millisecond; where the
 * two meet the thread takes a lock. So a thread that is stopped often takes more: one for each millisecond is allowed, up to a quarter of the messages.
 * In channel mode over a network the reader takes that of its end, since the service thread sends what waits there.
 */
static void check_locks(uint64_t locks, uint64_t messages, double ms)
{
    const char *mode = getenv("PAIR_MODE");
    uint64_t met = ms < (double)messages / 4 ? (uint64_t)ms : messages / 4;

    if (mode != NULL && strncmp(mode, "channel", 7) == 0 && strcmp(network(), "shm") != 0)
        return;
    if (strcmp(network(), "shm") == 0 || strcmp(network(), "verbs") == 0)
        assert_int_equal(locks, 0);
    if (strcmp(network(), "tcp") == 0)
        assert_true(locks * 20 <= messages + 20 * met); /* without a stream: 5.6 each */
    if (strcmp(network(), "ofi") ==
        0) /* it has to be woken as well; without a stream there are 4 for each message */
        assert_true(locks * 10 <= messages + 10 * met);
}

struct worker {
    pthread_t thread;
    struct pair p[2];
    struct lock_counts locks;
    double ms; /* in which they were taken */
    uint64_t key;
};

static void *work(void *of)
{
    struct worker *w = of;

    for (int round = 0; round < 2;
         round++) { /* the first one gets the descriptors, and the stream its thread */
        if (round == 1) {
            w->ms = now_ms();
            lock_count_begin();
        }
        for (uint64_t i = 0; i < MESSAGES; i++) {
            struct pair *p = &w->p[i % 2];
            char text[8], got[8];

            pattern_fill(text, sizeof(text), w->key + i);
            if (rsend(p->w, text, sizeof(text), 0) != 0 ||
                rrecv(p->r, got, sizeof(got), NULL, 0) != 0 ||
                memcmp(text, got, sizeof(got)) != 0) {
                atomic_fetch_add(&check_failures, 1);
                return NULL;
            }
        }
    }
    w->locks = lock_count_end();
    w->ms = now_ms() - w->ms;
    return NULL;
}

static void threads_run(unsigned n, rpipe_op_t op, bool in_streams)
{
    struct worker w[THREADS_MOST];
    rstream_t stream[THREADS_MOST] = {NULL};
    struct lock_counts all = {0, 0};
    double ms = 0;

    for (unsigned i = 0; i < n; i++) {
        w[i].key = i * UINT64_C(100000);
        if (in_streams)
            CHECK_OK(NULL, rstream_open(&stream[i], NULL));
        for (int k = 0; k < 2; k++)
            pair_open_in(&w[i].p[k], op, stream[i]);
    }
    (void)lock_count_init();
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
        all.ours += w[i].locks.ours;
        all.others += w[i].locks.others;
        ms += w[i].ms;
        for (int k = 0; k < 2; k++)
            pair_close(&w[i].p[k]);
        if (in_streams)
            CHECK_OK(NULL, rstream_close(stream[i]));
    }
    print_message("%u threads, %s: locks per message: %.3f of the library, %.3f of others\n", n,
                  in_streams ? "each with a stream" : "without streams",
                  (double)all.ours / (n * MESSAGES), (double)all.others / (n * MESSAGES));
    assert_int_equal(atomic_load(&check_failures), 0);
    if (in_streams)
        check_locks(all.ours, n * MESSAGES, ms);
    if (!in_streams && (strcmp(network(), "tcp") == 0 || strcmp(network(), "ofi") == 0))
        assert_true(all.ours > n * MESSAGES); /* it has locks: so the counter counts */
}

static void test_locks(rpipe_op_t op)
{
    for (unsigned n = 1; n <= THREADS_MOST; n *= 2)
        threads_run(n, op, true);
    threads_run(4, op, false);
}

/* One thread writes, in its stream, and another one reads, in its own: the reader of a PUT pipe makes no transfer. */
struct one_way {
    struct pair p;
    uint64_t messages, from; /* of those from `from` on the locks are counted */
    struct lock_counts locks[2];
    double ms[2]; /* in which they were taken */
};

static void *one_way_write(void *of)
{
    struct one_way *o = of;

    for (uint64_t i = 0; i < o->messages; i++) {
        uint64_t word = i;

        if (i == o->from) {
            o->ms[0] = now_ms();
            lock_count_begin();
        }
        if (rsend(o->p.w, &word, sizeof(word), 0) != 0)
            atomic_fetch_add(&check_failures, 1);
    }
    o->locks[0] = lock_count_end();
    o->ms[0] = now_ms() - o->ms[0];
    return NULL;
}

static void *one_way_read(void *of)
{
    struct one_way *o = of;

    for (uint64_t i = 0; i < o->messages; i++) {
        uint64_t word = ~i;

        if (i == o->from) {
            o->ms[1] = now_ms();
            lock_count_begin();
        }
        if (rrecv(o->p.r, &word, sizeof(word), NULL, 0) != 0 || word != i)
            atomic_fetch_add(&check_failures, 1);
    }
    o->locks[1] = lock_count_end();
    o->ms[1] = now_ms() - o->ms[1];
    return NULL;
}

static void test_one_way(rpipe_op_t op)
{
    struct one_way o = {.messages = 6000, .from = 5000};
    rpipe_config_t cfg = pair_config(op, 65536), w = pair_writer(cfg), r = pair_reader(cfg);
    pthread_t thread[2];
    rstream_t stream[2];

    CHECK_OK(NULL, rstream_open(&stream[0], NULL));
    CHECK_OK(NULL, rstream_open(&stream[1], NULL));
    w.stream = stream[0];
    r.stream = stream[1];
    CHECK_OK(NULL, rpipe(&o.p.w, &w));
    CHECK_OK(NULL, rpipe(&o.p.r, &r));
    CHECK_OK(o.p.w, rwait(o.p.w));
    CHECK_OK(o.p.r, rwait(o.p.r));
    (void)lock_count_init();
    assert_int_equal(pthread_create(&thread[0], NULL, one_way_write, &o), 0);
    assert_int_equal(pthread_create(&thread[1], NULL, one_way_read, &o), 0);
    assert_int_equal(pthread_join(thread[0], NULL), 0);
    assert_int_equal(pthread_join(thread[1], NULL), 0);
    print_message("one way: locks of the library in 1000 messages: %llu of the writer, in %.0f ms, "
                  "%llu of the reader\n",
                  (unsigned long long)o.locks[0].ours, o.ms[0],
                  (unsigned long long)o.locks[1].ours);
    assert_int_equal(atomic_load(&check_failures), 0);
    check_locks(o.locks[0].ours, o.messages - o.from, o.ms[0]);
    check_locks(o.locks[1].ours, o.messages - o.from, o.ms[1]);
    pair_close(&o.p);
    CHECK_OK(NULL, rstream_close(stream[0]));
    CHECK_OK(NULL, rstream_close(stream[1]));
}

/*
 * Figure 4.6 of Zambre 2020: each of two threads waits on one of its streams for what the other one sends only when something has
 * arrived on another stream. A thread that progressed the stream it waits on alone would never send.
 */
struct crossed {
    struct pair first, second; /* on two streams of the receiving thread */
};

static void *crossed_receive(void *of)
{
    struct crossed *c = of;

    pair_read_free(&c->second, 60000, 2); /* the later one first */
    pair_read_free(&c->first, 60000, 1);
    return NULL;
}

static void test_crossed(rpipe_op_t op)
{
    rstream_t stream[4];
    struct crossed c = {0};
    rpipe_config_t cfg;
    pthread_t thread;

    for (size_t i = 0; i < 4; i++)
        CHECK_OK(NULL, rstream_open(&stream[i], NULL));
    for (size_t i = 0; i < 2; i++) {
        struct pair *p = i == 0 ? &c.first : &c.second;
        rpipe_config_t w, r;

        cfg = pair_config(op, 65536);
        w = pair_writer(cfg);
        r = pair_reader(cfg);
        w.stream = stream[i];
        r.stream = stream[2 + i];
        CHECK_OK(NULL, rpipe(&p->w, &w));
        CHECK_OK(NULL, rpipe(&p->r, &r));
        CHECK_OK(p->w, rwait(p->w));
    }
    CHECK_OK(
        c.first.w,
        rcork(c.first.w, 1)); /* what is held of the one stream is posted by a wait on the other */
    CHECK_OK(c.second.w, rcork(c.second.w, 1));
    assert_int_equal(pthread_create(&thread, NULL, crossed_receive, &c), 0);
    pair_send(&c.first, 60000, 1);
    pair_send(&c.second, 60000, 2);
    if (op == RPIPE_PUT)
        CHECK_OK(c.first.w, rflush(c.first.w)); /* waits on the first stream alone */
    else
        CHECK_OK(NULL, rprogress());
    assert_int_equal(pthread_join(thread, NULL), 0);
    pair_close(&c.first);
    pair_close(&c.second);
    for (size_t i = 0; i < 4; i++)
        CHECK_OK(NULL, rstream_close(stream[i]));
}

/* ---- mistakes ---- */

static void test_misuse(rpipe_op_t op)
{
    rstream_config_t bad = {.share = (rstream_share_t)6};
    rpipe_config_t cfg = pair_writer(pair_config(op, 4096));
    rstream_t stream = NULL, other = (rstream_t)&cfg;
    rch_t ch;

    CHECK_RC(-EINVAL, NULL, rstream_open(NULL, NULL));
    CHECK_RC(-EINVAL, NULL, rstream_open(&stream, &bad));
    assert_null(stream);
    CHECK_RC(-EINVAL, NULL, rstream_close(NULL));
    CHECK_RC(-EINVAL, NULL, rstream_close(other));
    cfg.stream = other;
    CHECK_RC(-EINVAL, NULL, rpipe(&ch, &cfg));
    CHECK_OK(NULL, rstream_open(&stream, NULL));
    cfg.stream = stream;
    cfg.flags = RPIPE_THREADS;
    CHECK_RC(-EINVAL, NULL, rpipe(&ch, &cfg));
    CHECK_OK(NULL, rstream_close(stream));
    cfg.flags = 0;
    CHECK_RC(-EINVAL, NULL, rpipe(&ch, &cfg)); /* closed */
}

/* Two threads make calls on two pipes of one stream, until one of the two calls fails. */
static _Atomic int found;

static void *calls(void *of)
{
    struct pair *p = of;
    double begun = now_ms();

    while (atomic_load(&found) == 0 && now_ms() - begun < CHECK_LATE_MS) {
        raddr_t d;
        int rc = rread(p->r, &d, NULL);

        if (rc == -EBUSY && strstr(rerror(p->r), "same stream") != NULL)
            atomic_store(&found, 1);
        else if (rc != -ETIMEDOUT)
            atomic_fetch_add(&check_failures, 1);
    }
    return NULL;
}

/* The same by rpoll. */
static void *polls(void *of)
{
    struct pair *p = of;
    double begun = now_ms();

    while (atomic_load(&found) == 0 && now_ms() - begun < CHECK_LATE_MS) {
        int ready, rc = rpoll(&p->r, 1, &ready, 20);

        if (rc == -EBUSY && strstr(rerror(p->r), "same stream") != NULL)
            atomic_store(&found, 1);
        else if (rc != -ETIMEDOUT)
            atomic_fetch_add(&check_failures, 1);
    }
    return NULL;
}

static void two_threads_run(struct pair *p, void *(*main_thread)(void *))
{
    pthread_t thread;

    atomic_store(&found, 0);
    assert_int_equal(pthread_create(&thread, NULL, calls, &p[0]), 0);
    (void)main_thread(&p[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&found), 1);
    assert_int_equal(atomic_load(&check_failures), 0);
}

static void test_two_threads(rpipe_op_t op)
{
    const char *debug = getenv("RMALLOC_DEBUG");
    struct pair p[2];
    rstream_t stream;

    if (debug == NULL || strcmp(debug, "1") != 0)
        return; /* not found */
    CHECK_OK(NULL, rstream_open(&stream, NULL));
    for (size_t i = 0; i < 2; i++) {
        pair_open_in(&p[i], op, stream);
        CHECK_OK(p[i].r, rset_timeout(p[i].r, 20));
    }
    two_threads_run(p, calls);
    two_threads_run(p, polls);
    for (size_t i = 0; i < 2; i++) {
        CHECK_OK(p[i].r, rset_timeout(p[i].r, (int)CHECK_LATE_MS));
    }
    pair_send(&p[1], 8, 1);
    pair_read_free(&p[1], 8, 1);
    for (size_t i = 0; i < 2; i++)
        pair_close(&p[i]);
    CHECK_OK(NULL, rstream_close(stream));
}

/* Last: rexit closes it. */
static void test_left_open(void **state)
{
    rstream_t stream;

    (void)state;
    CHECK_OK(NULL, rstream_open(&stream, NULL));
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_open_close), BOTH(test_describe),    BOTH(test_closed_before_pipe),
        BOTH(test_locks),      BOTH(test_one_way),     BOTH(test_crossed),
        BOTH(test_misuse),     BOTH(test_two_threads), cmocka_unit_test(test_left_open)};

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void)
{
    /* an emulated machine: one setting, since connecting takes most of the time */
    if (strcmp(network(), "verbs") == 0)
        setenv("PAIR_ONLY", "0", 0);
    return pair_main(group);
}
