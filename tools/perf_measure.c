/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_measure.c: what is timed, and how.
 *
 * latency, one way: rank 0 sends, rank 1 sends back; half a round trip. Both ways: each sends, then
 * receives; one exchange. stream: rank 0 sends n messages and gets an empty one back when rank 1
 * has read and freed them all; the time of the whole by n. Both ways: each sends and receives n;
 * the time of the whole by 2n. memory: fill and read of the same bytes by rank 0 alone, in two
 * buffers: what the memory costs without a pipe.
 *
 * The clock is read once between two batches, so its cost is in every sample; a batch is so long
 * that this is at most one part in PERF_CLOCK_SHARE. Rank 0 alone decides and measures; it sends
 * rank 1 the number of messages to expect.
 */
#include "perf_message.h"
#include <rinfo.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct plan {
    int64_t iterations; /* of a round: a multiple of batch */
    int64_t batch;
};

double perf_clock_cost(void)
{
    double best = 1e9;

    for (int round = 0; round < 5; round++) {
        double began = perf_now_ns(), cost;

        for (int i = 0; i < 999; i++)
            (void)perf_now_ns();
        cost = (perf_now_ns() - began) / 1000;
        best = cost < best ? cost : best;
    }
    return best;
}

/* ---- the loops ---- */

/* `bi`, `mode` and `copy` are constants, here and in one_way. */
PERF_INLINE void ping_pong(struct perf_link *link, const struct plan *plan, bool bi,
                           enum perf_mode mode, bool copy, double *samples)
{
    double before = perf_now_ns(), now;

    for (int64_t done = 0; done < plan->iterations; done += plan->batch) {
        for (int64_t i = 0; i < plan->batch; i++) {
            if (link->rank == 0 || bi) {
                perf_send(link, (uint64_t)i, mode, copy);
                perf_receive(link, (uint64_t)i, mode, copy);
            } else {
                perf_receive(link, (uint64_t)i, mode, copy);
                perf_send(link, (uint64_t)i, mode, copy);
            }
        }
        if (samples == NULL)
            continue;
        now = perf_now_ns();
        samples[done / plan->batch] = (now - before) / (double)(plan->batch * (bi ? 1 : 2));
        before = now;
    }
}

PERF_INLINE void one_way(struct perf_link *link, int64_t n, enum perf_mode mode, bool copy)
{
    if (link->rank == 0) {
        for (int64_t i = 0; i < n; i++)
            perf_send(link, (uint64_t)i, mode, copy);
        perf_await(link);
    } else {
        for (int64_t i = 0; i < n; i++)
            perf_receive(link, (uint64_t)i, mode, copy);
        perf_signal(link);
    }
}

PERF_INLINE void ping_pong_by(struct perf_link *link, const struct plan *plan, enum perf_mode mode,
                              bool bi, double *samples)
{
    if (bi && link->copy)
        ping_pong(link, plan, true, mode, true, samples);
    else if (bi)
        ping_pong(link, plan, true, mode, false, samples);
    else if (link->copy)
        ping_pong(link, plan, false, mode, true, samples);
    else
        ping_pong(link, plan, false, mode, false, samples);
}

PERF_INLINE void one_way_by(struct perf_link *link, int64_t n, enum perf_mode mode)
{
    if (link->copy)
        one_way(link, n, mode, true);
    else
        one_way(link, n, mode, false);
}

static void memory_alone(const struct perf_link *link, int64_t n, char *const buffer[2])
{
    for (int64_t i = 0; i < n; i++) {
        perf_fill(buffer[i & 1], link->size, (uint64_t)i);
        __asm__ __volatile__(
            "" ::
                : "memory"); /* the sum is read from memory, not known from the fill */
        perf_sink += perf_sum(buffer[i & 1], link->size);
    }
}

/* ---- one round; its time per message in ns, on rank 0 ---- */

static double round_latency(struct perf_link *link, const struct plan *plan, bool bi,
                            enum perf_mode mode, double *samples)
{
    double began;

    /*
     * Both are here when the clock starts; the first message
     * of the round then finds a peer that waits for it.
     */
    if (link->rank == 0) {
        perf_signal(link);
        perf_await(link);
    } else {
        perf_await(link);
        perf_signal(link);
    }
    began = perf_now_ns();
    if (mode == PERF_TOUCH)
        ping_pong_by(link, plan, PERF_TOUCH, bi, samples);
    else if (mode == PERF_WORD)
        ping_pong_by(link, plan, PERF_WORD, bi, samples);
    else
        ping_pong_by(link, plan, PERF_HAND_OVER, bi, samples);
    return (perf_now_ns() - began) / (double)(plan->iterations * (bi ? 1 : 2));
}

static double round_stream(struct perf_link *link, const struct plan *plan, bool bi,
                           enum perf_mode mode)
{
    double began;

    if (link->rank == 0)
        perf_await(link);
    else
        perf_signal(link);
    began = perf_now_ns();
    if (bi) {
        perf_exchange(link, plan->iterations, mode);
        if (link->rank == 0)
            perf_await(link);
        else
            perf_signal(link);
    } else if (mode == PERF_TOUCH) {
        one_way_by(link, plan->iterations, PERF_TOUCH);
    } else if (mode == PERF_WORD) {
        one_way_by(link, plan->iterations, PERF_WORD);
    } else {
        one_way_by(link, plan->iterations, PERF_HAND_OVER);
    }
    return (perf_now_ns() - began) / (double)(plan->iterations * (bi ? 2 : 1));
}

static double round_memory(struct perf_link *link, const struct plan *plan)
{
    char *buffer[2] = {NULL, NULL};
    double began = 0, took = 0;
    int code;

    if (link->rank == 0) {
        buffer[0] = aligned_alloc(64, (link->size + 63) / 64 * 64);
        buffer[1] = aligned_alloc(64, (link->size + 63) / 64 * 64);
        if (buffer[0] == NULL || buffer[1] == NULL)
            perf_fail(NULL, "malloc", -ENOMEM);
        memory_alone(link, 2, buffer); /* pages */
        began = perf_now_ns();
        memory_alone(link, plan->iterations, buffer);
        took = perf_now_ns() - began;
        free(buffer[0]);
        free(buffer[1]);
    }
    code = network_barrier(); /* rank 1 sleeps meanwhile */
    if (code != 0)
        perf_fail(NULL, "network_barrier", code);
    return took / (double)plan->iterations;
}

static double round_of(enum perf_test test, struct perf_link *link, const struct plan *plan,
                       bool bi, enum perf_mode mode, double *samples)
{
    if (test == PERF_LATENCY)
        return round_latency(link, plan, bi, mode, samples);
    if (test == PERF_STREAM)
        return round_stream(link, plan, bi, mode);
    return round_memory(link, plan);
}

/* ---- how many ---- */

/* From rank 0 to rank 1, so that both do the same. */
static void agree(const struct perf_link *link, struct plan *plan)
{
    int code = link->rank == 0 ? network_send(1, plan, sizeof(*plan))
                               : network_recv(0, plan, sizeof(*plan));

    if (code != 0)
        perf_fail(NULL, "network_send, network_recv", code);
}

static int64_t within(double x, double least, double most)
{
    return (int64_t)(x < least ? least : x > most ? most : x);
}

/* Warm-up, and from its second half how many messages a round takes. */
static void make_plan(struct perf_link *link, const struct perf_options *o, enum perf_test test,
                      bool bi, struct plan *plan)
{
    int64_t warmup =
        o->warmup > 0 ? o->warmup : within((double)(32u << 20) / (double)link->size, 8, 1000);
    double cost, trip;

    *plan = (struct plan){.iterations = (warmup + 1) / 2, .batch = (warmup + 1) / 2};
    round_of(test, link, plan, bi, o->touch, NULL);
    cost = round_of(test, link, plan, bi, o->touch, NULL);
    if (cost < 0.5)
        cost = 0.5;
    trip = cost * (test == PERF_LATENCY && !bi ? 2 : 1);
    plan->batch = 1;
    if (test == PERF_LATENCY)
        plan->batch = o->batch > 0
                          ? o->batch
                          : within(ceil(PERF_CLOCK_SHARE * perf_clock_cost() / trip), 1, 10000);
    plan->iterations = o->iterations > 0 ? o->iterations : within(o->seconds * 1e9 / trip, 8, 50e6);
    plan->iterations = (plan->iterations + plan->batch - 1) / plan->batch * plan->batch;
    agree(link, plan);
}

/* ---- statistics ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of sorted samples, the smallest that at least this share of them does not exceed. */
static double percentile(const double *sorted, long n, double share)
{
    long i = (long)ceil(share * (double)n) - 1;

    return sorted[i < 0 ? 0 : i >= n ? n - 1 : i];
}

static double median(double *values, long n)
{
    qsort(values, (size_t)n, sizeof(*values), by_value);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void summarize(struct perf_result *r, double *rounds, int nrounds, double *samples,
                      long nsamples)
{
    r->median = median(rounds, nrounds); /* sorts */
    r->best = rounds[0];
    r->samples = nsamples;
    if (nsamples == 0)
        return;
    qsort(samples, (size_t)nsamples, sizeof(*samples), by_value);
    r->min = samples[0];
    r->p50 = percentile(samples, nsamples, 0.5);
    r->p90 = percentile(samples, nsamples, 0.9);
    r->p99 = percentile(samples, nsamples, 0.99);
    r->p999 = percentile(samples, nsamples, 0.999);
    r->max = samples[nsamples - 1];
}

/* ---- what the network was asked for ---- */

struct asked {
    uint64_t messages, work_requests, doorbells, signaled, inlined, credit_reads;
};

static uint64_t counter(const struct perf_link *link, const char *name)
{
    uint64_t value = 0;
    int rc = rinfo_count(link->out, name, &value);

    if (rc != 0)
        perf_fail(link->out, "rinfo_count", rc);
    return value;
}

static void ask(const struct perf_link *link, struct asked *a)
{
    *a = (struct asked){.messages = counter(link, "messages"),
                        .work_requests = counter(link, "work_requests"),
                        .doorbells = counter(link, "doorbells"),
                        .signaled = counter(link, "completions"),
                        .inlined = counter(link, "inlined"),
                        .credit_reads = counter(link, "credit_reads")};
}

static void count(const struct perf_link *link, const struct asked *before, struct perf_counts *c)
{
    rinfo_pipe_t pipe = {0};
    struct asked now;
    double messages, half;
    int rc = rinfo_describe(link->out, &pipe);

    if (rc != 0)
        perf_fail(link->out, "rinfo_describe", rc);
    ask(link, &now);
    messages = (double)(now.messages - before->messages);
    half = (double)(link->in_flight < (long)pipe.slots ? link->in_flight : (long)pipe.slots) / 2;
    memcpy(c->backend, pipe.backend, sizeof(c->backend));
    if (messages == 0)
        return;
    c->work_requests = (double)(now.work_requests - before->work_requests) / messages;
    c->doorbells = (double)(now.doorbells - before->doorbells) / messages;
    c->signaled = (double)(now.signaled - before->signaled) / messages;
    c->inlined = (double)(now.inlined - before->inlined) / messages;
    c->credit_reads = (double)(now.credit_reads - before->credit_reads) / messages;
    c->reads_half_heap = c->credit_reads * half;
}

void perf_measure(struct perf_link *link, const struct perf_options *o, enum perf_test test,
                  bool bi, struct perf_result *result)
{
    double *rounds = calloc((size_t)o->rounds, sizeof(*rounds)), *samples = NULL;
    struct asked before = {0};
    struct plan plan;
    long per_round = 0;

    make_plan(link, o, test, bi, &plan);
    if (test == PERF_LATENCY && link->rank == 0) {
        per_round = (long)(plan.iterations / plan.batch);
        samples = malloc((size_t)per_round * (size_t)o->rounds * sizeof(*samples));
    }
    if (rounds == NULL || (per_round > 0 && samples == NULL))
        perf_fail(NULL, "malloc of the samples (fewer --iterations or --rounds need less)",
                  -ENOMEM);
    if (samples !=
        NULL) /* no page of them is touched for the first time while something is measured */
        memset(samples, 0, (size_t)per_round * (size_t)o->rounds * sizeof(*samples));
    if (test != PERF_MEMORY)
        ask(link, &before);
    for (int i = 0; i < o->rounds; i++)
        rounds[i] = round_of(test, link, &plan, bi, o->touch,
                             samples != NULL ? samples + i * per_round : NULL);
    *result = (struct perf_result){.test = test,
                                   .op = link->op,
                                   .bi = bi,
                                   .size = link->size,
                                   .iterations = (long)plan.iterations,
                                   .batch = (long)plan.batch,
                                   .in_flight = test == PERF_MEMORY ? 2 : link->in_flight};
    if (test != PERF_MEMORY)
        count(link, &before, &result->counts);
    if (link->rank == 0)
        summarize(result, rounds, o->rounds, samples, per_round * o->rounds);
    free(rounds);
    free(samples);
}
