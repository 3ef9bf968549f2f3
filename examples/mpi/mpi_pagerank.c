/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_pagerank.c: examples/pagerank over MPI, for comparison: MPI_Allgatherv copies the vector to
 * every process in each step.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "../app.h"
#include "../pagerank_graph.h"
#include "laps.h"
#include "memory.h"

static struct pagerank_options options = PAGERANK_OPTIONS_DEFAULT;
static const struct app_option option_table[] = {PAGERANK_OPTION_TABLE(options), APP_END};

struct part {
    struct pagerank graph;
    double *mine, *all;   /* the block of this process, and those of all */
    int *counts, *begins; /* of the blocks in `all` */
    const double **block;
    struct app_laps laps;
};

static void part_create(struct part *p, int rank, int nranks)
{
    int begin = 0;

    if (pagerank_create(&p->graph, &options, rank, nranks) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    p->counts = memory((size_t)nranks, sizeof(int));
    p->begins = memory((size_t)nranks, sizeof(int));
    p->block = memory((size_t)nranks, sizeof(*p->block));
    p->mine = memory(pagerank_block(&p->graph, rank), sizeof(double));
    p->all = memory((size_t)options.pages + (size_t)nranks, sizeof(double));
    for (int r = 0; r < nranks; r++) {
        p->counts[r] = (int)pagerank_block(&p->graph, r);
        p->begins[r] = begin;
        p->block[r] = p->all + begin;
        begin += p->counts[r];
    }
    laps_begin(&p->laps, (uint64_t)options.steps);
}

static uint64_t run(struct part *p)
{
    uint64_t steps;

    pagerank_start(&p->graph, p->mine);
    for (steps = 0; steps < (uint64_t)options.steps; steps++) {
        double from = app_seconds();

        MPI_Allgatherv(p->mine, p->counts[p->graph.rank], MPI_DOUBLE, p->all, p->counts, p->begins,
                       MPI_DOUBLE, MPI_COMM_WORLD);
        if (pagerank_over(&p->graph, p->block))
            break;
        app_laps_add(&p->laps, app_seconds() - from);
        pagerank_step(&p->graph, p->block, p->mine);
    }
    return steps;
}

/* The ranks of all pages at rank 0, in p->all. */
static void gather(struct part *p)
{
    for (int r = 0; r < p->graph.nranks; r++) {
        p->counts[r]--;
        p->begins[r] -= r;
    }
    MPI_Gatherv(p->graph.value, p->counts[p->graph.rank], MPI_DOUBLE, p->all, p->counts, p->begins,
                MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    struct part p;
    struct app_result result = {.app = "pagerank", .by = "mpi", .unit = "steps"};
    int rank, status = 0;

    app_parse("pagerank over MPI.", option_table, argc, argv);
    if (app_options.quick)
        options = (struct pagerank_options)PAGERANK_OPTIONS_QUICK;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &result.ranks);
    part_create(&p, rank, result.ranks);

    MPI_Barrier(MPI_COMM_WORLD);
    result.seconds = app_seconds();
    result.work = (double)run(&p);
    MPI_Barrier(MPI_COMM_WORLD);
    result.seconds = app_seconds() - result.seconds;
    laps_end(&p.laps, &result.communication, &result.waiting);
    gather(&p);
    if (rank == 0) {
        result.digest = app_digest(0, p.all, (size_t)options.pages);
        app_result_print(&result);
        if (app_options.check)
            status = pagerank_compare("mpi_pagerank", &p.graph, p.all);
        fflush(stdout);
    }
    free(p.counts);
    free(p.begins);
    free((void *)p.block);
    free(p.mine);
    free(p.all);
    pagerank_destroy(&p.graph);
    MPI_Finalize();
    return status;
}
