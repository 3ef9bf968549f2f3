/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scale_channels.c: what open channels cost: time to open and join, memory, descriptors; see
 * bench/scaling, which runs it.
 *
 * `channels N`: N pipes from rank 0 to rank 1. `peers`: one pipe from each rank to each other one.
 * The heap of a pipe is one page, all else is the default. All pipes are opened, then a message of
 * 1 KiB goes through each, so that whatever is made only when it is needed has been made; the time
 * is that of the slowest rank, from the first rpipe to the last rfree. The first pipe of a process
 * is counted by itself: it opens the backend.
 *
 * usage: mpirun -n RANKS scale_channels channels N | peers prints one line of JSON: milliseconds,
 * bytes, descriptors of rank 0; those of all channels together, less the heaps.
 */
#include <rinfo.h>
#include <rpipe.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proc.h"

#define HEAP 4096
#define BYTES 1024

static int rank, ranks;

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void need(int code, rch_t ch, const char *what)
{
    if (code == 0)
        return;
    fprintf(stderr, "scale_channels: %s: %s: %s\n", what, rinfo_strerror(code), rerror(ch));
    network_abort(1);
}

static int descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int n = 0;

    while (directory != NULL && readdir(directory) != NULL)
        n++;
    if (directory != NULL)
        closedir(directory);
    return n;
}

/* Of all ranks: the sum, and the largest. */
static double all_of(double mine, double *most)
{
    double sum = 0, *all = calloc((size_t)ranks, sizeof(*all));

    need(all == NULL ? -ENOMEM : network_allgather(&mine, sizeof(mine), all), NULL,
         "network_allgather");
    *most = 0;
    for (int i = 0; i < ranks; i++) {
        sum += all[i];
        *most = all[i] > *most ? all[i] : *most;
    }
    free(all);
    return sum;
}

/* Private memory of all ranks, and shared memory of the machine. */
static double memory_in_use(void)
{
    double most;

    return all_of(proc_bytes("/proc/self/smaps_rollup", "Pss_Anon:") +
                      (rank == 0 ? proc_bytes("/proc/meminfo", "Shmem:") : 0),
                  &most);
}

static rch_t open_end(bool writer, int peer, uint32_t ctx)
{
    rpipe_config_t cfg = {0};
    rch_t ch;

    cfg.context = ctx;
    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = HEAP;
    need(rpipe(&ch, &cfg), NULL, "rpipe");
    return ch;
}

static void use(rch_t ch, bool writer)
{
    raddr_t d;
    void *at;

    if (writer) {
        at = (d = rmalloc(ch, BYTES)) != ADDR_NULL ? rmem(ch, d) : NULL;
        need(at == NULL ? -errno : 0, ch, "rmalloc");
        memset(at, 1, BYTES);
        need(rwrite(ch, d), ch, "rwrite");
    } else {
        need(rread(ch, &d, NULL), ch, "rread");
        need(rfree(ch, d), ch, "rfree");
    }
}

/* The ends that this rank has: *n of them; with peers, writers and readers by turns. */
static rch_t *open_ends(bool peers, uint32_t channels, size_t *n)
{
    rch_t *ch = calloc(peers ? 2 * (size_t)ranks : channels, sizeof(*ch));

    *n = 0;
    if (ch == NULL)
        need(-ENOMEM, NULL, "calloc");
    for (int k = 1; peers && k < ranks; k++) {
        ch[(*n)++] = open_end(true, (rank + k) % ranks, 1);
        ch[(*n)++] = open_end(false, (rank + ranks - k) % ranks, 1);
    }
    for (uint32_t i = 0; !peers && rank < 2 && i < channels; i++)
        ch[(*n)++] = open_end(rank == 0, 1 - rank, 1 + i);
    return ch;
}

int main(int argc, char **argv)
{
    bool peers = argc == 2 && strcmp(argv[1], "peers") == 0;
    uint32_t channels =
        argc == 3 && strcmp(argv[1], "channels") == 0 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    double began, first = 0, took, before, after;
    rinfo_pipe_t pipe = {0};
    int held = 0;
    rch_t *ch, one = NULL;
    size_t n;

    if ((!peers && channels == 0) || rinit(&rank, &ranks) != 0 || ranks < 2) {
        fprintf(stderr, "usage: mpirun -n RANKS scale_channels channels N | peers\n");
        return 1;
    }
    need(network_barrier(), NULL, "network_barrier");
    if (rank < 2) {
        began = now_ms();
        one = open_end(rank == 0, 1 - rank, 0);
        use(one, rank == 0);
        first = now_ms() - began;
        need(rinfo_describe(one, &pipe), one, "rinfo_describe");
    }
    all_of(first, &first);
    before = memory_in_use();
    held = descriptors();
    need(network_barrier(), NULL, "network_barrier");
    began = now_ms();
    ch = open_ends(peers, channels, &n);
    for (size_t i = 0; i < n; i++)
        use(ch[i], peers ? i % 2 == 0 : rank == 0);
    all_of(now_ms() - began, &took);
    held = descriptors() - held;
    after = memory_in_use();
    channels = peers ? (uint32_t)(ranks * (ranks - 1)) : channels;
    if (rank == 0)
        printf("{\"backend\": \"%s\", \"ranks\": %d, \"channels\": %u, \"first_ms\": %.2f, \"ms\": "
               "%.2f, \"bytes\": %.0f, "
               "\"descriptors\": %d}\n",
               pipe.backend, ranks, channels, first, took, after - before - (double)channels * HEAP,
               held);
    for (size_t i = 0; i < n; i++)
        need(rclose(ch[i]), ch[i], "rclose");
    if (one != NULL)
        need(rclose(one), one, "rclose");
    free(ch);
    return rexit() == 0 ? 0 : 1;
}
