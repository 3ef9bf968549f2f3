/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_parts.c: -t parts: what the components of a message through shared memory take, as
 * rmalloc_model reads them (doc/model.md). See perf.h.
 *
 * Calls are measured by rank 0 alone, in loops of their own over PARTS_MESSAGES messages of a pipe
 * to itself: what they read is in its cache. Fill and read likewise, in one buffer. hand_over is
 * measured by both, without a library: a payload and behind it a flag, to and fro, half of a round;
 * the payload goes through a window of as many bytes as the heap of the latency test, so that its
 * lines are where those of a message are. The time of reading the clock is taken off.
 */
#include "perf_message.h"

#include <rcoll.h>
#include <rinfo.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PARTS_MESSAGES 32    /* of a loop over a pipe */
#define PARTS_LOOPS 500      /* of a round */
#define PARTS_ROUNDS_MOST 99 /* of which the median and the least are taken */
#define PARTS_ROUNDS_LEAST 5
#define PARTS_TURNS 2000 /* of a round of hand_over, fewer of large payloads */
#define PARTS_WINDOW (1u << 20)
#define PARTS_LINE 64

static const size_t parts_size[] = {8, 64, 4096, 65536};
#define PARTS_SIZES (sizeof(parts_size) / sizeof(parts_size[0]))

/* The memory of a rank that the other one reads. */
struct parts_words {
    _Atomic uint64_t number; /* of the last payload that is complete */
    uint64_t small;          /* a payload of 8 bytes: on the line of the flag, as in a slot */
    char unused[4096 - 2 * sizeof(uint64_t)];
    char window[PARTS_WINDOW];
};

enum { CALL_ALLOC, CALL_PUBLISH, CALL_POLL, CALL_TAKE, CALL_FREE, CALLS };

static struct {
    int rank, rounds;
    double clock;
    struct parts_words *mine;
    const struct parts_words *other;
    uint64_t number;
    rch_t out, in;
    double call[CALLS][PARTS_ROUNDS_MOST];
    double sample[PARTS_ROUNDS_MOST];
    bool any; /* of the JSON */
} parts;

static int parts_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void parts_print(const struct perf_options *o, const char *name, double *sample)
{
    double median, least;

    qsort(sample, (size_t)parts.rounds, sizeof(*sample), parts_by_value);
    median = sample[parts.rounds / 2];
    least = sample[0];
    median = median > 0 ? median : 0; /* less than the clock resolves */
    least = least > 0 ? least : 0;
    if (o->format == PERF_JSON)
        printf("%s\n  {\"part\": \"%s\", \"ns\": %.2f, \"least_ns\": %.2f}", parts.any ? "," : "",
               name, median, least);
    else if (o->format == PERF_CSV)
        printf("%s,%.2f,%.2f\n", name, median, least);
    else
        printf("%-16s %12.2f  # least %.2f\n", name, median, least);
    parts.any = true;
}

/* ---- calls ---- */

static void parts_must(int code, rch_t ch, const char *call)
{
    if (__builtin_expect(code != 0, 0))
        perf_fail(ch, call, code);
}

static rch_t parts_end(rpipe_role_t role)
{
    rpipe_config_t cfg = {.peer = parts.rank, .role = role, .op = RPIPE_PUT};
    rch_t ch = NULL;

    parts_must(rpipe(&ch, &cfg), NULL, "rpipe");
    return ch;
}

static void parts_alloc(raddr_t *d, size_t size)
{
    for (int i = 0; i < PARTS_MESSAGES; i++)
        if ((d[i] = rmalloc(parts.out, size)) == ADDR_NULL)
            perf_fail(parts.out, "rmalloc", -errno);
}

/* The time since *before, which becomes now. */
static double parts_lap(double *before)
{
    const double now = perf_now_ns(), took = now - *before - parts.clock;

    *before = now;
    return took;
}

/* Messages from memory to release: the time of each of their calls. */
static void parts_messages(size_t bytes, double *took)
{
    raddr_t d[PARTS_MESSAGES], none;
    double before = perf_now_ns();
    size_t size;

    parts_alloc(d, bytes);
    took[CALL_ALLOC] += parts_lap(&before);
    for (int i = 0; i < PARTS_MESSAGES; i++)
        parts_must(rwrite(parts.out, d[i]), parts.out, "rwrite");
    took[CALL_PUBLISH] += parts_lap(&before);
    for (int i = 0; i < PARTS_MESSAGES; i++)
        parts_must(rread(parts.in, &d[i], &size), parts.in, "rread");
    took[CALL_TAKE] += parts_lap(&before);
    for (int i = 0; i < PARTS_MESSAGES; i++)
        parts_must(rfree(parts.in, d[i]), parts.in, "rfree");
    took[CALL_FREE] += parts_lap(&before);
    for (int i = 0; i < PARTS_MESSAGES; i++)
        if (rread_nb(parts.in, &none, &size) != R_PENDING)
            perf_fail(parts.in, "rread_nb", -EPROTO);
    took[CALL_POLL] += parts_lap(&before);
}

/* Of messages in slots, or in the heap. */
static void parts_calls(const struct perf_options *o, bool heap)
{
    static const char *const names[2][CALLS] = {
        {"alloc", "publish", "poll", "take", "free"},
        {"alloc_heap", "publish_heap", "", "take_heap", "free_heap"}};
    double took[CALLS];

    parts.out = parts_end(RPIPE_WRITER);
    parts.in = parts_end(RPIPE_READER);
    parts_must(rwait(parts.out), parts.out, "rwait");
    parts_must(rwait(parts.in), parts.in, "rwait");
    for (int round = -1; round < parts.rounds; round++) { /* the first one is not counted */
        memset(took, 0, sizeof(took));
        for (int i = 0; i < PARTS_LOOPS; i++)
            parts_messages(parts_size[heap], took);
        for (int c = 0; c < CALLS && round >= 0; c++)
            parts.call[c][round] = took[c] / PARTS_LOOPS / PARTS_MESSAGES;
    }
    parts_must(rclose(parts.out), NULL, "rclose");
    parts_must(rclose(parts.in), NULL, "rclose");
    for (int c = 0; c < CALLS; c++)
        if (!heap || c != CALL_POLL)
            parts_print(o, names[heap][c], parts.call[c]);
}

/* ---- fill and read in a cache of one's own ---- */

static long parts_turns(size_t size)
{
    const long turns = (long)(PARTS_WINDOW * 32u / size);

    return turns < PARTS_TURNS ? turns : PARTS_TURNS;
}

PERF_INLINE double parts_memory(size_t size, bool fill)
{
    const long turns = 8 * parts_turns(size);
    char *buffer = parts.mine->window;
    double began;

    perf_fill(buffer, size, 1);
    began = perf_now_ns();
    for (long i = 0; i < turns; i++) {
        if (fill)
            perf_fill(buffer, size, (uint64_t)i);
        else
            perf_sink += perf_sum(buffer, size);
        __asm__ __volatile__("" ::: "memory");
    }
    return (perf_now_ns() - began - parts.clock) / (double)turns;
}

/* ---- a payload to and fro ---- */

static void parts_await(uint64_t number)
{
    /* acquire: pairs with the release of parts_put */
    while (atomic_load_explicit(&parts.other->number, memory_order_acquire) != number)
        __asm__ __volatile__("" ::: "memory");
}

PERF_INLINE void parts_put(size_t size)
{
    void *payload = &parts.mine->small;

    if (size > sizeof(uint64_t))
        payload = parts.mine->window + parts.number * size % PARTS_WINDOW;
    perf_fill(payload, size, parts.number);
    /* release: the payload is complete; pairs with parts_await */
    atomic_store_explicit(&parts.mine->number, parts.number, memory_order_release);
}

PERF_INLINE void parts_get(size_t size)
{
    const void *payload = &parts.other->small;

    parts_await(parts.number);
    if (size > sizeof(uint64_t))
        payload = parts.other->window + parts.number * size % PARTS_WINDOW;
    perf_sink += perf_sum(payload, size);
}

PERF_INLINE double parts_hand_over(size_t size)
{
    const long turns = parts_turns(size);
    const double began = perf_now_ns();

    for (long i = 0; i < turns; i++) {
        parts.number++;
        if (parts.rank == 0)
            parts_put(size);
        parts_get(size);
        if (parts.rank != 0)
            parts_put(size);
    }
    return (perf_now_ns() - began - parts.clock) / (double)turns / 2;
}

/* A function for each size, in which it is a constant. */
#define PARTS_OF(size)                                                                             \
    static double parts_fill_##size(void) { return parts_memory(size, true); }                     \
    static double parts_read_##size(void) { return parts_memory(size, false); }                    \
    static double parts_hand_over_##size(void) { return parts_hand_over(size); }

PARTS_OF(8)
PARTS_OF(64)
PARTS_OF(4096)
PARTS_OF(65536)

static void parts_rounds(const struct perf_options *o, const char *what, size_t size,
                         double (*round)(void))
{
    char name[32];

    (void)round(); /* caches and pages */
    for (int i = 0; i < parts.rounds; i++)
        parts.sample[i] = round();
    snprintf(name, sizeof(name), "%s_%zu", what, size);
    if (parts.rank == 0)
        parts_print(o, name, parts.sample);
}

/* ---- all ---- */

static rboard_t parts_board(void)
{
    rboard_config_t cfg = {.context = rcontext("rmalloc_perf.parts"),
                           .bytes = sizeof(struct parts_words)};
    rboard_t board;

    parts_must(rboard_open(&board, &cfg, NULL, 2), NULL, "rboard_open");
    parts_must(rboard_wait(board), NULL, "rboard_wait");
    parts.mine = rboard_mem(board);
    parts.other = rboard_mem_of(board, 1 - parts.rank);
    if (parts.other == NULL)
        perf_fail(NULL, "-t parts: the processes share no memory", -ENOTSUP);
    return board;
}

static void parts_begin(const struct perf_options *o)
{
    if (o->format == PERF_JSON)
        printf("{\"tool\": \"rmalloc_perf\", \"version\": \"%s\", \"rounds\": %d, \"parts\": [",
               rinfo_version(), parts.rounds);
    else if (o->format == PERF_CSV)
        printf("part,ns,least_ns\n");
    else
        printf("# shared memory, in ns: medians of %d rounds; for rmalloc_model --parts\n",
               parts.rounds);
}

void perf_parts(const struct perf_options *o, int rank)
{
    static double (*const fill[])(void) = {parts_fill_8, parts_fill_64, parts_fill_4096,
                                           parts_fill_65536};
    static double (*const read[])(void) = {parts_read_8, parts_read_64, parts_read_4096,
                                           parts_read_65536};
    static double (*const hand_over[])(void) = {parts_hand_over_8, parts_hand_over_64,
                                                parts_hand_over_4096, parts_hand_over_65536};
    rboard_t board;

    parts.rank = rank;
    parts.rounds = o->rounds < PARTS_ROUNDS_LEAST  ? PARTS_ROUNDS_LEAST
                   : o->rounds > PARTS_ROUNDS_MOST ? PARTS_ROUNDS_MOST
                                                   : o->rounds;
    parts.clock = perf_clock_cost();
    board = parts_board();
    if (rank == 0) {
        parts_begin(o);
        parts_calls(o, false);
        parts_calls(o, true);
        for (size_t i = 0; i < PARTS_SIZES; i++)
            parts_rounds(o, "fill", parts_size[i], fill[i]);
        for (size_t i = 0; i < PARTS_SIZES; i++)
            parts_rounds(o, "read", parts_size[i], read[i]);
    }
    parts_must(network_barrier(), NULL, "network_barrier"); /* rank 1 sleeps meanwhile */
    for (size_t i = 0; i < PARTS_SIZES; i++)
        parts_rounds(o, "hand_over", parts_size[i], hand_over[i]);
    if (rank == 0 && o->format == PERF_JSON)
        printf("\n]}\n");
    parts_must(network_barrier(), NULL, "network_barrier");
    (void)rboard_close(board);
}
