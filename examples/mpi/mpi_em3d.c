/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_em3d.c: examples/em3d over MPI, for comparison.
 *
 * Graph, kernel and order are the same. With --by=send values are collected into a buffer that
 * MPI_Isend sends; receives are posted a phase ahead. With --by=put they are collected into a
 * buffer, go by MPI_Put into a box of the neighbour, and a flag follows. The box of a phase is free
 * again when the neighbour's values of the other phase have arrived. With --by=lock, fence and pscw
 * they go into the same boxes, in the other ways of one-sided MPI (notify.h).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../app.h"
#include "../em3d_graph.h"
#include "laps.h"
#include "memory.h"
#include "notify.h"

static struct em3d_shape shape = EM3D_SHAPE_DEFAULT;
static int by;
static bool by_put;

struct link { /* to another process */
    int peer;
    double *receive[EM3D_KINDS], *pack[EM3D_KINDS];
};

struct part {
    struct em3d_graph g;
    struct link *links;
    int count;
    MPI_Request *receiving[EM3D_KINDS], *sending[EM3D_KINDS];
    const double **from;
    struct notify boxes;
    struct app_laps laps;
};

static const char *const ways[] = {"send", "put", "lock", "fence", "pscw", NULL};
static const enum notify_by notify_ways[] = {NOTIFY_FLAG, NOTIFY_FLAG, NOTIFY_LOCK, NOTIFY_FENCE,
                                             NOTIFY_PSCW};
static const char *const labels[] = {"mpi send", "mpi put", "mpi lock", "mpi fence", "mpi pscw"};
static const struct app_option option_table[] = {
    EM3D_OPTION_TABLE(shape),
    APP_WORD("by", 'b', &by, ways,
             "send: values by MPI_Isend; put: by MPI_Put, flush and a flag; lock, fence, pscw: the "
             "other ways of one-sided MPI"),
    APP_END,
};

static void part_create(struct part *p, int rank, int nranks)
{
    uint32_t most = 0, all;
    int *peers;

    if (em3d_create(&p->g, &shape, rank, nranks) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    p->links = memory((size_t)nranks, sizeof(*p->links));
    p->from = memory((size_t)nranks, sizeof(*p->from));
    for (int r = 0; r < nranks; r++) {
        struct link *l = &p->links[p->count];

        if (!em3d_neighbours(&p->g, r))
            continue;
        p->count++;
        l->peer = r;
        for (int phase = 0; phase < EM3D_KINDS; phase++) {
            l->receive[phase] = memory(p->g.phase[phase].imports[r], sizeof(double));
            l->pack[phase] = memory(p->g.phase[phase].exports[r], sizeof(double));
            if (p->g.phase[phase].imports[r] > most)
                most = p->g.phase[phase].imports[r];
        }
    }
    for (int phase = 0; phase < EM3D_KINDS; phase++) {
        p->receiving[phase] = memory((size_t)nranks, sizeof(MPI_Request));
        p->sending[phase] = memory((size_t)nranks, sizeof(MPI_Request));
        for (int i = 0; i < nranks; i++) {
            p->receiving[phase][i] = MPI_REQUEST_NULL;
            p->sending[phase][i] = MPI_REQUEST_NULL;
        }
    }
    MPI_Allreduce(&most, &all, 1, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
    if (!by_put)
        return;
    peers = memory((size_t)nranks, sizeof(*peers));
    for (int i = 0; i < p->count; i++)
        peers[i] = p->links[i].peer;
    notify_create_by(&p->boxes, notify_ways[by], EM3D_KINDS * nranks, all * sizeof(double), peers,
                     p->count);
    free(peers);
}

static int box_of(const struct part *p, int phase, int from) { return phase * p->g.nranks + from; }

static void receive_post(struct part *p, int phase)
{
    for (int i = 0; i < p->count; i++) {
        const struct link *l = &p->links[i];
        MPI_Request *request = &p->receiving[phase][i];

        MPI_Irecv(l->receive[phase], (int)p->g.phase[phase].imports[l->peer], MPI_DOUBLE, l->peer,
                  phase, MPI_COMM_WORLD, request);
    }
}

static void send_values(struct part *p, int phase, uint32_t step)
{
    if (by_put)
        notify_begin(&p->boxes);
    else
        MPI_Waitall(p->count, p->sending[phase], MPI_STATUSES_IGNORE);
    for (int i = 0; i < p->count; i++) {
        const struct link *l = &p->links[i];
        uint32_t count = p->g.phase[phase].exports[l->peer];
        MPI_Request *request = &p->sending[phase][i];

        em3d_collect(&p->g, phase, l->peer, l->pack[phase]);
        if (by_put)
            notify_put(&p->boxes, l->peer, box_of(p, phase, p->g.rank), l->pack[phase],
                       count * sizeof(double), (uint64_t)step + 1);
        else
            MPI_Isend(l->pack[phase], (int)count, MPI_DOUBLE, l->peer, phase, MPI_COMM_WORLD,
                      request);
    }
    if (by_put)
        notify_end(&p->boxes);
}

static void read_values(struct part *p, int phase, uint32_t step)
{
    if (by_put) {
        notify_arrive(&p->boxes);
    } else {
        MPI_Waitall(p->count, p->receiving[phase], MPI_STATUSES_IGNORE);
        if (phase == EM3D_E || step + 1 < shape.steps)
            receive_post(p, 1 - phase);
    }
    for (int i = 0; i < p->count; i++) {
        const struct link *l = &p->links[i];

        if (by_put)
            notify_await(&p->boxes, box_of(p, phase, l->peer), (uint64_t)step + 1);
        p->from[l->peer] =
            by_put ? notify_data(&p->boxes, box_of(p, phase, l->peer)) : l->receive[phase];
    }
}

static double run(struct part *p)
{
    double began, from, inside;

    MPI_Barrier(MPI_COMM_WORLD);
    began = from = app_seconds();
    if (!by_put && shape.steps > 0)
        receive_post(p, EM3D_E);
    for (uint32_t step = 0; step < shape.steps; step++) {
        for (int phase = 0; phase < EM3D_KINDS; phase++) {
            send_values(p, phase, step);
            read_values(p, phase, step);
            inside = app_seconds();
            app_laps_add(&p->laps, inside - from);
            em3d_compute(&p->g, phase, p->from);
            from = app_seconds();
        }
        if (p->g.rank == 0)
            app_progress_show("mpi_em3d", "step", step + 1, shape.steps, began);
    }
    for (int phase = 0; phase < EM3D_KINDS; phase++)
        MPI_Waitall(p->count, p->sending[phase], MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    return app_seconds() - began;
}

static uint64_t gather(const struct part *p)
{
    int *counts = memory((size_t)p->g.nranks, sizeof(int)),
        *firsts = memory((size_t)p->g.nranks, sizeof(int));
    int count = (int)p->g.count, first = (int)p->g.first;
    struct em3d_graph all = {0};
    uint64_t digest;

    MPI_Allgather(&count, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(&first, 1, MPI_INT, firsts, 1, MPI_INT, MPI_COMM_WORLD);
    all.count = shape.nodes;
    for (int kind = 0; kind < EM3D_KINDS; kind++) {
        all.value[kind] = memory(shape.nodes, sizeof(double));
        MPI_Gatherv(p->g.value[kind], count, MPI_DOUBLE, all.value[kind], counts, firsts,
                    MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
    digest = em3d_digest(&all);
    free(all.value[EM3D_E]);
    free(all.value[EM3D_H]);
    free(counts);
    free(firsts);
    return digest;
}

static int report(const struct part *p, double took, double comm, double waiting, uint64_t digest)
{
    struct app_result result = {"em3d",  labels[by],          p->g.nranks, took,  comm,
                                waiting, (double)shape.steps, "steps",     digest};
    uint64_t alone;

    app_result_print(&result);
    fflush(stdout);
    if (app_options.check && (em3d_serial(&shape, &alone) != 0 || alone != digest)) {
        fprintf(stderr, "mpi_em3d: WRONG: the digest is %016llx, not that of one process\n",
                (unsigned long long)digest);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct part p = {0};
    double took, comm, waiting;
    uint64_t digest;
    int rank, nranks, status = 0;

    app_parse("em3d over MPI.", option_table, argc, argv);
    by_put = by > 0;
    if (app_options.quick)
        shape = (struct em3d_shape)EM3D_SHAPE_QUICK;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    laps_begin(&p.laps, 2 * (uint64_t)shape.steps);
    part_create(&p, rank, nranks);
    took = run(&p);
    laps_end(&p.laps, &comm, &waiting);
    digest = gather(&p);
    if (rank == 0)
        status = report(&p, took, comm, waiting, digest);
    if (by_put)
        notify_destroy(&p.boxes);
    for (int phase = 0; phase < EM3D_KINDS; phase++) {
        for (int i = 0; i < p.count; i++) {
            free(p.links[i].receive[phase]);
            free(p.links[i].pack[phase]);
        }
        free(p.receiving[phase]);
        free(p.sending[phase]);
    }
    free(p.links);
    free(p.from);
    em3d_destroy(&p.g);
    MPI_Finalize();
    return status;
}
