/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_sgd.c: examples/sgd over MPI, for comparison: the same net, one MPI_Iallreduce for each layer,
 * in place, started in the same order.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "../app.h"
#include "../sgd_net.h"
#include "laps.h"
#include "memory.h"

static struct sgd_options options = SGD_OPTIONS_DEFAULT;

struct part {
    int rank, nranks;
    struct sgd_net net;
    double *gradient[SGD_LAYERS];
    struct app_laps laps;
};

static const struct app_option option_table[] = {SGD_OPTION_TABLE(options), APP_END};

/* Returns the seconds beyond computing. */
static double step(struct part *p, int number)
{
    MPI_Request sum[SGD_LAYERS];
    double beyond = 0, now;

    for (int layer = SGD_LAYERS - 1; layer >= 0; layer--) {
        sgd_gradient(&p->net, layer, number, p->rank, p->nranks, p->gradient[layer]);
        now = app_seconds();
        MPI_Iallreduce(MPI_IN_PLACE, p->gradient[layer], (int)sgd_elements(&options, layer),
                       MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &sum[layer]);
        beyond += app_seconds() - now;
    }
    for (int layer = SGD_LAYERS - 1; layer >= 0; layer--) {
        now = app_seconds();
        MPI_Wait(&sum[layer], MPI_STATUS_IGNORE);
        beyond += app_seconds() - now;
        sgd_update(&p->net, layer, p->gradient[layer], 0, sgd_elements(&options, layer));
    }
    return beyond;
}

int main(int argc, char **argv)
{
    struct part p = {0};
    struct app_result result = {.app = "sgd", .by = "mpi", .unit = "steps"};
    int status = 0;

    app_parse("sgd over MPI.", option_table, argc, argv);
    if (app_options.quick)
        options = (struct sgd_options)SGD_OPTIONS_QUICK;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p.nranks);
    if (sgd_create(&p.net, &options) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int layer = 0; layer < SGD_LAYERS; layer++)
        p.gradient[layer] = memory(sgd_elements(&options, layer), sizeof(double));
    laps_begin(&p.laps, (uint64_t)options.steps);

    MPI_Barrier(MPI_COMM_WORLD);
    result.seconds = app_seconds();
    for (int i = 0; i < options.steps; i++)
        app_laps_add(&p.laps, step(&p, i));
    MPI_Barrier(MPI_COMM_WORLD);
    result.seconds = app_seconds() - result.seconds;
    laps_end(&p.laps, &result.communication, &result.waiting);
    if (p.rank == 0) {
        result.ranks = p.nranks;
        result.work = (double)options.steps;
        result.digest = sgd_digest(&p.net);
        app_result_print(&result);
        if (app_options.check)
            status = sgd_compare("mpi_sgd", &p.net, &(struct sgd_era){0, p.nranks}, 1, false);
        fflush(stdout);
    }
    for (int layer = 0; layer < SGD_LAYERS; layer++)
        free(p.gradient[layer]);
    sgd_destroy(&p.net);
    MPI_Finalize();
    return status;
}
