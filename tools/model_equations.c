/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model_equations.c: latency and injection from components; Zambre 2020, chapter 2 for a network, and
 * the same way of counting for shared memory. Each equation is a function, with its number.
 *
 * Components do not overlap: a prediction is their sum, and a component that becomes faster makes
 * the whole faster by as many nanoseconds.
 */
#include "model.h"

#include <math.h>

/* ---- a network adapter ---- */

double model_llp_post(const struct model_parts *p)
{
    return p->ns[PART_MD] + p->ns[PART_MD_BARRIER] + p->ns[PART_DBC_BARRIER] + p->ns[PART_PIO] +
           p->ns[PART_POST_OTHER];
}

double model_post(const struct model_parts *p) { return p->ns[PART_HLP_POST] + model_llp_post(p); }

double model_network(const struct model_parts *p) { return p->ns[PART_WIRE] + p->ns[PART_SWITCH]; }

/* (2.1) From a post to its completion. The 64 bytes of a completion cost what 8 bytes cost. */
double model_completion(const struct model_parts *p)
{
    return 2 * (p->ns[PART_PCIE] + model_network(p)) + p->ns[PART_RC_TO_MEM];
}

/* (2.2) Posts between two polls, at least: the completion of the first is then there. */
double model_posts_of_a_poll(const struct model_parts *p)
{
    return ceil(model_completion(p) / model_post(p));
}

/* (2.3) What a message of a stream costs its processor. */
double model_cpu_time(const struct model_parts *p)
{
    return model_post(p) + p->ns[PART_HLP_TX] + p->ns[PART_MISC];
}

/* (2.4) A single message, until it is in the adapter. */
double model_single_injection(const struct model_parts *p)
{
    return model_cpu_time(p) + p->ns[PART_PCIE];
}

/* (2.6) A stream by the low-level protocol alone. */
double model_injection_llp(const struct model_parts *p)
{
    return model_llp_post(p) + p->ns[PART_LLP_PROG] + p->ns[PART_LLP_MISC];
}

/* (2.8) by the low-level protocol alone. */
double model_latency_llp(const struct model_parts *p)
{
    return model_llp_post(p) + 2 * p->ns[PART_PCIE] + model_network(p) + p->ns[PART_RC_TO_MEM] +
           p->ns[PART_LLP_PROG];
}

static void equation_add(struct model_sum *s, const char *name, double ns, enum model_kind kind,
                         bool target)
{
    s->term[s->terms++] = (struct model_term){name, ns, kind, target};
}

/* (2.5), which is (2.3): the way to the adapter overlaps with the next message. */
static void equation_network_injection(const struct model_parts *p, struct model_sum *s)
{
    equation_add(s, "HLP_post", p->ns[PART_HLP_POST], MODEL_CPU, false);
    equation_add(s, "LLP_post", model_llp_post(p), MODEL_CPU, false);
    equation_add(s, "progress", p->ns[PART_HLP_TX], MODEL_CPU, false);
    equation_add(s, "misc", p->ns[PART_MISC], MODEL_CPU, false);
}

/* (2.8), which is (2.7) with its parts. */
static void equation_network_latency(const struct model_parts *p, struct model_sum *s)
{
    equation_add(s, "HLP_post", p->ns[PART_HLP_POST], MODEL_CPU, false);
    equation_add(s, "LLP_post", model_llp_post(p), MODEL_CPU, false);
    equation_add(s, "PCIe", p->ns[PART_PCIE], MODEL_IO, false);
    equation_add(s, "wire", p->ns[PART_WIRE], MODEL_NETWORK, false);
    equation_add(s, "switch", p->ns[PART_SWITCH], MODEL_NETWORK, false);
    equation_add(s, "PCIe, target", p->ns[PART_PCIE], MODEL_IO, true);
    equation_add(s, "RC to memory", p->ns[PART_RC_TO_MEM], MODEL_IO, true);
    equation_add(s, "LLP_prog", p->ns[PART_LLP_PROG], MODEL_CPU, true);
    equation_add(s, "HLP_rx_prog", p->ns[PART_HLP_RX], MODEL_CPU, true);
}

/* ---- shared memory ---- */

/*
 * What the lines of a message take from one cache to the other: what is left of a message that is
 * handed over without a library, when it has been filled and read.
 */
static double equation_lines(const struct model_parts *p, int size)
{
    const double ns =
        p->ns[PART_HAND_OVER + size] - p->ns[PART_FILL + size] - p->ns[PART_READ + size];

    return ns > 0 ? ns : 0;
}

/* A call, for a message that rides in its slot or one that is in the heap. */
static double equation_call(const struct model_parts *p, enum model_part part, int size)
{
    return p->ns[(int)part + (model_size[size] > MODEL_SLOT)];
}

/* (2.5): the writer's time; the lines of a message travel while it prepares the next one. */
static void equation_memory_injection(const struct model_parts *p, int size, struct model_sum *s)
{
    equation_add(s, "rmalloc", equation_call(p, PART_ALLOC, size), MODEL_CPU, false);
    equation_add(s, "fill", p->ns[PART_FILL + size], MODEL_CPU, false);
    equation_add(s, "rwrite", equation_call(p, PART_PUBLISH, size), MODEL_CPU, false);
}

/* (2.8), where the way is that of cache lines; the reader polls, and finds the message in the middle of a poll. */
static void equation_memory_latency(const struct model_parts *p, int size, struct model_sum *s)
{
    equation_memory_injection(p, size, s);
    equation_add(s, "lines", equation_lines(p, size), MODEL_NETWORK, false);
    equation_add(s, "half a poll", p->ns[PART_POLL] / 2, MODEL_CPU, true);
    equation_add(s, "rread", equation_call(p, PART_TAKE, size), MODEL_CPU, true);
    equation_add(s, "read", p->ns[PART_READ + size], MODEL_CPU, true);
    equation_add(s, "rfree", equation_call(p, PART_FREE, size), MODEL_CPU, true);
}

/* ---- both ---- */

struct model_sum model_injection(const struct model_parts *p, int size)
{
    struct model_sum s = {.terms = 0};

    if (p->network)
        equation_network_injection(p, &s);
    else
        equation_memory_injection(p, size, &s);
    return s;
}

struct model_sum model_latency(const struct model_parts *p, int size)
{
    struct model_sum s = {.terms = 0};

    if (p->network)
        equation_network_latency(p, &s);
    else
        equation_memory_latency(p, size, &s);
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
