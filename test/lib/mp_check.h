/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_check.h: what the multi-process tests of the public interface have in common.
 *
 * A check that fails prints rank, line and the error message of the pipe, and ends the whole job: a rank that only left
 * would let the others wait for their deadlines. All ranks draw from one seed (an argument that is a number, else
 * rank 0's clock), so that each end of a pipe can compute what the other one will do; it is printed first.
 */
#ifndef TEST_LIB_MP_CHECK_H
#define TEST_LIB_MP_CHECK_H

#include "test/lib/check.h"
#include "test/lib/on_device.h"
#include "test/lib/pattern.h"
#include "test/lib/counts.h"
#include <rpipe.h>

static int mp_rank, mp_ranks;
static uint64_t mp_seed;

/* The end of a failed check: the whole job. */
static inline void mp_check_end(const char *file, int line)
{
    (void)file, (void)line;
    network_abort(1);
}

/* ---- numbers that all ranks draw alike ---- */

static inline uint64_t mp_draw(uint64_t *state) { return random_mix((*state)++ ^ mp_seed); }

/* which message it is: every byte of it depends on that */
static inline uint64_t mp_key(int writer, int reader, uint32_t ctx, uint64_t number)
{
    return random_mix(mp_seed ^
                      random_mix(number ^ random_mix((uint64_t)ctx << 32 ^ (uint64_t)writer << 16 ^
                                                     (uint64_t)reader)));
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

/* Is what the writer has written there at once? On a network it is in flight for a while. */
static inline bool mp_at_once(rch_t ch)
{
    struct pipe_transport transport;

    CHECK_OK(ch, pipe_transport(ch, &transport));
    return strcmp(transport.backend, "shm") == 0;
}

/* rmem of a message that this process owns: a library that has lost it fails a check, and not by a signal. */
static inline void *mp_mem(rch_t ch, raddr_t d)
{
    void *at = rmem(ch, d);

    CHECK(ch, at != NULL);
    return at;
}

static inline void mp_send(rch_t ch, size_t size, uint64_t key)
{
    raddr_t d = rmalloc(ch, size);

    CHECK(ch, d != ADDR_NULL);
    pattern_fill(mp_mem(ch, d), size, key);
    CHECK_OK(ch, rwrite(ch, d));
}

static inline raddr_t mp_receive(rch_t ch, size_t size, uint64_t key)
{
    raddr_t d = ADDR_NULL;
    size_t got = SIZE_MAX;

    CHECK_OK(ch, rread(ch, &d, &got));
    CHECK(ch, got == size);
    CHECK(ch, pattern_same(mp_mem(ch, d), size, key));
    return d;
}

static inline void mp_read_free(rch_t ch, size_t size, uint64_t key)
{
    CHECK_OK(ch, rfree(ch, mp_receive(ch, size, key)));
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
    check_rank = mp_rank;
    check_end = mp_check_end;
    if (mp_ranks < least) {
        fprintf(stderr, "%s: needs %d processes, not %d\n", argv[0], least, mp_ranks);
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
