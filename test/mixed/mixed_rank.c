/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mixed_rank.c: one rank of a job of two, in which test/mixed/mixed has the two linked with different builds of the library.
 *
 * It sends and receives, takes part in collectives, and passes messages through pipes. Exit 0; 1, with the message of the
 * library on standard output, after the first call that fails.
 */
#include <rpipe.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE (1u << 20) /* more than a lane takes before its window is announced */
#define MESSAGES 200

static uint8_t large[LARGE];

#define MUST(condition, ch)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s: %s\n", #condition, rerror(ch));                                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void pattern(uint8_t *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(i * 7 + seed + i / 253);
}

static bool is_pattern(const uint8_t *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (uint8_t)(i * 7 + seed + i / 253))
            return false;
    return true;
}

static void network(unsigned rank)
{
    uint64_t mine = 100 + rank, all[2];
    int peer = (int)(1 - rank);

    if (rank == 0) {
        pattern(large, LARGE, 3);
        MUST(network_send(peer, large, LARGE) == 0, NULL);
        MUST(network_recv(peer, large, 1000) == 0, NULL);
        MUST(is_pattern(large, 1000, 4), NULL);
    } else {
        MUST(network_recv(peer, large, LARGE) == 0, NULL);
        MUST(is_pattern(large, LARGE, 3), NULL);
        pattern(large, 1000, 4);
        MUST(network_send(peer, large, 1000) == 0, NULL);
    }
    MUST(network_allgather(&mine, sizeof(mine), all) == 0, NULL);
    MUST(all[0] == 100 && all[1] == 101, NULL);
    MUST(network_barrier() == 0, NULL);
}

static void pipe_to(unsigned rank, unsigned writer)
{
    rpipe_config_t cfg = {.role = rank == writer ? RPIPE_WRITER : RPIPE_READER,
                          .peer = (int)(1 - rank),
                          .context = writer,
                          .heap_bytes = 1 << 20};
    size_t bytes;
    raddr_t d;
    rch_t ch;

    MUST(rpipe(&ch, &cfg) == 0, NULL);
    for (unsigned i = 0; rank == writer && i < MESSAGES; i++) {
        d = rmalloc(ch, i * 50);
        MUST(d != ADDR_NULL, ch);
        pattern(rmem(ch, d), i * 50, i);
        MUST(rwrite(ch, d) == 0, ch);
    }
    for (unsigned i = 0; rank != writer && i < MESSAGES; i++) {
        MUST(rread(ch, &d, &bytes) == 0, ch);
        MUST(bytes == i * 50 && is_pattern(rmem(ch, d), bytes, i), ch);
        MUST(rfree(ch, d) == 0, ch);
    }
    MUST(rclose(ch) == 0, ch);
}

int main(void)
{
    unsigned rank;

    MUST(rinit(NULL, NULL) == 0, NULL);
    rank = (unsigned)network_rank();
    network(rank);
    pipe_to(rank, 0);
    pipe_to(rank, 1);
    MUST(rexit() == 0, NULL);
    return 0;
}
