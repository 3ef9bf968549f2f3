/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_peer.c: the same as rmalloc_perf measures, by an MPI library: the peer of bench/compare.
 *
 * send-recv: MPI_Send and MPI_Recv to and fro; the rate with 64 MPI_Isend and MPI_Irecv in flight.
 * put+flush+flag: MPI_Put of the payload, MPI_Win_flush, MPI_Put of a flag, MPI_Win_flush; the
 * target polls the flag in its window. A one-sided program needs all of this to notify its peer of
 * new data.
 *
 * usage: mpirun -n 2 mpi_peer [BYTES [ITERATIONS [latency|put|rate]]]
 * prints one line of JSON: microseconds one way, messages per second; with a third argument only
 * one of the three is measured, and the others are 0.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 64
#define FLAG_BYTES 64 /* the flag has a line of its own, before the payload */

static int rank;

/* Half a round trip, us. */
static double latency_send(char *buf, int bytes, int n)
{
    double began;

    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    for (int i = 0; i < n; i++) {
        if (rank == 0)
            MPI_Send(buf, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(buf, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(buf, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - began) * 1e6 / n / 2;
}

/* Messages per second from rank 0 to rank 1, up to an empty message back. */
static double rate_send(char *buf, int bytes, int n)
{
    MPI_Request request[WINDOW];
    double began;

    n = (n + WINDOW - 1) / WINDOW * WINDOW;
    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    for (int i = 0; i < n; i += WINDOW) {
        for (int k = 0; k < WINDOW; k++) {
            if (rank == 0)
                MPI_Isend(buf, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request[k]);
            else
                MPI_Irecv(buf + (size_t)k * (size_t)bytes, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
                          &request[k]);
        }
        MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
    }
    if (rank == 1)
        MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    else
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return n / (MPI_Wtime() - began);
}

static void put_and_flag(const char *buf, int bytes, long long flag, MPI_Win win)
{
    int peer = 1 - rank;

    MPI_Put(buf, bytes, MPI_BYTE, peer, FLAG_BYTES, bytes, MPI_BYTE, win);
    MPI_Win_flush(peer, win);
    MPI_Put(&flag, 1, MPI_LONG_LONG, peer, 0, 1, MPI_LONG_LONG, win);
    MPI_Win_flush(peer, win);
}

static void await_flag(const volatile long long *flag, long long value, MPI_Win win)
{
    while (*flag != value)
        MPI_Win_sync(win);
}

static double latency_put(const char *buf, int bytes, int n)
{
    double began;
    char *base;
    MPI_Win win;

    MPI_Win_allocate(FLAG_BYTES + bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    memset(base, 0, (size_t)FLAG_BYTES + (size_t)bytes);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    for (int i = 1; i <= n; i++) {
        if (rank == 0)
            put_and_flag(buf, bytes, i, win);
        await_flag((const volatile long long *)(void *)base, i, win);
        if (rank == 1)
            put_and_flag(buf, bytes, i, win);
    }
    began = (MPI_Wtime() - began) * 1e6 / n / 2;
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    return began;
}

static bool chosen(const char *test, const char *name)
{
    return *test == '\0' || strcmp(test, name) == 0;
}

int main(int argc, char **argv)
{
    int bytes = argc > 1 ? atoi(argv[1]) : 8, n = argc > 2 ? atoi(argv[2]) : 100000, nranks, length;
    const char *test = argc > 3 ? argv[3] : "";
    char *buf, version[MPI_MAX_LIBRARY_VERSION_STRING];
    double send = 0, put = 0, rate = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (nranks != 2 || bytes < 1 || n < 10) {
        fprintf(stderr,
                "usage: mpirun -n 2 mpi_peer [BYTES [ITERATIONS [latency|put|rate]]], from 1 byte, "
                "from 10 iterations\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    buf = calloc(WINDOW, (size_t)bytes);
    if (buf == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (chosen(test, "latency")) {
        latency_send(buf, bytes, n / 10);
        send = latency_send(buf, bytes, n);
    }
    if (chosen(test, "put")) {
        latency_put(buf, bytes, n / 10);
        put = latency_put(buf, bytes, n);
    }
    if (chosen(test, "rate")) {
        rate_send(buf, bytes, n / 10);
        rate = rate_send(buf, bytes, n);
    }
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    if (rank == 0)
        printf("{\"library\": \"%s\", \"bytes\": %d, \"send_recv_us\": %.4f, "
               "\"put_flush_flag_us\": %.4f, "
               "\"messages_per_s\": %.0f}\n",
               version, bytes, send, put, rate);
    free(buf);
    MPI_Finalize();
    return 0;
}
