/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_cast.c: a member of a cast that stores into its memory what it likes, all the time.
 *
 * First the last reader is byzantine: the writer drops it, or not, and the other reader gets every message. Then the writer is: each
 * call of a reader ends by its deadline with a result that is possible, and what it returns is memory of the cast.
 */
#include "test/lib/job.h"

#include "cast/cast.h"
#include "test/lib/random.h"

#include <pthread.h>

#define RANKS 3
#define LINE_ROUNDS 60
#define RING_ROUNDS 400
#define MESSAGES 300
#define SLOTS 16
#define HEAP 65536
#define SHORT_MS 20

static uint64_t seed;

static rcast_t cast_of(uint64_t context, int writer, int timeout_ms)
{
    rcast_config_t cfg = {.context = context,
                          .writer = writer,
                          .slots = SLOTS,
                          .heap_bytes = HEAP,
                          .timeout_ms = timeout_ms};
    rcast_t c;

    CHECK(NULL, rcast_open(&c, &cfg, NULL, RANKS) == 0);
    return c;
}

/* Until all have come so far. */
static void meet(struct board *board, int rank, int phase)
{
    rank_reached(board, rank, phase);
    for (int i = 0; i < RANKS; i++)
        while (atomic_load(&board->rank[i].phase) < phase)
            backoff_us(100);
}

/* ---- a byzantine reader ---- */

static void line_write(rcast_t c)
{
    bool dropped = false;

    for (uint64_t i = 0; i < MESSAGES; i++) {
        unsigned char buf[400];
        const size_t bytes = i % 5 == 0 ? 400 : 16;
        int rc;

        pattern_fill(buf, bytes, i);
        while ((rc = rcast_send(c, buf, bytes, 0)) == -ETIMEDOUT)
            CHECK(NULL, rcast_lost(c) != -1);
        if (rc == -EPROTO) {
            CHECK(NULL, !dropped && rcast_lost(c) == 2);
            dropped = true;
            i--;
            continue;
        }
        CHECK(NULL, rc == 0);
    }
}

static void line_read(rcast_t c)
{
    unsigned char buf[400];
    size_t bytes;

    for (uint64_t i = 0; i < MESSAGES; i++) {
        CHECK(NULL, rcast_recv(c, buf, sizeof(buf), &bytes, 0) == 0);
        CHECK(NULL, bytes == (i % 5 == 0 ? 400 : 16) && pattern_same(buf, bytes, i));
    }
    CHECK(NULL, rcast_recv(c, buf, sizeof(buf), &bytes, 0) == R_EOF);
}

/* Possible values at first, in an order that is not; then any. */
static void line_noise(rcast_t c, uint64_t *random, struct board *board, int phase)
{
    _Atomic uint64_t *line = rboard_mem(c->board);

    while (atomic_load(&board->rank[1].phase) < phase) {
        uint64_t x = random_draw(random);

        atomic_store(&line[x % 2], x % 8 < 6 ? 1 + x / 8 % MESSAGES : random_invalid(random));
        rboard_wake(c->board, line);
        backoff_us(20);
    }
}

static void line_round(struct board *board, int rank, int round)
{
    rcast_t c = cast_of(1, 0, rank == 1 ? PATIENCE_MS : SHORT_MS);
    uint64_t random = seed + (uint64_t)round;

    if (rank == 0)
        line_write(c);
    else if (rank == 1)
        line_read(c);
    else
        line_noise(c, &random, board, 2 * round + 1);
    if (rank == 0)
        CHECK(NULL, rcast_close(c) == 0);
    meet(board, rank, 2 * round + 1);
    if (rank != 0)
        CHECK(NULL, rcast_close(c) == 0);
    meet(board, rank, 2 * round + 2);
}

/* ---- a byzantine writer ---- */

/* Slots that look right often, or are next to that; heads; ends. */
static void ring_noise(rcast_t c, uint64_t *random)
{
    uint64_t x = random_draw(random), i = random_draw(random) % SLOTS;
    struct cast_slot *slot = &c->slot[i];

    switch (x % 16) {
    case 0:
        atomic_store(&c->head->end, x % 3 == 0 ? random_invalid(random) : 1 + x / 16 % 40);
        break;
    case 1:
        ((uint64_t *)(void *)c->head)[x / 16 % 8] = random_invalid(random);
        break;
    case 2:
        atomic_store(&slot->number, random_invalid(random));
        break;
    default:
        slot->bytes = x / 16 % 4 == 0 ? random_invalid(random) : x / 64 % (HEAP + 64);
        slot->at = x / 16 % 4 == 1 ? random_invalid(random) : random_draw(random) % (HEAP + 64);
        atomic_store(&slot->number, c->first + i + SLOTS * (random_draw(random) % 3));
    }
    rboard_wake(c->board, &slot->number);
}

static void ring_write(rcast_t c, struct board *board, int round, uint64_t *random)
{
    const int phase = 2 * (LINE_ROUNDS + round) + 1;

    while (atomic_load(&board->rank[1].phase) < phase || atomic_load(&board->rank[2].phase) < phase)
        ring_noise(c, random);
}

static bool ring_inside(rcast_t c, const void *mem, size_t bytes)
{
    const char *base = rboard_mem_of(c->board, 0);
    const size_t all = cast_heap_at(SLOTS) + HEAP, at = (size_t)((const char *)mem - base);

    return at < all && bytes <= all - at;
}

static void ring_read(rcast_t c, uint64_t *random)
{
    unsigned char *buf = malloc(HEAP);
    uint64_t sum = 0;

    for (int i = 0; i < 40; i++) {
        const bool copies = random_draw(random) % 2 == 0;
        const int64_t before = clock_now();
        const void *mem = NULL;
        size_t bytes = 0;
        int rc = copies ? rcast_recv(c, buf, HEAP, &bytes, 0) : rcast_read(c, &mem, &bytes, 0);

        CHECK(NULL, clock_now() - before < 20000 * NS_PER_MS);
        CHECK(NULL, rc == 0 || rc == -ETIMEDOUT || rc == -EPROTO || rc == R_EOF || rc == -ENOBUFS);
        if (rc == -EPROTO || rc == R_EOF)
            break;
        if (rc != 0 || copies)
            continue;
        CHECK(NULL, ring_inside(c, mem, bytes));
        for (size_t k = 0; k < bytes; k++)
            sum += ((const volatile unsigned char *)mem)[k];
        if (random_draw(random) % 4 != 0)
            CHECK(NULL, rcast_free(c, mem) == 0);
    }
    CHECK(NULL, sum != 1);
    free(buf);
}

static void ring_round(struct board *board, int rank, int round)
{
    rcast_t c = cast_of(2, 0, SHORT_MS);
    uint64_t random = seed + (uint64_t)round * RANKS + (uint64_t)rank;

    if (rank == 0)
        ring_write(c, board, round, &random);
    else
        ring_read(c, &random);
    meet(board, rank, 2 * (LINE_ROUNDS + round) + 1);
    CHECK(NULL, rcast_close(c) == 0);
    meet(board, rank, 2 * (LINE_ROUNDS + round) + 2);
}

static int play(int rank, struct board *board, const void *arguments)
{
    (void)arguments;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    for (int i = 0; i < LINE_ROUNDS; i++)
        line_round(board, rank, i);
    for (int i = 0; i < RING_ROUNDS; i++)
        ring_round(board, rank, i);
    CHECK(NULL, rexit() == 0);
    return 0;
}

int main(int argc, char **argv)
{
    struct job job;

    seed = seed_of(argc, argv);
    job_prepare(&job, RANKS);
    job_start(&job, play, NULL);
    for (int i = 0; i < RANKS; i++) {
        job_ended(&job, i);
        EXPECT(job_status_is(&job, i, 0), "rank %d: status 0x%x", i, job.status[i]);
    }
    job_finish(&job);
    return check_report("byzantine_cast");
}
