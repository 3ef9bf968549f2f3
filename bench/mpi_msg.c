/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_msg.c: the part of MPI of bench/compare_msg: the same loops, see msg_loop.h. */
#include "bench/msg_loop.h"

#include <mpi.h>
#include <stdio.h>

static int peer;
static MPI_Request request[MSG_LOOP_WINDOW + MSG_LOOP_OTHERS];

static void mpi_send(const void *buf, size_t bytes, uint32_t tag)
{
    MPI_Send(buf, (int)bytes, MPI_BYTE, peer, (int)tag, MPI_COMM_WORLD);
}

static void mpi_recv(void *buf, size_t bytes, uint32_t tag)
{
    MPI_Recv(buf, (int)bytes, MPI_BYTE, peer, (int)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void mpi_isend(int slot, const void *buf, size_t bytes, uint32_t tag)
{
    MPI_Isend(buf, (int)bytes, MPI_BYTE, peer, (int)tag, MPI_COMM_WORLD, &request[slot]);
}

static void mpi_irecv(int slot, void *buf, size_t bytes, uint32_t tag)
{
    MPI_Irecv(buf, (int)bytes, MPI_BYTE, peer, (int)tag, MPI_COMM_WORLD, &request[slot]);
}

static void mpi_wait(int first, int n) { MPI_Waitall(n, &request[first], MPI_STATUSES_IGNORE); }

int main(int argc, char **argv)
{
    static const struct msg_loop_calls calls = {mpi_send, mpi_recv, mpi_isend, mpi_irecv, mpi_wait};
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        fprintf(stderr, "mpi_msg: two processes\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    peer = 1 - rank;
    msg_loop_run(rank, argv + 1, &calls);
    MPI_Finalize();
    return 0;
}
