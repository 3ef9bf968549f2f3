/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queens.h: tasks of very different size: the number of ways to place N queens on a board of N x N.
 *
 * A task is one placement of queens in the first --rows rows; its number, written to the base N,
 * has a column for each of them. In most tasks two of these attack each other, and there is nothing
 * to do; the others have up to some thousand times as much as each other. So no fixed distribution
 * of the tasks is balanced. The sum does not depend on the distribution, and is published for each
 * N.
 */
#ifndef EXAMPLES_QUEENS_H
#define EXAMPLES_QUEENS_H

#include <stdint.h>
#include <stdio.h>

#include "app.h"

struct queens_options {
    uint32_t queens, rows; /* rows whose queens the number of a task fixes */
    uint32_t chunk;        /* tasks of a claim */
};

#define QUEENS_OPTIONS_DEFAULT                                                                     \
    {                                                                                              \
        15, 4, 1                                                                                   \
    }
#define QUEENS_OPTIONS_QUICK                                                                       \
    {                                                                                              \
        9, 3, 1                                                                                    \
    }
#define QUEENS_MOST 18
#define QUEENS_OPTION_TABLE(o)                                                                     \
    APP_NUMBER("queens", 'n', &(o).queens, 1, QUEENS_MOST,                                         \
               "Queens, and rows of the board: 18 take some minutes"),                             \
        APP_NUMBER("rows", 'r', &(o).rows, 1, 6,                                                   \
                   "Rows that the number of a task fixes: more, smaller tasks"),                   \
        APP_NUMBER("chunk", 'c', &(o).chunk, 1, 1000000, "Tasks that are claimed at once")

/* What a process, or all of them, have done. */
struct queens_sum {
    uint64_t tasks, solutions;
    uint64_t digest; /* in which each task counts with its number and result */
};

/* Call after the options are parsed: limits rows to the rows of the board. */
static inline void queens_begin(struct queens_options *o)
{
    if (app_options.quick)
        *o = (struct queens_options)QUEENS_OPTIONS_QUICK;
    if (o->rows > o->queens)
        o->rows = o->queens;
}

static inline uint64_t queens_tasks(const struct queens_options *o)
{
    uint64_t tasks = 1;

    for (uint32_t row = 0; row < o->rows; row++)
        tasks *= o->queens;
    return tasks;
}

/*
 * Ways to go on: `columns`, and both diagonals as this row
 * sees them, are the places that are attacked.
 */
static inline uint64_t queens_below(uint32_t all, uint32_t columns, uint32_t left, uint32_t right)
{
    uint32_t free_places = all & ~(columns | left | right);
    uint64_t ways = 0;

    if (columns == all)
        return 1;
    while (free_places != 0) {
        uint32_t place = free_places & (0 - free_places);

        free_places -= place;
        ways += queens_below(all, columns | place, (left | place) << 1, (right | place) >> 1);
    }
    return ways;
}

static inline uint64_t queens_solutions(const struct queens_options *o, uint64_t task)
{
    uint32_t all = (UINT32_C(1) << o->queens) - 1, columns = 0, left = 0, right = 0;

    for (uint32_t row = 0; row < o->rows; row++, task /= o->queens) {
        uint32_t place = UINT32_C(1) << task % o->queens;

        if (((columns | left | right) & place) != 0)
            return 0;
        columns |= place;
        left = (left | place) << 1;
        right = (right | place) >> 1;
    }
    return queens_below(all, columns, left, right);
}

/* One claim: up to chunk tasks from this one on. */
static inline void queens_work(const struct queens_options *o, uint64_t first,
                               struct queens_sum *sum)
{
    uint64_t behind = first + o->chunk, tasks = queens_tasks(o);

    for (uint64_t task = first; task < behind && task < tasks; task++) {
        uint64_t solutions = queens_solutions(o, task);

        sum->tasks++;
        sum->solutions += solutions;
        sum->digest += app_mix(task << 32 ^ solutions);
    }
}

/* Whether the sum covers all tasks and is right; prints the difference if not. */
static inline bool queens_right(const char *app, const struct queens_options *o,
                                const struct queens_sum *sum)
{
    static const uint32_t known[QUEENS_MOST + 1] = {
        1,   1,    0,     0,     2,      10,      4,        40,       92,       352,
        724, 2680, 14200, 73712, 365596, 2279184, 14772512, 95815104, 666090624};

    if (sum->tasks == queens_tasks(o) && sum->solutions == known[o->queens])
        return true;
    fprintf(stderr, "%s: WRONG: %llu tasks have %llu solutions; %llu have %u\n", app,
            (unsigned long long)sum->tasks, (unsigned long long)sum->solutions,
            (unsigned long long)queens_tasks(o), known[o->queens]);
    return false;
}

#endif
