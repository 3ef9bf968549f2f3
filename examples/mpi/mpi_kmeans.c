/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_kmeans.c: examples/kmeans over MPI, for comparison: MPI_Bcast and MPI_Allreduce. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "../app.h"
#include "../kmeans_points.h"
#include "laps.h"
#include "memory.h"

static struct kmeans_options options = KMEANS_OPTIONS_DEFAULT;
static const struct app_option option_table[] = {KMEANS_OPTION_TABLE(options), APP_END};

static uint64_t run(struct kmeans *k, int rank, double *all, struct app_laps *laps)
{
    uint64_t steps = 0;

    for (int start = 0; start < options.starts; start++) {
        bool more = true;

        if (rank == 0)
            kmeans_choose(&options, start, k->center);
        MPI_Bcast(k->center, (int)kmeans_coordinates(&options), MPI_DOUBLE, 0, MPI_COMM_WORLD);
        for (int i = 0; i < options.steps && more; i++) {
            double computed;

            kmeans_assign(k, k->center);
            computed = app_seconds();
            MPI_Allreduce(k->sum, all, (int)kmeans_sums(&options), MPI_DOUBLE, MPI_SUM,
                          MPI_COMM_WORLD);
            app_laps_add(laps, app_seconds() - computed);
            more = kmeans_move(k, k->center, all);
            steps++;
        }
        kmeans_keep(k, start, all);
    }
    return steps;
}

int main(int argc, char **argv)
{
    struct kmeans k;
    struct app_laps laps;
    struct app_result result = {.app = "kmeans", .by = "mpi", .unit = "steps"};
    double *all;
    int rank, status = 0;

    app_parse("kmeans over MPI.", option_table, argc, argv);
    if (app_options.quick)
        options = (struct kmeans_options)KMEANS_OPTIONS_QUICK;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &result.ranks);
    if (kmeans_create(&k, &options, rank, result.ranks) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    all = memory(kmeans_sums(&options), sizeof(double));
    laps_begin(&laps, (uint64_t)options.starts * (uint64_t)options.steps);

    MPI_Barrier(MPI_COMM_WORLD);
    result.seconds = app_seconds();
    result.work = (double)run(&k, rank, all, &laps);
    MPI_Barrier(MPI_COMM_WORLD);
    result.seconds = app_seconds() - result.seconds;
    laps_end(&laps, &result.communication, &result.waiting);
    if (rank == 0) {
        result.digest = kmeans_digest(&k);
        app_result_print(&result);
        if (app_options.check)
            status = kmeans_compare("mpi_kmeans", &k);
        fflush(stdout);
    }
    free(all);
    kmeans_destroy(&k);
    MPI_Finalize();
    return status;
}
