/* SPDX-License-Identifier: BSD-3-Clause */
/* laps.h: what app_pipes.h has for struct app_laps, over MPI. */
#ifndef EXAMPLES_MPI_LAPS_H
#define EXAMPLES_MPI_LAPS_H

#include <mpi.h>
#include <stdlib.h>

#include "../app.h"
#include "memory.h"

static inline void laps_begin(struct app_laps *laps, uint64_t steps)
{
    if (app_laps_begin(laps, steps) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

/*
 * Of each lap the least that any process had, summed; and
 * the mean of what is beyond. At rank 0. Frees the laps.
 */
static inline void laps_end(struct app_laps *laps, double *least, double *waiting)
{
    float *all = memory(laps->room, sizeof(float));
    int ranks;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Reduce(laps->beyond, all, (int)laps->room, MPI_FLOAT, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&laps->sum, waiting, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    *least = 0;
    for (uint64_t i = 0; i < laps->room; i++)
        *least += (double)all[i];
    *waiting = *waiting / ranks - *least;
    free(all);
    free(laps->beyond);
}

#endif
