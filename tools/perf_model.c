/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_model.c: -t model: the parameters of the cost model of collectives (rcoll(7), doc/collectives.md "The cost model"), as the text
 * that RCOLL_MODEL takes. See perf.h.
 *
 * On a host by a board: a line one way (L), each further line (m), a byte that another processor has written, copied (Bc) and folded
 * (Bf), a byte of memory of its own, copied (Bo), memory of the other process that is read by a system call (f, and a byte of it, Bx), a yield where both processes are on one processor (sigma), an operation of a graph (step). Between hosts by pipes: what a
 * message costs its sender (o), the time between two of a stream (g), a byte of a stream of long ones (G), and the rest of the time
 * one way (Ln); by casts the rest of that (Lm). Each is the median of the rounds.
 */
#include "perf.h"

#include <errno.h>
#include <rcast.h>
#include <rcoll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64
#define LINES 16       /* of which one more than the first costs m */
#define BLOCK 65536    /* bytes that are copied and folded */
#define TURNS 1000     /* of a round */
#define BLOCKS 20      /* the same, of blocks */
#define ROUNDS_MOST 99 /* rounds of which the median is taken */
#define STEPS 64

struct words {
    struct {
        _Atomic uint64_t number;
        char unused[LINE - sizeof(uint64_t)];
    } line[LINES];
    double result;    /* of rank 1, for rank 0 */
    uint64_t address; /* of what is fetched, in this process */
    char unused[4096 - LINES * LINE - sizeof(double) - sizeof(uint64_t)];
    double block[BLOCK / sizeof(double)];
};

static struct {
    int rank, rounds;
    struct words *mine;
    const struct words *other;
    uint64_t number;
    bool yields;
    double sample[ROUNDS_MOST];
} model;

static double model_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int model_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double model_median(double (*round)(void))
{
    for (int i = 0; i < model.rounds; i++)
        model.sample[i] = round();
    qsort(model.sample, (size_t)model.rounds, sizeof(*model.sample), model_compare);
    return model.sample[model.rounds / 2];
}

/* ---- on a host ---- */

static void model_put(int lines)
{
    for (int i = lines - 1; i >= 0; i--)
        atomic_store_explicit(&model.mine->line[i].number, model.number, memory_order_release);
}

static void model_await(int lines)
{
    for (int i = 0; i < lines; i++)
        /* acquire: pairs with the release of model_put */
        while (atomic_load_explicit(&model.other->line[i].number, memory_order_acquire) <
               model.number)
            if (model.yields)
                sched_yield();
}

/* ns of one way, of so many lines */
static double model_turns(int lines, int turns)
{
    double began = model_now();

    for (int i = 0; i < turns; i++) {
        model.number++;
        if (model.rank == 0)
            model_put(lines);
        model_await(lines);
        if (model.rank != 0)
            model_put(lines);
    }
    return (model_now() - began) / turns / 2;
}

static double model_line(void) { return model_turns(1, TURNS); }
static double model_lines(void) { return model_turns(LINES, TURNS); }
static double model_yield(void) { return model_turns(1, TURNS / 10); }

/* ns of a byte that rank 0 has written, as rank 1 reads it: copied, or added to its own. */
static double model_bytes(bool fold)
{
    static double mine[BLOCK / sizeof(double)];
    double took = 0;

    for (int b = 0; b < BLOCKS; b++) {
        model.number++;
        if (model.rank == 0) {
            for (size_t i = 0; i < BLOCK / sizeof(double); i++)
                model.mine->block[i] = (double)(i + (size_t)b);
            model_put(1);
            model_await(1);
        } else {
            double began;

            model_await(1);
            began = model_now();
            if (fold)
                (void)rgroup_combine(mine, model.other->block, BLOCK / sizeof(double),
                                     RGROUP_DOUBLE, RGROUP_SUM);
            else
                memcpy(mine, model.other->block, BLOCK);
            took += model_now() - began;
            __asm__ volatile("" : : "r"(mine) : "memory");
            model_put(1);
        }
    }
    model.mine->result = took / BLOCKS / BLOCK;
    (void)model_turns(1, 1); /* the result is there */
    return model.rank == 0 ? model.other->result : model.mine->result;
}

static double model_copy(void) { return model_bytes(false); }
static double model_fold(void) { return model_bytes(true); }

/* ns of a byte that this process alone has written and reads. */
static double model_own(void)
{
    static double from[BLOCK / sizeof(double)], into[BLOCK / sizeof(double)];
    double began = 0;

    for (int b = -1; b < BLOCKS; b++) {
        if (b == 0)
            began = model_now();
        from[b & 1] = b;
        memcpy(into, from, BLOCK);
        __asm__ volatile("" : : "r"(into) : "memory");
    }
    return (model_now() - began) / BLOCKS / BLOCK;
}

/* ---- memory of the other process ---- */

static rboard_t model_board;

/* ns of so many bytes that rank 0 has written in its own memory, as rank 1 fetches them; 0: that is not permitted. */
static double model_fetch(size_t bytes)
{
    static double mine[BLOCK / sizeof(double)];
    double took = 0;

    model.mine->address = (uint64_t)(uintptr_t)mine;
    for (int b = 0; b < BLOCKS; b++) {
        model.number++;
        if (model.rank == 0) {
            for (size_t i = 0; i < bytes / sizeof(double); i++)
                mine[i] = (double)(i + (size_t)b);
            model_put(1);
            model_await(1);
        } else {
            double began;
            int code;

            model_await(1);
            began = model_now();
            code = rboard_fetch(model_board, 0, mine, (const void *)model.other->address, bytes);
            took += code == 0 ? model_now() - began : 0;
            model_put(1);
        }
    }
    model.mine->result = took / BLOCKS;
    (void)model_turns(1, 1); /* the result is there */
    return model.rank == 0 ? model.other->result : model.mine->result;
}

static double model_fetch_little(void) { return model_fetch(LINE); }
static double model_fetch_block(void) { return model_fetch(BLOCK); }

/* Both processes on the first processor of rank 0: 0 where that is not possible. */
static double model_switch(void)
{
    cpu_set_t before, one;
    double ns = 0;
    int cpu = 0;

    if (sched_getaffinity(0, sizeof(before), &before) != 0)
        return 0;
    while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET((size_t)cpu, &before))
        cpu++;
    model.mine->result = cpu;
    (void)model_turns(1, 1);
    CPU_ZERO(&one);
    CPU_SET((size_t)(model.rank == 0 ? cpu : (int)model.other->result), &one);
    model.mine->result = sched_setaffinity(0, sizeof(one), &one);
    model.yields = true;
    (void)model_turns(1, 1);
    if (model.mine->result == 0 && model.other->result == 0)
        ns = model_median(model_yield);
    (void)model_turns(1, 1);
    model.yields = false;
    (void)sched_setaffinity(0, sizeof(before), &before);
    return ns;
}

/* ---- an operation of a graph ---- */

static rplan_t model_plan(rteam_t team, int copies)
{
    static char into[8], from[8];
    const rcoll_ref_t to = {.base = RCOLL_INTO}, of = {.base = RCOLL_FROM};
    rgraph_t graph;
    rplan_t plan = NULL;
    int code = rcoll_graph(&graph, team, 8), last = -1;

    for (int i = 0; i < copies && code == 0; i++) {
        int node = rcoll_graph_copy(graph, to, of, sizeof(from));

        if (last >= 0)
            (void)rcoll_graph_after(graph, node, last);
        last = node;
    }
    if (code == 0)
        code = rcoll_graph_plan(&plan, graph, from, sizeof(from), into, sizeof(into));
    if (code != 0)
        perf_fail(NULL, "rcoll_graph_plan", code);
    return plan;
}

static rplan_t model_plans[2]; /* of one step, and of STEPS */

static double model_step(void)
{
    double took[2];

    for (int p = 0; p < 2; p++) {
        took[p] = model_now();
        for (int i = 0; i < TURNS; i++)
            if (rcoll_start(model_plans[p]) != 0 || rcoll_wait(model_plans[p]) != 0)
                perf_fail(NULL, "rcoll_wait", -EIO);
        took[p] = model_now() - took[p];
    }
    return (took[1] - took[0]) / TURNS / (STEPS - 1);
}

static double model_steps(void)
{
    rteam_t team;
    double ns;
    int code = rcoll_team(&team, NULL, &model.rank, 1);

    if (code != 0)
        perf_fail(NULL, "rcoll_team", code);
    model_plans[0] = model_plan(team, 1);
    model_plans[1] = model_plan(team, STEPS);
    ns = model_median(model_step);
    (void)rcoll_close(team);
    return ns;
}

/* ---- between hosts ---- */

static struct perf_link model_link;

static void model_must(int code, rch_t ch)
{
    if (code != 0)
        perf_fail(ch, "message", code);
}

static void model_send(size_t bytes)
{
    model_must(rsend(model_link.out, model_link.buffer, bytes, 0), model_link.out);
}

static void model_receive(void)
{
    model_must(rrecv(model_link.in, model_link.buffer, BLOCK, NULL, 0), model_link.in);
}

static double model_one_way(void)
{
    const int turns = TURNS / 10;
    double began = model_now();

    for (int i = 0; i < turns; i++) {
        if (model.rank == 0)
            model_send(8);
        model_receive();
        if (model.rank != 0)
            model_send(8);
    }
    return (model_now() - began) / turns / 2;
}

/* ns of a message of a stream; of those of 8 bytes, *sending gets what the first ones of it cost their sender. */
static double model_stream(size_t bytes, int count, double *sending)
{
    double began = model_now();

    for (int i = 0; i < count; i++) {
        if (model.rank == 0)
            model_send(bytes);
        else
            model_receive();
        if (i == 15 && sending != NULL)
            *sending = (model_now() - began) / 16;
    }
    if (model.rank == 0)
        model_receive();
    else
        model_send(8);
    return (model_now() - began) / count;
}

static double model_gap(void) { return model_stream(8, 10 * TURNS, NULL); }
static double model_byte(void) { return model_stream(BLOCK, 100, NULL) / BLOCK; }

static double model_overhead(void)
{
    double sending = 0;

    (void)model_stream(8, 32, &sending);
    return sending;
}

static rcast_t model_casts[2]; /* by their writers */

static double model_cast_way(void)
{
    const int turns = TURNS / 10;
    double began = model_now();
    char buf[8] = "";
    size_t bytes;

    for (int i = 0; i < turns; i++)
        for (int writer = 0; writer < 2; writer++)
            model_must(writer == model.rank
                           ? rcast_send(model_casts[writer], buf, sizeof(buf), 0)
                           : rcast_recv(model_casts[writer], buf, sizeof(buf), &bytes, 0),
                       NULL);
    return (model_now() - began) / turns / 2;
}

static double model_cast(void)
{
    double way;

    for (int writer = 0; writer < 2; writer++) {
        rcast_config_t cfg = {.context = rcontext("rmalloc_perf.cast"), .writer = writer};

        model_must(rcast_open(&model_casts[writer], &cfg, NULL, 2), NULL);
    }
    way = model_median(model_cast_way);
    model_must(rcast_close(model_casts[model.rank]), NULL);
    model_must(rcast_close(model_casts[1 - model.rank]), NULL);
    return way;
}

static int model_network(const struct perf_options *o, char *text, size_t bytes)
{
    struct perf_options options = *o;
    double way, cast, gap, byte, overhead;

    options.copy = true;
    model_link = (struct perf_link){.rank = model.rank, .op = RPIPE_PUT, .size = BLOCK};
    perf_link_open(&model_link, &options, model.rank, RPIPE_PUT, BLOCK);
    way = model_median(model_one_way);
    overhead = model_median(model_overhead);
    gap = model_median(model_gap);
    byte = model_median(model_byte);
    perf_link_close(&model_link);
    cast = model_cast() - gap;
    overhead = overhead < way / 2 ? overhead : way / 2;
    way -= 2 * overhead;
    cast -= 2 * overhead;
    return snprintf(text, bytes, " o=%.0f Ln=%.0f g=%.0f G=%.3f S=1073741824 Lm=%.0f", overhead,
                    way > gap ? way - gap : 0, gap, byte, cast > 1 ? cast : 1);
}

/* ---- all ---- */

static int model_host(char *text, size_t bytes)
{
    rboard_config_t cfg = {.context = rcontext("rmalloc_perf.model"),
                           .bytes = sizeof(struct words)};
    double line, lines, copy, own, fold, yield, little, block;
    rboard_t board;
    int n = 0, code = rboard_open(&board, &cfg, NULL, 2);

    if (code == 0)
        code = rboard_wait(board);
    if (code != 0)
        perf_fail(NULL, "rboard_wait", code);
    model.mine = rboard_mem(board);
    model.other = rboard_mem_of(board, 1 - model.rank);
    model_board = board;
    if (model.other != NULL) {
        line = model_median(model_line);
        lines = model_median(model_lines);
        copy = model_median(model_copy);
        own = model_median(model_own);
        fold = model_median(model_fold);
        yield = model_switch();
        n = snprintf(text, bytes, "L=%.0f m=%.0f Bc=%.1f Bo=%.1f Bf=%.1f", line,
                     lines > line ? (lines - line) / (LINES - 1) : 0, 1 / copy, 1 / own, 1 / fold);
        little = model_median(model_fetch_little);
        block = model_median(model_fetch_block);
        if (little > 0 && block > little)
            n += snprintf(text + n, bytes - (size_t)n, " f=%.0f Bx=%.1f", little,
                          BLOCK / (block - little));
        if (yield > 0)
            n += snprintf(text + n, bytes - (size_t)n, " sigma=%.0f", yield);
    }
    model_must(network_barrier(), NULL);
    (void)rboard_close(board);
    return n;
}

void perf_model(const struct perf_options *o, int rank)
{
    char text[400];
    size_t n;
    bool host;

    model.rank = rank;
    model.rounds = o->rounds < ROUNDS_MOST ? o->rounds : ROUNDS_MOST;
    n = (size_t)model_host(text, sizeof(text));
    host = n > 0;
    n +=
        (size_t)snprintf(text + n, sizeof(text) - n, "%sstep=%.1f", host ? " " : "", model_steps());
    if (!host)
        (void)model_network(o, text + n, sizeof(text) - n);
    if (rank != 0)
        return;
    if (o->format == PERF_JSON)
        printf("{\"RCOLL_MODEL\": \"%s\"}\n", text);
    else
        printf("RCOLL_MODEL=\"%s\"\n", text);
}
