/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every heuristic with every mode, PUT and GET: what rmalloc(3), rwrite(3) and rfree(3) specify for a heap that is full, for a
 * queue that is full, for what stands in the way, and for what ends a wait. With RPIPE_WAIT=sleep too, where a waiting call sleeps at
 * once. Random traffic over all combinations is test/mpi/mp_modes.c; the tests of pipes run in several modes by themselves.
 */
#include "test/lib/pipe_load.h"
#include "test/lib/pipe_modes.h"
#include "test/lib/counts.h"
#include <rpipe.h>

/* the writer holds nothing unsent, the reader has freed all: all of the heap is there, and the counters agree */
static void whole_heap(const struct pair *p, size_t bytes)
{
    struct pipe_counts w = {0}, r = {0};
    raddr_t d = ANY_RADDR;

    CHECK_OK(p->w, rmalloc_nb(p->w, bytes, &d));
    CHECK_OK(p->w, rfree(p->w, d));
    w = stats(p->w);
    r = stats(p->r);
    assert_int_equal(w.heap_used, 0);
    assert_int_equal(r.heap_used, 0);
    assert_int_equal(w.held + r.held, 0);
    assert_int_equal(w.returned, w.messages - w.inline_messages);
    assert_int_equal(r.returned, w.returned);
}

/* ---- free memory ---- */

static void full_heap(const struct mode *m)
{
    raddr_t d = ANY_RADDR, held[16];
    uint64_t stalls;
    struct pair p;

    mode_open(&p, m, 1024, 0);
    CHECK_RC(-EINVAL, p.w, rset_timeout(p.w, -3)); /* sets an error message */
    for (uint64_t round = 0; round < 3; round++) {
        char before[512];

        for (uint64_t i = 0; i < 16; i++)
            pair_send(&p, 64, i);
        snprintf(before, sizeof(before), "%s", rerror(p.w));
        stalls = stats(p.w).stalls_heap;
        CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 41, &d));
        CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 1024, &d));
        assert_string_equal(rerror(p.w), before); /* a full heap is no failure */
        assert_int_equal(stats(p.w).stalls_heap, stalls + 2);
        CHECK_OK(p.w, rset_timeout(p.w, -1));
        CHECK_ERRNO(EMSGSIZE,
                    rmalloc(p.w, 1025)); /* at once, full or not, though the deadline is never */
        CHECK_RC(-EMSGSIZE, p.w, rmalloc_nb(p.w, 1025, &d));
        CHECK_OK(p.w, rset_timeout(p.w, R_AT_ONCE));
        CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, 64));
        CHECK_OK(p.w, rset_timeout(p.w, 20000));
        if (!on_device_heap())
            pair_send(&p, 40, 99); /* takes no heap */
        for (uint64_t i = 0; i < 16; i++)
            held[i] = pair_receive(&p, 64, i);
        if (!on_device_heap())
            pair_read_free(&p, 40, 99);
        CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 64, &d)); /* read is not freed */
        for (size_t i = 16; i > 0; i--)
            CHECK_OK(p.r, rfree(p.r, held[i - 1]));
        assert_true(d == ANY_RADDR);
        whole_heap(&p, 1024);
    }
    pair_close(&p);
}

/*
 * A block of 256 that is unsent, between two that are sent: it leaves 256 before it and 512 behind it. What needs more is a wait
 * while the reader has something to free, and then -ENOBUFS at once, to a call that waits, too.
 */
static void *waits_for_itself(void *argument)
{
    const struct pair *p = argument;

    errno = 0;
    CHECK(p->w, rmalloc(p->w, 513) == ADDR_NULL && errno == ENOBUFS);
    return NULL;
}

static void unsent_in_the_middle(const struct mode *m)
{
    raddr_t a, b, c, d = ANY_RADDR;
    pthread_t thread;
    struct pair p;

    mode_open(&p, m, 1024, 0);
    CHECK_OK(p.w, rset_timeout(p.w, -1));
    a = pair_alloc(&p, 256, 1);
    b = pair_alloc(&p, 256, 2);
    c = pair_alloc(&p, 512, 3);
    CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 64, &d)); /* nothing is sent */
    CHECK_ERRNO(ENOBUFS, rmalloc(p.w, 64));           /* at once, though the deadline is never */
    CHECK_OK(p.w, rwrite(p.w, c));
    CHECK_OK(p.w, rwrite(p.w, a));
    CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 1024, &d));
    c = pair_receive(&p, 512, 3);
    a = pair_receive(&p, 256, 1);
    CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 512, &d));
    CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 513, &d));
    assert_int_equal(pthread_create(&thread, NULL, waits_for_itself, &p), 0);
    compute_us(draw() % 500);
    CHECK_OK(p.r, rfree(p.r, a));
    compute_us(draw() % 200);
    CHECK_OK(p.r, rfree(p.r, c));
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&check_failures), 0);
    CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 513, &d));
    CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 1024, &d));
    CHECK_ERRNO(ENOBUFS, rmalloc(p.w, 1024));
    assert_true(d == ANY_RADDR);
    CHECK_OK(p.w, rmalloc_nb(p.w, 512, &c)); /* what it leaves */
    assert_true(pattern_same(rmem(p.w, b), 256, 2));
    CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 513, &d));
    CHECK_OK(p.w, rfree(p.w, c));
    CHECK_OK(p.w, rfree(p.w, b));
    whole_heap(&p, 1024);
    pair_close(&p);
}

/* any order of the frees, any order of the sizes before */
static void frees_in_any_order(const struct mode *m)
{
    enum { N = 20 };
    struct pair p;

    mode_open(&p, m, 64 * 64, 0);
    CHECK_OK(p.w, rset_timeout(p.w, R_AT_ONCE));
    for (int round = 0; round < 40; round++) {
        raddr_t held[N];
        uint64_t key[N];
        size_t size[N], n, k;

        for (n = 0; n < N; n++) {
            raddr_t d;
            int rc;

            key[n] = draw();
            size[n] = draw() % 500;
            rc = rmalloc_nb(p.w, size[n], &d);
            if (rc != R_SUCCESS) {
                CHECK_RC(R_PENDING, p.w, rc);
                break;
            }
            pattern_fill(rmem(p.w, d), size[n], key[n]);
            CHECK_OK(p.w, rwrite(p.w, d));
            held[n] = pair_receive(&p, size[n], key[n]);
        }
        assert_true(n >= 8);
        while (n > 0) {
            k = draw() % n;
            assert_true(pattern_same(rmem(p.r, held[k]), size[k], key[k]));
            CHECK_OK(p.r, rfree(p.r, held[k]));
            held[k] = held[--n];
            size[k] = size[n];
            key[k] = key[n];
        }
        whole_heap(&p, 64 * 64);
    }
    pair_close(&p);
}

/* the writer has closed, or is gone: what is held can be freed, in any order */
static void frees_after_the_end(const struct mode *m)
{
    raddr_t held[16];
    struct pair p;

    for (int round = 0; round < 2; round++) {
        mode_open(&p, m, 1024, 0);
        for (uint64_t i = 0; i < 16; i++)
            pair_send(&p, 64, i);
        for (uint64_t i = 0; i < 8; i++)
            held[i] = pair_receive(&p, 64, i);
        CHECK_OK(p.w, rclose(p.w));
        for (uint64_t i = 8; i < 16; i++)
            held[i] = pair_receive(&p, 64, i);
        CHECK_RC(R_EOF, p.r, rread(p.r, &held[0], NULL));
        for (size_t i = 16; i > 0; i -= 2) {
            assert_true(pattern_same(rmem(p.r, held[i - 1]), 64, i - 1));
            CHECK_OK(p.r, rfree(p.r, held[i - 1]));
        }
        if (round == 0)
            for (size_t i = 0; i < 16; i += 2)
                CHECK_OK(p.r, rfree(p.r, held[i]));
        CHECK_OK(p.r, rclose(p.r));
    }
}

/* On a GET channel the heap is here: it is used before the reader is; nothing can have come back. */
static void before_the_join(const struct mode *m)
{
    rpipe_config_t cfg = mode_config(m, 1024, 0), w = pair_writer(cfg), r = pair_reader(cfg);
    raddr_t a, b, d = ANY_RADDR;
    struct pair p;

    CHECK_OK(NULL, rpipe(&p.w, &w));
    if (m->op == RPIPE_PUT) {
        CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 512, &d));
        CHECK_OK(NULL, rpipe(&p.r, &r));
    }
    a = pair_alloc(&p, 512, 1);
    b = pair_alloc(&p, 512, 2);
    CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 64, &d));
    CHECK_OK(p.w, rfree(p.w, b));
    b = pair_alloc(&p, 512, 3);
    if (m->op == RPIPE_GET) {
        CHECK_RC(R_PENDING, p.w, rwrite_nb(p.w, a));
        CHECK_OK(NULL, rpipe(&p.r, &r));
    }
    CHECK_OK(p.w, rwrite(p.w, b));
    CHECK_OK(p.w, rwrite(p.w, a));
    pair_read_free(&p, 512, 3);
    pair_read_free(&p, 512, 1);
    whole_heap(&p, 1024);
    pair_close(&p);
}

/* What an earlier incarnation has left in the same memory, tags of the first lap included, is not taken for news. */
static void incarnations(const struct mode *m)
{
    rpipe_config_t cfg = mode_config(m, 1024, 5);
    raddr_t held, d = ANY_RADDR;
    struct pair p;

    for (uint64_t round = 0; round < 12; round++) {
        pair_open_with(&p, &cfg);
        pair_send(&p, 600, round);
        held = pair_receive(&p, 600, round);
        CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 600, &d));
        assert_true(pattern_same(rmem(p.r, held), 600, round));
        CHECK_OK(p.r, rfree(p.r, held));
        for (uint64_t i = 0; i < round; i++) { /* leaves the queue at every position */
            pair_send(&p, 100, i);
            pair_read_free(&p, 100, i);
        }
        whole_heap(&p, 1024);
        if (round % 3 == 0)
            pair_send(&p, 1024, 1); /* the end comes before it is read */
        pair_close(&p);
    }
}

/* ---- the queue ---- */

static void queue_full(const struct mode *m)
{
    static const uint32_t queues[] = {1, 2, 3, 16};
    const uint64_t in_slots = on_device_heap() ? 0 : 5;

    for (size_t k = 0; k < sizeof(queues) / sizeof(*queues); k++) {
        uint64_t q = queues[k], stalls;
        raddr_t held[16] = {ADDR_NULL}, d, last;
        struct pair p;

        mode_open(&p, m, 4096, queues[k]);
        for (int round = 0; round < 7; round++) {
            for (uint64_t i = 0; i < q; i++)
                pair_send(&p, 50, i);
            d = pair_alloc(&p, 60, 7);
            if (m->sync == RPIPE_SYNC_BLOCKS) { /* there is none */
                CHECK_OK(p.w, rwrite_nb(p.w, d));
            } else {
                stalls = stats(p.w).stalls_queue;
                CHECK_RC(R_PENDING, p.w, rwrite_nb(p.w, d));
                CHECK_OK(p.w, rset_timeout(p.w, R_AT_ONCE));
                CHECK_RC(-ETIMEDOUT, p.w, rwrite(p.w, d));
                CHECK_RC(-ETIMEDOUT, p.w,
                         rwrite_n(p.w, d, 50)); /* not even what would fit into a slot */
                assert_int_equal(stats(p.w).stalls_queue, stalls + 3);
                assert_int_equal(rsize(p.w, d), 60);
                assert_true(pattern_same(rmem(p.w, d), 60, 7)); /* it is still the caller's */
            }
            for (uint64_t i = 0; i < in_slots; i++)
                pair_send(&p, 40, 100 + i); /* what rides in its slot is not held up */
            for (uint64_t i = 0; i < q; i++)
                held[i] = pair_receive(&p, 50, i);
            if (m->sync == RPIPE_SYNC_BLOCKS)
                pair_read_free(&p, 60, 7);
            for (uint64_t i = 0; i < in_slots; i++)
                pair_read_free(&p, 40, 100 + i);
            last = held[draw() % q];
            if (m->sync != RPIPE_SYNC_BLOCKS) {
                CHECK_RC(R_PENDING, p.w, rwrite_nb(p.w, d)); /* read is not freed */
                CHECK_OK(p.r, rfree(p.r, last));             /* any one makes space for one */
                CHECK_OK(p.w, rwrite_nb(p.w, d));
                d = pair_alloc(&p, 60, 8);
                CHECK_RC(R_PENDING, p.w, rwrite_nb(p.w, d));
                CHECK_OK(p.w, rfree(p.w, d));
                pair_read_free(&p, 60, 7);
                for (uint64_t i = 0; i < q; i++)
                    if (held[i] != last)
                        CHECK_OK(p.r, rfree(p.r, held[i]));
            } else {
                for (uint64_t i = 0; i < q; i++)
                    CHECK_OK(p.r, rfree(p.r, held[i]));
            }
            CHECK_OK(p.w, rset_timeout(p.w, 20000));
            whole_heap(&p, 4096);
        }
        pair_close(&p);
    }
}

/* ---- waiting ---- */

/* two sides that wait for each other to read: the deadline of each ends it */
struct side {
    struct pair out;
    bool in_rwrite;
    raddr_t unsent;
    pthread_barrier_t *begin;
};

static void *waits_in_vain(void *argument)
{
    struct side *s = argument;

    pthread_barrier_wait(s->begin);
    if (s->in_rwrite) {
        CHECK(s->out.w, rwrite(s->out.w, s->unsent) == -ETIMEDOUT);
        CHECK(s->out.w, rfree(s->out.w, s->unsent) == R_SUCCESS);
    } else {
        errno = 0;
        CHECK(s->out.w, rmalloc(s->out.w, 1024) == ADDR_NULL && errno == ETIMEDOUT);
    }
    return NULL;
}

static void both_wait(const struct mode *m)
{
    pthread_barrier_t begin;
    struct side side[2];
    pthread_t thread[2];

    for (int in_rwrite = 0; in_rwrite < (m->sync == RPIPE_SYNC_BLOCKS ? 1 : 2); in_rwrite++) {
        double start = now_ms();

        pthread_barrier_init(&begin, NULL, 2);
        for (int i = 0; i < 2; i++) {
            side[i] = (struct side){.in_rwrite = in_rwrite != 0, .begin = &begin};
            mode_open(&side[i].out, m, 1024, 2);
            CHECK_OK(side[i].out.w, rset_timeout(side[i].out.w, 15));
            pair_send(&side[i].out, 100, 1);
            pair_send(&side[i].out, 100, 2);
            if (in_rwrite != 0)
                side[i].unsent = pair_alloc(&side[i].out, 100, 3);
        }
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, waits_in_vain, &side[i]), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(thread[i], NULL);
        assert_int_equal(atomic_load(&check_failures), 0);
        assert_true(now_ms() - start >= 14);
        for (int i = 0; i < 2; i++) { /* and all is as it was */
            pair_read_free(&side[i].out, 100, 1);
            pair_read_free(&side[i].out, 100, 2);
            whole_heap(&side[i].out, 1024);
            pair_close(&side[i].out);
        }
        pthread_barrier_destroy(&begin);
    }
}

/* a writer that waits, or sleeps, for memory or for the queue, is woken by rfree of any message that helps */
enum { WAKES = 40 };
static uint64_t woken[RPIPE_SYNC_CHANNEL + 1]; /* by rfree, in each mode */

static void *writes_many(void *argument)
{
    const struct pair *p = argument;

    for (uint64_t i = 0; i < WAKES; i++) {
        raddr_t d = rmalloc(p->w, 100);

        CHECK(p->w, d != ADDR_NULL);
        pattern_fill(rmem(p->w, d), 100, i);
        CHECK(p->w, rwrite(p->w, d) == R_SUCCESS);
    }
    return NULL;
}

static void wakes(const struct mode *m)
{
    for (int by_queue = 0; by_queue < 2; by_queue++) {
        struct pair p;
        raddr_t held[4];
        pthread_t thread;
        uint64_t got = 0, first = 0, before;
        double start = now_ms();

        /* 4 messages of 128 fit into the heap, or into the queue */
        mode_open(&p, m, by_queue != 0 ? 65536 : 512, by_queue != 0 ? 4 : 0);
        assert_int_equal(pthread_create(&thread, NULL, writes_many, &p), 0);
        while (got < WAKES) {
            bool fits = m->sync != RPIPE_SYNC_BLOCKS || by_queue == 0;

            for (; got < WAKES && got - first < 4; got++)
                held[got % 4] = pair_receive(&p, 100, got);
            if (fits)
                compute_us(draw() % 300); /* the writer is in some stage of its wait */
            before = stats(p.r).wakes;
            for (; first < got;
                 first++) { /* in the order in which any one of them helps: the oldest first */
                assert_true(pattern_same(rmem(p.r, held[first % 4]), 100, first));
                CHECK_OK(p.r, rfree(p.r, held[first % 4]));
                if (fits && draw() % 2 == 0)
                    compute_us(draw() % 100);
            }
            woken[m->sync] += stats(p.r).wakes - before;
        }
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&check_failures), 0);
        assert_true(now_ms() - start < CHECK_LATE_MS);
        whole_heap(&p, by_queue != 0 ? 65536 : 512);
        pair_close(&p);
    }
}

/* ---- several threads at one end ---- */

static size_t load_size(uint64_t i)
{
    return random_mix(i) % 5 == 0 ? random_mix(i) % 41 : 41 + random_mix(i) % 400;
}

static void pipe_load(const struct mode *m)
{
    /* no fewer than there are writers: each holds one unsent while it waits for the queue */
    rpipe_config_t cfg = mode_config(m, 4096, PIPE_LOAD_THREADS);
    struct pipe_load c = {.messages = 300, .holds = 1, .size = load_size};

    cfg.flags |= RPIPE_THREADS;
    pair_open_with(&c.p, &cfg);
    pipe_load_run(&c);
    assert_int_equal(stats(c.p.w).messages, c.messages);
    whole_heap(&c.p, 4096);
    pair_close(&c.p);
}

struct friends {
    struct pair p;
    atomic_bool waits;
};

/* with thread_sync another thread's unsent block is no -ENOBUFS: that thread may free it, and then the wait ends */
static void *waits_for_a_friend(void *argument)
{
    struct friends *c = argument;
    raddr_t d;

    atomic_store(&c->waits, true);
    d = rmalloc(c->p.w, 1024);
    CHECK(c->p.w, d != ADDR_NULL);
    CHECK(c->p.w, rfree(c->p.w, d) == R_SUCCESS);
    return NULL;
}

static void friends(const struct mode *m)
{
    rpipe_config_t cfg = mode_config(m, 1024, 0);
    struct friends c = {0};
    raddr_t d = ANY_RADDR, unsent;
    pthread_t thread;

    cfg.flags |= RPIPE_THREADS;
    pair_open_with(&c.p, &cfg);
    for (int round = 0; round < 4; round++) {
        atomic_store(&c.waits, false);
        unsent = pair_alloc(&c.p, 200, 1);
        CHECK_RC(R_PENDING, c.p.w, rmalloc_nb(c.p.w, 1024, &d));
        assert_int_equal(pthread_create(&thread, NULL, waits_for_a_friend, &c), 0);
        while (!atomic_load(&c.waits))
            ;
        compute_us(draw() % 500);
        if (round % 2 == 0) {
            CHECK_OK(c.p.w, rfree(c.p.w, unsent));
        } else {
            CHECK_OK(c.p.w, rwrite(c.p.w, unsent));
            pair_read_free(&c.p, 200, 1);
        }
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&check_failures), 0);
    }
    whole_heap(&c.p, 1024);
    pair_close(&c.p);
}

/* ---- the table ---- */

static void test_table(void **unused)
{
    (void)unused;
    for (int algorithm = RMALLOC_NEXT_FIT; algorithm <= RMALLOC_SEGREGATED_FIT; algorithm++) {
        for (int sync = RPIPE_SYNC_BLOCKS; sync <= RPIPE_SYNC_CHANNEL; sync++) {
            rpipe_config_t cfg = pair_writer(pair_config(RPIPE_PUT, 1000));
            rch_t ch;
            int rc;

            cfg.mode = (rpipe_sync_t)sync;
            cfg.heuristic = (rmalloc_fit_t)algorithm;
            rc = rpipe(&ch, &cfg);
            if (sync == RPIPE_SYNC_BLOCKS && algorithm != RMALLOC_NEXT_FIT) {
                CHECK_RC(-EINVAL, NULL, rc);
                assert_non_null(strstr(rerror(NULL), "RPIPE_SYNC_TAGS"));
                assert_non_null(strstr(rerror(NULL), "RPIPE_SYNC_CHANNEL"));
            } else {
                CHECK_OK(NULL, rc);
                CHECK_OK(ch, rclose(ch));
            }
        }
    }
}

static void test_wakes(void **unused)
{
    const char *wait = getenv("RPIPE_WAIT");

    (void)unused;
    in_every_mode(wakes);
    if (pair_over_network() || wait == NULL || strcmp(wait, "sleep") != 0)
        return;
    /* a sleeping call polls now and then by itself: only here its wake-up shows. On a busy machine it may not have got to sleep */
    for (int round = 0;
         round < 20 && !(woken[RPIPE_SYNC_BLOCKS] > 0 && woken[RPIPE_SYNC_TAGS] > 0 &&
                         woken[RPIPE_SYNC_CHANNEL] > 0);
         round++)
        in_every_mode(wakes);
    for (size_t sync = RPIPE_SYNC_BLOCKS; sync <= RPIPE_SYNC_CHANNEL; sync++)
        assert_true(woken[sync] > 0);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        IN_EVERY_MODE(full_heap),
        IN_EVERY_MODE(unsent_in_the_middle),
        IN_EVERY_MODE(frees_in_any_order),
        IN_EVERY_MODE(frees_after_the_end),
        IN_EVERY_MODE(before_the_join),
        IN_EVERY_MODE(incarnations),
        IN_EVERY_MODE(queue_full),
        IN_EVERY_MODE(both_wait),
        cmocka_unit_test_teardown(test_wakes, tell_mode),
        IN_EVERY_MODE(pipe_load),
        IN_EVERY_MODE(friends),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(int argc, char **argv)
{
    struct pair_child child[] = {
        {NULL, NULL, "0", NULL, "", 0, NULL},
        {"RPIPE_WAIT", "sleep", "0", NULL, "lazy scribble", 0, NULL},
        {"RPIPE_WAIT", "yield", "1", NULL, "order scribble", 0, NULL},
    };

    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    unsetenv("PAIR_MODE");
    return pair_children(child, sizeof(child) / sizeof(*child), group);
}
