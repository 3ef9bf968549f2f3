/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_parts.c: -t parts: what the components of a message take, as rmalloc_model reads them (doc/model.md). See perf_parts.h.
 *
 * A path is shared memory or a network, whichever the pipes between both processes use, with PUT or GET. What both paths have,
 * filling and reading a payload in a cache of one's own, is measured here, by rank 0 alone.
 */
#include "perf_parts.h"

#include <rinfo.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define PARTS_ROUNDS_LEAST 5
#define PARTS_TURNS 500 /* of a round, fewer of large payloads */

const size_t parts_size[PARTS_SIZES] = {8, 64, 4096, 65536};

static bool parts_any, parts_any_path; /* of the JSON */

static int parts_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void parts_report(const struct parts *p, const char *name, int size, double *sample, int samples)
{
    double median, least;
    char full[40];

    if (p->rank != 0)
        return;
    qsort(sample, (size_t)samples, sizeof(*sample), parts_by_value);
    median = sample[samples / 2];
    least = sample[0];
    if (strcmp(name, "network") != 0) { /* less than the clock resolves */
        median = median > 0 ? median : 0;
        least = least > 0 ? least : 0;
    }
    if (size >= 0)
        snprintf(full, sizeof(full), "%s_%zu", name, parts_size[size]);
    else
        snprintf(full, sizeof(full), "%s", name);
    if (p->o->format == PERF_JSON)
        printf("%s\n    {\"part\": \"%s\", \"ns\": %.2f, \"least_ns\": %.2f}", parts_any ? "," : "",
               full, median, least);
    else if (p->o->format == PERF_CSV)
        printf("%s,%.2f,%.2f\n", full, median, least);
    else
        printf("%-18s %12.2f  # least %.2f\n", full, median, least);
    parts_any = true;
}

/* ---- fill and read in a cache of one's own ---- */

PERF_INLINE double parts_local(const struct parts *p, char *buffer, size_t size, bool fill)
{
    const long turns =
        PARTS_WINDOW * 16u / size < PARTS_TURNS ? (long)(PARTS_WINDOW * 16u / size) : PARTS_TURNS;
    double began = perf_now_ns();

    for (long i = 0; i < turns; i++) {
        if (fill)
            perf_fill(buffer, size, (uint64_t)i);
        else
            perf_sink += perf_sum(buffer, size);
        __asm__ __volatile__("" ::: "memory");
    }
    return (perf_now_ns() - began - p->clock) / (double)turns;
}

/* A function for each size, in which it is a constant. */
#define PARTS_LOCAL(size)                                                                          \
    static double parts_fill_##size(const struct parts *p, char *buffer)                           \
    {                                                                                              \
        return parts_local(p, buffer, size, true);                                                 \
    }                                                                                              \
    static double parts_read_##size(const struct parts *p, char *buffer)                           \
    {                                                                                              \
        return parts_local(p, buffer, size, false);                                                \
    }

PARTS_LOCAL(8)
PARTS_LOCAL(64)
PARTS_LOCAL(4096)
PARTS_LOCAL(65536)

typedef double parts_local_loop(const struct parts *p, char *buffer);

static void parts_locals(struct parts *p)
{
    static parts_local_loop *const fill[] = {parts_fill_8, parts_fill_64, parts_fill_4096,
                                             parts_fill_65536},
                                   *const read[] = {parts_read_8, parts_read_64, parts_read_4096,
                                                    parts_read_65536};
    char *buffer = aligned_alloc(64, 65536);

    if (buffer == NULL)
        perf_fail(NULL, "malloc", -ENOMEM);
    for (int loop = 0; loop < 2; loop++)
        for (int size = 0; size < PARTS_SIZES; size++) {
            parts_local_loop *const round = loop == 0 ? fill[size] : read[size];

            (void)fill[PARTS_SIZES - 1](p, buffer); /* pages */
            (void)round(p, buffer);                 /* caches */
            for (int i = 0; i < p->rounds; i++)
                p->sample[i] = round(p, buffer);
            parts_report(p, loop == 0 ? "fill" : "read", size, p->sample, p->rounds);
        }
    free(buffer);
}

/* ---- paths ---- */

static void parts_backend(struct parts *p, char *name, size_t bytes)
{
    rinfo_pipe_t pipe = {0};
    struct perf_link link = {0};

    perf_link_open(&link, p->o, p->rank, p->op, 8);
    parts_must(rinfo_describe(link.out, &pipe), link.out, "rinfo_describe");
    snprintf(name, bytes, "%s", pipe.backend);
    perf_link_close(&link);
}

static void parts_path_begin(const struct parts *p, const char *path, const char *backend)
{
    const char *op = p->op == RPIPE_PUT ? "put" : "get";

    if (p->rank != 0)
        return;
    if (p->o->format == PERF_JSON)
        printf("%s\n  {\"path\": \"%s\", \"op\": \"%s\", \"backend\": \"%s\", \"parts\": [",
               parts_any_path ? "," : "", path, op, backend);
    else if (p->o->format == PERF_CSV)
        printf("path %s,%s,%s\npart,ns,least_ns\n", path, op, backend);
    else
        printf("path %s %s # by %s, in ns: medians; for rmalloc_model --parts\n", path, op,
               backend);
    parts_any_path = true;
    parts_any = false;
}

/*
 * By lines of memory and by sockets both processes poll, and leave the processor to nothing else: on one processor each wait would last a
 * time slice, and all of them an hour.
 */
static void parts_need_two_processors(const struct parts *p)
{
    cpu_set_t mine, both[2];

    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof(mine), &mine) != 0) { /* there are more than it has bits for */
        CPU_SET(0, &mine);
        CPU_SET(1, &mine);
    }
    parts_must(network_allgather(&mine, sizeof(mine), both), NULL, "network_allgather");
    CPU_OR(&mine, &both[0], &both[1]);
    if (CPU_COUNT(&mine) < 2 && p->rank == 0)
        perf_fail(NULL,
                  "-t parts: the two processes wait for each other by polling, and may use one "
                  "processor alone; give them two (taskset, or --cpus A,B)",
                  -ENOTSUP);
    parts_must(network_barrier(), NULL, "network_barrier");
}

static void parts_path(struct parts *p, rpipe_op_t op)
{
    char backend[16];
    bool memory;

    p->op = op;
    parts_backend(p, backend, sizeof(backend));
    memory = strcmp(backend, "shm") == 0;
    if (memory || strcmp(backend, "tcp") == 0)
        parts_need_two_processors(p);
    parts_path_begin(p, memory ? "memory" : "network", backend);
    if (p->rank == 0)
        parts_locals(p);
    parts_must(network_barrier(), NULL, "network_barrier"); /* rank 1 sleeps meanwhile */
    if (memory)
        parts_memory(p);
    else
        parts_network(p);
    if (p->rank == 0 && p->o->format == PERF_JSON)
        printf("\n  ]}");
}

void perf_parts(const struct perf_options *o, int rank)
{
    static struct parts p;
    const int rounds = 5 * o->rounds;
    double others;

    p.o = o;
    p.rank = rank;
    p.rounds = rounds < PARTS_ROUNDS_LEAST ? PARTS_ROUNDS_LEAST
               : rounds > PARTS_SAMPLES    ? PARTS_SAMPLES
                                           : rounds;
    p.clock = perf_clock_cost();
    perf_machine_begin();
    if (rank == 0 && o->format == PERF_JSON)
        printf("{\"tool\": \"rmalloc_perf\", \"version\": \"%s\", \"rounds\": %d, \"paths\": [",
               rinfo_version(), p.rounds);
    if (o->put)
        parts_path(&p, RPIPE_PUT);
    if (o->get)
        parts_path(&p, RPIPE_GET);
    if (rank == 0 && o->format == PERF_JSON)
        printf("\n]}\n");
    others = perf_machine_others();
    if (rank == 0 && o->format == PERF_TABLE)
        printf("# other processes took %.1f %% of the processors' time%s\n", 100 * others,
               others > PERF_BUSY ? ": the machine was BUSY, and times are too long" : "");
    parts_must(network_barrier(), NULL, "network_barrier");
}
