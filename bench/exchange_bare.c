/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exchange_bare.c: the limit of bench/exchange: the exchange of exchange_ring.h by hand, without a library, see by_hand.h.
 *
 * Each process has two boxes for either neighbour, which the neighbour writes in turn: the number of the step, and the bytes behind
 * it. A message of a step also shows that its sender has used the boxes of the step before; so two are enough, and nothing is
 * acknowledged. Where processes share processors, one that waits yields after as many polls as --how gives; else it polls without
 * a pause.
 *
 * usage: mpirun -n N exchange_bare [--bytes B] [--rounds R] [--seconds S] [--how 1|2|4|8|16]
 */
#include "bench/by_hand.h"
#include "bench/exchange_ring.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOXES 2

static struct by_hand job;
static size_t box_bytes;
static unsigned long number;
static unsigned polls_per_yield = 1;

static _Atomic unsigned long *bare_box(int rank, enum side side)
{
    size_t box = ((size_t)rank * SIDES + side) * BOXES + number % BOXES;

    return (_Atomic unsigned long *)(void *)(job.memory + box * box_bytes);
}

/* The right neighbour receives on its left. */
static void bare_send(const struct ring *ring, enum side side)
{
    _Atomic unsigned long *box = bare_box(ring_neighbour(ring, side), side == RIGHT ? LEFT : RIGHT);

    memcpy((char *)box + sizeof(*box), ring->out[side], ring->bytes);
    /* release: pairs with the acquire in bare_receive */
    atomic_store_explicit(box, number, memory_order_release);
}

static void bare_receive(const struct ring *ring, enum side side)
{
    _Atomic unsigned long *box = bare_box(ring->rank, side);
    unsigned polls = 0;

    /* acquire: pairs with the release in bare_send */
    while (atomic_load_explicit(box, memory_order_acquire) != number)
        if (job.crowded && ++polls % polls_per_yield == 0)
            sched_yield();
    memcpy(ring->in[side], (char *)box + sizeof(*box), ring->bytes);
}

static void bare_step(const struct ring *ring)
{
    number++;
    bare_send(ring, RIGHT);
    bare_send(ring, LEFT);
    bare_receive(ring, LEFT);
    bare_receive(ring, RIGHT);
}

static void bare_open(const struct ring *ring)
{
    box_bytes = (sizeof(number) + ring->bytes + BY_HAND_LINE - 1) / BY_HAND_LINE * BY_HAND_LINE;
    if (ring->how != NULL)
        polls_per_yield = (unsigned)atoi(ring->how);
    if (!by_hand_map(&job, (size_t)ring->ranks * SIDES * BOXES * box_bytes))
        exit(1);
}

static double bare_most(double mine) { return by_hand_fold(&job, mine, true); }

static void bare_abort(int status) { by_hand_abort(&job, status); }

int main(int argc, char **argv)
{
    static const struct ring_transport transport = {.program = "exchange_bare",
                                                    .library = "by hand",
                                                    .how = "1|2|4|8|16",
                                                    .open = bare_open,
                                                    .step = bare_step,
                                                    .most = bare_most,
                                                    .abort = bare_abort};

    if (!by_hand_begin(&job, "exchange_bare"))
        return 1;
    return ring_main(&transport, job.rank, job.ranks, argc, argv);
}
