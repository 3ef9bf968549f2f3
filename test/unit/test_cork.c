/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Corked pipes: messages that are held are posted together, and before this thread waits in any call. Counts, no times: what
 * a message asks of the network is a counter of its pipe. Over a backend that holds nothing the same must hold but for the counts.
 */
#include "test/lib/counts.h"
#include "test/lib/pair.h"
#include "test/lib/random.h"

#include <rpipe.h>

#define SLOTS 512 /* over a network the default */

static uint64_t doorbells(rch_t ch)
{
    uint64_t n = 0;

    CHECK_OK(ch, rinfo_count(ch, "doorbells", &n));
    return n;
}

/* Backends that hold writes. */
static bool holds(void)
{
    const char *btl = getenv("RPIPE_BTL");

    return btl != NULL && (strcmp(btl, "tcp") == 0 || strcmp(btl, "verbs") == 0);
}

static void pair_open_default(struct pair *p, rpipe_op_t op, size_t heap)
{
    rpipe_config_t cfg = pair_config(op, heap);

    cfg.slots = SLOTS;
    pair_open_with(p, &cfg);
}

static void receive_all(struct pair *p, size_t n, size_t bytes, uint64_t key)
{
    for (size_t i = 0; i < n; i++)
        pair_read_free(p, bytes, key + i);
}

/* ---- counts ---- */

static void test_doorbells(rpipe_op_t op)
{
    enum { ROUNDS = 20, N = 320 };
    uint64_t before, corked, uncorked;
    struct pair p;

    pair_open_default(&p, op, 65536);
    CHECK_OK(p.w, rcork(p.w, 1));
    pair_send(&p, 8, 0); /* from here on the backend holds */
    CHECK_OK(p.w, rflush(p.w));
    pair_read_free(&p, 8, 0);
    corked = doorbells(p.w);
    for (uint64_t r = 0; r < ROUNDS; r++) {
        for (uint64_t i = 0; i < N; i++)
            pair_send(&p, 8, r * N + i);
        receive_all(&p, N, 8, r * N);
    }
    corked = doorbells(p.w) - corked;
    CHECK_OK(p.w, rcork(p.w, 0));
    before = doorbells(p.w);
    for (uint64_t i = 0; i < N; i++)
        pair_send(&p, 8, i);
    uncorked = doorbells(p.w) - before;
    receive_all(&p, N, 8, 0);
    print_message("doorbells per message of 8 bytes: %.3f corked, %.3f not\n",
                  (double)corked / (ROUNDS * N), (double)uncorked / N);
    if (holds()) /* one for 32, and the credits: two for each ring */
        assert_true(corked * 20 <= ROUNDS * N);
    pair_close(&p);
}

/* Messages that do not follow each other at once, as between other work: what a network posts by itself. */
static void test_spaced(rpipe_op_t op)
{
    enum { N = 320 };
    uint64_t count[2];
    struct pair p;

    pair_open_default(&p, op, 65536);
    for (int corked = 0; corked < 2; corked++) {
        CHECK_OK(p.w, rcork(p.w, corked));
        pair_send(&p, 8, 0);
        CHECK_OK(p.w, rflush(p.w));
        pair_read_free(&p, 8, 0);
        count[corked] = doorbells(p.w);
        for (uint64_t i = 0; i < N; i++) {
            double since;

            pair_send(&p, 8, i);
            since = now_ms();
            while (now_ms() - since < 0.02)
                ;
        }
        count[corked] = doorbells(p.w) - count[corked];
        receive_all(&p, N, 8, 0);
    }
    print_message("doorbells per message of 8 bytes, 20 us apart: %.3f corked, %.3f not\n",
                  (double)count[1] / N, (double)count[0] / N);
    if (holds()) {
        assert_true(count[0] >= N);
        assert_true(count[1] * 5 <= count[0]);
    }
    pair_close(&p);
}

/* 31 messages are held: no doorbell. The 32nd posts all. */
static void test_thirty_two(rpipe_op_t op)
{
    struct pair p;
    uint64_t before;

    pair_open_default(&p, op, 65536);
    CHECK_OK(p.w, rcork(p.w, 1));
    before = doorbells(p.w);
    for (uint64_t i = 0; i < 31; i++)
        pair_send(&p, 8, i);
    if (holds())
        assert_int_equal(doorbells(p.w) - before, 0);
    pair_send(&p, 8, 31);
    if (holds())
        assert_int_equal(doorbells(p.w) - before, 1);
    receive_all(&p, 32, 8, 0);
    pair_close(&p);
}

/* ---- what posts ---- */

static struct pair other; /* a pipe on which nothing comes */
static rboard_t board;

static void by_uncork(struct pair *p) { CHECK_OK(p->w, rcork(p->w, 0)); }
static void by_flush(struct pair *p) { CHECK_OK(p->w, rflush(p->w)); }
static void by_progress(struct pair *p)
{
    (void)p;
    CHECK_OK(NULL, rprogress());
}

static void by_read_nb(struct pair *p)
{
    raddr_t d;

    (void)p;
    CHECK_RC(R_PENDING, other.r, rread_nb(other.r, &d, NULL));
}

static void by_read(struct pair *p)
{
    raddr_t d;

    (void)p;
    CHECK_OK(other.r, rset_timeout(other.r, 1));
    CHECK_RC(-ETIMEDOUT, other.r, rread(other.r, &d, NULL));
}

static void by_recv(struct pair *p)
{
    char buf[8];

    (void)p;
    CHECK_RC(R_PENDING, other.r, rrecv(other.r, buf, sizeof(buf), NULL, R_NOWAIT));
}

static void by_poll(struct pair *p)
{
    int ready;

    (void)p;
    CHECK_RC(R_PENDING, NULL, rpoll(&other.r, 1, &ready, 0));
}

static void by_barrier(struct pair *p)
{
    (void)p;
    CHECK_OK(NULL, network_barrier());
}

static void by_board(struct pair *p)
{
    uint32_t *word = rboard_mem(board);
    rboard_word_t awaited = {word, *word};

    (void)p;
    CHECK_RC(-ETIMEDOUT, NULL, rboard_sleep(board, &awaited, 1, 1));
}

static void test_what_posts(rpipe_op_t op)
{
    static const struct {
        const char *name;
        void (*post)(struct pair *p);
    } way[] = {{"rcork 0", by_uncork},
               {"rflush", by_flush},
               {"rprogress", by_progress},
               {"rread_nb of another pipe", by_read_nb},
               {"rread of another pipe", by_read},
               {"rrecv of another pipe", by_recv},
               {"rpoll of another pipe", by_poll},
               {"network_barrier", by_barrier},
               {"rboard_sleep", by_board}};
    rboard_config_t cfg = {.context = 5 + (op == RPIPE_GET)};

    CHECK_OK(NULL, rboard_open(&board, &cfg, NULL, 1));
    CHECK_OK(NULL, rboard_wait(board));
    pair_open_default(&other, op, 4096);
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
        struct pair p;
        uint64_t before;

        pair_open_default(&p, op, 4096);
        CHECK_OK(p.w, rcork(p.w, 1));
        before = doorbells(p.w);
        pair_send(&p, 8, i);
        pair_send(&p, 300, i);
        if (holds() && doorbells(p.w) != before)
            fail_msg("%s: the messages were posted before", way[i].name);
        way[i].post(&p);
        if (holds() && doorbells(p.w) == before)
            fail_msg("%s has not posted what this thread has left", way[i].name);
        pair_read_free(&p, 8, i);
        pair_read_free(&p, 300, i);
        pair_close(&p);
    }
    pair_close(&other);
    CHECK_OK(NULL, rboard_close(board));
}

/* The reader has everything after rclose, also without rcork 0. */
static void test_close(rpipe_op_t op)
{
    struct pair p;
    raddr_t d;

    pair_open_default(&p, op, 65536);
    CHECK_OK(p.w, rcork(p.w, 1));
    for (uint64_t i = 0; i < 7; i++)
        pair_send(&p, 100, i);
    if (op == RPIPE_PUT) /* what a reader fetches is in the heap of the writer until then */
        CHECK_OK(p.w, rclose(p.w));
    receive_all(&p, 7, 100, 0);
    if (op == RPIPE_GET)
        CHECK_OK(p.w, rclose(p.w));
    CHECK_RC(R_EOF, p.r, rread(p.r, &d, NULL));
    CHECK_OK(p.r, rclose(p.r));
}

/* A full ring, of a network that may be busy at first: the call that would wait posts everything before it. */
static void test_full_ring(rpipe_op_t op)
{
    double begun = now_ms();
    size_t n = 0;
    struct pair p;

    pair_open_default(&p, op, 65536);
    CHECK_OK(p.w, rcork(p.w, 1));
    for (;; n++) {
        char text[8];
        int rc;

        pattern_fill(text, sizeof(text), n);
        rc = rsend(p.w, text, sizeof(text), R_NOWAIT);
        while (rc == R_PENDING && n == 0 && pair_patience(begun))
            rc = rsend(p.w, text, sizeof(text), R_NOWAIT);
        if (rc == R_PENDING)
            break;
        CHECK_OK(p.w, rc);
        assert_true(n <= SLOTS);
    }
    assert_true(n > 0);
    receive_all(&p, n, 8, 0);
    pair_close(&p);
}

/* More corked pipes than a thread keeps track of. */
static void test_many(rpipe_op_t op)
{
    enum { PIPES = 70 };
    struct pair p[PIPES];

    for (size_t i = 0; i < PIPES; i++) {
        pair_open(&p[i], op, 4096);
        CHECK_OK(p[i].w, rcork(p[i].w, 1));
    }
    for (size_t i = 0; i < PIPES; i++)
        pair_send(&p[i], 8, i);
    for (size_t i = 0; i < PIPES; i++)
        pair_read_free(&p[i], 8, i);
    for (size_t i = 0; i < PIPES; i++)
        pair_close(&p[i]);
}

/* Messages of all sizes, in order, corked and not in turns. */
static void test_sizes(rpipe_op_t op)
{
    static const size_t size[] = {0, 8, 40, 41, 128, 129, 512, 513, 4096, 70000};
    const size_t sizes = sizeof(size) / sizeof(size[0]);
    uint64_t random = 77, sent = 0, read = 0; /* always the same */
    struct pair p;

    pair_open_default(&p, op, (size_t)1 << 20);
    while (sent < 3000) {
        if (random_draw(&random) % 40 == 0)
            CHECK_OK(p.w, rcork(p.w, (int)(random_draw(&random) % 2)));
        if (random_draw(&random) % 10 < 6 && sent - read < 12) {
            pair_send(&p, size[sent % sizes], sent);
            sent++;
        } else if (read < sent) {
            pair_read_free(&p, size[read % sizes], read);
            read++;
        }
    }
    for (; read < sent; read++)
        pair_read_free(&p, size[read % sizes], read);
    pair_close(&p);
}

/* ---- two threads, each of which awaits what the other has written to a corked pipe ---- */

struct answer {
    struct pair to, from;
    uint64_t rounds;
};

static void *answering(void *of)
{
    struct answer *a = of;

    for (uint64_t i = 0; i < a->rounds; i++) {
        pair_read_free(&a->to, 8, i);
        pair_send(&a->from, 8, i);
    }
    CHECK_OK(a->from.w, rcork(a->from.w, 0)); /* the thread ends without another call that waits */
    return NULL;
}

static void test_ping_pong(rpipe_op_t op)
{
    struct answer a = {.rounds = 500};
    pthread_t thread;

    pair_open(&a.to, op, 4096);
    pair_open(&a.from, op, 4096);
    CHECK_OK(a.to.w, rcork(a.to.w, 1));
    CHECK_OK(a.from.w, rcork(a.from.w, 1));
    assert_int_equal(pthread_create(&thread, NULL, answering, &a), 0);
    for (uint64_t i = 0; i < a.rounds; i++) {
        pair_send(&a.to, 8, i);
        pair_read_free(&a.from, 8, i);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    pair_close(&a.to);
    pair_close(&a.from);
}

/* ---- mistakes ---- */

static void test_misuse(rpipe_op_t op)
{
    rpipe_config_t cfg = pair_config(op, 4096);
    struct pair p;

    CHECK_RC(-EINVAL, NULL, rcork(NULL, 1));
    cfg.flags = RPIPE_THREADS;
    pair_open_with(&p, &cfg);
    CHECK_RC(-EINVAL, p.w, rcork(p.w, 1));
    CHECK_OK(p.w, rcork(p.w, 0));
    CHECK_RC(-EBADF, p.r, rcork(p.r, 1));
    pair_close(&p);
    CHECK_RC(-ENOTCONN, NULL, rcork(p.w, 1));
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_doorbells), BOTH(test_spaced),    BOTH(test_thirty_two), BOTH(test_what_posts),
        BOTH(test_close),     BOTH(test_full_ring), BOTH(test_many),       BOTH(test_sizes),
        BOTH(test_ping_pong), BOTH(test_misuse)};

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
