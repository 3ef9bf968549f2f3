/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listing_5_1_zero_copy.c: a channel is set up, and a value is handed over (thesis listing 5.1 and
 * table 5.2).
 *
 * Every process writes to the next and reads from the one before; a single process writes to
 * itself. The value is written straight into memory of the channel, and the reader computes with it
 * in place. Once with PUT, once with GET: only the two lines that configure the channel differ.
 *
 *     mpirun -n 2 listing_5_1_zero_copy
 */
#include <rpipe.h>
#include <stdio.h>

#include "must.h"

#define C 7

static rch_t channel(int peer, int writer, rpipe_op_t op, uint32_t ctx, size_t size, size_t ch_size)
{
    rpipe_config_t cfg = {0};
    rch_t ch;

    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.unit_bytes = (uint32_t)size;
    cfg.heap_bytes = ch_size;
    cfg.op = op;
    cfg.context = ctx;
    MUST(NULL, rpipe(&ch, &cfg));
    return ch;
}

/* process i */
static void send_value(rch_t ch, int value)
{
    raddr_t addr = rmalloc(ch, sizeof(int));
    int *ptr = MUST_HAVE(ch, rmem(ch, addr));
    *ptr = value;
    MUST(ch, rwrite(ch, addr)); /* remote write: from here on the memory is the reader's */
}

/* process j */
static int receive_and_compute(rch_t ch)
{
    raddr_t addr;
    size_t size;
    int *ptr, computed;

    MUST(ch, rread(ch, &addr, &size));
    MUST_HOLD(size == sizeof(int));
    ptr = rmem(ch, addr);
    computed = (*ptr) * 100 + C;
    MUST(ch, rfree(ch, addr)); /* release */
    return computed;
}

static void pass_on(rpipe_op_t op, uint32_t ctx, int rank, int nranks)
{
    int next = (rank + 1) % nranks, before = (rank + nranks - 1) % nranks;
    rch_t out = channel(next, 1, op, ctx, sizeof(int), 64 * sizeof(int));
    rch_t in = channel(before, 0, op, ctx, sizeof(int), 64 * sizeof(int));

    for (int i = 0; i < 1000; i++) {
        send_value(out, 1000 * rank + i);
        MUST_HOLD(receive_and_compute(in) == (1000 * before + i) * 100 + C);
    }
    MUST(out, rclose(out));
    MUST(in, rclose(in));
}

int main(int argc, char **argv)
{
    int rank, nranks;

    must_be_alone(argc, argv, "A channel is set up, and a value is handed over, by PUT and by GET.",
                  "mpirun -n 2 listing_5_1_zero_copy");
    MUST(NULL, rinit(&rank, &nranks));
    pass_on(RPIPE_PUT, 0, rank, nranks);
    pass_on(RPIPE_GET, 1, rank, nranks);
    if (rank == 0)
        printf("listing 5.1: %d processes, 1000 values each by PUT and by GET: all right\n",
               nranks);
    MUST(NULL, rexit());
    return 0;
}
