/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * startup.c: what rinit costs beyond PMIx_Init itself, and what an idle channel costs in memory.
 *
 * PMIx_Init counts its callers, so after one of our own the library's is free, and the time of rinit is all its own: the
 * modules, sockets, service thread, the exchange of cards. The slowest rank counts.
 *
 * Memory: CHANNELS pipes with heaps of one page are opened from rank 0 to rank 1, joined, and left idle. What the system has
 * then less than before, in shared memory and in private memory of both processes, without the heaps, is theirs.
 *
 * usage: mpirun -n 2 startup
 * prints one line of JSON: milliseconds, bytes.
 */
#include <rpipe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_PMIX
#include <pmix.h>
#endif

#define CHANNELS 512
#define HEAP 4096

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void need(int code, const char *what)
{
    const char *why;

    if (code == 0)
        return;
    why = rpipe_error(NULL);
    fprintf(stderr, "startup: %s: %s: %s\n", what, rstrerror(code), why != NULL ? why : "");
    network_abort(1);
    exit(1);
}

/* A line "Name:   N kB" of a file in /proc, in bytes; 0 if there is none. */
static double from_proc(const char *path, const char *name)
{
    FILE *file = fopen(path, "re");
    char line[256];
    long long kb = 0;

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            kb = atoll(line + strlen(name));
    fclose(file);
    return (double)kb * 1024;
}

/* Private memory of all ranks, and shared memory of the machine. */
static double memory_in_use(int rank, int nranks)
{
    double mine = from_proc("/proc/self/smaps_rollup", "Pss_Anon:"), sum = 0,
           *all = calloc((size_t)nranks, sizeof(*all));

    if (rank == 0)
        mine += from_proc("/proc/meminfo", "Shmem:");
    need(all == NULL ? -ENOMEM : network_allgather(&mine, sizeof(mine), all), "network_allgather");
    for (int i = 0; i < nranks; i++)
        sum += all[i];
    free(all);
    return sum;
}

static double idle_channel_bytes(int rank, int nranks)
{
    static rch_t ch[CHANNELS];
    double before, after;

    before = memory_in_use(rank, nranks);
    for (uint32_t i = 0; i < CHANNELS && rank < 2; i++) {
        rmalloc_config_t cfg = RMALLOC_CONFIG_DEFAULT;

        cfg.ctx = i;
        cfg.allocator.peer = nranks > 1 ? 1 - rank : 0;
        cfg.allocator.rdma_active = rank == 0;
        cfg.allocator.alloc_size = HEAP;
        need(rpipe(&ch[i], &cfg), "rpipe");
    }
    for (int i = 0; i < CHANNELS && rank < 2; i++)
        need(rpipe_wait(ch[i]), "rpipe_wait");
    after = memory_in_use(rank, nranks);
    for (int i = 0; i < CHANNELS && rank < 2; i++)
        need(rclose(ch[i]), "rclose");
    return (after - before) / CHANNELS - HEAP;
}

static double slowest(double mine, int nranks)
{
    double most = 0, *all = calloc((size_t)nranks, sizeof(*all));

    need(all == NULL ? -ENOMEM : network_allgather(&mine, sizeof(mine), all), "network_allgather");
    for (int i = 0; i < nranks; i++)
        most = all[i] > most ? all[i] : most;
    free(all);
    return most;
}

int main(void)
{
    int rank, nranks;
    double pmix_ms = 0, rinit_ms, idle, began;

#ifdef HAVE_PMIX
    pmix_proc_t self;

    began = now_ms();
    if (PMIx_Init(&self, NULL, 0) == PMIX_SUCCESS)
        pmix_ms = now_ms() - began;
    else
        pmix_ms = -1;
    if (pmix_ms >= 0)
        PMIx_Fence(NULL, 0, NULL, 0); /* who was late before rinit is not what rinit took */
#endif
    began = now_ms();
    need(rinit(&rank, &nranks), "rinit");
    rinit_ms = now_ms() - began;
    if (nranks < 2) {
        fprintf(stderr, "startup needs 2 processes or more: mpirun -n 2 startup\n");
        rexit();
        return 2;
    }
    rinit_ms = slowest(rinit_ms, nranks);
    pmix_ms = slowest(pmix_ms, nranks);
    idle = idle_channel_bytes(rank, nranks);
    if (rank == 0)
        printf("{\"ranks\": %d, \"pmix_init_ms\": %.3f, \"rinit_ms\": %.3f, \"idle_channel_bytes\": %.0f}\n", nranks,
               pmix_ms, rinit_ms, idle);
    need(rexit(), "rexit");
#ifdef HAVE_PMIX
    if (pmix_ms > 0)
        PMIx_Finalize(NULL, 0);
#endif
    return 0;
}
