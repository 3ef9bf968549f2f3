/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hybrid.c: pipes inside an MPI program: MPI keeps its collectives, the halo exchange goes through pipes.
 *
 * A stencil over a periodic grid in bands of rows, first with the halo exchange of MPI, then with that of pipes; the residual of each
 * is an MPI_Allreduce, and the results are equal to the last bit. The differences between exchange_by_mpi and exchange_by_pipes,
 * and begin_pipes, are all that such a program changes.
 *
 *     mpirun -n 3 hybrid               of Open MPI: both libraries find their job by PMIx
 *     mpirun.mpich -n 3 hybrid         of MPICH, whose launcher has no PMIx: the pipes take their job from MPI
 *     mpirun -n 3 hybrid -first        rinit before MPI_Init; the pipes need PMIx, or RPIPE_RANK and the like, then
 */
#include <mpi.h>

#include <rpipe.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#define STEPS 200
#define ROWS 32 /* of each process, without the halo */
#define COLS 256

typedef double row_t[COLS];

enum { NORTH, SOUTH };

static int rank, ranks;
static rneighbor_t near[2]; /* the bands above and below: a ring */

/* ---- the job ---- */

static void begin_mpi(void)
{
    int given;

    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

static void begin_pipes(void)
{
    rpipe_config_t cfg = {.heap_bytes = 4 * sizeof(row_t)};
    int r, n;

    MUST(NULL, rinit(&r, &n));
    MUST_HOLD(ranks == 0 || (r == rank && n == ranks)); /* 0: MPI comes later */
    near[NORTH] = (rneighbor_t){.peer = (r + n - 1) % n, .side = NORTH, .opposite = SOUTH};
    near[SOUTH] = (rneighbor_t){.peer = (r + 1) % n, .side = SOUTH, .opposite = NORTH};
    MUST(NULL, rneighbors(near, 2, &cfg));
}

/* ---- the exchange: rows 1 to ROWS are the own ones, rows 0 and ROWS + 1 the halo ---- */

static void exchange_by_mpi(row_t *u)
{
    int north = near[NORTH].peer, south = near[SOUTH].peer;

    MPI_Sendrecv(u[1], COLS, MPI_DOUBLE, north, 0, u[ROWS + 1], COLS, MPI_DOUBLE, south, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(u[ROWS], COLS, MPI_DOUBLE, south, 1, u[0], COLS, MPI_DOUBLE, north, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void exchange_by_pipes(row_t *u)
{
    MUST(near[NORTH].out, rsend(near[NORTH].out, u[1], sizeof(row_t), 0));
    MUST(near[SOUTH].out, rsend(near[SOUTH].out, u[ROWS], sizeof(row_t), 0));
    MUST(near[SOUTH].in, rrecv(near[SOUTH].in, u[ROWS + 1], sizeof(row_t), NULL, 0));
    MUST(near[NORTH].in, rrecv(near[NORTH].in, u[0], sizeof(row_t), NULL, 0));
}

/* ---- the program, as it was ---- */

static double step(row_t *next, const row_t *u)
{
    double change = 0;

    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLS; x++) {
            double sum =
                u[y - 1][x] + u[y + 1][x] + u[y][(x + 1) % COLS] + u[y][(x + COLS - 1) % COLS];

            next[y][x] = 0.25 * sum;
            change += (next[y][x] - u[y][x]) * (next[y][x] - u[y][x]);
        }
    return change;
}

/* Returns the residual of the last step; the grid is in u[STEPS % 2]. */
static double solve(row_t *u[2], void (*exchange)(row_t *), double *seconds)
{
    double mine = 0, all = 0;

    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLS; x++)
            u[0][y][x] = ((rank * ROWS + y) * 31 + x * 17) % 101;
    MPI_Barrier(MPI_COMM_WORLD);
    *seconds = -MPI_Wtime();
    for (int i = 0; i < STEPS; i++) {
        exchange(u[i % 2]);
        mine = step(u[(i + 1) % 2], (const row_t *)u[i % 2]);
        if (i % 50 == 49)
            MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    *seconds += MPI_Wtime();
    return all;
}

int main(int argc, char **argv)
{
    const bool first = argc == 2 && strcmp(argv[1], "-first") == 0;
    row_t *a[2] = {NULL, NULL}, *b[2] = {NULL, NULL};
    double residual, seconds[2];

    if (!first)
        must_be_alone(argc, argv, "Pipes inside an MPI program; -first: rinit before MPI_Init.",
                      "mpirun -n 3 hybrid [-first]");
    for (int i = 0; i < 2; i++)
        if ((a[i] = calloc(ROWS + 2, sizeof(row_t))) == NULL ||
            (b[i] = calloc(ROWS + 2, sizeof(row_t))) == NULL)
            return perror("hybrid"), 1;
    if (first)
        begin_pipes();
    begin_mpi();
    if (!first)
        begin_pipes();

    residual = solve(a, exchange_by_mpi, &seconds[0]);
    MUST_HOLD(residual > 0 && residual == solve(b, exchange_by_pipes, &seconds[1]));
    MUST_HOLD(memcmp(a[STEPS % 2] + 1, b[STEPS % 2] + 1, ROWS * sizeof(row_t)) == 0);
    if (rank == 0)
        printf("%d ranks, residual %.6e; MPI %.2f ms, pipes %.2f ms\n", ranks, residual,
               1e3 * seconds[0], 1e3 * seconds[1]);

    /* in any order; neither library needs the other one to leave */
    MUST(NULL, rneighbors_close(near, 2));
    MUST(NULL, rexit());
    MPI_Finalize();
    for (int i = 0; i < 2; i++) {
        free(a[i]);
        free(b[i]);
    }
    return 0;
}
