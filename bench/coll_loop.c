/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_loop.c: see coll_loop.h. */
#include "bench/coll_loop.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const loop_names[LOOP_KINDS] = {
    "barrier", "bcast",     "reduce",  "allreduce", "reduce_scatter", "scan",       "exscan",
    "gather",  "allgather", "scatter", "alltoall",  "gatherv",        "allgatherv", "alltoallv"};

struct coll_loop {
    const struct coll_library *library;
    int rank, ranks, batches;
    bool fixed_root, overlap;
    double seconds;
    char *from, *into;
    size_t bytes;
};

static double loop_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void loop_fail(const struct coll_loop *loop, const char *what)
{
    fprintf(stderr, "%s: rank %d: %s\n", loop->library->program, loop->rank, what);
    loop->library->abort(1);
}

/* ---- blocks of unequal length ---- */

static int loop_rank, loop_ranks; /* of coll_loop_counts */

static size_t loop_uneven(size_t count, int place)
{
    return place % 2 == 0 ? count - count / 2 : count + count / 2;
}

const struct coll_counts *coll_loop_counts(enum coll_loop_kind kind, size_t bytes)
{
    static struct coll_counts found;
    static enum coll_loop_kind of = LOOP_KINDS;
    static size_t of_bytes;
    int at = 0;

    if (of == kind && of_bytes == bytes)
        return &found;
    for (int i = 0; i < loop_ranks; i++) {
        int place = kind == LOOP_ALLTOALLV ? loop_rank + i : i;

        found.elements[i] = loop_uneven(bytes / sizeof(double), place);
        found.counts[i] = (int)found.elements[i];
        found.displacements[i] = at;
        at += found.counts[i];
    }
    found.mine = found.counts[loop_rank];
    of = kind;
    of_bytes = bytes;
    return &found;
}

/* ---- contents: small whole numbers, whose sums are exact ---- */

static double loop_value(int member, size_t i)
{
    return (double)(member + 1) * (double)(1 + i % 7);
}

/* Blocks at `from`; of an alltoallv some are longer. */
static size_t loop_blocks(const struct coll_loop *loop, enum coll_loop_kind kind)
{
    bool one = kind != LOOP_REDUCE_SCATTER && kind < LOOP_GATHER;

    return one ? 1 : (size_t)loop->ranks + (kind >= LOOP_GATHERV);
}

static void loop_fill(const struct coll_loop *loop, enum coll_loop_kind kind)
{
    size_t n = loop->bytes * loop_blocks(loop, kind) / sizeof(double);

    for (size_t i = 0; i < n; i++) {
        double x = loop_value(loop->rank, i);

        memcpy(loop->from + i * sizeof(x), &x, sizeof(x));
    }
}

/* Element i of the result of a kind with counts: it is that of a block of some member, whose block for this one begins behind others. */
static double loop_expected_uneven(enum coll_loop_kind kind, size_t count, size_t i)
{
    size_t begin = 0;
    int member = 0;

    for (size_t n; member < loop_ranks; member++, i -= n) {
        n = loop_uneven(count, kind == LOOP_ALLTOALLV ? loop_rank + member : member);
        if (i < n)
            break;
    }
    for (int k = 0; kind == LOOP_ALLTOALLV && k < loop_rank; k++)
        begin += loop_uneven(count, member + k);
    return loop_value(member, begin + i);
}

/* Element i of the result, with root 0. */
static double loop_expected(const struct coll_loop *loop, enum coll_loop_kind kind, size_t i)
{
    size_t count = loop->bytes / sizeof(double), mine = (size_t)loop->rank * count;
    int n = loop->ranks, member = (int)(i / count);

    switch (kind) {
    case LOOP_BCAST:
        return loop_value(0, i);
    case LOOP_REDUCE_SCATTER:
        return loop_value(0, mine + i) * n * (n + 1) / 2;
    case LOOP_SCAN:
        return loop_value(0, i) * (loop->rank + 1) * (loop->rank + 2) / 2;
    case LOOP_EXSCAN:
        return loop_value(0, i) * loop->rank * (loop->rank + 1) / 2;
    case LOOP_GATHER:
    case LOOP_ALLGATHER:
        return loop_value(member, i % count);
    case LOOP_SCATTER:
        return loop_value(0, mine + i);
    case LOOP_ALLTOALL:
        return loop_value(member, mine + i % count);
    case LOOP_GATHERV:
    case LOOP_ALLGATHERV:
    case LOOP_ALLTOALLV:
        return loop_expected_uneven(kind, count, i);
    default:
        return loop_value(0, i) * n * (n + 1) / 2;
    }
}

/* Elements of the result of this member, with root 0. */
static size_t loop_result(const struct coll_loop *loop, enum coll_loop_kind kind)
{
    size_t count = loop->bytes / sizeof(double);

    if (kind == LOOP_BARRIER || (kind == LOOP_EXSCAN && loop->rank == 0))
        return 0;
    if ((kind == LOOP_REDUCE || kind == LOOP_GATHER || kind == LOOP_GATHERV) && loop->rank != 0)
        return 0;
    if (kind >= LOOP_GATHERV) {
        const struct coll_counts *c = coll_loop_counts(kind, loop->bytes);
        int last = loop->ranks - 1;

        return (size_t)c->displacements[last] + (size_t)c->counts[last];
    }
    return kind < LOOP_GATHER || kind == LOOP_SCATTER ? count : count * (size_t)loop->ranks;
}

static void loop_check(const struct coll_loop *loop, enum coll_loop_kind kind)
{
    size_t n = loop_result(loop, kind);

    loop_fill(loop, kind);
    memset(loop->into, 0, loop->bytes * ((size_t)loop->ranks + 1));
    if (kind == LOOP_BCAST && loop->rank == 0)
        memcpy(loop->into, loop->from, loop->bytes);
    loop->library->run(kind, loop->from, loop->into, loop->bytes, 0);
    if (loop->library->copy_result != NULL)
        loop->library->copy_result(loop->into);
    for (size_t i = 0; i < n; i++) {
        double x;

        memcpy(&x, loop->into + i * sizeof(x), sizeof(x));
        if (x != loop_expected(loop, kind, i))
            loop_fail(loop, loop_names[kind]);
    }
}

/* ---- batches ---- */

static double loop_batch(const struct coll_loop *loop, enum coll_loop_kind kind, long count)
{
    double begin, end;

    loop->library->run(LOOP_BARRIER, NULL, NULL, 0, 0);
    begin = loop_now();
    for (long i = 0; i < count; i++)
        loop->library->run(kind, loop->from, loop->into, loop->bytes,
                           loop->fixed_root ? 0 : (int)(i % loop->ranks));
    loop->library->run(LOOP_BARRIER, NULL, NULL, 0, 0);
    end = loop_now();
    return end - begin;
}

static void loop_case(const struct coll_loop *loop, enum coll_loop_kind kind, bool first)
{
    long count = 16;
    double took;

    loop_check(loop, kind);
    /* the last of these batches is the warm-up of those that count: it is as long, and what is touched for the first time is behind it */
    while ((took = loop->library->most(loop_batch(loop, kind, count))) < loop->seconds &&
           count < 1L << 30)
        count = took < loop->seconds / 10 ? 2 * count
                                          : (long)((double)count * 1.1 * loop->seconds / took) + 1;
    if (loop->rank == 0)
        printf("%s\"%s %zu\": [", first ? "" : ", ", loop_names[kind],
               kind == LOOP_BARRIER ? 0 : loop->bytes);
    for (int batch = 0; batch < loop->batches; batch++) {
        took = loop_batch(loop, kind, count);
        if (loop->rank == 0)
            printf("%s%.1f", batch == 0 ? "" : ", ", took / (double)count * 1e9);
    }
    if (loop->rank == 0)
        printf("]");
}

/* ---- overlap ---- */

/* A computation in registers, of so many steps. */
static double loop_compute(long steps)
{
    double x = 1.0 + (double)steps * 1e-18;

    for (long i = 0; i < steps; i++)
        x = x * 0.999999 + 1e-6;
    return x;
}

static double loop_sink;

/* Seconds of `count` rounds of an operation, of a computation, or of one beside the other. */
static double loop_rounds(const struct coll_loop *loop, long count, bool operation, long steps)
{
    double begin;

    loop->library->run(LOOP_BARRIER, NULL, NULL, 0, 0);
    begin = loop_now();
    for (long i = 0; i < count; i++) {
        if (operation)
            loop->library->start(loop->from, loop->into, loop->bytes);
        if (steps > 0)
            loop_sink += loop_compute(steps);
        if (operation)
            loop->library->finish();
    }
    return loop->library->most(loop_now() - begin);
}

static void loop_overlap(const struct coll_loop *loop, bool first)
{
    const long probe = 1000000;
    double alone = loop_rounds(loop, 200, true, 0) / 200;
    long count = (long)(loop->seconds / 4 / alone) + 1;

    if (loop->rank == 0)
        printf("%s\"overlap %zu\": [", first ? "" : ", ", loop->bytes);
    for (int batch = 0; batch < loop->batches; batch++) {
        double step = loop_rounds(loop, 1, false, probe) / (double)probe, compute, both;
        long steps;

        alone = loop_rounds(loop, count, true, 0) / (double)count;
        steps = (long)(alone / step) + 1;
        compute = loop_rounds(loop, count, false, steps) / (double)count;
        both = loop_rounds(loop, count, true, steps) / (double)count;
        if (loop->rank == 0)
            printf("%s%.0f", batch == 0 ? "" : ", ", 100 * (1 - (both - compute) / alone));
    }
    if (loop->rank == 0)
        printf("]");
}

/* ---- options ---- */

static int loop_kind_of(const char *name)
{
    int kind = 0;

    while (kind < LOOP_KINDS && strcmp(name, loop_names[kind]) != 0)
        kind++;
    return kind;
}

static int loop_usage(const struct coll_loop *loop, FILE *to, int status)
{
    if (loop->rank == 0)
        fprintf(to,
                "usage: %s [--batches N] [--seconds S] [--fixed-root] [--overlap] KIND:BYTES...\n"
                "Times of collectives, as one line of JSON. KIND is barrier, bcast, reduce, "
                "allreduce, reduce_scatter, scan,\n"
                "exscan, gather, allgather, scatter, alltoall, gatherv, allgatherv or alltoallv; "
                "BYTES, a multiple of 8 up to 64 MiB, is\n"
                "what a member contributes, or a block, or with v half of the sum of two. The root "
                "is each member in turn, or 0.\n",
                loop->library->program);
    return status;
}

static void *loop_alloc(const struct coll_loop *loop, enum coll_loop_kind kind)
{
    size_t blocks = (size_t)loop->ranks + (kind >= LOOP_GATHERV);

    if (loop->library->alloc != NULL)
        return loop->library->alloc(blocks * loop->bytes);
    return calloc(blocks, loop->bytes);
}

static void loop_release(const struct coll_loop *loop, void *mem)
{
    (loop->library->release != NULL ? loop->library->release : free)(mem);
}

static int loop_run_cases(struct coll_loop *loop, char **cases, int n)
{
    for (int i = 0; i < n; i++) {
        char *colon = strchr(cases[i], ':');
        int kind;

        if (colon != NULL)
            *colon = '\0';
        kind = loop_kind_of(cases[i]);
        loop->bytes = colon == NULL ? 8 : strtoul(colon + 1, NULL, 10);
        if (kind == LOOP_KINDS || loop->bytes == 0 || loop->bytes % 8 != 0 ||
            loop->bytes > 64 << 20)
            return loop_usage(loop, stderr, 2);
        loop->from = loop_alloc(loop, (enum coll_loop_kind)kind);
        loop->into = calloc((size_t)loop->ranks + 1, loop->bytes);
        if (loop->from == NULL || loop->into == NULL)
            loop_fail(loop, "no memory");
        if (loop->overlap)
            loop_overlap(loop, i == 0);
        else
            loop_case(loop, (enum coll_loop_kind)kind, i == 0);
        loop_release(loop, loop->from);
        free(loop->into);
    }
    return 0;
}

int coll_loop_main(const struct coll_library *library, int rank, int ranks, int argc, char **argv)
{
    static const struct option options[] = {{"batches", required_argument, NULL, 'b'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"fixed-root", no_argument, NULL, 'f'},
                                            {"overlap", no_argument, NULL, 'o'},
                                            {"async", no_argument, NULL, 'a'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct coll_loop loop = {
        .library = library, .rank = rank, .ranks = ranks, .batches = 1, .seconds = 0.1};
    int option, status;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'h')
            return loop_usage(&loop, stdout, 0);
        if (option == 'f')
            loop.fixed_root = true;
        else if (option == 'o')
            loop.overlap = true;
        else if (option == 'a') /* read by coll_ours */
            continue;
        else if (option == 'b')
            loop.batches = atoi(optarg);
        else if (option == 's')
            loop.seconds = strtod(optarg, NULL);
        else
            return loop_usage(&loop, stderr, 2);
    }
    if (loop.overlap && library->start == NULL)
        return loop_usage(&loop, stderr, 2);
    loop_rank = rank;
    loop_ranks = ranks;
    if (ranks > COLL_LOOP_MEMBERS)
        loop_fail(&loop, "too many members");
    if (optind == argc || loop.batches < 1 || !(loop.seconds > 0 && loop.seconds < 60))
        return loop_usage(&loop, stderr, 2);
    if (rank == 0)
        printf("{\"library\": \"%s\", \"ranks\": %d, ", library->library, ranks);
    status = loop_run_cases(&loop, argv + optind, argc - optind);
    if (rank == 0)
        printf("}\n");
    return status;
}
