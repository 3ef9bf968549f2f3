/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exchange_ring.h: an exchange of neighbours in a ring, as bench/exchange measures it: what pipes (exchange_pipes.c) and MPI
 * (mpi_exchange.c) have in common.
 *
 * In each step each process sends one message to either neighbour and receives one from either. Its first 8 bytes are the number of
 * the step and the rank of the sender, which the receiver checks, so a process is at most one step ahead of its neighbours.
 * With 2 processes both neighbours are the same one.
 *
 * A program gives its transport, and calls ring_main when the ranks are known. It prints one line of JSON at rank 0: the time of a
 * step in each round, ns, that of the slowest process.
 */
#ifndef BENCH_EXCHANGE_RING_H
#define BENCH_EXCHANGE_RING_H

#include <stddef.h>

enum side { LEFT, RIGHT, SIDES };

struct ring {
    int rank, ranks;
    size_t bytes;
    int rounds;
    double seconds;  /* a round takes at least so long */
    const char *how; /* the transport has more than one way to exchange; NULL: the first */
    char *out[SIDES], *in[SIDES];
};

struct ring_transport {
    const char *program, *library, *how; /* names; how: the ways, "A|B", or "" */
    void (*open)(const struct ring *ring);
    void (*step)(const struct ring *ring); /* sends `out`, receives `in` */
    /* The largest value of all processes, and a barrier. */
    double (*most)(double mine);
    void (*abort)(int status); /* ends all processes */
};

static inline int ring_neighbour(const struct ring *ring, enum side side)
{
    return (ring->rank + (side == RIGHT ? 1 : ring->ranks - 1)) % ring->ranks;
}

/* Reads the options, opens, measures and prints. Returns the exit status. */
int ring_main(const struct ring_transport *transport, int rank, int ranks, int argc, char **argv);

#endif
