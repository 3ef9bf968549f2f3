/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * startup.c: what rinit costs beyond PMIx_Init itself, and what an idle channel costs in memory.
 *
 * `startup pmix` times PMIx_Init and nothing else; `startup rinit` times rinit as a program calls
 * it, first, when there are no threads yet: the difference is what this library adds. rinit waits
 * for every rank, so all of them begin when the clock passes the next multiple of BEGIN_MS, and the
 * slowest counts.
 *
 * Memory: CHANNELS pipes with heaps of one page are opened from rank 0 to rank 1, joined, and left
 * idle. What the system has then less than before, in shared memory and in private memory of both
 * processes, without the heaps, is theirs.
 *
 * usage: mpirun -n 2 startup pmix|rinit
 * prints one line of JSON: milliseconds, bytes.
 */
#include <rinfo.h>
#include <rpipe.h>

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_PMIX
#include <pmix.h>
#endif

#include "proc.h"

#define BEGIN_MS 200
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
    why = rerror(NULL);
    fprintf(stderr, "startup: %s: %s: %s\n", what, rinfo_strerror(code), why != NULL ? why : "");
    network_abort(1);
    exit(1);
}

/* Private memory of all ranks, and shared memory of the machine. */
static double memory_in_use(int rank, int nranks)
{
    double mine = proc_bytes("/proc/self/smaps_rollup", "Pss_Anon:"), sum = 0,
           *all = calloc((size_t)nranks, sizeof(*all));

    if (rank == 0)
        mine += proc_bytes("/proc/meminfo", "Shmem:");
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
        rpipe_config_t cfg = {0};

        cfg.context = i;
        cfg.peer = nranks > 1 ? 1 - rank : 0;
        cfg.role = rank == 0 ? RPIPE_WRITER : RPIPE_READER;
        cfg.heap_bytes = HEAP;
        need(rpipe(&ch[i], &cfg), "rpipe");
    }
    for (int i = 0; i < CHANNELS && rank < 2; i++)
        need(rwait(ch[i]), "rwait");
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

/* Every process of this host returns from here at the same time, if they all came in time. */
static double begin_together(void)
{
    double begin = (floor(now_ms() / BEGIN_MS) + 1) * BEGIN_MS;

    while (now_ms() < begin)
        sched_yield();
    return now_ms();
}

/*
 * The slowest rank's time is asked for afterwards, through
 * rinit: one process cannot see the others' here.
 */
static int measure_pmix(void)
{
#ifdef HAVE_PMIX
    double began = begin_together(), took;
    pmix_proc_t self;
    int rank, nranks;

    if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) {
        fprintf(stderr, "startup: PMIx_Init failed; mpirun -n 2 startup pmix\n");
        return 1;
    }
    took = now_ms() - began;
    need(rinit(&rank, &nranks), "rinit");
    took = slowest(took, nranks);
    if (rank == 0)
        printf("{\"ranks\": %d, \"pmix_init_ms\": %.3f}\n", nranks, took);
    need(rexit(), "rexit");
    PMIx_Finalize(NULL, 0);
    return 0;
#else
    fprintf(stderr, "startup: built without PMIx (Debian: libpmix-dev)\n");
    return 1;
#endif
}

static int measure_rinit(void)
{
    double began = begin_together(), took, idle;
    int rank, nranks;

    need(rinit(&rank, &nranks), "rinit");
    took = now_ms() - began;
    if (nranks < 2) {
        fprintf(stderr, "startup needs 2 processes or more: mpirun -n 2 startup rinit\n");
        rexit();
        return 2;
    }
    took = slowest(took, nranks);
    idle = idle_channel_bytes(rank, nranks);
    if (rank == 0)
        printf("{\"ranks\": %d, \"rinit_ms\": %.3f, \"idle_channel_bytes\": %.0f}\n", nranks, took,
               idle);
    need(rexit(), "rexit");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "pmix") == 0)
        return measure_pmix();
    if (argc == 2 && strcmp(argv[1], "rinit") == 0)
        return measure_rinit();
    fprintf(stderr, "usage: mpirun -n 2 startup pmix|rinit\n");
    return 2;
}
