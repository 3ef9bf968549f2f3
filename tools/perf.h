/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.h: the parts of rmalloc_perf and what they hand to each other.
 *
 *     perf_options   the command line
 *     perf_launch    starts the second process where there is no launcher
 *     perf_link      a pair of pipes; sends, receives and checks messages
 *     perf_measure   what is timed, and how
 *     perf_model     the parameters of the cost model of collectives, also perf_model_network
 *     perf_parts     the components of a message, for rmalloc_model
 *     perf_machine   what other processes did meanwhile
 *     perf_output    table, CSV, JSON
 *     perf_plot      gnuplot
 *
 * Everything here uses the public headers alone.
 */
#ifndef TOOLS_PERF_H
#define TOOLS_PERF_H

#include <rpipe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define PERF_SIZES_MAX 128
#define PERF_CLOCK_SHARE 50 /* a batch lasts at least so many readings of the clock */
#define PERF_BUSY 0.05      /* share of the machine that others may have before it is called busy */

enum perf_test { PERF_LATENCY, PERF_STREAM, PERF_MEMORY, PERF_TESTS };
enum perf_format { PERF_TABLE, PERF_CSV, PERF_JSON };

/* What is done with a payload. PERF_WORD: its first word is written and read. */
enum perf_mode { PERF_HAND_OVER, PERF_WORD, PERF_TOUCH, PERF_VERIFY };

struct perf_options {
    bool model, parts; /* instead of tests */
    bool test[PERF_TESTS];
    bool put, get;
    bool uni, bi;
    size_t size[PERF_SIZES_MAX];
    int sizes;
    long iterations; /* of a round; 0: by time */
    long warmup;     /* 0: by size */
    long batch;      /* 0: by the cost of the clock */
    int rounds;
    double seconds; /* that a round lasts, without `iterations` */
    long slots;     /* 0: the library's default */
    long bound;     /* heap in messages; 0: ample */
    long inline_max;
    size_t heap; /* of a pipe, in bytes; 0: by `bound` */
    rpipe_sync_t sync;
    rmalloc_fit_t algorithm;
    const char *sync_name, *algorithm_name; /* as they were given; NULL: they were not */
    long queue;                             /* 0: the library's default */
    enum perf_mode touch;
    bool copy; /* rsend and rrecv, instead of rmalloc, rwrite, rread and rfree */
    enum perf_format format;
    const char *plot;
    int cpu[2]; /* -1: wherever the system likes */
};

/* Network operations of rank 0's writing end for one message; all 0 where memory is mapped. */
struct perf_counts {
    char backend[16];
    double work_requests, doorbells, signaled, inlined, credit_reads;
    double reads_half_heap; /* credit reads for as many messages as half the heap, or ring, holds */
};

struct perf_result {
    enum perf_test test;
    rpipe_op_t op;
    bool bi;
    size_t size;
    long iterations, batch;
    long in_flight; /* messages that the heap holds */
    double median,
        best; /* of the rounds; ns of one message: one way, or the time between two of a stream */
    double min, p50, p90, p99, p999, max; /* latency only: of all batches of all rounds */
    long samples;
    struct perf_counts counts;
};

/* ---- perf_options.c ---- */
void perf_options_parse(struct perf_options *o, int argc,
                        char **argv); /* leaves the process where they are wrong */

/* ---- perf_launch.c ---- */
void perf_launch(void);             /* before rinit: in a process of its own, becomes two */
int perf_launch_wait(void);         /* status of the second process, in the first; else 0 */
const char *perf_launch_name(void); /* how the job came to be */
void perf_pin(int cpu);

/* ---- perf_link.c ---- */
struct perf_link {
    rch_t out, in;
    int rank;
    rpipe_op_t op;
    size_t size;
    long in_flight;
    bool copy;
    char *buffer;     /* copy: what is sent, and behind it what was received */
    uint64_t context; /* set before it is opened */
};

void perf_link_open(struct perf_link *link, const struct perf_options *o, int rank, rpipe_op_t op,
                    size_t size);
void perf_link_close(struct perf_link *link);
void perf_link_verify(
    struct perf_link *link); /* ends the job where a message is not what was sent */
_Noreturn void perf_fail(rch_t ch, const char *what, int code);

/* ---- perf_measure.c ---- */
void perf_measure(struct perf_link *link, const struct perf_options *o, enum perf_test test,
                  bool bi, struct perf_result *result);
double perf_clock_cost(void); /* ns of one reading */

/* ---- perf_model.c: called by both ranks ---- */
void perf_model(const struct perf_options *o, int rank); /* rank 0 prints */

/* ---- perf_parts.c: called by both ranks ---- */
void perf_parts(const struct perf_options *o, int rank); /* rank 0 prints */

/* ---- perf_machine.c: called by both ranks ---- */
void perf_machine_begin(void);
double perf_machine_others(void); /* since then: share of the processors' time that was not ours */

/* ---- perf_output.c ---- */
void perf_output_begin(const struct perf_options *o);
void perf_output_result(const struct perf_options *o, const struct perf_result *r);
void perf_output_end(const struct perf_options *o, double others);

const char *perf_setting(const char *name); /* value in force; "?": unknown name */

/* ---- perf_plot.c ---- */
/* others: share of the processors' time that was not ours */
int perf_plot(const char *path, const struct perf_options *o, const struct perf_result *r, int n,
              double others);

static inline double perf_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#endif
