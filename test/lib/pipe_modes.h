/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipe_modes.h: a test that runs in every heuristic with every mode, PUT and GET (table 3.1 of the thesis); and what tests with
 * threads need: a failure there is printed, counted, and asserted by the test.
 */
#ifndef TEST_LIB_PIPE_MODES_H
#define TEST_LIB_PIPE_MODES_H

#include "test/lib/pair.h"
#include "test/lib/counts.h"

struct mode {
    rpipe_op_t op;
    rmalloc_fit_t algorithm;
    rpipe_sync_t sync;
};

static const struct mode modes[] = {
    {RPIPE_PUT, RMALLOC_NEXT_FIT, RPIPE_SYNC_BLOCKS},
    {RPIPE_GET, RMALLOC_NEXT_FIT, RPIPE_SYNC_BLOCKS},
    {RPIPE_PUT, RMALLOC_NEXT_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_GET, RMALLOC_NEXT_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_PUT, RMALLOC_NEXT_FIT, RPIPE_SYNC_CHANNEL},
    {RPIPE_GET, RMALLOC_NEXT_FIT, RPIPE_SYNC_CHANNEL},
    {RPIPE_PUT, RMALLOC_FIRST_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_GET, RMALLOC_FIRST_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_PUT, RMALLOC_FIRST_FIT, RPIPE_SYNC_CHANNEL},
    {RPIPE_GET, RMALLOC_FIRST_FIT, RPIPE_SYNC_CHANNEL},
    {RPIPE_PUT, RMALLOC_BEST_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_GET, RMALLOC_BEST_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_PUT, RMALLOC_BEST_FIT, RPIPE_SYNC_CHANNEL},
    {RPIPE_GET, RMALLOC_BEST_FIT, RPIPE_SYNC_CHANNEL},
    {RPIPE_PUT, RMALLOC_WORST_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_GET, RMALLOC_WORST_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_PUT, RMALLOC_WORST_FIT, RPIPE_SYNC_CHANNEL},
    {RPIPE_GET, RMALLOC_WORST_FIT, RPIPE_SYNC_CHANNEL},
    {RPIPE_PUT, RMALLOC_RANDOM_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_GET, RMALLOC_RANDOM_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_PUT, RMALLOC_RANDOM_FIT, RPIPE_SYNC_CHANNEL},
    {RPIPE_GET, RMALLOC_RANDOM_FIT, RPIPE_SYNC_CHANNEL},
    {RPIPE_PUT, RMALLOC_SEGREGATED_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_GET, RMALLOC_SEGREGATED_FIT, RPIPE_SYNC_TAGS},
    {RPIPE_PUT, RMALLOC_SEGREGATED_FIT, RPIPE_SYNC_CHANNEL},
    {RPIPE_GET, RMALLOC_SEGREGATED_FIT, RPIPE_SYNC_CHANNEL},
};
#define MODES (sizeof(modes) / sizeof(*modes))

static const struct mode *now; /* which one a test that fails was in */
static uint64_t seed, state;

static inline uint64_t draw(void) { return random_mix(seed ^ state++); }

/* every test is a function of a mode; the tests of cmocka run it in all of them */
typedef void (*in_mode)(const struct mode *m);

static inline int tell_mode(void **unused)
{
    (void)unused;
    if (now != NULL)
        print_error("mode %d: op %d algorithm %d sync %d seed %llu\n", (int)(now - modes),
                    (int)now->op, (int)now->algorithm, (int)now->sync, (unsigned long long)seed);
    now = NULL;
    return 0;
}

static inline void in_every_mode(in_mode test)
{
    for (size_t i = 0; i < MODES; i++) {
        now = &modes[i];
        test(now);
    }
    now = NULL;
}

static inline void run_in_every_mode(void **test) { in_every_mode(*(in_mode *)*test); }

/* A row of the tests of cmocka. */
#define IN_EVERY_MODE(test)                                                                        \
    {                                                                                              \
#test, run_in_every_mode, NULL, tell_mode, &(in_mode) { test }                             \
    }

static inline rpipe_config_t mode_config(const struct mode *m, uint64_t alloc_size, uint32_t queue)
{
    rpipe_config_t cfg = pair_config(m->op, alloc_size);

    cfg.heuristic = m->algorithm;
    cfg.mode = m->sync;
    cfg.sync_queue = queue;
    cfg.slots = 64;
    return cfg;
}

static inline void mode_open(struct pair *p, const struct mode *m, uint64_t alloc_size,
                             uint32_t queue)
{
    rpipe_config_t cfg = mode_config(m, alloc_size, queue);

    pair_open_with(p, &cfg);
}

static inline struct pipe_counts stats(rch_t ch)
{
    struct pipe_counts st;

    CHECK_OK(ch, pipe_counts(ch, &st));
    return st;
}

#endif
