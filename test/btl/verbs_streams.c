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
    int contexts, domains, thread_domains, parent_domains;
    int queue_pairs, queue_pairs_in_domains, completion_queues, single_queues;
};

static struct objects objects_now(void)
{
    const struct fake_counts *c = &fake_counts;

    return (struct objects){c->contexts,          c->domains,      c->thread_domains,
                            c->parent_domains,    c->queue_pairs,  c->queue_pairs_in_domains,
                            c->completion_queues, c->single_queues};
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
     BTL_SHARE_EVERYWHERE,
     "everywhere; one",
     {1, 1, 1, 1, 8, 4, 6, 1}},
    {"2xdynamic",
     BTL_SHARE_2XDYNAMIC,
     BTL_SHARE_2XDYNAMIC,
     "2xdynamic; one",
     {0, 0, 2, 2, 9, 5, 5, 1}},
    {"dynamic", BTL_SHARE_DYNAMIC, BTL_SHARE_DYNAMIC, "dynamic; one", {0, 0, 1, 1, 8, 4, 5, 1}},
    {"shared dynamic",
     BTL_SHARE_SHARED_DYNAMIC,
     BTL_SHARE_STATIC,
     "static for shared dynamic, since libibverbs has no thread domains that two",
     {0, 0, 0, 0, 8, 0, 5, 1}},
    {"static", BTL_SHARE_STATIC, BTL_SHARE_STATIC, "static; one", {0, 0, 0, 0, 8, 0, 5, 1}},
    {"threads",
     BTL_SHARE_THREADS,
     BTL_SHARE_STATIC,
     "static for threads",
     {0, 0, 0, 0, 8, 0, 5, 1}},
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
static void test_other_threads(enum btl_share share)
{
    struct btl_stream *stream = stream_begin(share, share, "; one");
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

/* ---- contexts ---- */

static struct btl_stream *everywhere(void)
{
    return stream_begin(BTL_SHARE_EVERYWHERE, BTL_SHARE_EVERYWHERE, "everywhere; one");
}

static void pair_open_between(struct pair *p, struct btl_stream *stream, struct btl_stream *other)
{
    pair_connect(p, stream, other);
    pair_alloc(p);
}

/* The index of the context, in the key. */
static unsigned key_context(const struct pair *p) { return (unsigned)p->remote.key.word[3]; }

/* Contexts at both ends, at one, at none: every key is that of the context of the end whose memory it is. */
static void test_both_ends(void)
{
    const int regions = fake_counts.regions;
    struct btl_stream *stream[2] = {everywhere(), everywhere()};

    for (unsigned i = 0; i < 4; i++) {
        struct pair p;

        pair_open_between(&p, (i & 1) != 0 ? stream[0] : NULL, (i & 2) != 0 ? stream[1] : NULL);
        for (uint64_t k = 0; k < 3; k++)
            pair_works(&p, 7000 + 10 * i + k);
        REQUIRE(key_context(&p) == ((i & 2) != 0 ? 2u : 0u), "the key is of context %u",
                key_context(&p));
        pair_close(&p);
    }
    REQUIRE(fake_counts.regions == regions + 2, "%d regions are left, not one for each context",
            fake_counts.regions - regions);
    for (int i = 0; i < 2; i++)
        backend.ops->stream_close(stream[i]);
    REQUIRE(fake_counts.regions == regions && fake_counts.contexts == 0, "%d regions are left",
            fake_counts.regions - regions);
}

/* Memory that outlives a context is registered in the next one, which has the same index. */
static void test_next_context(void)
{
    struct error err = {""};
    uint64_t key[2];
    struct pair p;

    for (int i = 0; i < 2; i++) {
        struct btl_stream *stream = everywhere();

        pair_connect(&p, stream, stream);
        if (i == 0)
            pair_alloc(&p);
        REQUIRE(backend.ops->connection_key(p.accepts, &p.far, &p.remote.key, &err) == 0, "%s",
                err.text);
        key[i] = p.remote.key.word[1];
        pair_works(&p, 8000 + (uint64_t)i);
        backend.ops->connection_close(p.dials);
        backend.ops->connection_close(p.accepts);
        backend.ops->stream_close(stream);
    }
    REQUIRE(key[0] != key[1], "the key of a context that was closed is used again");
    backend.ops->detach(backend.btl, &p.remote);
    backend.ops->free(backend.btl, &p.near);
    backend.ops->free(backend.btl, &p.far);
}

static bool takes(const struct pair *p, const struct pair *of)
{
    struct error err = {""};
    int rc = backend.ops->connection_takes(p->dials, &of->remote, &err);

    REQUIRE(rc == 0 || (rc == -EXDEV && strstr(err.text, "context") != NULL), "%d: %s", rc,
            err.text);
    return rc == 0;
}

/* A key that was made for a connection in another context is found before it is used. */
static void test_other_key(void)
{
    struct btl_stream *stream[2] = {everywhere(), everywhere()};
    struct pair in[2], second, without;

    for (int i = 0; i < 2; i++)
        pair_open_between(&in[i], NULL, stream[i]);
    pair_open_between(&second, NULL, stream[0]);
    pair_open(&without, NULL);
    REQUIRE(takes(&in[0], &in[0]) && takes(&in[0], &second) && takes(&without, &without),
            "keys of the same context");
    REQUIRE(!takes(&in[0], &in[1]) && !takes(&in[1], &in[0]) && !takes(&in[0], &without) &&
                !takes(&without, &in[1]),
            "keys of other contexts");
    for (int i = 0; i < 2; i++)
        pair_close(&in[i]);
    pair_close(&second);
    pair_close(&without);
    for (int i = 0; i < 2; i++)
        backend.ops->stream_close(stream[i]);
}

/* Fewer contexts, thread domains, or queues than are asked for. */
static void test_fewer_contexts(void)
{
    const struct fake_limits all = fake_limits;
    struct btl_stream *stream;
    struct pair p, further;

    fake_limits.contexts = 0;
    stream_begins_and_ends(BTL_SHARE_EVERYWHERE, BTL_SHARE_2XDYNAMIC,
                           "2xdynamic for everywhere, since fake0 cannot be opened again: No such");
    fake_limits = all;
    fake_limits.thread_domains = 0;
    stream_begins_and_ends(BTL_SHARE_EVERYWHERE, BTL_SHARE_EVERYWHERE, "everywhere; one");
    fake_limits = all;
    stream = everywhere();
    fake_limits.queue_pairs_per_domain = 1;
    fake_limits.resizes = false;
    pair_open_between(&p, stream, NULL);
    for (int i = 0; i < 2; i++) { /* with a queue of its own in the context; then without */
        struct pair q[3];

        for (int k = 0; k < 3; k++) { /* the queue of the stream has entries for four */
            fake_limits.completion_queues = all.completion_queues;
            pair_open_between(&q[k], stream, NULL);
        }
        fake_limits.queue_pairs_per_domain = all.queue_pairs_per_domain;
        if (i == 1) /* for the two ends: there is none in the context, then */
            fake_limits.completion_queues = fake_counts.completion_queues + 2;
        pair_open_between(&further, stream, NULL);
        fake_limits.queue_pairs_per_domain = 1;
        REQUIRE(describes(q[0].dials, "with locks, since its thread domain is full"), "a domain");
        REQUIRE(describes(further.dials,
                          i == 0 ? "own completion queue" : "in the context of the process"),
                "number %d", i);
        for (int k = 0; k < 3; k++) {
            pair_works(&q[k], 8100 + (uint64_t)k);
            pair_close(&q[k]);
        }
        pair_works(&further, 8200);
        pair_close(&further);
    }
    fake_limits = all;
    pair_works(&p, 8300);
    pair_close(&p);
    backend.ops->stream_close(stream);
}

/* The connection that is behind the first 1024 in the context of a stream. */
static bool is_in_context(struct btl_stream *stream)
{
    enum { MANY = 1025 };
    static struct btl_connection *connection[MANY];
    struct btl_address address;
    struct error err = {""};
    bool in;

    for (int i = 0; i < MANY; i++) {
        REQUIRE(backend.ops->connection_open(backend.btl, 0, BTL_CONNECTS, 0, &connection[i],
                                             &address, &err) == 0,
                "%s", err.text);
        backend.ops->connection_join(connection[i], stream, &address);
    }
    REQUIRE(!describes(connection[MANY - 2], "in the context of the process"), "the one before");
    in = !describes(connection[MANY - 1], "in the context of the process");
    for (int i = 0; i < MANY; i++)
        backend.ops->connection_close(connection[i]);
    return in;
}

/* Each connection has an entry in the completion queue of greetings of its context, also if all greet at once: it is made longer. */
static void test_greetings(void)
{
    const struct fake_limits all = fake_limits;
    struct btl_stream *stream = everywhere();
    struct pair p;

    fake_limits.resizes = false;
    REQUIRE(!is_in_context(stream), "there is no entry for its greeting");
    REQUIRE(!is_in_context(stream), "and again");
    fake_limits = all;
    REQUIRE(is_in_context(stream), "the queue could be made longer");
    pair_open(&p, stream);
    pair_works(&p, 8400);
    pair_close(&p);
    backend.ops->stream_close(stream);
}

/* More streams than this process may have contexts. */
static void test_many_contexts(void)
{
    enum { MOST = 63 };
    struct btl_stream *stream[MOST];

    fake_limits.thread_domains = MOST + 1;
    for (int i = 0; i < MOST; i++)
        stream[i] = everywhere();
    stream_begins_and_ends(BTL_SHARE_EVERYWHERE, BTL_SHARE_DYNAMIC, "the most there are");
    for (int i = 0; i < MOST; i++)
        backend.ops->stream_close(stream[i]);
    stream_begins_and_ends(BTL_SHARE_EVERYWHERE, BTL_SHARE_EVERYWHERE, "everywhere; one");
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
    test_other_threads(BTL_SHARE_DYNAMIC);
    test_other_threads(BTL_SHARE_EVERYWHERE);
    test_both_ends();
    test_next_context();
    test_other_key();
    test_fewer_contexts();
    test_greetings();
    test_many_contexts();
    backend_close(&backend);
    return 0;
}
