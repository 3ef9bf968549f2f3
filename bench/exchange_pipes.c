/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exchange_pipes.c: the exchange of exchange_ring.h by pipes: rsend to both neighbours, then rrecv from both.
 *
 * usage: mpirun -n N exchange_pipes [--bytes B] [--rounds R] [--seconds S]
 */
#include "exchange_ring.h"

#include <rinfo.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>

#define RANKS_MOST 1024
#define MESSAGES 4 /* in flight between two processes are 2 at most */

static rch_t to[SIDES], from[SIDES];
static int ranks;

static void must(int rc, const char *call, rch_t ch)
{
    if (rc == R_SUCCESS)
        return;
    fprintf(stderr, "exchange_pipes: %s: %s; %s\n", call, rinfo_strerror(rc), rerror(ch));
    network_abort(1);
}

/* Messages that go to the right have one context, and those that go to the left another. */
static void open_end(const struct ring *ring, enum side neighbour, rpipe_role_t role, rch_t *ch)
{
    rpipe_config_t cfg = {.op = RPIPE_PUT,
                          .role = role,
                          .peer = ring_neighbour(ring, neighbour),
                          .heap_bytes = (ring->bytes + 64) * MESSAGES};

    cfg.context = (neighbour == RIGHT) == (role == RPIPE_WRITER);
    must(rpipe(ch, &cfg), "rpipe", NULL);
}

static void open_ends(const struct ring *ring)
{
    for (enum side side = LEFT; side < SIDES; side++) {
        open_end(ring, side, RPIPE_WRITER, &to[side]);
        open_end(ring, side, RPIPE_READER, &from[side]);
    }
    for (enum side side = LEFT; side < SIDES; side++) {
        must(rwait(to[side]), "rwait", to[side]);
        must(rwait(from[side]), "rwait", from[side]);
    }
}

static void step(const struct ring *ring)
{
    must(rsend(to[RIGHT], ring->out[RIGHT], ring->bytes, 0), "rsend", to[RIGHT]);
    must(rsend(to[LEFT], ring->out[LEFT], ring->bytes, 0), "rsend", to[LEFT]);
    must(rrecv(from[LEFT], ring->in[LEFT], ring->bytes, NULL, 0), "rrecv", from[LEFT]);
    must(rrecv(from[RIGHT], ring->in[RIGHT], ring->bytes, NULL, 0), "rrecv", from[RIGHT]);
}

static double most(double mine)
{
    static double all[RANKS_MOST];
    double found = mine;

    must(network_allgather(&mine, sizeof(mine), all), "network_allgather", NULL);
    for (int i = 0; i < ranks; i++)
        found = all[i] > found ? all[i] : found;
    return found;
}

static void end_all(int status) { network_abort(status); }

int main(int argc, char **argv)
{
    static const struct ring_transport transport = {.program = "exchange_pipes",
                                                    .library = "rpipe",
                                                    .how = "",
                                                    .open = open_ends,
                                                    .step = step,
                                                    .most = most,
                                                    .abort = end_all};
    int rank, status;

    must(rinit(&rank, &ranks), "rinit", NULL);
    if (ranks > RANKS_MOST) {
        fprintf(stderr, "exchange_pipes: %d processes; at most %d\n", ranks, RANKS_MOST);
        network_abort(2);
    }
    status = ring_main(&transport, rank, ranks, argc, argv);
    for (enum side side = LEFT; side < SIDES && status == 0; side++) {
        must(rclose(to[side]), "rclose", to[side]);
        must(rclose(from[side]), "rclose", from[side]);
    }
    must(rexit(), "rexit", NULL);
    return status;
}
