/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * app_pipes.h: what the applications over pipes share beside app.h: the option --op, and sums over
 * all processes.
 *
 * Whatever an example is about (opening pipes, writing, reading) it does itself.
 */
#ifndef EXAMPLES_APP_PIPES_H
#define EXAMPLES_APP_PIPES_H

#include <rpipe.h>
#include <stdlib.h>

#include "app.h"
#include "must.h"

static const char *const app_ops[] = {"put", "get", NULL};
#define APP_OP(place)                                                                              \
    APP_WORD("op", 'p', place, app_ops,                                                            \
             "Which end moves the payload: the writer (put) or the reader (get)")

static inline rpipe_op_t app_op(int word) { return word == 1 ? RPIPE_GET : RPIPE_PUT; }
static inline const char *app_op_name(int word) { return word == 1 ? "rpipe get" : "rpipe put"; }

/* Both are collective. */
static inline uint64_t app_sum(uint64_t mine)
{
    size_t ranks = (size_t)network_ranks();
    uint64_t sum = 0, *all = (uint64_t *)calloc(ranks, sizeof(*all));

    MUST_HOLD(all != NULL);
    MUST(NULL, network_allgather(&mine, sizeof(mine), all));
    for (size_t r = 0; r < ranks; r++)
        sum += all[r];
    free(all);
    return sum;
}

static inline double app_mean(double mine)
{
    size_t ranks = (size_t)network_ranks();
    double sum = 0, *all = (double *)calloc(ranks, sizeof(*all));

    MUST_HOLD(all != NULL);
    MUST(NULL, network_allgather(&mine, sizeof(mine), all));
    for (size_t r = 0; r < ranks; r++)
        sum += all[r];
    free(all);
    return sum / (double)ranks;
}

/* Of each lap the least that any process had, summed. */
static inline double app_least(const struct app_laps *laps)
{
    size_t ranks = (size_t)network_ranks(), most = 4096;
    float *all = (float *)calloc(ranks * most, sizeof(*all));
    double sum = 0;

    MUST_HOLD(all != NULL);
    for (size_t first = 0; first < laps->room; first += most) {
        size_t n = laps->room - first < most ? (size_t)laps->room - first : most;

        MUST(NULL, network_allgather(laps->beyond + first, n * sizeof(*all), all));
        for (size_t i = 0; i < n; i++) {
            float least = all[i];

            for (size_t r = 1; r < ranks; r++)
                least = all[r * n + i] < least ? all[r * n + i] : least;
            sum += (double)least;
        }
    }
    free(all);
    return sum;
}

#endif
