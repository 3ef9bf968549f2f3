/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listing_b_3_ring.c: values stream around a ring of processes (thesis listing B.3).
 *
 * Each process has a channel from its left neighbour and one to its right. The thesis had to open
 * the right one first on rank 0, or every process waited for its neighbour; here rpipe() never
 * waits, so each opens them as it likes. Twice around: first each value is read at once, then as
 * many as the channel holds are in flight before the first is read.
 *
 *     mpirun -n 5 listing_b_3_ring
 */
#include <rpipe.h>
#include <stdbool.h>
#include <stdio.h>

#include "must.h"

#define SEND_VAL1 1000
#define WIDTH 32        /* messages that the channel holds */
#define N (WIDTH + 512) /* messages of each process */

typedef struct message {
    int value;
    int more[31]; /* too large for a slot: the message is in the heap */
} message_t;

static int rank, nprocs;

static void channel_write(rch_t ch, int val)
{
    raddr_t addr = rmalloc(ch, sizeof(message_t));
    message_t *r = MUST_HAVE(ch, rmem(ch, addr));
    r->value = val;
    r->more[30] = ~val;
    MUST(ch, rwrite(ch, addr));
}

static bool channel_test(rch_t ch, int test)
{
    raddr_t addr;
    size_t size;
    const message_t *r;
    bool ret;

    MUST(ch, rread(ch, &addr, &size));
    r = rmem(ch, addr);
    ret = size == sizeof(message_t) && r->value == test && r->more[30] == ~test;
    MUST(ch, rfree(ch, addr));
    return ret;
}

static void exec_ring(void)
{
    int right = (rank + 1) % nprocs;
    int left = rank - 1 < 0 ? nprocs - 1 : rank - 1;
    rpipe_config_t cfgs[2] = {{0}, {0}};
    rch_t ch[2]; /* from the left, to the right */

    for (int i = 0; i < 2; i++) {
        cfgs[i].op = RPIPE_PUT;
        cfgs[i].unit_bytes = sizeof(message_t);
        cfgs[i].heap_bytes = WIDTH * sizeof(message_t);
        cfgs[i].peer = i == 0 ? left : right;
        cfgs[i].role = i == 1 ? RPIPE_WRITER : RPIPE_READER;
    }
    for (int i = 0; i < 2; i++)
        MUST(NULL, rpipe(&ch[i], &cfgs[i]));

    for (int i = 0; i < N; i++) {
        channel_write(ch[1], SEND_VAL1 * rank + i);
        MUST_HOLD(channel_test(ch[0], SEND_VAL1 * left + i));
    }
    for (int i = 0; i < N; i++) {
        channel_write(ch[1], SEND_VAL1 * rank - i);
        if (i >= WIDTH - 1)
            MUST_HOLD(channel_test(ch[0], SEND_VAL1 * left - (i - (WIDTH - 1))));
    }
    for (int i = N - (WIDTH - 1); i < N; i++)
        MUST_HOLD(channel_test(ch[0], SEND_VAL1 * left - i));
    for (int i = 0; i < 2; i++)
        MUST(ch[i], rclose(ch[i]));
}

int main(int argc, char **argv)
{
    must_be_alone(argc, argv, "Values stream around a ring whose channels are opened in any order.",
                  "mpirun -n 5 listing_b_3_ring");
    MUST(NULL, rinit(&rank, &nprocs));
    exec_ring();
    if (rank == 0)
        printf("listing B.3: a ring of %d processes, %d messages each: all right\n", nprocs, 2 * N);
    MUST(NULL, rexit());
    return 0;
}
