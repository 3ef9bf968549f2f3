/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipeline_stage.h: what the stages of a pipeline do to a block of numbers.
 *
 * The first makes blocks, each one between changes them, the last takes a digest of them in order. Stage 1 is slower than
 * the others, so the blocks pile up before it, and what holds the source back is what the program is about.
 */
#ifndef EXAMPLES_PIPELINE_STAGE_H
#define EXAMPLES_PIPELINE_STAGE_H

#include <argp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "app.h"

struct pipeline_options {
    uint32_t blocks, words; /* 64-bit words of a block */
    uint32_t window;        /* blocks between two stages */
    uint32_t slow;          /* how much longer stage 1 takes than the others */
};

#define PIPELINE_OPTIONS_DEFAULT                                                                                       \
    {                                                                                                                  \
        20000, 4096, 8, 3                                                                                              \
    }

static inline error_t pipeline_parse_option(int key, char *arg, struct argp_state *state)
{
    struct pipeline_options *o = state->input;

    switch (key) {
    case 'n':
        o->blocks = (uint32_t)app_number(arg, 0, 1000000000, "--blocks", state);
        return 0;
    case 'k':
        o->words = (uint32_t)app_number(arg, 1, 16384, "--kib", state) * 128;
        return 0;
    case 'w':
        o->window = (uint32_t)app_number(arg, 1, 1024, "--window", state);
        return 0;
    case 's':
        o->slow = (uint32_t)app_number(arg, 1, 1000, "--slow", state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option pipeline_option_table[] = {
    {"blocks", 'n', "N", 0, "Blocks that go through (20000)", 2},
    {"kib", 'k', "N", 0, "KiB of a block (32)", 2},
    {"window", 'w', "N", 0, "Blocks that may lie between two stages (8)", 2},
    {"slow", 's', "N", 0, "Stage 1 does its work so many times (3)", 2},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp pipeline_argp = {pipeline_option_table, pipeline_parse_option, NULL, NULL, NULL, NULL, NULL};

static inline void pipeline_make(uint64_t *out, uint32_t words, uint32_t block)
{
    uint64_t x = (uint64_t)block * 0x9e3779b97f4a7c15u + 1;

    for (uint32_t i = 0; i < words; i++)
        out[i] = x += 0xbf58476d1ce4e5b9u;
}

static inline void pipeline_change(uint64_t *out, const uint64_t *in, uint32_t words, const struct pipeline_options *o,
                                   int stage)
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
    uint64_t *block = (uint64_t *)malloc(o->words * sizeof(*block)), digest = 0;

    for (uint32_t n = 0; block != NULL && n < o->blocks; n++) {
        pipeline_make(block, o->words, n);
        for (int stage = 1; stage < stages - 1; stage++)
            pipeline_change(block, block, o->words, o, stage);
        digest = app_digest(digest, block, o->words);
    }
    free(block);
    return digest;
}

#endif
