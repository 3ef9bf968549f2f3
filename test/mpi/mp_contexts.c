/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams with contexts: each of four threads of a process has a stream with a context of active messages, one of messages by tag and a team in
 * it, and exchanges with the same thread of its peer, several lives long, without RPIPE_THREADS or another lock of its own. Contents depend
 * on keys. The locks of the library are counted. There is none with a message, but now and then one where a pool of descriptors grows, where a
 * thread sleeps, and over tcp where the service thread drives a stream at the moment at which its thread comes back after a millisecond:
 * an exchange before whose end the thread, or the one of the peer, had no processor for so long does not count.
 * test/unit/test_stream_contexts.c has the number without waits.
 */
#include "test/lib/clock_ms.h"
#include "test/lib/contexts.h"
#include "test/lib/count_locks.h"
#include "test/lib/mp_check.h"

#include <inttypes.h>

enum { THREADS = 4, LIVES = 2, WARM = 32, ROUNDS = 300 };
static pthread_barrier_t meeting;
enum part { REQUESTS, TAGS, TEAMS, PARTS };

struct worker {
    pthread_t thread;
    struct contexts c;
    struct tally {
        uint64_t exchanges, locks; /* of exchanges that count */
    } tally[PARTS];
};

static uint64_t key_of(const struct contexts *c, int rank, uint64_t round)
{
    return mp_key(rank, rank ^ 1, (uint32_t)c->number, round) >> 1;
}

static void exchange(struct contexts *c, enum part part, uint64_t round)
{
    static const size_t sizes[] = {8, 700, 0, 9000, 8, CONTEXTS_MOST};
    uint64_t mine = key_of(c, mp_rank, round), sum = 0;

    if (part == REQUESTS) {
        contexts_request(c, mine);
    } else if (part == TAGS) {
        contexts_message(c, mine, key_of(c, c->peer, round), sizes[round % 6]);
    } else {
        for (int i = 0; i < mp_ranks; i++)
            sum += key_of(c, i, round);
        contexts_sum(c, mine, sum);
    }
}

/* Before locks are counted: the modules of the networks are loaded. */
static void load_modules(void)
{
    static struct contexts c = {.number = 1};

    c.peer = mp_rank ^ 1;
    contexts_open(&c, false, NULL, mp_ranks);
    for (int part = 0; part < PARTS; part++)
        exchange(&c, (enum part)part, 0);
    CHECK_OK(NULL, rcoll_barrier(c.team));
    contexts_close(&c);
    (void)lock_count_init();
}

/* Exchanges, and counts its locks unless it ends half a millisecond or more after the one before, which ended at *before. */
static void exchange_counted(struct worker *w, enum part part, uint64_t round, double *before)
{
    double began = *before;
    uint64_t locks;

    lock_count_begin();
    exchange(&w->c, part, round);
    locks = lock_count_end().ours;
    *before = now_ms();
    if (*before - began >= 0.5)
        return;
    w->tally[part].exchanges++;
    w->tally[part].locks += locks;
}

static void life(struct worker *w)
{
    double before;

    contexts_open(&w->c, true, NULL, mp_ranks);
    for (uint64_t i = 0; i < WARM * PARTS;
         i++) { /* links are opened, and the stream gets its thread */
        if (i == WARM)
            contexts_meet(&w->c, &meeting);
        exchange(&w->c, (enum part)(i % PARTS), ROUNDS + i);
    }
    before = now_ms();
    for (uint64_t round = 0; round < ROUNDS; round++)
        for (int part = 0; part < PARTS; part++)
            exchange_counted(w, (enum part)part, round, &before);
    contexts_meet(&w->c, &meeting);
    contexts_close(&w->c);
}

static void *run(void *of)
{
    struct worker *w = of;
    const uint64_t number = w->c.number;

    for (uint64_t i = 0; i < LIVES; i++) {
        w->c = (struct contexts){.number = number + i * 100, .peer = mp_rank ^ 1};
        life(w);
    }
    return NULL;
}

static void check_locks(const struct worker *w)
{
    static const char *const name[PARTS] = {"active messages", "messages by tag", "teams"};
    const char *btl = getenv("RPIPE_BTL");

    for (int part = 0; part < PARTS; part++) {
        struct tally all = {.exchanges = 0};

        for (int i = 0; i < THREADS; i++) {
            all.exchanges += w[i].tally[part].exchanges;
            all.locks += w[i].tally[part].locks;
        }
        printf("rank %d: locks of the library, %s: %" PRIu64 " in %" PRIu64 " of %d exchanges\n",
               mp_rank, name[part], all.locks, all.exchanges, THREADS * LIVES * ROUNDS);
        if (all.exchanges < THREADS * LIVES * ROUNDS / 10)
            printf("rank %d: too few exchanges count: the machine is busy\n", mp_rank);
        if (btl == NULL || strcmp(btl, "tcp") == 0) /* and some where pools grow */
            CHECK(NULL, all.locks * 20 <= all.exchanges + 40);
    }
}

int main(int argc, char **argv)
{
    static struct worker w[THREADS];

    mp_begin(argc, argv, 2);
    CHECK(NULL, mp_ranks % 2 == 0);
    load_modules();
    CHECK(NULL, pthread_barrier_init(&meeting, NULL, THREADS) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        w[i].c.number = 10 + i;
        CHECK(NULL, pthread_create(&w[i].thread, NULL, run, &w[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(NULL, pthread_join(w[i].thread, NULL) == 0);
    check_locks(w);
    return mp_end();
}
