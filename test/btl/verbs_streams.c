/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_streams.c: what the verbs backend requests from its device for a stream of each category, counted; what it gets where the device has less; and
 * how often it polls. With a device of its own, which ends the program if two threads are in one thread domain (fake_verbs.h).
 */
#include "stream_pair.h"

#include "test/btl/fake_verbs.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define PIPES 4

/* ---- the categories ---- */

/* What there is more of, with a stream and its pipes, than there was. */
struct objects {
    int domains, thread_domains, parent_domains;
    int queue_pairs, queue_pairs_in_domains, completion_queues, single_queues;
};

static struct objects objects_now(void)
{
    const struct fake_counts *c = &fake_counts;

    return (struct objects){c->domains,      c->thread_domains,         c->parent_domains,
                            c->queue_pairs,  c->queue_pairs_in_domains, c->completion_queues,
                            c->single_queues};
}

static void objects_are(const struct objects *before, const struct objects *more, const char *what)
{
    const struct objects now = objects_now();
    const int *had = (const int *)before, *added = (const int *)more, *have = (const int *)&now;

    for (size_t i = 0; i < sizeof(now) / sizeof(int); i++)
        REQUIRE(have[i] == had[i] + added[i], "%s: count %zu is %d, not %d and %d", what, i,
                have[i], had[i], added[i]);
}

/* The ends without a stream have a queue pair and a completion queue each. */
static const struct category {
    const char *name;
    enum btl_share wanted, got;
    const char *words;
    struct objects objects;
} categories[] = {
    {"everywhere",
     BTL_SHARE_EVERYWHERE,
     BTL_SHARE_2XDYNAMIC,
     "2xdynamic for everywhere, since librdmacm has one context",
     {0, 2, 2, 9, 5, 5, 1}},
    {"2xdynamic",
     BTL_SHARE_2XDYNAMIC,
     BTL_SHARE_2XDYNAMIC,
     "2xdynamic; one",
     {0, 2, 2, 9, 5, 5, 1}},
    {"dynamic", BTL_SHARE_DYNAMIC, BTL_SHARE_DYNAMIC, "dynamic; one", {0, 1, 1, 8, 4, 5, 1}},
    {"shared dynamic",
     BTL_SHARE_SHARED_DYNAMIC,
     BTL_SHARE_STATIC,
     "static for shared dynamic, since libibverbs has no thread domains that two",
     {0, 0, 0, 8, 0, 5, 1}},
    {"static", BTL_SHARE_STATIC, BTL_SHARE_STATIC, "static; one", {0, 0, 0, 8, 0, 5, 1}},
    {"threads", BTL_SHARE_THREADS, BTL_SHARE_STATIC, "static for threads", {0, 0, 0, 8, 0, 5, 1}},
};

static void test_categories(void)
{
    static const struct objects none = {0};

    for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++) {
        const struct category *c = &categories[i];
        const struct objects before = objects_now();
        struct btl_stream *stream = stream_begin(c->wanted, c->got, c->words);
        struct pair p[PIPES];

        for (int k = 0; k < PIPES; k++)
            pair_open(&p[k], stream);
        objects_are(&before, &c->objects, c->name);
        for (int k = 0; k < PIPES; k++)
            pair_works(&p[k], i * 100 + (uint64_t)k);
        for (int k = 0; k < PIPES; k++)
            pair_close(&p[k]);
        backend.ops->stream_close(stream);
        objects_are(&before, &none, "after it is closed");
        printf("%s: %d thread domains, %d queue pairs in them, %d completion queues\n", c->name,
               c->objects.thread_domains, c->objects.queue_pairs_in_domains,
               c->objects.completion_queues);
    }
}

/* ---- a device that has less ---- */

static bool describes(struct btl_connection *connection, const char *words)
{
    char text[300];

    backend.ops->connection_describe(connection, text, sizeof(text));
    return strstr(text, words) != NULL;
}

/* The thread domain has registers for two queue pairs: the others are made in the domain of the process, and this is reported. */
static void test_full_domain(void)
{
    struct btl_stream *stream = stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_DYNAMIC, "dynamic; one");
    const struct fake_limits all = fake_limits;
    struct pair p[PIPES];
    int in_domain = 0;

    fake_limits.queue_pairs_per_domain = 2;
    for (int k = 0; k < PIPES; k++)
        pair_open(&p[k], stream);
    REQUIRE(fake_counts.queue_pairs_in_domains == 2, "%d", fake_counts.queue_pairs_in_domains);
    for (int k = 0; k < PIPES; k++) {
        in_domain += !describes(p[k].dials, "static, since its thread domain is full");
        pair_works(&p[k], 1000 + (uint64_t)k);
    }
    REQUIRE(in_domain == 2, "%d pipes are described as in the thread domain", in_domain);
    for (int k = 0; k < PIPES; k++)
        pair_close(&p[k]);
    backend.ops->stream_close(stream);
    fake_limits = all;
}

static void stream_begins_and_ends(enum btl_share wanted, enum btl_share got, const char *words)
{
    static const struct objects none = {0};
    const struct objects before = objects_now();
    struct btl_stream *stream = stream_begin(wanted, got, words);
    struct pair p;

    pair_open(&p, stream);
    pair_works(&p, 7);
    pair_close(&p);
    backend.ops->stream_close(stream);
    objects_are(&before, &none, words);
}

static void test_fewer(void)
{
    const struct fake_limits all = fake_limits;

    fake_limits.thread_domains = 0; /* as Soft-RoCE */
    stream_begins_and_ends(BTL_SHARE_DYNAMIC, BTL_SHARE_STATIC,
                           "static for dynamic, since fake0 has no thread domain: Operation not");
    fake_limits.thread_domains = 1;
    stream_begins_and_ends(
        BTL_SHARE_2XDYNAMIC, BTL_SHARE_DYNAMIC,
        "dynamic for 2xdynamic, since fake0 has no second thread domain: Cannot");
    fake_limits = all;
    fake_limits.queue_pairs_per_domain = 0;
    stream_begins_and_ends(BTL_SHARE_2XDYNAMIC, BTL_SHARE_DYNAMIC, "no second thread domain");
    fake_limits = all;
}

/* No completion queue for a stream, or none that can be made longer: each of its pipes has one. */
static void test_short_queues(void)
{
    const struct fake_limits all = fake_limits;
    const int before = fake_counts.completion_queues;
    struct btl_stream *stream;
    struct pair p[PIPES];

    fake_limits.completion_queues = before;
    stream = stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_DYNAMIC,
                          "a completion queue for each pipe, since there is none for all");
    fake_limits.completion_queues = all.completion_queues;
    for (int k = 0; k < PIPES; k++)
        pair_open(&p[k], stream);
    REQUIRE(fake_counts.completion_queues == before + 2 * PIPES, "%d",
            fake_counts.completion_queues);
    for (int k = 0; k < PIPES; k++)
        pair_works(&p[k], 2000 + (uint64_t)k), pair_close(&p[k]);
    backend.ops->stream_close(stream);

    stream = stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_DYNAMIC, "one completion queue");
    fake_limits.resizes = false;
    struct pair many[8];
    int own = 0;

    for (int k = 0; k < 8; k++) { /* 256 work requests each, of 1024 entries */
        pair_open(&many[k], stream);
        own += describes(many[k].dials, "own completion queue");
    }
    REQUIRE(own == 4, "%d pipes have a completion queue of their own", own);
    for (int k = 0; k < 8; k++)
        pair_works(&many[k], 3000 + (uint64_t)k);
    for (int k = 0; k < 8; k++)
        pair_close(&many[k]);
    backend.ops->stream_close(stream);
    fake_limits = all;
}

/* ---- polls ---- */

/* Polls of a turn of progress through 8 connections, each of which waits for a completion. */
static uint64_t polls_of(struct btl_stream *stream)
{
    enum { TURNS = 100, CONNECTIONS = 8 };
    struct pair p[CONNECTIONS];
    uint64_t polls;

    for (int k = 0; k < CONNECTIONS; k++)
        pair_open(&p[k], stream);
    for (int k = 0; k < CONNECTIONS; k++)
        pair_write(&p[k], 8); /* not signaled: it stays outstanding */
    polls = fake_counts.polls;
    for (int i = 0; i < TURNS; i++)
        for (int k = 0; k < CONNECTIONS; k++)
            REQUIRE(backend.ops->progress(p[k].dials) == 0, "progress");
    polls = fake_counts.polls - polls;
    for (int k = 0; k < CONNECTIONS; k++)
        pair_works(&p[k], 4000 + (uint64_t)k);
    for (int k = 0; k < CONNECTIONS; k++)
        pair_close(&p[k]);
    REQUIRE(polls % TURNS == 0, "%llu polls", (unsigned long long)polls);
    return polls / TURNS;
}

static void test_polls(void)
{
    struct btl_stream *stream = stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_DYNAMIC, "dynamic");
    const uint64_t with = polls_of(stream), without = polls_of(NULL);

    printf("polls for each turn through 8 connections: %llu with a stream, %llu without\n",
           (unsigned long long)with, (unsigned long long)without);
    REQUIRE(with == 1 && without == 8, "polls");
    backend.ops->stream_close(stream);
}

/* ---- connections that end ---- */

/* A completion of a queue pair that exists no more counts for no other one: the next one could be overfilled by it. */
static void test_stale_completions(void)
{
    struct btl_stream *stream = stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_DYNAMIC, "dynamic");
    struct btl_done never = {0}; /* rule 13: not accessed after connection_close */
    struct pair p;

    for (int i = 0; i < 50; i++) {
        struct btl_transfer t = {&p.remote, 0, &p.near, 0, 64};

        pair_open(&p, stream);
        for (int k = 0; k < 600; k++)
            pair_write(&p, 64);
        for (int k = 0; k < 3; k++)
            REQUIRE(backend.ops->get(p.dials, &t, &never) == 0, "get");
        pair_close(&p);
        pair_open(&p, stream);
        pair_works(&p, 5000 + (uint64_t)i);
        for (int k = 0; k < 1000; k++) /* fails if more are posted than the queue has entries */
            pair_write(&p, 64);
        pair_close(&p);
    }
    backend.ops->stream_close(stream);
}

/* Another thread opens and closes pipes of a stream while the stream's thread transfers: the device finds two threads in one domain. */
static void test_other_threads(void)
{
    struct btl_stream *stream = stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_DYNAMIC, "dynamic");
    struct pair first, other;
    struct pair_worker w = {.p = &first};

    fake_limits.yields = 3;
    pair_open(&first, stream);
    pair_worker_begin(&w);
    for (int i = 0; i < 100; i++) {
        pair_open(&other, stream);
        pair_works(&other, 6000 + (uint64_t)i);
        pair_close(&other);
    }
    pair_worker_end(&w);
    pair_close(&first);
    backend.ops->stream_close(stream);
    fake_limits.yields = 0;
    printf("100 pipes opened and closed during %llu rounds of the stream's thread\n",
           (unsigned long long)w.rounds);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    backend_open(&backend, "verbs", 0);
    test_categories();
    test_full_domain();
    test_fewer();
    test_short_queues();
    test_polls();
    test_stale_completions();
    test_other_threads();
    backend_close(&backend);
    return 0;
}
