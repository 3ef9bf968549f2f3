/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_exchange.c: the exchange of exchange_ring.h by an MPI library: two MPI_Irecv and two MPI_Isend, then MPI_Waitall; or two
 * MPI_Sendrecv, to the right and to the left.
 *
 * usage: mpirun -n N mpi_exchange [--bytes B] [--rounds R] [--seconds S] [--how isend|sendrecv]
 */
#include "exchange_ring.h"

#include <mpi.h>
#include <string.h>

static void open_nothing(const struct ring *ring) { (void)ring; }

/* The tag of a message is the side that it goes to. */
static void step_isend(const struct ring *ring)
{
    int bytes = (int)ring->bytes, left = ring_neighbour(ring, LEFT),
        right = ring_neighbour(ring, RIGHT);
    MPI_Request request[4];

    MPI_Irecv(ring->in[LEFT], bytes, MPI_BYTE, left, RIGHT, MPI_COMM_WORLD, &request[0]);
    MPI_Irecv(ring->in[RIGHT], bytes, MPI_BYTE, right, LEFT, MPI_COMM_WORLD, &request[1]);
    MPI_Isend(ring->out[RIGHT], bytes, MPI_BYTE, right, RIGHT, MPI_COMM_WORLD, &request[2]);
    MPI_Isend(ring->out[LEFT], bytes, MPI_BYTE, left, LEFT, MPI_COMM_WORLD, &request[3]);
    MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
}

static void step_sendrecv(const struct ring *ring)
{
    int bytes = (int)ring->bytes, left = ring_neighbour(ring, LEFT),
        right = ring_neighbour(ring, RIGHT);

    MPI_Sendrecv(ring->out[RIGHT], bytes, MPI_BYTE, right, RIGHT, ring->in[LEFT], bytes, MPI_BYTE,
                 left, RIGHT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(ring->out[LEFT], bytes, MPI_BYTE, left, LEFT, ring->in[RIGHT], bytes, MPI_BYTE,
                 right, LEFT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void step(const struct ring *ring)
{
    if (ring->how != NULL && strcmp(ring->how, "sendrecv") == 0)
        step_sendrecv(ring);
    else
        step_isend(ring);
}

static double most(double mine)
{
    double found;

    MPI_Allreduce(&mine, &found, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return found;
}

static void end_all(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

int main(int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    struct ring_transport transport = {.program = "mpi_exchange",
                                       .library = version,
                                       .how = "isend|sendrecv",
                                       .open = open_nothing,
                                       .step = step,
                                       .most = most,
                                       .abort = end_all};
    int rank, ranks, status, length;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    status = ring_main(&transport, rank, ranks, argc, argv);
    MPI_Finalize();
    return status;
}
