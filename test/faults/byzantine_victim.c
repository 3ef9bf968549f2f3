/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_victim.c: the victim of byzantine.h, and its friend.
 *
 * Two threads: one has the good pipes, to the friend and back, and opens new ones all the time; the other opens an end to the
 * byzantine rank, makes calls of all kinds, and closes it.
 */
#include "byzantine.h"

#include "rpipe/connect/handshake.h"

#include <dirent.h>
#include <pthread.h>

#define GOOD_HEAP 16384
#define GOOD_MESSAGES 40 /* then a new pair of pipes */
#define GOOD_MOST 6000   /* bytes */
#define LAST 1           /* the tag of the last message, which both sides then have */
#define RSS_MOST_MB 3000 /* far beyond what a sanitizer needs; what has no bound gets there */

/* ---- the good pipes: the victim writes, the friend echoes ---- */

static rch_t good_open(rpipe_op_t op, int peer, bool writer, uint32_t ctx)
{
    rpipe_config_t cfg = channel_config(op, peer, writer, GOOD_HEAP);
    rch_t ch;

    cfg.context = ctx;
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    return ch;
}

static void good_write(rch_t ch, size_t bytes, uint64_t key, uint64_t tag)
{
    raddr_t d = rmalloc(ch, bytes);

    CHECK(ch, d != ADDR_NULL);
    pattern_fill(rmem(ch, d), bytes, key);
    CHECK(ch, rset_tag(ch, d, tag) == 0);
    CHECK(ch, rwrite(ch, d) == 0);
}

static uint64_t good_read(rch_t ch, size_t bytes, uint64_t key)
{
    uint64_t tag;
    raddr_t d;
    size_t size;

    CHECK(ch, rread(ch, &d, &size) == 0);
    CHECK(ch, size == bytes && pattern_same(rmem(ch, d), size, key));
    tag = rtag(ch, d);
    CHECK(ch, rfree(ch, d) == 0);
    return tag;
}

/* Both sides draw the same sizes. False: that was the last pair. */
static bool good_pair(struct board *board, bool victim, uint64_t *random, uint64_t n)
{
    rpipe_op_t op = n % 2 == 0 ? RPIPE_PUT : RPIPE_GET;
    int peer = victim ? HONEST : VICTIM;
    rch_t there = good_open(op, peer, victim, (uint32_t)(n % 5)),
          back = good_open(op, peer, !victim, (uint32_t)(n % 5));
    uint64_t tag = 0, i, key;
    size_t bytes;

    for (i = 0; i < GOOD_MESSAGES; i++) {
        bytes = random_draw(random) % GOOD_MOST;
        key = random_draw(random);
        if (victim && i == 0)
            tag = atomic_load(&board->go) == GO_LEAVE ? LAST : 0;
        if (victim)
            good_write(there, bytes, key, tag);
        else
            tag = good_read(there, bytes, key);
        if (!victim)
            good_write(back, bytes, key, tag);
        else
            CHECK(back, good_read(back, bytes, key) == tag);
        if (victim)
            atomic_fetch_add(&board->rank[VICTIM].done, 1);
    }
    CHECK(there, rclose(there) == 0 && rclose(back) == 0);
    return tag != LAST;
}

struct good {
    struct board *board;
    uint64_t random;
    _Atomic bool over;
};

static void *good_thread(void *argument)
{
    struct good *g = argument;
    uint64_t n = 0;

    while (good_pair(g->board, true, &g->random, n))
        n++;
    atomic_store(&g->over, true);
    return NULL;
}

int friend_main(struct board *board, const struct round *round)
{
    uint64_t random = round->seed, asks = random + 2, n = 0;

    setenv("RPIPE_TIMEOUT_MS", "60000", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    friend_am_open();
    rank_reached(board, HONEST, 1);
    while (good_pair(board, false, &random,
                     n)) { /* as long as there is another pair, the victim polls */
        friend_am_ask(&asks);
        atomic_fetch_add(&board->rank[HONEST].done, 1);
        n++;
    }
    friend_am_close();
    CHECK(NULL, rexit() == 0);
    return 0;
}

/* ---- what is left of it ---- */

static long resident_mb(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f == NULL || fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f != NULL)
        fclose(f);
    return pages * sysconf(_SC_PAGESIZE) >> 20;
}

static int open_fds(void)
{
    struct dirent *entry;
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

int victim_main(struct board *board, const struct round *round)
{
    uint64_t random = round->seed + 1, k = 0;
    struct good good = {board, round->seed, false};
    pthread_t thread;
    int before, after, patience;

    victim_counts(board);
    setenv("RPIPE_LOG", "error", 0);
    setenv("RPIPE_TIMEOUT_MS", "60000", 1);
    if (round->checked)
        setenv("RMALLOC_DEBUG", "1", 1);
    if ((round->seed & 4) != 0)
        setenv("RPIPE_ATOMICS", "service", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    victim_am_open();
    (void)dup2(round->log,
               STDERR_FILENO); /* "cannot be joined" is expected here, hundreds of times */
    CHECK(NULL, pthread_create(&thread, NULL, good_thread, &good) == 0);
    before = open_fds();
    rank_reached(board, VICTIM, 1);
    for (k = 0; atomic_load(&board->go) == GO_ON && check_failures == 0; k++) {
        struct plan p = plan_of(round, k);

        atomic_store(&board->rank[VICTIM].number, k);
        victim_use(&p, &random);
        CHECK(NULL, resident_mb() < RSS_MOST_MB);
    }
    while (!atomic_load(&good.over)) { /* which it is some time after GO_LEAVE */
        victim_am_serve(&random);
        backoff_us(200);
    }
    pthread_join(thread, NULL);
    victim_am_close(board);
    for (patience = 0; (after = open_fds()) > before + 12 && patience < 3000; patience++)
        backoff_us(10000);
    EXPECT(after <= before + 12, "%d descriptors, and before the round %d", after, before);
    CHECK(NULL, rexit() == 0);
    victim_regions_end();
    if (victim_sum() == 1)
        printf("\n"); /* it is used */
    return check_failures == 0 ? 0 : 3;
}
