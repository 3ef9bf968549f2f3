/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_heat2d.c: examples/heat2d over MPI, for comparison.
 *
 * Blocks, kernel and order of a step are the same. With --by=send halos go by MPI_Isend out of the
 * grid (rows) or out of a buffer into which they were computed (columns), and receives are posted a
 * step ahead. With --by=put they go by MPI_Put into one of two boxes of the neighbour, with a flag
 * behind them; a neighbour whose halo has come has used the one before. With --by=lock, fence and
 * pscw they go into the same boxes, in the other ways of one-sided MPI (notify.h).
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../app.h"
#include "../heat_grid.h"
#include "laps.h"
#include "memory.h"
#include "notify.h"

static struct heat_options options = HEAT_OPTIONS_DEFAULT;
static int by;
static bool by_put;

struct part {
    struct heat_block block;
    int rank, nranks;
    double *now, *next, *rim;
    struct heat_halo halo;
    double *receive[2][HEAT_SIDES], *pack[2][HEAT_SIDES];
    MPI_Request receiving[2][HEAT_SIDES], sending[2][HEAT_SIDES];
    struct notify boxes;
    struct app_laps laps;
};

static const char *const ways[] = {"send", "put", "lock", "fence", "pscw", NULL};
static const enum notify_by notify_ways[] = {NOTIFY_FLAG, NOTIFY_FLAG, NOTIFY_LOCK, NOTIFY_FENCE,
                                             NOTIFY_PSCW};
static const char *const labels[] = {"mpi send", "mpi put", "mpi lock", "mpi fence", "mpi pscw"};
static const struct app_option option_table[] = {
    HEAT_OPTION_TABLE(options),
    APP_WORD("by", 'b', &by, ways,
             "send: halos by MPI_Isend; put: by MPI_Put, flush and a flag; lock, fence, pscw: the "
             "other ways of one-sided MPI"),
    APP_END,
};

/*
 * Halo k is the initial one (0), or that after step k; it
 * is stored in box k % 2 of the side that it comes from.
 */
static int box_of(int side, int k) { return side * 2 + k % 2; }

static void receive_post(struct part *p, int k)
{
    for (int i = 0; i < HEAT_SIDES; i++)
        if (p->block.peer[i] >= 0 && k < options.steps)
            MPI_Irecv(p->receive[k % 2][i], heat_halo_cells(&p->block, i), MPI_DOUBLE,
                      p->block.peer[i], heat_opposite(i), MPI_COMM_WORLD, &p->receiving[k % 2][i]);
}

static void receive(struct part *p, int k)
{
    if (by_put) {
        notify_arrive(&p->boxes);
    } else {
        MPI_Waitall(HEAT_SIDES, p->receiving[k % 2], MPI_STATUSES_IGNORE);
        receive_post(p, k + 1);
    }
    for (int i = 0; i < HEAT_SIDES; i++) {
        if (p->block.peer[i] < 0)
            continue;
        if (by_put)
            notify_await(&p->boxes, box_of(i, k), (uint64_t)k + 1);
        p->halo.from[i] = by_put ? notify_data(&p->boxes, box_of(i, k)) : p->receive[k % 2][i];
    }
    if (by_put) /* the others are copied to where they are read */
        heat_request(&p->block, &p->halo);
}

/* Rows are sent from the grid itself, which is not written before the step after the next. */
static void pack_memory(struct part *p, int k)
{
    if (!by_put) /* those that went out of this buffer, and out of this grid */
        MPI_Waitall(HEAT_SIDES, p->sending[k % 2], MPI_STATUSES_IGNORE);
    for (int i = HEAT_LEFT; i <= HEAT_RIGHT; i++)
        p->halo.send[i] = p->block.peer[i] >= 0 ? p->pack[k % 2][i] : NULL;
}

static void hand_over(struct part *p, const double *grid, int k)
{
    if (by_put)
        notify_begin(&p->boxes);
    for (int i = 0; i < HEAT_SIDES; i++) {
        int cells = heat_halo_cells(&p->block, i);
        const double *from = i == HEAT_UP ? grid
                             : i == HEAT_DOWN
                                 ? grid + (size_t)(p->block.rows - 1) * (size_t)p->block.cols
                                 : p->pack[k % 2][i];

        if (p->block.peer[i] < 0)
            continue;
        if (by_put)
            notify_put(&p->boxes, p->block.peer[i], box_of(heat_opposite(i), k), from,
                       (size_t)cells * sizeof(double), (uint64_t)k + 1);
        else
            MPI_Isend(from, cells, MPI_DOUBLE, p->block.peer[i], i, MPI_COMM_WORLD,
                      &p->sending[k % 2][i]);
        p->halo.send[i] = NULL;
    }
    if (by_put)
        notify_end(&p->boxes);
}

static double *numbers(size_t n) { return memory(n, sizeof(double)); }

static void part_create(struct part *p)
{
    struct heat_block *b = &p->block;
    size_t longest = (size_t)(b->rows > b->cols ? b->rows : b->cols),
           cells = (size_t)b->rows * (size_t)b->cols;
    int peers[HEAT_SIDES], npeers = 0;

    p->now = numbers(cells);
    p->next = numbers(cells);
    p->rim = numbers(longest);
    laps_begin(&p->laps, (uint64_t)options.steps);
    heat_start_block(b, p->now);
    for (int i = 0; i < HEAT_SIDES; i++) {
        p->halo.from[i] = p->rim;
        for (int k = 0; k < 2; k++) {
            p->receive[k][i] = numbers(longest);
            p->pack[k][i] = numbers(longest);
            p->receiving[k][i] = MPI_REQUEST_NULL;
            p->sending[k][i] = MPI_REQUEST_NULL;
        }
    }
    for (int i = 0; i < HEAT_SIDES; i++)
        if (b->peer[i] >= 0)
            peers[npeers++] = b->peer[i];
    if (by_put)
        notify_create_by(&p->boxes, notify_ways[by], 2 * HEAT_SIDES, (size_t)b->n * sizeof(double),
                         peers, npeers);
}

static double run(struct part *p)
{
    double began, from, inside, computed, *swap;

    MPI_Barrier(MPI_COMM_WORLD);
    began = app_seconds();
    if (options.steps > 0) {
        if (!by_put)
            receive_post(p, 0);
        pack_memory(p, 0);
        heat_first_halo(&p->block, p->now, &p->halo);
        hand_over(p, p->now, 0);
    }
    for (int k = 1; k <= options.steps; k++) {
        from = app_seconds();
        receive(p, k - 1);
        pack_memory(p, k);
        heat_edges(&p->block, p->now, p->next, &p->halo);
        if (k < options.steps)
            hand_over(p, p->next, k);
        inside = app_seconds();
        heat_interior(&p->block, p->now, p->next, &p->halo);
        computed = app_seconds();
        app_laps_add(&p->laps, computed - from - heat_computing(&p->block, computed - inside));
        swap = p->now;
        p->now = p->next;
        p->next = swap;
        if (p->rank == 0)
            app_progress_show("mpi_heat2d", "step", (uint64_t)k, (uint64_t)options.steps, began);
    }
    MPI_Waitall(2 * HEAT_SIDES, p->sending[0], MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    return app_seconds() - began;
}

static double *gather(const struct part *p)
{
    size_t n = (size_t)p->block.n;
    double *plate, *from;

    if (p->rank != 0) {
        MPI_Send(p->now, p->block.rows * p->block.cols, MPI_DOUBLE, 0, HEAT_SIDES, MPI_COMM_WORLD);
        return NULL;
    }
    plate = numbers(n * n);
    from = numbers(n * n);
    for (int r = 0; r < p->nranks; r++) {
        const double *cells = r == 0 ? p->now : from;
        struct heat_block b;

        heat_block_of(r, p->nranks, options.size, options.grid, &b);
        if (r > 0)
            MPI_Recv(from, b.rows * b.cols, MPI_DOUBLE, r, HEAT_SIDES, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int y = 0; y < b.rows; y++)
            memcpy(plate + (size_t)(b.y + y) * n + (size_t)b.x, cells + (size_t)y * (size_t)b.cols,
                   (size_t)b.cols * sizeof(double));
    }
    free(from);
    return plate;
}

int main(int argc, char **argv)
{
    struct part p = {0};
    double took, comm, waiting, *plate;
    int status = 0;

    app_parse("heat2d over MPI.", option_table, argc, argv);
    by_put = by > 0;
    if (app_options.quick) {
        options.size = 97;
        options.steps = 100;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p.nranks);
    if (heat_block_of(p.rank, p.nranks, options.size, options.grid, &p.block) != 0) {
        if (p.rank == 0)
            fprintf(stderr, "mpi_heat2d: %d processes cannot share %d x %d cells with --grid=%s\n",
                    p.nranks, options.size, options.size, options.grid);
        MPI_Finalize();
        return 2;
    }
    part_create(&p);
    took = run(&p);
    laps_end(&p.laps, &comm, &waiting);
    plate = gather(&p);
    if (p.rank == 0) {
        struct app_result result = {
            "heat2d",
            labels[by],
            p.nranks,
            took,
            comm,
            waiting,
            (double)options.steps,
            "steps",
            app_digest(0, plate, (size_t)options.size * (size_t)options.size)};

        app_result_print(&result);
        if (app_options.check)
            status = heat_compare("mpi_heat2d", plate, options.size, options.steps);
        fflush(stdout);
    }
    if (by_put)
        notify_destroy(&p.boxes);
    for (int i = 0; i < HEAT_SIDES; i++)
        for (int k = 0; k < 2; k++) {
            free(p.receive[k][i]);
            free(p.pack[k][i]);
        }
    free(plate);
    free(p.now);
    free(p.next);
    free(p.rim);
    MPI_Finalize();
    return status;
}
