/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc_perf.c: measures pipes between two processes, see perf.h and rmalloc_perf(1).
 *
 * Both processes go through the same sizes in the same order; rank 0 measures and prints. The pipes
 * of a size are opened, checked, measured and closed before those of the next.
 */
#include "perf.h"
#include <rinfo.h>

#include <stdio.h>

#define CURVES_MAX 9 /* latency and stream, by PUT and GET, one way and both; memory */

/* Results are kept for the plot. */
static struct perf_result kept[CURVES_MAX * PERF_SIZES_MAX];
static int results;

static void keep(const struct perf_options *o, int rank, const struct perf_result *r)
{
    if (rank != 0)
        return;
    perf_output_result(o, r);
    kept[results++] = *r;
}

static void measure_sizes(const struct perf_options *o, int rank, enum perf_test test,
                          rpipe_op_t op, bool bi)
{
    for (int i = 0; i < o->sizes; i++) {
        struct perf_link link = {.rank = rank, .op = op, .size = o->size[i]};
        struct perf_result result;

        if (test != PERF_MEMORY) {
            perf_link_open(&link, o, rank, op, o->size[i]);
            perf_link_verify(&link);
        }
        perf_measure(&link, o, test, bi, &result);
        if (test != PERF_MEMORY)
            perf_link_close(&link);
        keep(o, rank, &result);
    }
}

static void measure_all(const struct perf_options *o, int rank)
{
    for (int test = 0; test < PERF_TESTS; test++) {
        if (!o->test[test])
            continue;
        if (test == PERF_MEMORY) {
            measure_sizes(o, rank, PERF_MEMORY, RPIPE_PUT, false);
            continue;
        }
        for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
            if (op == RPIPE_PUT ? !o->put : !o->get)
                continue;
            if (o->uni)
                measure_sizes(o, rank, (enum perf_test)test, (rpipe_op_t)op, false);
            if (o->bi)
                measure_sizes(o, rank, (enum perf_test)test, (rpipe_op_t)op, true);
        }
    }
}

int main(int argc, char **argv)
{
    struct perf_options options;
    double others = 0;
    int rank, nranks, code, status = 0;

    perf_options_parse(&options, argc, argv);
    perf_launch();
    code = rinit(&rank, &nranks);
    if (code != 0)
        perf_fail(NULL, "rinit", code);
    if (nranks != 2) {
        if (rank == 0)
            fprintf(stderr,
                    "rmalloc_perf needs 2 processes and has %d: mpirun -n 2 rmalloc_perf, or "
                    "rmalloc_perf alone\n",
                    nranks);
        rexit();
        return 2;
    }
    perf_pin(options.cpu[rank]);
    if (options.model) {
        perf_model(&options, rank);
    } else if (options.parts) {
        perf_parts(&options, rank);
    } else {
        if (rank == 0)
            perf_output_begin(&options);
        perf_machine_begin();
        measure_all(&options, rank);
        others = perf_machine_others();
        if (rank == 0)
            perf_output_end(&options, others);
    }
    code = rexit();
    if (code != 0) {
        fprintf(stderr, "rmalloc_perf: rank %d: rexit: %s\n", rank, rinfo_strerror(code));
        status = 1;
    }
    status |= perf_launch_wait();
    if (rank == 0 && options.plot != NULL &&
        perf_plot(options.plot, &options, kept, results, others) != 0)
        status = 1;
    return status;
}
