/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_model.c: -t model: the parameters of the cost model of collectives (rcoll(7), doc/collectives.md "The cost model"), as the text
 * that RCOLL_MODEL takes. See perf.h.
 *
 * On a host by a board: a line one way (L), each further line (m), a byte that another processor has written, copied (Bc) and folded
 * (Bf), a byte that is copied to where the other one has read (Bw), these of a stream too (Bcs, Bfs; Bw is of one); a byte of memory of its own, copied (Bo) and
 * folded (Bfo), and one that the other process of the processor has written (Bs); memory of
 * the other process that is read by a system call (f, and a byte of it, Bx, or Bxo, if it is as it was when it was read before), a yield
 * where both processes are on one processor (sigma), the cache of a core (C, as the system has it), an operation of a graph (step), and
 * of a loop, beside its steps (op). Between hosts: perf_model_network.c. Each is the median of the rounds.
 */
#include "perf_model.h"

#include <errno.h>
#include <rcoll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 64
#define LINES 16 /* of which one more than the first costs m */
#define BLOCK PERF_MODEL_BLOCK
#define RING 16    /* blocks of a stream */
#define AHEAD 4    /* of these, how many its sender is ahead at most */
#define SENDS 32   /* operations in flight that one member starts */
#define TURNS 1000 /* of a round */
#define BLOCKS 20  /* the same, of blocks */
#define STEPS 64

struct words {
    struct {
        _Atomic uint64_t number;
        char unused[LINE - sizeof(uint64_t)];
    } line[LINES];
    double result;    /* of rank 1, for rank 0 */
    uint64_t address; /* of what is fetched, in this process */
    char unused[4096 - LINES * LINE - sizeof(double) - sizeof(uint64_t)];
    double block[RING][BLOCK / sizeof(double)];
};

static struct {
    int rank, rounds;
    struct words *mine;
    const struct words *other;
    uint64_t number;
    bool yields;
} model;

static void model_must(int code, rch_t ch)
{
    if (code != 0)
        perf_fail(ch, "message", code);
}

static int model_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double perf_model_middle(double *sample, int n)
{
    qsort(sample, (size_t)n, sizeof(*sample), model_compare);
    return sample[n / 2];
}

double perf_model_median(int rounds, double (*round)(void))
{
    double sample[PERF_MODEL_ROUNDS] = {0};

    for (int i = 0; i < rounds; i++)
        sample[i] = round();
    return perf_model_middle(sample, rounds);
}

static double model_median(double (*round)(void)) { return perf_model_median(model.rounds, round); }

/* ---- on a host ---- */

static void model_put(int lines)
{
    for (int i = lines - 1; i >= 0; i--)
        atomic_store_explicit(&model.mine->line[i].number, model.number, memory_order_release);
}

static void model_await_line(int i, uint64_t number)
{
    /* acquire: pairs with the release of model_put */
    while (atomic_load_explicit(&model.other->line[i].number, memory_order_acquire) < number)
        if (model.yields)
            sched_yield();
}

static void model_await(int lines)
{
    for (int i = 0; i < lines; i++)
        model_await_line(i, model.number);
}

/* ns of one way, of so many lines */
static double model_turns(int lines, int turns)
{
    double began = perf_now_ns();

    for (int i = 0; i < turns; i++) {
        model.number++;
        if (model.rank == 0)
            model_put(lines);
        model_await(lines);
        if (model.rank != 0)
            model_put(lines);
    }
    return (perf_now_ns() - began) / turns / 2;
}

static double model_line(void) { return model_turns(1, TURNS); }
static double model_lines(void) { return model_turns(LINES, TURNS); }
static double model_yield(void) { return model_turns(1, TURNS / 10); }

static double model_block[BLOCK / sizeof(double)];

void perf_model_move(double *into, const double *from, bool fold)
{
    if (fold)
        (void)rgroup_combine(into, from, BLOCK / sizeof(double), RGROUP_DOUBLE, RGROUP_SUM);
    else
        memcpy(into, from, BLOCK);
    __asm__ volatile("" : : "r"(into) : "memory");
}

/*
 * ns of a byte of a stream of messages: rank 0 copies each to where rank 1 has read another one before, and is a few of them ahead; rank 1
 * copies them, or adds them to its own. The time is that of `rank`, without what it waits for the other.
 */
static double model_bytes(int rank, bool fold, int ahead)
{
    const int ring = ahead > 1 ? RING : 1;
    double took = 0;

    for (int b = -ring; b < BLOCKS; b++) {
        double *block = model.rank == 0 ? model.mine->block[(b + ring) % ring] : NULL, began;

        took = b == 0 ? 0 : took; /* the first ones are not counted */
        model.number++;
        model_await_line(0, model.number - (uint64_t)(model.rank == 0 ? ahead : 0));
        began = perf_now_ns();
        model_block[b & 1] = b;
        if (model.rank == 0)
            perf_model_move(block, model_block, false);
        else
            perf_model_move(model_block, model.other->block[(b + ring) % ring], fold);
        took += perf_now_ns() - began;
        model_put(1);
    }
    model.mine->result = took / BLOCKS / BLOCK;
    (void)model_turns(1, 1); /* the result is there */
    return model.rank == rank ? model.mine->result : model.other->result;
}

static double model_copy(void) { return model_bytes(1, false, 1); }
static double model_streamed(void) { return model_bytes(1, false, AHEAD); }
static double model_added(void) { return model_bytes(1, true, AHEAD); }
static double model_fold(void) { return model_bytes(1, true, 1); }
static double model_switched(void) { return model_bytes(1, false, AHEAD); }
static double model_taken(void) { return model_bytes(0, false, AHEAD); }

/* ns of a byte that this process alone has written and reads. */
static double model_alone(bool fold)
{
    static double into[BLOCK / sizeof(double)];
    double began = 0;

    for (int b = -1; b < BLOCKS; b++) {
        if (b == 0)
            began = perf_now_ns();
        model_block[b & 1] = b;
        perf_model_move(into, model_block, fold);
    }
    return (perf_now_ns() - began) / BLOCKS / BLOCK;
}

static double model_own(void) { return model_alone(false); }
static double model_folded(void) { return model_alone(true); }

/* ---- memory of the other process ---- */

static rboard_t model_board;

/* ns of so many bytes that rank 0 has written in its own memory, as rank 1 fetches them; 0: that is not permitted. again: once. */
static double model_fetch(size_t bytes, bool again)
{
    static double mine[BLOCK / sizeof(double)];
    double took = 0;

    model.mine->address = (uint64_t)(uintptr_t)mine;
    for (int b = -1; b < BLOCKS; b++) {
        took = b == 0 ? 0 : took; /* the first is not counted */
        model.number++;
        if (model.rank == 0) {
            for (size_t i = 0; (b < 0 || !again) && i < bytes / sizeof(double); i++)
                mine[i] = (double)i + b;
            model_put(1);
            model_await(1);
        } else {
            double began;
            int code;

            model_await(1);
            began = perf_now_ns();
            code = rboard_fetch(model_board, 0, mine, (const void *)model.other->address, bytes);
            took += code == 0 ? perf_now_ns() - began : 0;
            model_put(1);
        }
    }
    model.mine->result = took / BLOCKS;
    (void)model_turns(1, 1); /* the result is there */
    return model.rank == 0 ? model.other->result : model.mine->result;
}

static double model_fetch_little(void) { return model_fetch(LINE, false); }
static double model_fetch_block(void) { return model_fetch(BLOCK, false); }
static double model_fetch_again(void) { return model_fetch(BLOCK, true); }

/* Both processes on the first processor of rank 0: 0 where that is not possible. *switched: of a byte that the other one has written. */
static double model_switch(double *switched)
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
    *switched = ns > 0 ? model_median(model_switched) : 0;
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
        took[p] = perf_now_ns();
        for (int i = 0; i < TURNS; i++)
            if (rcoll_start(model_plans[p]) != 0 || rcoll_wait(model_plans[p]) != 0)
                perf_fail(NULL, "rcoll_wait", -EIO);
        took[p] = perf_now_ns() - took[p];
    }
    return (took[1] - took[0]) / TURNS / (STEPS - 1);
}

static rteam_t model_team;

static void model_open(const int *ranks, int n)
{
    const rcoll_team_config_t cfg = {.context = rcontext("rmalloc_perf.operations")};
    int code = rcoll_team(&model_team, &cfg, ranks, n);

    if (code != 0)
        perf_fail(NULL, "rcoll_team", code);
}

static double model_bcasts(void)
{
    double value = 1, began = perf_now_ns();
    int code = 0;

    for (int i = 0; i < SENDS && code == 0; i++)
        code = rcoll_bcast(model_team, &value, sizeof(value), 0);
    if (code != 0)
        perf_fail(NULL, "rcoll_bcast", code);
    return (perf_now_ns() - began) / SENDS;
}

/* Operations of a loop that wait for nothing. Of two members the root calls first, then the receiver, while the other one sleeps and takes no lines away; of both, the mean. */
static double model_operation(void)
{
    double took = 0, of_other = 0;

    model_must(rcoll_barrier(model_team), NULL);
    if (rcoll_size(model_team) == 1)
        return model_bcasts();
    if (model.rank == 0)
        took = model_bcasts();
    model_must(model.rank == 0 ? network_send(1, &took, sizeof(took))
                               : network_recv(0, &of_other, sizeof(of_other)),
               NULL);
    if (model.rank != 0)
        took = model_bcasts();
    model_must(model.rank == 0 ? network_recv(1, &of_other, sizeof(of_other))
                               : network_send(0, &took, sizeof(took)),
               NULL);
    return (took + of_other) / 2;
}

static int model_operations(char *text, size_t bytes, bool host)
{
    double step, call;

    model_open(&model.rank, 1);
    model_plans[0] = model_plan(model_team, 1);
    model_plans[1] = model_plan(model_team, STEPS);
    step = model_median(model_step);
    if (host) {
        (void)rcoll_close(model_team);
        model_open(NULL, 2);
    }
    call = model_median(model_operation) - step;
    (void)rcoll_close(model_team);
    return snprintf(text, bytes, "step=%.1f op=%.1f", step, call > 0 ? call : 0);
}

/* ---- all ---- */

/* Where there is no other process on the host: the memory of a processor by itself. */
static int model_alone_text(char *text, size_t bytes)
{
    double own = model_median(model_own), folded = model_median(model_folded);
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    int n = snprintf(text, bytes, "Bo=%.1f Bfo=%.1f ", 1 / own, 1 / folded);

    if (cache > 0)
        n += snprintf(text + n, bytes - (size_t)n, "C=%ld ", cache);
    return n;
}

static int model_host(char *text, size_t bytes)
{
    rboard_config_t cfg = {.context = rcontext("rmalloc_perf.model"),
                           .bytes = sizeof(struct words)};
    double line, lines, copy, own, switched = 0, taken, fold, folded, yield, little, block, again;
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
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
        taken = model_median(model_taken);
        fold = model_median(model_fold);
        folded = model_median(model_folded);
        yield = model_switch(&switched);
        n = snprintf(text, bytes, "L=%.0f m=%.0f Bc=%.1f Bo=%.1f Bw=%.1f Bf=%.1f Bfo=%.1f", line,
                     lines > line ? (lines - line) / (LINES - 1) : 0, 1 / copy, 1 / own, 1 / taken,
                     1 / fold, 1 / folded);
        little = model_median(model_fetch_little);
        block = model_median(model_fetch_block);
        again = model_median(model_fetch_again);
        if (little > 0 && block > little && again > little)
            n += snprintf(text + n, bytes - (size_t)n, " f=%.0f Bx=%.1f Bxo=%.1f", little,
                          BLOCK / (block - little), BLOCK / (again - little));
        n += snprintf(text + n, bytes - (size_t)n, " Bcs=%.1f Bfs=%.1f",
                      1 / model_median(model_streamed), 1 / model_median(model_added));
        if (cache > 0)
            n += snprintf(text + n, bytes - (size_t)n, " C=%ld", cache);
        if (yield > 0)
            n += snprintf(text + n, bytes - (size_t)n, " sigma=%.0f Bs=%.1f", yield, 1 / switched);
    }
    model_must(network_barrier(), NULL);
    (void)rboard_close(board);
    return n;
}

void perf_model(const struct perf_options *o, int rank)
{
    char text[600];
    size_t n;
    bool host;

    model.rank = rank;
    model.rounds = o->rounds < PERF_MODEL_ROUNDS ? o->rounds : PERF_MODEL_ROUNDS;
    n = (size_t)model_host(text, sizeof(text));
    host = n > 0;
    if (host)
        text[n++] = ' ';
    else
        n = (size_t)model_alone_text(text, sizeof(text));
    n += (size_t)model_operations(text + n, sizeof(text) - n, host);
    if (!host)
        (void)perf_model_network(o, rank, model.rounds, text + n, sizeof(text) - n);
    if (rank != 0)
        return;
    if (o->format == PERF_JSON)
        printf("{\"RCOLL_MODEL\": \"%s\"}\n", text);
    else
        printf("RCOLL_MODEL=\"%s\"\n", text);
}
