/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipeline_stage.h: what the stages of a pipeline do to a block of numbers.
 *
 * The first makes blocks, each one between changes them, the last takes a digest of them in order.
 * Stage 1 is slower than the others, so the blocks pile up before it, and what holds the source
 * back is what the program is about.
 */
#ifndef EXAMPLES_PIPELINE_STAGE_H
#define EXAMPLES_PIPELINE_STAGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "app.h"

struct pipeline_options {
    uint32_t blocks, kib; /* KiB of a block */
    uint32_t window;      /* blocks between two stages */
    uint32_t slow;        /* how much longer stage 1 takes than the others */
};

#define PIPELINE_OPTIONS_DEFAULT                                                                   \
    {                                                                                              \
        20000, 32, 8, 3                                                                            \
    }
#define PIPELINE_OPTIONS_QUICK                                                                     \
    {                                                                                              \
        200, 4, 3, 3                                                                               \
    }
#define PIPELINE_OPTION_TABLE(o)                                                                   \
    APP_NUMBER("blocks", 'n', &(o).blocks, 0, 1000000000, "Blocks that go through"),               \
        APP_NUMBER("kib", 'k', &(o).kib, 1, 16384, "KiB of a block"),                              \
        APP_NUMBER("window", 'w', &(o).window, 1, 1024, "Blocks that may lie between two stages"), \
        APP_NUMBER("slow", 's', &(o).slow, 1, 1000, "Stage 1 does its work so many times")

static inline uint32_t pipeline_words(const struct pipeline_options *o)
{
    return o->kib * (1024 / sizeof(uint64_t));
}

static inline void pipeline_make(uint64_t *out, uint32_t words, uint32_t block)
{
    uint64_t x = (uint64_t)block * 0x9e3779b97f4a7c15u + 1;

    for (uint32_t i = 0; i < words; i++)
        out[i] = x += 0xbf58476d1ce4e5b9u;
}

static inline void pipeline_change(uint64_t *out, const uint64_t *in, uint32_t words,
                                   const struct pipeline_options *o, int stage)
{
    uint32_t times = stage == 1 ? o->slow : 1;
    uint64_t factor = 2 * (uint64_t)stage + 0x94d049bb133111ebu;

    for (uint32_t i = 0; i < words; i++) {
        uint64_t x = in[i];

        for (uint32_t k = 0; k < times; k++)
            x = (x ^ x >> 29) * factor;
        out[i] = x;
    }
}

/* All blocks by one process. */
static inline uint64_t pipeline_serial(const struct pipeline_options *o, int stages)
{
    const uint32_t words = pipeline_words(o);
    uint64_t *block = (uint64_t *)malloc(words * sizeof(*block)), digest = 0;

    for (uint32_t n = 0; block != NULL && n < o->blocks; n++) {
        pipeline_make(block, words, n);
        for (int stage = 1; stage < stages - 1; stage++)
            pipeline_change(block, block, words, o, stage);
        digest = app_digest(digest, block, words);
    }
    free(block);
    return digest;
}

#endif
