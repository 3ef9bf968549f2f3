/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heat_grid.h: the heat equation on a square plate whose rim is kept at temperature 0, and how it
 * is cut into blocks.
 *
 * One function computes a row, both for a process that owns a block of the plate and has the halo
 * from its neighbours, and for one process that owns the whole plate. So both results can be
 * compared bit for bit. The function can write the row to a second address at the same time, which
 * puts a halo row into memory of a pipe without a copy.
 */
#ifndef EXAMPLES_HEAT_GRID_H
#define EXAMPLES_HEAT_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "app.h"
#include "picture.h"

enum heat_side { HEAT_UP, HEAT_DOWN, HEAT_LEFT, HEAT_RIGHT, HEAT_SIDES };

/* The block of one of `down` x `across` processes, and its neighbours: -1 at the rim. */
struct heat_block {
    int n;            /* the plate has n x n cells */
    int down, across; /* blocks, one below the other and side by side */
    int y, x;         /* the first cell of this one */
    int rows, cols;
    int peer[HEAT_SIDES];
};

struct heat_options {
    int size, steps;
    const char *grid;
};

#define HEAT_OPTIONS_DEFAULT                                                                       \
    {                                                                                              \
        640, 6400, "auto"                                                                          \
    }
#define HEAT_OPTION_TABLE(o)                                                                       \
    APP_INT("size", 's', &(o).size, 1, 16384, "The plate has N x N cells"),                        \
        APP_INT("steps", 'n', &(o).steps, 0, 1000000000, "Time steps"),                            \
        APP_TEXT("grid", 'g', &(o).grid, heat_grid_valid, "GRID",                                  \
                 "1d: bands of rows; 2d: blocks; 2x3: so many; auto: blocks from 4 processes on")

/*
 * --grid: "1d", "2d", "auto" (2-D from 4 processes on), or
 * DOWNxACROSS. 0, or -EINVAL: the processes do not fit it.
 */
int heat_block_of(int rank, int nranks, int n, const char *grid, struct heat_block *b);
/* Whether this is a word for heat_block_of(). */
bool heat_grid_valid(const char *grid);

/* Values that a halo of this side has. */
static inline int heat_halo_cells(const struct heat_block *b, int side)
{
    return side == HEAT_UP || side == HEAT_DOWN ? b->cols : b->rows;
}

static inline int heat_opposite(int side) { return side ^ 1; }

/*
 * The values that a step needs from the other blocks, and
 * where to write those that they need: NULL at the rim.
 */
struct heat_halo {
    const double *from[HEAT_SIDES];
    double *send[HEAT_SIDES];
};

/*
 * Requests the lines of the halos all at once. heat_edges waits for them one by one otherwise, and where
 * another processor has written them each one takes as long as a small message. For halos that are read
 * where they arrived; one that has been copied is in the cache already.
 */
void heat_request(const struct heat_block *b, const struct heat_halo *halo);
/*
 * One step, from now to next, rows one behind the other. heat_edges computes the values that other
 * processes need, and writes them to halo->send too; the other one computes the rest.
 */
void heat_edges(const struct heat_block *b, const double *now, double *next,
                const struct heat_halo *halo);
void heat_interior(const struct heat_block *b, const double *now, double *next,
                   const struct heat_halo *halo);
/*
 * What the whole block takes at the speed of the interior,
 * which took so long; 0 where there is no interior.
 */
double heat_computing(const struct heat_block *b, double interior);

/* Copies the outermost rows and columns to halo->send: what others need of the beginning. */
void heat_first_halo(const struct heat_block *b, const double *now, const struct heat_halo *halo);

double heat_start(int y, int x, int n); /* a cell of a plate at the beginning, 0..1 */
void heat_start_block(const struct heat_block *b, double *now); /* all of a block */

/* All steps by one process; returns its result, for free(3), or NULL where there is no memory. */
double *heat_serial(int n, int steps);

/* 0; or 1, after printing the first cell that differs from the run of one process. */
int heat_compare(const char *app, const double *plate, int n, int steps);

/* The plate at the beginning and at the end, side by side, with isotherms and block borders. */
int heat_draw(const double *plate, const struct heat_block *b, struct picture *p);

/* Where block i begins when n rows or columns are dealt to `parts`; heat_cut(parts, ...) is n. */
static inline int heat_cut(int i, int n, int parts) { return (int)((long)n * i / parts); }

#endif
