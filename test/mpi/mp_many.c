/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many channels from each rank to its neighbour: 2,000, or as many as the argument (65,536 is the promise for a
 * pair). All are open at the same time, each carries messages of its own, and all are found ready by rpoll.
 * Nothing is measured here.
 */
#include "test/lib/mp_check.h"
#include <sys/resource.h>

enum { HEAP = 256, ROUNDS = 3 };

static size_t size_of(uint32_t ctx, uint64_t round)
{
    return random_mix(ctx ^ round << 32) % (round % 2 == 0 ? 41 : HEAP + 1);
}

/* On a network the last of them are still in flight. */
static void all_are_ready(const rch_t *r, int *ready, uint32_t n)
{
    double end = now_ms() + (mp_at_once(r[0]) ? 0 : 30000);
    uint32_t found;

    do {
        CHECK_OK(NULL, rpoll(r, (int)n, ready, mp_at_once(r[0]) ? 0 : 1000));
        for (found = 0; found < n && ready[found] == 1; found++)
            ;
    } while (found < n && now_ms() < end);
    CHECK(r[found < n ? found : 0], found == n);
}

int main(int argc, char **argv)
{
    int next, previous;
    struct rlimit files;
    uint32_t n;
    rch_t *w, *r;
    int *ready;
    double begun;

    mp_begin(argc, argv, 2);
    n = (uint32_t)mp_number(argc, argv, 2000);
    next = (mp_rank + 1) % mp_ranks;
    previous = (mp_rank + mp_ranks - 1) % mp_ranks;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && mp_rank == 0)
        printf("%u channels per pair, at most %llu file descriptors\n", n,
               (unsigned long long)files.rlim_cur);
    w = calloc(n, sizeof(*w));
    r = calloc(n, sizeof(*r));
    ready = calloc(n, sizeof(*ready));
    CHECK(NULL, w != NULL && r != NULL && ready != NULL);
    begun = now_ms();
    /* with 65,536 of them the channels of a pair go one way only, as promised */
    for (uint32_t i = 0; i < n; i++) {
        rpipe_op_t op = i % 2 == 0 ? RPIPE_PUT : RPIPE_GET;

        if (n <= 10000 || mp_rank % 2 == 0)
            CHECK_OK(NULL, mp_open(&w[i], true, next, i, op, HEAP, 2));
        if (n <= 10000 || mp_rank % 2 != 0)
            CHECK_OK(NULL, mp_open(&r[i], false, previous, i, op, HEAP, 2));
    }
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < n && w[i] != NULL; i++)
            mp_send(w[i], size_of(i, round), mp_key(mp_rank, next, i, round));
        if (round ==
            1) { /* the writers have all sent when the barrier is passed: all are ready, at one poll */
            CHECK_OK(NULL, network_barrier());
            if (r[0] != NULL)
                all_are_ready(r, ready, n < 65536 ? n : 65536);
        }
        for (uint32_t k = 0; k < n && r[0] != NULL; k++) {
            uint32_t i = round % 2 == 0 ? k : n - 1 - k;

            mp_read_free(r[i], size_of(i, round), mp_key(previous, mp_rank, i, round));
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        raddr_t d;

        if (w[i] != NULL)
            CHECK_OK(w[i], rclose(w[i]));
        if (r[i] != NULL && i % 2 == 0) {
            CHECK_RC(R_EOF, r[i], rread(r[i], &d, NULL));
            CHECK_OK(r[i], rclose(r[i]));
        } /* the others are left to rexit() */
    }
    if (mp_rank == 0)
        printf("%.0f ms\n", now_ms() - begun);
    free(w);
    free(r);
    free(ready);
    return mp_end();
}
