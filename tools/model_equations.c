/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model_equations.c: latency and injection from components; Zambre 2020, chapter 2 for an adapter, and
 * the same way of counting for what is measured here. Each equation is a function, with its number.
 *
 * Components do not overlap: a prediction is their sum, and a component that becomes faster makes
 * the whole faster by as many nanoseconds.
 */
#include "model.h"

#include <math.h>

/* ---- a network adapter ---- */

double model_llp_post(const struct model_parts *p)
{
    return p->ns[PART_MD][0] + p->ns[PART_MD_BARRIER][0] + p->ns[PART_DBC_BARRIER][0] +
           p->ns[PART_PIO][0] + p->ns[PART_POST_OTHER][0];
}

double model_post(const struct model_parts *p)
{
    return p->ns[PART_HLP_POST][0] + model_llp_post(p);
}

double model_network(const struct model_parts *p)
{
    return p->ns[PART_WIRE][0] + p->ns[PART_SWITCH][0];
}

/* (2.1) From a post to its completion. The 64 bytes of a completion cost what 8 bytes cost. */
double model_completion(const struct model_parts *p)
{
    return 2 * (p->ns[PART_PCIE][0] + model_network(p)) + p->ns[PART_RC_TO_MEM][0];
}

/* (2.2) Posts between two polls, at least: the completion of the first is then there. */
double model_posts_of_a_poll(const struct model_parts *p)
{
    return ceil(model_completion(p) / model_post(p));
}

/* (2.3) What a message of a stream costs its processor. */
double model_cpu_time(const struct model_parts *p)
{
    return model_post(p) + p->ns[PART_HLP_TX][0] + p->ns[PART_MISC][0];
}

/* (2.4) A single message, until it is in the adapter. */
double model_single_injection(const struct model_parts *p)
{
    return model_cpu_time(p) + p->ns[PART_PCIE][0];
}

/* (2.6) A stream by the low-level protocol alone. */
double model_injection_llp(const struct model_parts *p)
{
    return model_llp_post(p) + p->ns[PART_LLP_PROG][0] + p->ns[PART_LLP_MISC][0];
}

/* (2.8) by the low-level protocol alone. */
double model_latency_llp(const struct model_parts *p)
{
    return model_llp_post(p) + 2 * p->ns[PART_PCIE][0] + model_network(p) +
           p->ns[PART_RC_TO_MEM][0] + p->ns[PART_LLP_PROG][0];
}

static void equation_add(struct model_sum *s, const char *name, double ns, enum model_kind kind,
                         bool target)
{
    s->term[s->terms++] = (struct model_term){name, ns, kind, target};
}

/* (2.5), which is (2.3): the way to the adapter overlaps with the next message. */
static void equation_network_injection(const struct model_parts *p, struct model_sum *s)
{
    equation_add(s, "HLP_post", p->ns[PART_HLP_POST][0], MODEL_CPU, false);
    equation_add(s, "LLP_post", model_llp_post(p), MODEL_CPU, false);
    equation_add(s, "progress", p->ns[PART_HLP_TX][0], MODEL_CPU, false);
    equation_add(s, "misc", p->ns[PART_MISC][0], MODEL_CPU, false);
}

/* (2.8), which is (2.7) with its parts. */
static void equation_network_latency(const struct model_parts *p, struct model_sum *s)
{
    equation_add(s, "HLP_post", p->ns[PART_HLP_POST][0], MODEL_CPU, false);
    equation_add(s, "LLP_post", model_llp_post(p), MODEL_CPU, false);
    equation_add(s, "PCIe", p->ns[PART_PCIE][0], MODEL_IO, false);
    equation_add(s, "wire", p->ns[PART_WIRE][0], MODEL_NETWORK, false);
    equation_add(s, "switch", p->ns[PART_SWITCH][0], MODEL_NETWORK, false);
    equation_add(s, "PCIe, target", p->ns[PART_PCIE][0], MODEL_IO, true);
    equation_add(s, "RC to memory", p->ns[PART_RC_TO_MEM][0], MODEL_IO, true);
    equation_add(s, "LLP_prog", p->ns[PART_LLP_PROG][0], MODEL_CPU, true);
    equation_add(s, "HLP_rx_prog", p->ns[PART_HLP_RX][0], MODEL_CPU, true);
}

/* ---- what is measured here ---- */

static double equation_at_least(double ns, double least) { return ns > least ? ns : least; }

/*
 * What the lines of a message take from one cache to the other: what is left of a message that is
 * handed over without a library, when it has been filled and read.
 */
static double equation_lines(const struct model_parts *p, int size)
{
    return equation_at_least(
        p->ns[PART_HAND_OVER][size] - p->ns[PART_FILL][size] - p->ns[PART_READ][size], 0);
}

/* `alloc_part`, `free_part`: the part that has the call: of a single message, or of a row. */
static void equation_begin(const struct model_parts *p, int size, int alloc_part,
                           struct model_sum *s)
{
    equation_add(s, "rmalloc", p->ns[alloc_part][size], MODEL_CPU, false);
    equation_add(s, "fill", p->ns[PART_FILL][size], MODEL_CPU, false);
}

static void equation_end(const struct model_parts *p, int size, int free_part, struct model_sum *s)
{
    equation_add(s, "read", p->ns[PART_READ][size], MODEL_CPU, true);
    equation_add(s, "rfree", p->ns[free_part][size], MODEL_CPU, true);
}

/* (2.8), where the way is that of cache lines; the reader polls, and finds the message in the middle of a poll. */
static void equation_memory_latency(const struct model_parts *p, int size, struct model_sum *s)
{
    equation_begin(p, size, PART_ALLOC, s);
    equation_add(s, "rwrite", p->ns[PART_PUBLISH][size], MODEL_CPU, false);
    equation_add(s, "lines", equation_lines(p, size), MODEL_NETWORK, false);
    equation_add(s, "half a poll", p->ns[PART_POLL][size] / 2, MODEL_CPU, true);
    equation_add(s, "rread", p->ns[PART_TAKE][size], MODEL_CPU, true);
    equation_end(p, size, PART_FREE, s);
}

/*
 * (2.8): rwrite is HLP_post and LLP_post, rread is LLP_prog and HLP_rx_prog, of a GET with the payload's way between them. LLP_post,
 * network and LLP_prog are together one way without the library. Where a message arrives before the call that sends it returns, only
 * so much of that call is on its way.
 */
static void equation_measured_latency(const struct model_parts *p, int size, struct model_sum *s)
{
    const double post = p->ns[PART_POST][size], completion = p->ns[PART_COMPLETION][size],
                 network = p->ns[PART_NETWORK][size], fetch = p->get ? p->ns[PART_FETCH][size] : 0;

    equation_begin(p, size, PART_ALLOC, s);
    equation_add(s, "HLP_post", equation_at_least(p->ns[PART_PUBLISH][size] - post, 0), MODEL_CPU,
                 false);
    equation_add(s, "LLP_post", equation_at_least(post + fmin(network, 0), 0), MODEL_CPU, false);
    equation_add(s, "network", equation_at_least(network, 0), MODEL_NETWORK, false);
    equation_add(s, "LLP_prog", equation_at_least(completion + fmin(fmin(network, 0) + post, 0), 0),
                 MODEL_CPU, true);
    if (p->get)
        equation_add(s, "fetch", fetch, MODEL_NETWORK, true);
    equation_add(s, "HLP_rx_prog",
                 equation_at_least(p->ns[PART_TAKE][size] - completion - fetch, 0), MODEL_CPU,
                 true);
    equation_end(p, size, PART_FREE, s);
}

/*
 * ---- a stream: the longer of what its writer and its reader take; over a network also of what its messages take without the library ----
 */

static struct model_sum equation_writer(const struct model_parts *p, int size, int alloc_part,
                                        int publish)
{
    struct model_sum s = {.bound = "writer"};

    equation_begin(p, size, alloc_part, &s);
    equation_add(&s, "rwrite", p->ns[publish][size], MODEL_CPU, false);
    return s;
}

static struct model_sum equation_reader(const struct model_parts *p, int size, int take,
                                        int free_part)
{
    struct model_sum s = {.bound = "reader"};

    equation_add(&s, "rread", p->ns[take][size], MODEL_CPU, true);
    equation_end(p, size, free_part, &s);
    return s;
}

static void equation_longer(struct model_sum *s, struct model_sum other)
{
    if (model_total(&other) > model_total(s))
        *s = other;
}

static struct model_sum equation_network_stream(const struct model_parts *p, int size)
{
    struct model_sum s = equation_writer(p, size, PART_ROW_ALLOC, PART_ROW_PUBLISH),
                     stream = {.bound = "network"};

    equation_longer(&s, equation_reader(p, size, PART_ROW_TAKE, PART_ROW_FREE));
    equation_add(&stream, "stream", p->ns[PART_STREAM][size], MODEL_NETWORK, false);
    equation_longer(&s, stream);
    return s;
}

/* What a row takes besides what its calls and its payload take in the cache: the lines that come from the other processor. */
static struct model_sum equation_row(const struct model_parts *p, int size, bool target)
{
    struct model_sum s = target ? equation_reader(p, size, PART_TAKE, PART_FREE)
                                : equation_writer(p, size, PART_ALLOC, PART_PUBLISH);
    const double row = p->ns[target ? PART_ROW_READ : PART_ROW_WRITE][size];

    equation_add(&s, "lines", equation_at_least(row - model_total(&s), 0), MODEL_NETWORK, target);
    return s;
}

/* A writer that takes less than its reader asks for credits in the rest of the time, and takes the line with the answer from the reader. */
static struct model_sum equation_memory_stream(const struct model_parts *p, int size)
{
    struct model_sum s = equation_row(p, size, false), reader = equation_row(p, size, true);

    equation_add(&reader, "both at once",
                 equation_at_least(p->ns[PART_ROW_BOTH][size] - p->ns[PART_ROW_READ][size], 0),
                 MODEL_NETWORK, true);
    equation_longer(&s, reader);
    return s;
}

struct model_sum model_injection(const struct model_parts *p, int size)
{
    struct model_sum s = {.bound = "writer"};

    if (p->way == WAY_MEMORY)
        return equation_memory_stream(p, size);
    if (p->way == WAY_NETWORK)
        return equation_network_stream(p, size);
    equation_network_injection(p, &s);
    return s;
}

struct model_sum model_latency(const struct model_parts *p, int size)
{
    struct model_sum s = {.terms = 0};

    if (p->way == WAY_ADAPTER)
        equation_network_latency(p, &s);
    else if (p->way == WAY_MEMORY)
        equation_memory_latency(p, size, &s);
    else
        equation_measured_latency(p, size, &s);
    return s;
}

double model_total(const struct model_sum *s)
{
    double ns = 0;

    for (int i = 0; i < s->terms; i++)
        ns += s->term[i].ns;
    return ns;
}

double model_share(const struct model_sum *s, enum model_kind kind)
{
    double ns = 0;

    for (int i = 0; i < s->terms; i++)
        ns += s->term[i].kind == kind ? s->term[i].ns : 0;
    return ns / model_total(s);
}
