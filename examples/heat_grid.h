/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heat_grid.h: the heat equation on rows of a square plate whose rim is kept at temperature 0.
 *
 * One function computes a row, whoever asks: a process that owns a band of the plate and got the rows beside it from its
 * neighbours, or one process that owns the whole plate. So both results can be compared bit for bit. It can write the row
 * to a second place at the same time, which is how a halo row comes to lie in memory of a pipe without a copy.
 */
#ifndef EXAMPLES_HEAT_GRID_H
#define EXAMPLES_HEAT_GRID_H

#include "picture.h"

/* out (and also, unless it is NULL) = the row `here` one step later; above and below are the rows beside it; n cells each */
void heat_row(double *restrict out, double *restrict also, const double *above, const double *here, const double *below,
              int n);

double heat_start(int y, int x, int n); /* temperature of a cell of a plate of n x n cells at the beginning, 0..1 */

/* All steps by one process; returns its result, for free(3), or NULL where there is no memory. */
double *heat_serial(int n, int steps);

/* The plate at the beginning and at the end side by side, isotherms, and the borders of `bands` bands of rows. */
int heat_draw(const double *plate, int n, int bands, struct picture *p);

/* First row of band r when n rows are dealt to `bands` bands; heat_band(bands, ...) is n. */
static inline int heat_band(int r, int n, int bands) { return (int)((long)n * r / bands); }

#endif
