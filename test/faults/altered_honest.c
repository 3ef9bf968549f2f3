/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * altered_honest.c: the honest ranks of altered.h. The victim and rank A, and ranks A and B, exchange messages all the time, of
 * which each byte is checked: the first of two sends, the other one sends the same back.
 */
#include "altered.h"

#include <pthread.h>

#define HONEST_MS 8000 /* deadline of calls: they succeed, on any machine */
#define ROUNDS 60      /* then a new pair of pipes */
#define HONEST_HEAP 16384
#define LAST 1 /* the tag of the last message */

struct line {
    int self, peer;
    bool first;
    pthread_t thread;
};

static struct line lines[2];
static int lines_begun;

#define HONEST(ch, call)                                                                           \
    do {                                                                                           \
        int rc_;                                                                                   \
        TIMED(rc_, HONEST_MS, call);                                                               \
        CHECK(ch, rc_ == 0);                                                                       \
    } while (0)

static rch_t line_open(const struct line *l, uint64_t n, bool writer)
{
    rpipe_config_t cfg =
        channel_config(n % 2 == 0 ? RPIPE_PUT : RPIPE_GET, l->peer, writer, HONEST_HEAP);
    rch_t ch;

    cfg.context = n % 5;
    cfg.timeout_ms = HONEST_MS;
    HONEST(NULL, rpipe(&ch, &cfg));
    return ch;
}

static void line_write(rch_t ch, size_t bytes, uint64_t key, uint64_t tag)
{
    raddr_t d;

    HONEST(ch, (d = rmalloc(ch, bytes)) != ADDR_NULL ? 0 : -errno);
    pattern_fill(rmem(ch, d), bytes, key);
    CHECK(ch, rset_tag(ch, d, tag) == 0);
    HONEST(ch, rwrite(ch, d));
}

static uint64_t line_read(rch_t ch, size_t bytes, uint64_t key)
{
    uint64_t tag;
    raddr_t d;
    size_t size;

    HONEST(ch, rread(ch, &d, &size));
    CHECK(ch, size == bytes && pattern_same(rmem(ch, d), size, key));
    tag = rtag(ch, d);
    HONEST(ch, rfree(ch, d));
    atomic_fetch_add(&stage->honest, 1);
    return tag;
}

/* Both sides draw the same. False: that was the last pair of pipes. */
static bool line_pair(const struct line *l, uint64_t *random, uint64_t n)
{
    rch_t there = line_open(l, n, l->first), back = line_open(l, n, !l->first);
    uint64_t tag = 0;

    for (int i = 0; i < ROUNDS && tag != LAST; i++) {
        uint64_t key = random_draw(random);
        size_t bytes = i % 3 == 0 ? key % 41 : key % 5000;

        if (l->first) {
            tag = atomic_load(&stage->serial) == SERIAL_LAST ? LAST : 0;
            line_write(there, bytes, key, tag);
            CHECK(back, line_read(back, bytes, ~key) == tag);
            backoff_us(1000);
        } else {
            tag = line_read(there, bytes, key);
            line_write(back, bytes, ~key, tag);
        }
    }
    HONEST(there, rclose(there));
    HONEST(back, rclose(back));
    return tag != LAST;
}

static void *line_thread(void *argument)
{
    const struct line *l = argument;
    uint64_t random = 1, n = 0;

    while (line_pair(l, &random, n))
        n++;
    return NULL;
}

static void line_begin(int self, int peer, bool first)
{
    struct line *l = &lines[lines_begun++];

    *l = (struct line){.self = self, .peer = peer, .first = first};
    REQUIRE(pthread_create(&l->thread, NULL, line_thread, l) == 0);
}

void honest_start(int rank)
{
    if (rank == VICTIM)
        line_begin(rank, HONEST_A, true);
    if (rank == HONEST_A)
        line_begin(rank, VICTIM, false);
    if (rank == HONEST_A)
        line_begin(rank, HONEST_B, true);
    if (rank == HONEST_B)
        line_begin(rank, HONEST_A, false);
}

void honest_end(void)
{
    while (lines_begun > 0)
        pthread_join(lines[--lines_begun].thread, NULL);
}

int honest_main(int rank)
{
    int rc;

    CHECK(NULL, rinit(NULL, NULL) == 0);
    time_start();
    honest_start(rank);
    rank_reached(stage->board, rank, 1);
    honest_end();
    TIMED(rc, PATIENCE_MS / 4, rexit());
    CHECK(NULL, rc == 0);
    time_stop();
    return check_failures == 0 ? 0 : 3;
}
