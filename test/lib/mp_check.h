/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_check.h: what the multi-process tests of the public interface have in common.
 *
 * A check that fails says rank, line and the sentence of the channel, and ends the whole job: a rank that only left
 * would let the others wait for their deadlines. All ranks draw from one seed (an argument that is a number, else
 * rank 0's clock), so that each end of a channel knows what the other one will do; it is printed first.
 */
#ifndef TEST_LIB_MP_CHECK_H
#define TEST_LIB_MP_CHECK_H

#include "test/lib/v01.h"
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ch: whose sentence explains it, or NULL */
#define CHECK(ch, condition)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            mp_failed((ch), #condition, NULL, __FILE__, __LINE__);                                 \
    } while (0)
#define CHECK_RC(expected, ch, call) mp_result((expected), (call), (ch), #call, __FILE__, __LINE__)
#define CHECK_OK(ch, call) CHECK_RC(R_SUCCESS, ch, call)
/* the sentence about the last failure contains this */
#define CHECK_SAYS(ch, words)                                                                      \
    do {                                                                                           \
        if (strstr(rerror(ch), (words)) == NULL)                                                   \
            mp_failed((ch), "the sentence does not say", (words), __FILE__, __LINE__);             \
    } while (0)

static int mp_rank, mp_ranks;
static uint64_t mp_seed;

static inline __attribute__((noreturn)) void mp_failed(rch_t ch, const char *what, const char *more,
                                                       const char *file, int line)
{
    fflush(stdout);
    fprintf(stderr, "rank %d: %s:%d: %s%s%s; errno %d; \"%s\"\n", mp_rank, file, line, what,
            more != NULL ? " " : "", more != NULL ? more : "", errno, rerror(ch));
    fflush(stderr);
    network_abort(1);
}

static inline void mp_result(int expected, int code, rch_t ch, const char *call, const char *file,
                             int line)
{
    char what[160];

    if (code == expected)
        return;
    snprintf(what, sizeof(what), "gave %d (%s), not %d (%s)", code, rstrerror(code), expected,
             rstrerror(expected));
    mp_failed(ch, call, what, file, line);
}

/* ---- numbers that all ranks draw alike ---- */

static inline uint64_t mp_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t mp_draw(uint64_t *state) { return mp_mix((*state)++ ^ mp_seed); }

/* which message it is: every byte of it depends on that */
static inline uint64_t mp_key(int writer, int reader, uint32_t ctx, uint64_t number)
{
    return mp_mix(mp_seed ^ mp_mix(number ^ mp_mix((uint64_t)ctx << 32 ^ (uint64_t)writer << 16 ^
                                                   (uint64_t)reader)));
}

static inline void mp_fill(void *memory, size_t size, uint64_t key)
{
    uint8_t *p = memory;

    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = mp_mix(key + i);

        memcpy(p + i, &word, size - i < 8 ? size - i : 8);
    }
}

static inline bool mp_same(const void *memory, size_t size, uint64_t key)
{
    const uint8_t *p = memory;

    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = mp_mix(key + i);

        if (memcmp(p + i, &word, size - i < 8 ? size - i : 8) != 0)
            return false;
    }
    return true;
}

static inline void mp_shuffle(size_t *order, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t j = mp_draw(state) % i, t = order[i - 1];

        order[i - 1] = order[j];
        order[j] = t;
    }
}

/* ---- ends of channels ---- */

static inline int mp_open(rch_t *ch, bool writer, int peer, uint32_t ctx, rpipe_op_t op,
                          uint64_t alloc_size, uint32_t slots)
{
    rpipe_config_t cfg = {0};

    cfg.op = op;
    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = alloc_size;
    cfg.context = ctx;
    cfg.slots = slots;
    return rpipe(ch, &cfg);
}

/* Is what the writer has written there at once? On a network it is under way for a while. */
static inline bool mp_at_once(rch_t ch)
{
    rpipe_transport_t transport;

    CHECK_OK(ch, rpipe_transport(ch, &transport));
    return strcmp(transport.backend, "shm") == 0;
}

static inline void mp_send(rch_t ch, size_t size, uint64_t key)
{
    raddr_t d = rmalloc(ch, size);

    CHECK(ch, d != ADDR_NULL);
    CHECK(ch, rmem(ch, d) != NULL);
    mp_fill(rmem(ch, d), size, key);
    CHECK_OK(ch, rwrite(ch, d));
}

static inline raddr_t mp_receive(rch_t ch, size_t size, uint64_t key)
{
    raddr_t d = ADDR_NULL;
    size_t got = SIZE_MAX;

    CHECK_OK(ch, rread(ch, &d, &got));
    CHECK(ch, got == size);
    CHECK(ch, mp_same(rmem(ch, d), size, key));
    return d;
}

static inline void mp_read_free(rch_t ch, size_t size, uint64_t key)
{
    CHECK_OK(ch, rfree(ch, mp_receive(ch, size, key)));
}

/* ---- time: for bounds of deadlines, and to be late on purpose ---- */

static inline double mp_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline void mp_compute(double ms)
{
    double end = mp_now_ms() + ms;

    while (mp_now_ms() < end)
        ;
}

/* ---- the program ---- */

/* an argument "-word" is there */
static inline bool mp_asked(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

/* the last argument that is a number, and not the seed "seed=N" */
static inline long mp_number(int argc, char **argv, long fallback)
{
    long number = fallback;

    for (int i = 1; i < argc; i++)
        if (argv[i][0] >= '0' && argv[i][0] <= '9')
            number = strtol(argv[i], NULL, 0);
    return number;
}

static inline void mp_begin(int argc, char **argv, int least)
{
    struct timespec now;
    uint64_t *seeds;

    if (rinit(&mp_rank, &mp_ranks) != R_SUCCESS) {
        fprintf(stderr, "rinit: %s\n", rerror(NULL));
        exit(1);
    }
    if (mp_ranks < least) {
        fprintf(stderr, "%s: wants %d processes, not %d\n", argv[0], least, mp_ranks);
        exit(1);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    mp_seed = (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "seed=", 5) == 0)
            mp_seed = strtoull(argv[i] + 5, NULL, 0);
    seeds = calloc((size_t)mp_ranks, sizeof(*seeds));
    CHECK(NULL, seeds != NULL);
    CHECK_OK(NULL, network_allgather(&mp_seed, sizeof(mp_seed), seeds));
    mp_seed = seeds[0];
    free(seeds);
    if (mp_rank == 0) {
        printf("%s: %d ranks, seed=%llu\n", argv[0], mp_ranks, (unsigned long long)mp_seed);
        fflush(stdout);
    }
}

static inline int mp_end(void)
{
    CHECK_OK(NULL, rexit());
    return 0;
}

#endif
