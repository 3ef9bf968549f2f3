/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exchange_ring.c: see exchange_ring.h.
 *
 * All processes make the same number of steps, which follows from times that all of them have. A round that was too short is repeated
 * with more steps; so the first ones, which find the number, warm up.
 */
#include "exchange_ring.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MOST 999
#define BYTES_MOST (1 << 24)
#define FIRST_STEPS 16
#define GROWTH_MOST 100.0

static double ring_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t ring_word(uint64_t step, int rank) { return step << 16 | (uint64_t)rank; }

static void ring_check(const struct ring_transport *transport, const struct ring *ring,
                       uint64_t step)
{
    for (enum side side = LEFT; side < SIDES; side++) {
        uint64_t word, expected = ring_word(step, ring_neighbour(ring, side));

        memcpy(&word, ring->in[side], sizeof(word));
        if (word == expected)
            continue;
        fprintf(stderr, "%s: rank %d, step %llu: received 0x%llx from the %s, not 0x%llx\n",
                transport->program, ring->rank, (unsigned long long)step, (unsigned long long)word,
                side == LEFT ? "left" : "right", (unsigned long long)expected);
        transport->abort(1);
    }
}

/* Seconds of the slowest process. */
static double ring_run(const struct ring_transport *transport, const struct ring *ring,
                       uint64_t steps)
{
    static uint64_t step; /* goes on from round to round */
    double began;

    (void)transport->most(0);
    began = ring_now();
    for (uint64_t end = step + steps; step < end; step++) {
        uint64_t word = ring_word(step, ring->rank);

        memcpy(ring->out[LEFT], &word, sizeof(word));
        memcpy(ring->out[RIGHT], &word, sizeof(word));
        transport->step(ring);
        ring_check(transport, ring, step);
    }
    return transport->most(ring_now() - began);
}

/* A round of at least ring->seconds: the time of a step, ns. */
static double ring_round(const struct ring_transport *transport, const struct ring *ring,
                         uint64_t *steps)
{
    for (;;) {
        double took = ring_run(transport, ring, *steps), growth = 1.2 * ring->seconds / took;

        if (took >= ring->seconds)
            return took / (double)*steps * 1e9;
        *steps = (uint64_t)((double)*steps * (growth < GROWTH_MOST ? growth : GROWTH_MOST)) + 1;
    }
}

static void ring_measure(const struct ring_transport *transport, const struct ring *ring)
{
    static double ns[ROUNDS_MOST];
    uint64_t steps = FIRST_STEPS;

    (void)ring_round(transport, ring, &steps);
    for (int i = 0; i < ring->rounds; i++)
        ns[i] = ring_round(transport, ring, &steps);
    if (ring->rank != 0)
        return;
    printf("{\"library\": \"%s\", \"how\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"steps\": %llu, "
           "\"step_ns\": [",
           transport->library, ring->how != NULL ? ring->how : "", ring->ranks, ring->bytes,
           (unsigned long long)steps);
    for (int i = 0; i < ring->rounds; i++)
        printf("%s%.1f", i > 0 ? ", " : "", ns[i]);
    printf("]}\n");
}

/* One of "A|B"? */
static bool ring_has_way(const char *ways, const char *way)
{
    size_t n = strlen(way);

    for (const char *at = ways; n > 0 && *at != '\0'; at += strcspn(at, "|"), at += *at == '|')
        if (strncmp(at, way, n) == 0 && (at[n] == '|' || at[n] == '\0'))
            return true;
    return false;
}

/* False: an option is wrong. */
static bool ring_options(const struct ring_transport *transport, struct ring *ring, int argc,
                         char **argv)
{
    static const struct option known[] = {{"bytes", required_argument, NULL, 'b'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {"how", required_argument, NULL, 'w'},
                                          {NULL, 0, NULL, 0}};
    long bytes = 8;
    int c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (c == 'b')
            bytes = strtol(optarg, NULL, 10);
        else if (c == 'r')
            ring->rounds = atoi(optarg);
        else if (c == 's')
            ring->seconds = strtod(optarg, NULL);
        else if (c == 'w' && ring_has_way(transport->how, optarg))
            ring->how = optarg;
        else
            return false;
    }
    ring->bytes = (size_t)bytes;
    return optind == argc && bytes >= 8 && bytes <= BYTES_MOST && ring->rounds >= 1 &&
           ring->rounds <= ROUNDS_MOST && ring->seconds > 0 && ring->seconds <= 60 &&
           ring->ranks >= 2;
}

int ring_main(const struct ring_transport *transport, int rank, int ranks, int argc, char **argv)
{
    struct ring ring = {.rank = rank, .ranks = ranks, .rounds = 1, .seconds = 0.1};

    if (!ring_options(transport, &ring, argc, argv)) {
        if (rank == 0)
            fprintf(stderr,
                    "usage: mpirun -n N %s [--bytes B] [--rounds R] [--seconds S]%s%s; from 2 "
                    "processes, 8 to %d bytes, 1 to %d rounds, to 60 seconds\n",
                    transport->program, *transport->how != '\0' ? " --how " : "", transport->how,
                    BYTES_MOST, ROUNDS_MOST);
        return 2;
    }
    for (enum side side = LEFT; side < SIDES; side++) {
        ring.out[side] = calloc(1, ring.bytes);
        ring.in[side] = calloc(1, ring.bytes);
        if (ring.out[side] == NULL || ring.in[side] == NULL)
            transport->abort(1);
    }
    transport->open(&ring);
    ring_measure(transport, &ring);
    for (enum side side = LEFT; side < SIDES; side++) {
        free(ring.out[side]);
        free(ring.in[side]);
    }
    return 0;
}
