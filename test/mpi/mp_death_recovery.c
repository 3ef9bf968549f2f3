/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_death_recovery.c: a rank is killed under a launcher that goes on (mpirun --enable-recovery, see test/run-mpi).
 *
 * Rank 1 writes to rank 0 on a PUT and a GET channel, reads from the last rank, and kills itself with SIGKILL after
 * a number of messages that follows from the seed. The others get what was complete, then -ECONNRESET or -EPIPE, go on among
 * themselves, and leave in order. The details of every waiting call are in test/faults, without a launcher.
 */
#include "test/lib/mp_check.h"

#include <signal.h>

#define SLOTS 16
#define HEAP (1u << 16)

static size_t message_bytes(uint64_t i) { return i % 3 == 0 ? 16 : 100 + i * 61 % 3000; }

static void victim(rch_t put, rch_t get, rch_t in, uint64_t sent)
{
    uint64_t i;
    raddr_t d;

    for (i = 0; i < sent; i++) {
        mp_send(i % 2 == 0 ? put : get, message_bytes(i / 2),
                mp_key(1, 0, (uint32_t)(i % 2), i / 2));
        if (i % 4 == 0 && rread_nb(in, &d, NULL) == 0)
            CHECK_OK(in, rfree(in, d));
    }
    raise(SIGKILL);
}

/* In turn, as it was written: either channel alone would fill up and stop the writer. */
static void from_the_dead(const rch_t both[2], uint64_t sent)
{
    uint64_t i;
    raddr_t d;

    for (i = 0; i < sent; i++)
        mp_read_free(both[i % 2], message_bytes(i / 2), mp_key(1, 0, (uint32_t)(i % 2), i / 2));
    for (i = 0; i < 2; i++) {
        CHECK_RC(-ECONNRESET, both[i], rread(both[i], &d, NULL));
        CHECK_OK(both[i], rclose(both[i]));
    }
}

static void to_the_dead(rch_t ch)
{
    raddr_t d;
    int rc;

    do {
        d = rmalloc(ch, 1000);
        rc = d != ADDR_NULL ? rwrite(ch, d) : -errno;
    } while (rc == 0);
    CHECK_RC(-EPIPE, ch, rc);
    CHECK_OK(ch, rclose(ch));
}

int main(int argc, char **argv)
{
    rch_t put = NULL, get = NULL, out = NULL, ring[2];
    int last, next, before;
    char byte = 1;
    uint64_t sent;

    mp_begin(argc, argv, 3);
    last = mp_ranks - 1;
    if (mp_rank == 0 || mp_rank == 1) {
        CHECK_OK(NULL, mp_open(&put, mp_rank == 1, 1 - mp_rank, 0, RPIPE_PUT, HEAP, SLOTS));
        CHECK_OK(NULL, mp_open(&get, mp_rank == 1, 1 - mp_rank, 1, RPIPE_GET, HEAP, SLOTS));
    }
    if (mp_rank == 1 || mp_rank == last)
        CHECK_OK(NULL, mp_open(&out, mp_rank == last, mp_rank == last ? 1 : last, 2, RPIPE_PUT,
                               HEAP, SLOTS));
    sent = 50 + random_mix(mp_seed) % 500;
    if (mp_rank == 1)
        victim(put, get, out, sent);
    if (mp_rank == 0) {
        from_the_dead((const rch_t[2]){put, get}, sent);
        CHECK_RC(-ECONNRESET, NULL, network_recv(1, &byte, 1));
    }
    if (mp_rank == last)
        to_the_dead(out);
    /* the living go on: a ring without the dead */
    next = mp_rank == last ? 0 : mp_rank == 0 ? 2 : mp_rank + 1;
    before = mp_rank == 0 ? last : mp_rank == 2 ? 0 : mp_rank - 1;
    CHECK_OK(NULL, mp_open(&ring[0], true, next, 7, RPIPE_PUT, HEAP, SLOTS));
    CHECK_OK(NULL, mp_open(&ring[1], false, before, 7, RPIPE_PUT, HEAP, SLOTS));
    mp_send(ring[0], 3000, mp_key(mp_rank, next, 7, 0));
    mp_read_free(ring[1], 3000, mp_key(before, mp_rank, 7, 0));
    return mp_end();
}
