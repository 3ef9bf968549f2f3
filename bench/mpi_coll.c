/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_coll.c: the part of MPI in bench/compare_coll: collectives in loops, see coll_loop.h. mpich_coll is the same program, with MPICH. */
#include "bench/coll_loop.h"

#include <mpi.h>

static void mpi_abort(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

/* Blocks of unequal length. */
static void mpi_run_uneven(enum coll_loop_kind kind, const void *from, void *into, size_t bytes,
                           int root)
{
    const struct coll_counts *c = coll_loop_counts(kind, bytes);
    const int *counts = c->counts, *at = c->displacements;
    MPI_Comm all = MPI_COMM_WORLD;

    if (kind == LOOP_GATHERV)
        MPI_Gatherv(from, c->mine, MPI_DOUBLE, into, counts, at, MPI_DOUBLE, root, all);
    else if (kind == LOOP_ALLGATHERV)
        MPI_Allgatherv(from, c->mine, MPI_DOUBLE, into, counts, at, MPI_DOUBLE, all);
    else
        MPI_Alltoallv(from, counts, at, MPI_DOUBLE, into, counts, at, MPI_DOUBLE, all);
}

static void mpi_run(enum coll_loop_kind kind, const void *from, void *into, size_t bytes, int root)
{
    MPI_Comm all = MPI_COMM_WORLD;
    int n = (int)bytes, count = (int)(bytes / sizeof(double));

    switch (kind) {
    case LOOP_BARRIER:
        MPI_Barrier(all);
        break;
    case LOOP_BCAST:
        MPI_Bcast(into, n, MPI_BYTE, root, all);
        break;
    case LOOP_REDUCE:
        MPI_Reduce(from, into, count, MPI_DOUBLE, MPI_SUM, root, all);
        break;
    case LOOP_ALLREDUCE:
        MPI_Allreduce(from, into, count, MPI_DOUBLE, MPI_SUM, all);
        break;
    case LOOP_REDUCE_SCATTER:
        MPI_Reduce_scatter_block(from, into, count, MPI_DOUBLE, MPI_SUM, all);
        break;
    case LOOP_SCAN:
        MPI_Scan(from, into, count, MPI_DOUBLE, MPI_SUM, all);
        break;
    case LOOP_EXSCAN:
        MPI_Exscan(from, into, count, MPI_DOUBLE, MPI_SUM, all);
        break;
    case LOOP_GATHER:
        MPI_Gather(from, n, MPI_BYTE, into, n, MPI_BYTE, root, all);
        break;
    case LOOP_ALLGATHER:
        MPI_Allgather(from, n, MPI_BYTE, into, n, MPI_BYTE, all);
        break;
    case LOOP_SCATTER:
        MPI_Scatter(from, n, MPI_BYTE, into, n, MPI_BYTE, root, all);
        break;
    case LOOP_ALLTOALL:
        MPI_Alltoall(from, n, MPI_BYTE, into, n, MPI_BYTE, all);
        break;
    default:
        mpi_run_uneven(kind, from, into, bytes, root);
    }
}

static double mpi_most(double mine)
{
    double most = 0;

    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static MPI_Request mpi_request;

static void mpi_start(const void *from, void *into, size_t bytes)
{
    MPI_Iallreduce(from, into, (int)(bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                   &mpi_request);
}

static void mpi_finish(void) { MPI_Wait(&mpi_request, MPI_STATUS_IGNORE); }

int main(int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    struct coll_library library = {.program = "mpi_coll",
                                   .library = version,
                                   .run = mpi_run,
                                   .most = mpi_most,
                                   .abort = mpi_abort,
                                   .start = mpi_start,
                                   .finish = mpi_finish};
    int rank, ranks, length, status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_library_version(version, &length);
    for (int i = 0; i < length; i++) /* its first words */
        if (version[i] == ',' || version[i] == '\n' || version[i] == '\t' || version[i] == '"')
            version[i] = '\0';
    status = coll_loop_main(&library, rank, ranks, argc, argv);
    MPI_Finalize();
    return status;
}
