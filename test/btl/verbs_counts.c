/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_counts.c: what the verbs backend asks of its device for each message, how often it polls, and how many lines it can have.
 *
 * One process, two lines of it connected with each other; needs an RDMA device (77, skipped, without). Counts are exact:
 * a message that is inline is one work request, a larger one two, each one doorbell, and one in 64 work requests asks for a
 * completion; the lines of a stream are polled by one call for all. With a number as argument: so many pairs of lines at once, besides.
 */
#include "test/lib/check.h"

#include "btl/btl.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/module.h"
#include "util/settings.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the surroundings: a thread that watches ---- */

#define WATCHES 8

static struct watch {
    void (*ready)(void *arg);
    void *arg;
    int fd;
    bool armed;
    int64_t at;
} watches[WATCHES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int host_watch(int fd, int64_t delay_us, void (*ready)(void *arg), void *arg)
{
    int i;

    pthread_mutex_lock(&lock);
    for (i = 0; i < WATCHES && watches[i].ready != NULL; i++)
        if (watches[i].ready == ready && watches[i].arg == arg)
            break;
    REQUIRE(i < WATCHES, "too many watches");
    watches[i] = (struct watch){ready, arg, fd, true, clock_now() + delay_us * 1000};
    pthread_mutex_unlock(&lock);
    return 0;
}

static void host_unwatch(void (*ready)(void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WATCHES; i++)
        if (watches[i].ready == ready && watches[i].arg == arg)
            watches[i].armed = false;
    pthread_mutex_unlock(&lock);
    /* the program ends after this, and the thread reads `armed` again before it calls */
}

static void *watcher(void *arg)
{
    for (;;) {
        for (int i = 0; i < WATCHES; i++) {
            struct watch w;
            struct pollfd p = {.events = POLLIN};

            pthread_mutex_lock(&lock);
            w = watches[i];
            p.fd = w.fd;
            if (w.armed && (w.fd >= 0 ? poll(&p, 1, 0) == 1 : clock_now() >= w.at))
                watches[i].armed = false;
            else
                w.armed = false;
            pthread_mutex_unlock(&lock);
            if (w.armed)
                w.ready(w.arg);
        }
        usleep(500);
    }
    return arg;
}

static const char *host_setting(const char *name)
{
    const char *text = getenv(name);

    return text != NULL ? text : "";
}

static int no_tell(int peer, const void *body, size_t bytes, const int *fds, int nfds)
{
    (void)peer, (void)body, (void)bytes, (void)fds, (void)nfds;
    return -ENOTSUP;
}

/* ---- lines ---- */

static const struct btl_ops *ops;
static struct btl *btl;
static struct error err;

/* `stream`: of the one that transfers; NULL: none. */
static void connect_lines(struct btl_connection **a, struct btl_connection **b,
                          struct btl_stream *stream)
{
    struct btl_address from, to;

    REQUIRE(ops->connection_open(btl, 0, BTL_CONNECTS, 0, a, &from, &err) == 0, "%s", err.text);
    REQUIRE(ops->connection_open(btl, 0, BTL_ACCEPTS, 0, b, &to, &err) == 0, "%s", err.text);
    if (stream != NULL)
        ops->connection_join(*a, stream, &from);
    REQUIRE(ops->connection_connect(*a, &to, &err) == 0, "%s", err.text);
    REQUIRE(ops->connection_connect(*b, &from, &err) == 0, "%s", err.text);
}

static void await_up(struct btl_connection *connection)
{
    int64_t deadline = deadline_in_ms(60000);
    int rc;

    while ((rc = ops->connection_state(connection, &err)) == -EAGAIN && !deadline_passed(deadline))
        usleep(500);
    REQUIRE(rc == 0, "%s", err.text);
}

static struct btl_memory near_piece, far_piece;
static struct btl_remote remote;
static struct btl_connection *a, *b;

static int until_room(int rc)
{
    REQUIRE(rc == 0 || rc == -EAGAIN, "%d", rc);
    REQUIRE(rc == 0 || ops->progress(a) == 0, "progress");
    return rc;
}

static void flush(void)
{
    int rc;

    while ((rc = ops->flush(a)) == -EAGAIN)
        ;
    REQUIRE(rc == 0, "%d", rc);
}

static struct btl_counts counts(void)
{
    struct btl_counts c;

    ops->connection_counts(a, &c);
    return c;
}

/* `held`: so many are posted by one doorbell. */
static void count_messages(const char *what, size_t payload, unsigned requests, unsigned inlined,
                           unsigned held)
{
    struct btl_counts c0 = counts(), c;
    unsigned n = 640, i;

    for (i = 0; i < n; i++) {
        struct btl_transfer slot = {&remote, 64 * (i % 16), &near_piece, 64 * (i % 16), 64};
        struct btl_transfer body = {&remote, 4096, &near_piece, 4096, payload};

        while (until_room(ops->write(a, payload > 0 ? &body : NULL, &slot)) == -EAGAIN)
            ;
    }
    c = counts();
    flush();
    printf("%s: per message %.3f work requests, %.3f doorbells, %.3f signals, %.3f inlined\n", what,
           (double)(c.work_requests - c0.work_requests) / n,
           (double)(c.doorbells - c0.doorbells) / n, (double)(c.signaled - c0.signaled) / n,
           (double)(c.inlined - c0.inlined) / n);
    REQUIRE(c.work_requests - c0.work_requests == (uint64_t)requests * n, "work requests");
    REQUIRE(c.doorbells - c0.doorbells == n / held, "doorbells");
    REQUIRE(c.signaled - c0.signaled == (uint64_t)requests * n / 64, "signals");
    REQUIRE(c.inlined - c0.inlined == (uint64_t)inlined * n, "inlined");
}

static void test_transfers(void)
{
    static const size_t bytes = (size_t)20 << 20;
    struct btl_transfer t = {&remote, 0, &near_piece, 0, bytes};
    struct btl_done done = {0};
    uint64_t *near_words = near_piece.base, *far_words = far_piece.base;
    struct btl_counts c = counts();
    int rc;

    for (size_t i = 0; i < bytes / 8; i++)
        near_words[i] = i * 0x9e3779b97f4a7c15u;
    REQUIRE((rc = ops->write(a, &t, NULL)) == 0, "%d", rc);
    flush();
    REQUIRE(memcmp(near_words, far_words, bytes) == 0, "what was written is not there");
    memset(near_words, 0, bytes);
    REQUIRE((rc = ops->get(a, &t, &done)) == 0, "%d", rc);
    while (atomic_load(&done.pending) != 0)
        REQUIRE((rc = ops->progress(a)) == 0, "%d", rc);
    REQUIRE(atomic_load(&done.error) == 0 && memcmp(near_words, far_words, bytes) == 0,
            "what was fetched is not right");
    printf("20 MiB written and fetched: %llu work requests\n",
           (unsigned long long)(counts().work_requests - c.work_requests));
    if (ops->connection_atomics(a) == 0) {
        REQUIRE(ops->atomic(a, 0, &t, 1, 0, &done) == -ENOTSUP, "an atomic that it does not have");
        return;
    }
    far_words[0] = 40;
    t.bytes = 8;
    REQUIRE((rc = ops->atomic(a, 0, &t, 2, 0, &done)) == 0, "%d", rc);
    while (atomic_load(&done.pending) != 0)
        REQUIRE((rc = ops->progress(a)) == 0, "%d", rc);
    REQUIRE(near_words[0] == 40 && far_words[0] == 42, "%llu %llu",
            (unsigned long long)near_words[0], (unsigned long long)far_words[0]);
    REQUIRE((rc = ops->atomic(a, 1, &t, 7, 42, NULL)) == 0, "%d", rc);
    flush();
    REQUIRE(far_words[0] == 7, "compare and swap");
}

/* What is held goes with the next operation, in front of it; and a full queue does not wait for what is held. */
static void test_held_transfers(void)
{
    uint64_t *near_words = near_piece.base, *far_words = far_piece.base;
    struct btl_transfer slot = {&remote, 64, &near_piece, 0, 64},
                        back = {&remote, 64, &near_piece, 4096, 64};
    struct btl_counts c0 = counts();
    struct btl_done done = {0};
    unsigned i;

    near_words[0] = 1234;
    far_words[8] = 0;
    REQUIRE(ops->write(a, NULL, &slot) == 0 && counts().doorbells == c0.doorbells, "held");
    REQUIRE(ops->get(a, &back, &done) == 0 && counts().doorbells == c0.doorbells + 1, "with a get");
    while (atomic_load(&done.pending) != 0)
        REQUIRE(ops->progress(a) == 0, "progress");
    REQUIRE(atomic_load(&done.error) == 0 && near_words[512] == 1234,
            "the get is behind the write");
    for (i = 0; i < 31; i++)
        REQUIRE(ops->write(a, NULL, &slot) == 0, "write");
    REQUIRE(ops->hold(a, 32) == 0 && counts().doorbells == c0.doorbells + 2, "posted by hold");
    for (i = 0; i < 5000; i++)
        while (until_room(ops->write(a, i % 3 == 0 ? &back : NULL, &slot)) == -EAGAIN)
            ;
    flush();
}

#define POLL_TURNS 100
#define POLL_LINES 8

static uint64_t polls_sum(struct btl_connection *const line[POLL_LINES])
{
    struct btl_counts c;
    uint64_t sum = 0;

    for (int i = 0; i < POLL_LINES; i++) {
        ops->connection_counts(line[i], &c);
        sum += c.polls;
    }
    return sum;
}

/* Polls of a turn of progress through lines that wait for a completion each, and how many of the lines have a queue of their own. */
static uint64_t polls_of(struct btl_stream *stream, unsigned *own)
{
    struct btl_connection *to[POLL_LINES], *from[POLL_LINES];
    struct btl_transfer slot = {&remote, 0, &near_piece, 0, 64};
    uint64_t polls;

    *own = 0;
    for (int i = 0; i < POLL_LINES; i++) {
        connect_lines(&to[i], &from[i], stream);
        await_up(to[i]);
        await_up(from[i]);
        ops->connection_describe(to[i], err.text, sizeof(err.text));
        *own += stream == NULL || strstr(err.text, "own completion queue") != NULL;
        /* not signaled: it stays outstanding */
        REQUIRE(ops->write(to[i], NULL, &slot) == 0, "line %d", i);
    }
    polls = polls_sum(to);
    for (int i = 0; i < POLL_TURNS * POLL_LINES; i++)
        REQUIRE(ops->progress(to[i % POLL_LINES]) == 0, "progress");
    polls = polls_sum(to) - polls;
    for (int i = 0; i < POLL_LINES; i++) {
        while (ops->flush(to[i]) == -EAGAIN)
            ;
        ops->connection_close(to[i]);
        ops->connection_close(from[i]);
    }
    REQUIRE(polls % POLL_TURNS == 0, "%llu polls", (unsigned long long)polls);
    return polls / POLL_TURNS;
}

/* A device that cannot make a completion queue longer has entries for four lines in that of a stream: the others keep their own. */
static void test_polls(void)
{
    struct btl_stream *stream;
    enum btl_share got;
    unsigned own, alone;
    uint64_t with, without;

    REQUIRE(ops->stream_open(btl, BTL_SHARE_DYNAMIC, &stream, &got, &err) == 0, "%s", err.text);
    printf("a stream: %s\n", err.text);
    with = polls_of(stream, &own);
    ops->stream_close(stream);
    without = polls_of(NULL, &alone);
    printf("polls for each turn through %d lines: %llu with a stream, %llu without; %u lines of "
           "the stream have a queue of their own\n",
           POLL_LINES, (unsigned long long)with, (unsigned long long)without, own);
    REQUIRE(own <= POLL_LINES - 4 && with == 1 + own, "polls with a stream");
    REQUIRE(alone == POLL_LINES && without == POLL_LINES, "polls without");
}

static void many(unsigned n)
{
    struct btl_connection **connection = calloc(2 * (size_t)n, sizeof(*connection));
    unsigned i;

    REQUIRE(connection != NULL, "no memory");
    for (i = 0; i < n; i++)
        connect_lines(&connection[2 * i], &connection[2 * i + 1], NULL);
    for (i = 0; i < 2 * n; i++)
        await_up(connection[i]);
    for (i = 0; i < n; i++) {
        struct btl_transfer slot = {&remote, 64 * (uint64_t)(i % 64), &near_piece,
                                    64 * (uint64_t)(i % 64), 64};

        REQUIRE(ops->write(connection[2 * i], NULL, &slot) == 0, "line %u", i);
    }
    for (i = 0; i < n; i++)
        while (ops->flush(connection[2 * i]) == -EAGAIN)
            ;
    for (i = 0; i < 2 * n; i++)
        ops->connection_close(connection[i]);
    free(connection);
    printf("%u pairs of lines at once\n", n);
}

int main(int argc, char **argv)
{
    struct btl_host host = {
        .log_level = LOG_DEBUG,
        .send_to_peer = no_tell,
        .setting = host_setting,
        .address = "",
        .watch = host_watch,
        .unwatch = host_unwatch,
    };
    pthread_t thread;
    int rc;

    setvbuf(stdout, NULL, _IOLBF, 0);
    REQUIRE(settings_load(&err) == 0, "%s", err.text);
    ops = module_symbol("btl_verbs", "btl_verbs_ops", &err);
    rc = ops == NULL ? -ENOTSUP : ops->query(&err);
    if (rc == 0)
        rc = ops->open(&host, &btl, &err);
    if (rc != 0) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    printf("%s\n", err.text);
    REQUIRE(pthread_create(&thread, NULL, watcher, NULL) == 0, "no thread");
    connect_lines(&a, &b, NULL);
    await_up(a);
    await_up(b);
    ops->connection_describe(a, err.text, sizeof(err.text));
    printf("%s\n", err.text);
    REQUIRE(ops->alloc(btl, 0, (size_t)20 << 20, BTL_LOCAL, false, &near_piece, &err) == 0, "%s",
            err.text);
    REQUIRE(ops->alloc(btl, 0, (size_t)20 << 20, BTL_PEER_ATOMICS, false, &far_piece, &err) == 0,
            "%s", err.text);
    REQUIRE(ops->attach(btl, 0, &far_piece.key, far_piece.bytes, BTL_PEER_ATOMICS, &remote, &err) ==
                0,
            "%s", err.text);
    count_messages("slot alone", 0, 1, 1, 1);
    count_messages("64 bytes and slot", 64, 2, 2, 1);
    count_messages("4096 bytes and slot", 4096, 2, 1, 1);
    REQUIRE(ops->hold(a, 32) == 0, "hold");
    count_messages("slot alone, held", 0, 1, 1, 32);
    count_messages("64 bytes and slot, held", 64, 2, 2, 32);
    count_messages("4096 bytes and slot, held", 4096, 2, 1, 32);
    test_held_transfers();
    REQUIRE(ops->hold(a, 0) == 0, "hold");
    test_transfers();
    test_polls();
    if (argc > 1)
        many((unsigned)atoi(argv[1]));
    ops->connection_close(b);
    while ((rc = ops->connection_state(a, &err)) == 0)
        usleep(500);
    printf("after the other end has closed: %d, %s\n", rc, err.text);
    REQUIRE(ops->flush(a) == rc, "flush of a line that has failed");
    ops->connection_close(a);
    ops->detach(btl, &remote);
    ops->free(btl, &near_piece);
    ops->free(btl, &far_piece);
    ops->close(btl);
    return 0;
}
