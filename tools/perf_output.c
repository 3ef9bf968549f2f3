/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_output.c: results as a table, as CSV or as JSON, see perf.h.
 *
 * A result is printed as soon as it is complete. CSV and JSON contain every field of every result;
 * times are in microseconds, rates in messages and bytes per second. The last line is the processor
 * time that other processes used meanwhile. In JSON a field that a test does not have is missing;
 * in CSV it is empty.
 */
#include "perf.h"
#include <rinfo.h>

#include <rinfo.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const test_names[PERF_TESTS] = {"latency", "stream", "memory"};
static int printed;             /* results so far */
static struct perf_result last; /* a table begins where its kind changes */

const char *perf_setting(const char *name)
{
    const rinfo_setting_t *s;

    for (int i = 0; (s = rinfo_setting(i)) != NULL; i++)
        if (strcmp(s->name, name) == 0)
            return s->value;
    return "?";
}

static const char *op_name(const struct perf_result *r)
{
    return r->op == RPIPE_PUT ? "put" : "get";
}
static double bytes_per_second(const struct perf_result *r)
{
    return (double)r->size / r->median * 1e9;
}

/* ---- table ---- */

static const char *const access_names[] = {
    [PERF_HAND_OVER] = "none", [PERF_WORD] = "word", [PERF_TOUCH] = "all"};
static const char *const call_names[] = {"rmalloc rwrite rread rfree", "rsend rrecv"};
static const char *const touched[] = {
    [PERF_HAND_OVER] =
        "Payload is NOT touched: it is only handed over (--touch: filled and summed).",
    [PERF_WORD] = "The first word is written and read (--touch: every byte is).",
    [PERF_TOUCH] = ("Payload is touched: the writer fills every byte, the reader sums every byte "
                    "(--no-touch: neither)."),
};

static void table_begin(const struct perf_options *o)
{
    printf("rmalloc_perf %s: 2 processes, %s, %ld processors, RPIPE_WAIT=%s", rinfo_version(),
           perf_launch_name(), sysconf(_SC_NPROCESSORS_ONLN), perf_setting("RPIPE_WAIT"));
    if (o->slots > 0)
        printf(", %ld slots", o->slots);
    if (o->bound > 0)
        printf(", heap of %ld messages", o->bound);
    if (o->sync_name != NULL)
        printf(", sync %s", o->sync_name);
    if (o->algorithm_name != NULL)
        printf(", %s-fit", o->algorithm_name);
    if (o->queue > 0)
        printf(", queue of %ld", o->queue);
    if (o->cpu[0] >= 0)
        printf(", bound to processors %d and %d", o->cpu[0], o->cpu[1]);
    if (o->copy)
        printf(", by rsend and rrecv");
    if (o->heap > 0)
        printf(", heap of %zu bytes", o->heap);
    printf("\n%s\n", touched[o->touch]);
    if (o->iterations > 0)
        printf("%d rounds of %ld messages", o->rounds, o->iterations);
    else
        printf("%d rounds of %g s", o->rounds, o->seconds);
    printf(" for each size; every size was checked byte by byte before.\n");
}

static void table_heading(const struct perf_options *o, const struct perf_result *r)
{
    char direction[64];

    if (r->test == PERF_MEMORY) {
        printf("\nmemory alone: one process fills and sums two buffers in turn, without a pipe\n");
        printf("%10s %12s %12s %12s %9s\n", "bytes", "us/message", "best", "MB/s", "messages");
        return;
    }
    snprintf(direction, sizeof(direction), "%s, %s", r->op == RPIPE_PUT ? "PUT" : "GET",
             r->bi ? "both ways at once" : "one way");
    if (r->test == PERF_STREAM) {
        printf("\nbandwidth and message rate, %s\n", direction);
        printf("%10s %12s %12s %12s %12s %12s %9s\n", "bytes", "MB/s", "best", "Mmsg/s", "best",
               "us/message", "messages");
        return;
    }
    printf("\nlatency in us, %s: %s\n", direction,
           r->bi ? "one exchange, each sends and receives" : "half a round trip");
    if (o->batch > 0)
        printf("median and best of the rounds' means; percentiles of batches of %ld\n", o->batch);
    else
        printf("median and best of the rounds' means; percentiles of batches so long (column "
               "\"batch\") that reading the\n"
               "clock (%.0f ns) is at most 2 %% of them\n",
               perf_clock_cost());
    printf("%10s %9s %9s %9s %9s %9s %9s %9s %9s %6s\n", "bytes", "median", "best", "min", "p50",
           "p90", "p99", "p99.9", "max", "batch");
}

static void table_result(const struct perf_options *o, const struct perf_result *r)
{
    if (printed == 0 || last.test != r->test || last.op != r->op || last.bi != r->bi)
        table_heading(o, r);
    switch (r->test) {
    case PERF_LATENCY:
        printf("%10zu %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %6ld\n", r->size,
               r->median / 1e3, r->best / 1e3, r->min / 1e3, r->p50 / 1e3, r->p90 / 1e3,
               r->p99 / 1e3, r->p999 / 1e3, r->max / 1e3, r->batch);
        break;
    case PERF_STREAM:
        printf("%10zu %12.1f %12.1f %12.4f %12.4f %12.4f %9ld\n", r->size,
               bytes_per_second(r) / 1e6, (double)r->size / r->best * 1e3, 1e3 / r->median,
               1e3 / r->best, r->median / 1e3, r->iterations);
        break;
    default:
        printf("%10zu %12.4f %12.4f %12.1f %9ld\n", r->size, r->median / 1e3, r->best / 1e3,
               bytes_per_second(r) / 1e6, r->iterations);
    }
    if (r->counts.work_requests > 0)
        printf("%10s %s, a message: %.2f work requests, %.2f doorbells, %.3f signaled, %.2f "
               "inline, %.3f credit reads "
               "(%.2f "
               "for half a heap)\n",
               "", r->counts.backend, r->counts.work_requests, r->counts.doorbells,
               r->counts.signaled, r->counts.inlined, r->counts.credit_reads,
               r->counts.reads_half_heap);
}

/* ---- CSV ---- */

static void csv_begin(void)
{
    printf("test,op,direction,bytes,touched,rounds,messages,batch,heap_messages,median_us,best_us,"
           "bytes_per_s,messages_"
           "per_s,"
           "min_us,p50_us,p90_us,p99_us,p999_us,max_us,backend,work_requests,doorbells,signaled,"
           "inlined,credit_reads,access,calls,heap_bytes\n");
}

static void csv_result(const struct perf_options *o, const struct perf_result *r)
{
    printf("%s,%s,%s,%zu,%d,%d,%ld,%ld,%ld,%.4f,%.4f,%.0f,%.0f,", test_names[r->test], op_name(r),
           r->bi ? "bi" : "uni", r->size, o->touch == PERF_TOUCH || r->test == PERF_MEMORY,
           o->rounds, r->iterations, r->batch, r->in_flight, r->median / 1e3, r->best / 1e3,
           bytes_per_second(r), 1e9 / r->median);
    if (r->samples > 0)
        printf("%.4f,%.4f,%.4f,%.4f,%.4f,%.4f", r->min / 1e3, r->p50 / 1e3, r->p90 / 1e3,
               r->p99 / 1e3, r->p999 / 1e3, r->max / 1e3);
    else
        printf(",,,,,");
    printf(",%s,%.4f,%.4f,%.4f,%.4f,%.4f,%s,%s,%zu\n", r->counts.backend, r->counts.work_requests,
           r->counts.doorbells, r->counts.signaled, r->counts.inlined, r->counts.credit_reads,
           access_names[o->touch], call_names[o->copy], o->heap);
}

/* ---- JSON ---- */

static void json_begin(const struct perf_options *o)
{
    printf("{\"tool\": \"rmalloc_perf\", \"version\": \"%s\", \"processors\": %ld, \"wait\": "
           "\"%s\", \"touched\": %s, \"access\": \"%s\", \"calls\": \"%s\", "
           "\"heap_bytes\": %zu, "
           "\"rounds\": %d, \"slots\": %ld, \"sync\": \"%s\", \"algorithm\": \"%s\", \"clock_ns\": "
           "%.1f,\n \"results\": [",
           rinfo_version(), sysconf(_SC_NPROCESSORS_ONLN), perf_setting("RPIPE_WAIT"),
           o->touch == PERF_TOUCH ? "true" : "false", access_names[o->touch], call_names[o->copy],
           o->heap, o->rounds, o->slots, o->sync_name != NULL ? o->sync_name : "blocks",
           o->algorithm_name != NULL ? o->algorithm_name : "next", perf_clock_cost());
}

static void json_result(const struct perf_result *r)
{
    printf("%s\n  {\"test\": \"%s\", \"op\": \"%s\", \"direction\": \"%s\", \"bytes\": %zu, "
           "\"messages\": %ld, "
           "\"batch\": %ld, "
           "\"heap_messages\": %ld, \"median_us\": %.4f, \"best_us\": %.4f, \"bytes_per_s\": %.0f, "
           "\"messages_per_s\": "
           "%.0f",
           printed > 0 ? "," : "", test_names[r->test], op_name(r), r->bi ? "bi" : "uni", r->size,
           r->iterations, r->batch, r->in_flight, r->median / 1e3, r->best / 1e3,
           bytes_per_second(r), 1e9 / r->median);
    if (r->samples > 0)
        printf(", \"min_us\": %.4f, \"p50_us\": %.4f, \"p90_us\": %.4f, \"p99_us\": %.4f, "
               "\"p999_us\": %.4f, "
               "\"max_us\": %.4f",
               r->min / 1e3, r->p50 / 1e3, r->p90 / 1e3, r->p99 / 1e3, r->p999 / 1e3, r->max / 1e3);
    if (r->test != PERF_MEMORY)
        printf(", \"backend\": \"%s\", \"work_requests\": %.4f, \"doorbells\": %.4f, \"signaled\": "
               "%.4f, \"inlined\": "
               "%.4f, \"credit_reads\": %.4f, \"credit_reads_half_heap\": %.4f",
               r->counts.backend, r->counts.work_requests, r->counts.doorbells, r->counts.signaled,
               r->counts.inlined, r->counts.credit_reads, r->counts.reads_half_heap);
    printf("}");
}

/* ---- all of them ---- */

void perf_output_begin(const struct perf_options *o)
{
    if (o->format == PERF_TABLE)
        table_begin(o);
    else if (o->format == PERF_CSV)
        csv_begin();
    else
        json_begin(o);
    fflush(stdout);
}

void perf_output_result(const struct perf_options *o, const struct perf_result *r)
{
    if (o->format == PERF_TABLE)
        table_result(o, r);
    else if (o->format == PERF_CSV)
        csv_result(o, r);
    else
        json_result(r);
    printed++;
    last = *r;
    fflush(stdout);
}

void perf_output_end(const struct perf_options *o, double others)
{
    if (o->format == PERF_JSON)
        printf("\n ],\n \"others\": %.4f}\n", others);
    else if (o->format == PERF_TABLE)
        printf("\n%sMeanwhile other processes took %.1f %% of the processors' time.\n",
               others > PERF_BUSY
                   ? "The machine was BUSY: the load affects these figures more than the pipes do. "
                   : "",
               100 * others);
    fflush(stdout);
}
