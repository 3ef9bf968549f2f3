/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_cg.c: examples/cg over MPI, for comparison.
 *
 * Bands and kernels are the same. Halos go by MPI_Isend and MPI_Irecv, which are posted before the
 * interior; sums by MPI_Allreduce, or MPI_Iallreduce with --pipelined.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "../app.h"
#include "../cg_grid.h"
#include "laps.h"
#include "memory.h"

static struct cg_options options = CG_OPTIONS_DEFAULT;

enum { ABOVE, BELOW, SIDES };

struct part {
    struct cg cg;
    int rank, nranks, peer[SIDES];
    double *row[SIDES]; /* of the neighbours */
    double mine[2], all[2], inside;
    MPI_Request sums;
    uint64_t steps;
    struct app_laps laps;
};

static const struct app_option option_table[] = {CG_OPTION_TABLE(options), APP_END};

static void product(struct part *p, const double *v, double *out)
{
    const struct cg_band *b = &p->cg.band;
    MPI_Request request[2 * SIDES];
    double began;
    int over;

    for (int i = 0; i < SIDES; i++) {
        const double *edge = i == ABOVE ? v : v + (size_t)(b->rows - 1) * (size_t)b->size;

        MPI_Irecv(p->row[i], b->size, MPI_DOUBLE, p->peer[i], 1 - i, MPI_COMM_WORLD, &request[i]);
        MPI_Isend(edge, b->size, MPI_DOUBLE, p->peer[i], i, MPI_COMM_WORLD, &request[SIDES + i]);
    }
    began = app_seconds();
    cg_product(b, v, NULL, NULL, 1, b->rows - 2, out);
    p->inside += app_seconds() - began;
    if (options.pipelined)
        MPI_Test(&p->sums, &over, MPI_STATUS_IGNORE);
    MPI_Waitall(2 * SIDES, request, MPI_STATUSES_IGNORE);
    began = app_seconds();
    for (int row = 0; row<b->rows; row += b->rows> 1 ? b->rows - 1 : 1)
        cg_product(b, v, p->peer[ABOVE] >= 0 ? p->row[ABOVE] : NULL,
                   p->peer[BELOW] >= 0 ? p->row[BELOW] : NULL, row, 1, out);
    p->inside += app_seconds() - began;
}

static void product_and_sums(struct part *p)
{
    double began = app_seconds();

    if (options.pipelined) {
        cg_sums(&p->cg, p->mine);
        p->inside += app_seconds() - began;
        MPI_Iallreduce(p->mine, p->all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &p->sums);
        product(p, p->cg.w, p->cg.q);
        MPI_Wait(&p->sums, MPI_STATUS_IGNORE);
    } else {
        product(p, p->cg.r, p->cg.w);
        began = app_seconds();
        cg_sums(&p->cg, p->mine);
        p->inside += app_seconds() - began;
        MPI_Allreduce(p->mine, p->all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void solve(struct part *p)
{
    double from = app_seconds(), communicated;
    bool more = true;

    cg_start(&p->cg);
    if (options.pipelined)
        product(p, p->cg.r, p->cg.w);
    for (int i = 0; i < options.steps && more; i++) {
        p->inside = 0;
        product_and_sums(p);
        communicated = app_seconds();
        more = cg_step(&p->cg, p->all, options.pipelined, options.digits);
        app_laps_add(&p->laps, communicated - from - p->inside);
        from = app_seconds();
        p->steps++;
    }
}

static double *gather(const struct part *p)
{
    int *counts = memory((size_t)p->nranks, sizeof(int)),
        *begins = memory((size_t)p->nranks, sizeof(int));
    double *x = memory(p->rank == 0 ? (size_t)options.size * (size_t)options.size : 0, sizeof(*x));

    for (int r = 0; r < p->nranks; r++) {
        struct cg_band b;

        (void)cg_band_of(options.size, r, p->nranks, &b);
        counts[r] = b.rows * b.size;
        begins[r] = b.first * b.size;
    }
    MPI_Gatherv(p->cg.x, counts[p->rank], MPI_DOUBLE, x, counts, begins, MPI_DOUBLE, 0,
                MPI_COMM_WORLD);
    free(counts);
    free(begins);
    return x;
}

int main(int argc, char **argv)
{
    struct part p = {.sums = MPI_REQUEST_NULL};
    struct cg_band band;
    struct app_result result = {.app = "cg", .unit = "steps"};
    double *x;
    int status = 0;

    app_parse("cg over MPI.", option_table, argc, argv);
    if (app_options.quick)
        options.size = 48;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p.nranks);
    if (cg_band_of(options.size, p.rank, p.nranks, &band) != 0 || cg_create(&p.cg, &band) != 0) {
        fprintf(stderr, "mpi_cg: %d processes cannot share %d rows\n", p.nranks, options.size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    p.peer[ABOVE] = p.rank > 0 ? p.rank - 1 : MPI_PROC_NULL;
    p.peer[BELOW] = p.rank + 1 < p.nranks ? p.rank + 1 : MPI_PROC_NULL;
    for (int i = 0; i < SIDES; i++)
        p.row[i] = memory((size_t)options.size, sizeof(double));
    laps_begin(&p.laps, (uint64_t)options.steps * (uint64_t)options.solves);

    MPI_Barrier(MPI_COMM_WORLD);
    result.seconds = app_seconds();
    for (int i = 0; i < options.solves; i++)
        solve(&p);
    MPI_Barrier(MPI_COMM_WORLD);
    result.seconds = app_seconds() - result.seconds;
    laps_end(&p.laps, &result.communication, &result.waiting);

    x = gather(&p);
    if (p.rank == 0) {
        result.by = options.pipelined ? "mpi pipelined" : "mpi";
        result.ranks = p.nranks;
        result.work = (double)p.steps;
        result.digest = cg_digest(x, options.size);
        app_result_print(&result);
        if (app_options.check)
            status = cg_check("mpi_cg", x, options.size, options.digits);
        fflush(stdout);
    }
    for (int i = 0; i < SIDES; i++)
        free(p.row[i]);
    free(x);
    cg_destroy(&p.cg);
    MPI_Finalize();
    return status;
}
