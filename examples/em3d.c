/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * em3d.c: waves on an irregular graph; what others need is collected straight into their memory.
 *
 * A step has two phases. Before each phase a process sends every neighbour the values for its
 * proxies: it allocates the message with the neighbour, collects the values there, and sends it.
 * The neighbour's edges refer to the message itself; after the phase the neighbour frees it. One
 * pipe for each direction carries both phases in turn. No buffer is packed or unpacked, and no
 * process waits for all the others.
 *
 * With --windows the values are collected here and written into memory of the neighbour's own, one
 * place for each phase, and a message of 4 bytes behind them announces them (rwindow(3)).
 *
 *     mpirun -n 4 em3d --nodes 100000 --far 10
 */
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_pipes.h"
#include "em3d_graph.h"

static struct em3d_shape shape = EM3D_SHAPE_DEFAULT;
static int op; /* of app_ops */
static bool windows;

enum { VALUES, GATHER }; /* ctx of a pipe */

struct part {
    struct em3d_graph g;
    rch_t *in, *out; /* by process; NULL where nothing is exchanged */
    raddr_t *reading;
    const double **from;
    struct exchange *exchange; /* --windows: by process */
    struct app_laps laps;
};

/* With one neighbour: memory that it writes into, and memory that is written from, of both phases. */
struct exchange {
    rregion_t ghosts, packed;
    rwindow_t window;
    rremote_t remote; /* the neighbour's ghosts */
    int done[EM3D_KINDS];
};

static const struct app_option option_table[] = {
    EM3D_OPTION_TABLE(shape), APP_OP(&op),
    APP_FLAG("windows", 'i', &windows, "Write values into the neighbours' own memory"), APP_END};

static const char doc[] =
    "Waves on an irregular bipartite graph that is shared by the processes of a job.\v"
    "Run it as: mpirun -n 4 em3d. The exit status is 0 if the result equals, bit for bit, that of "
    "one process. "
    "The time of a phase beyond computing nodes is \"communication\" as far as all processes "
    "have it, and else "
    "\"waiting\": for one that computes longer, or has no processor.";

static rch_t open_pipe(int peer, int writer, uint32_t ctx, uint64_t bytes)
{
    rpipe_config_t cfg = {0};
    rch_t ch;

    cfg.op = app_op(op);
    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = bytes;
    cfg.context = ctx;
    MUST(NULL, rpipe(&ch, &cfg));
    return ch;
}

/*
 * Heap for one message of each phase: the neighbour frees a
 * message before the next one of that phase is allocated.
 */
static uint64_t heap_for(uint32_t e, uint32_t h)
{
    return ((uint64_t)e * 8 / 64 + (uint64_t)h * 8 / 64 + 2) * 64;
}

static void part_create(struct part *p, int rank, int nranks)
{
    const struct em3d_phase *phase = p->g.phase;
    size_t ranks = (size_t)nranks;

    MUST_HOLD(em3d_create(&p->g, &shape, rank, nranks) == 0);
    MUST_HOLD(app_laps_begin(&p->laps, 2 * (uint64_t)shape.steps) == 0);
    p->in = calloc(ranks, sizeof(*p->in));
    p->out = calloc(ranks, sizeof(*p->out));
    p->reading = calloc(ranks, sizeof(*p->reading));
    p->from = calloc(ranks, sizeof(*p->from));
    MUST_HOLD(p->in != NULL && p->out != NULL && p->reading != NULL && p->from != NULL);
    for (int r = 0; r < nranks; r++) {
        if (!em3d_neighbours(&p->g, r))
            continue;
        p->in[r] =
            open_pipe(r, 0, VALUES, heap_for(phase[EM3D_E].imports[r], phase[EM3D_H].imports[r]));
        p->out[r] =
            open_pipe(r, 1, VALUES, heap_for(phase[EM3D_E].exports[r], phase[EM3D_H].exports[r]));
    }
}

/*
 * Sends the values, even if there are none: the message also
 * acknowledges the neighbour's values of the phase before.
 */
static void send_values(struct part *p, int phase)
{
    for (int r = 0; r < p->g.nranks; r++) {
        raddr_t d;

        if (p->out[r] == NULL)
            continue;
        em3d_collect(&p->g, phase, r,
                     must_alloc(p->out[r], p->g.phase[phase].exports[r] * sizeof(double), &d));
        MUST(p->out[r], rwrite(p->out[r], d));
    }
}

static void read_values(struct part *p, int phase)
{
    for (int r = 0; r < p->g.nranks; r++) {
        size_t bytes;

        if (p->in[r] == NULL)
            continue;
        p->from[r] = must_read(p->in[r], &p->reading[r], &bytes);
        MUST_HOLD(bytes == p->g.phase[phase].imports[r] * sizeof(double));
    }
}

static void free_values(struct part *p)
{
    for (int r = 0; r < p->g.nranks; r++)
        if (p->in[r] != NULL)
            MUST(p->in[r], rfree(p->in[r], p->reading[r]));
}

/* ---- the same by windows ---- */

/* Where the values of a phase begin in memory that has `counts` values of each. */
static size_t phase_at(const struct part *p, int phase, bool exported, int r)
{
    const struct em3d_phase *first = &p->g.phase[0];

    return phase == 0 ? 0 : (exported ? first->exports : first->imports)[r] * sizeof(double);
}

static rregion_t own_memory(const struct part *p, bool exported, int r)
{
    const struct em3d_phase *last = &p->g.phase[EM3D_KINDS - 1];
    size_t bytes = phase_at(p, EM3D_KINDS - 1, exported, r) +
                   (exported ? last->exports : last->imports)[r] * sizeof(double);
    rregion_t region = NULL;

    MUST(NULL, rregion_open(&region, NULL, NULL, bytes > 0 ? bytes : sizeof(double)));
    return region;
}

static void windows_open(struct part *p)
{
    rwindow_handle_t handle;
    size_t bytes;

    p->exchange = calloc((size_t)p->g.nranks, sizeof(*p->exchange));
    MUST_HOLD(p->exchange != NULL);
    for (int r = 0; r < p->g.nranks; r++) {
        struct exchange *e = &p->exchange[r];

        if (p->out[r] == NULL)
            continue;
        e->ghosts = own_memory(p, false, r);
        e->packed = own_memory(p, true, r);
        for (int phase = 0; phase < EM3D_KINDS; phase++)
            e->done[phase] = 1;
        MUST(p->in[r], rwindow_open(&e->window, p->in[r], e->ghosts, RWINDOW_WRITE, &handle));
        MUST(p->out[r], rsend(p->out[r], &handle, sizeof(handle), 0));
    }
    for (int r = 0; r < p->g.nranks; r++) {
        if (p->out[r] == NULL)
            continue;
        MUST(p->in[r], rrecv(p->in[r], &handle, sizeof(handle), &bytes, 0));
        MUST(p->out[r], rwindow_attach(&p->exchange[r].remote, p->out[r], &handle, 0));
    }
}

/* No neighbour writes any more. */
static void windows_close(struct part *p)
{
    for (int r = 0; r < p->g.nranks; r++) {
        struct exchange *e = &p->exchange[r];

        if (p->out[r] == NULL)
            continue;
        MUST(p->out[r], rdone(p->out[r], NULL, 0));
        MUST(NULL, rwindow_close(e->window));
        MUST(NULL, rregion_close(e->ghosts));
        MUST(NULL, rregion_close(e->packed));
    }
    free(p->exchange);
}

/*
 * The neighbour has used the values that this process wrote to the same place a step before: it has
 * sent the message of the phase between them. A network may still read the memory here.
 */
static void windows_send(struct part *p, int phase)
{
    for (int r = 0; r < p->g.nranks; r++) {
        struct exchange *e = &p->exchange[r];
        size_t at = phase_at(p, phase, true, r);
        double *values;

        if (p->out[r] == NULL)
            continue;
        if (e->done[phase] == 0)
            MUST(p->out[r], rdone(p->out[r], &e->done[phase], 0));
        values = (double *)rregion_mem(e->packed) + at / sizeof(double);
        em3d_collect(&p->g, phase, r, values);
        MUST(p->out[r],
             rwindow_write(e->remote, at, values, p->g.phase[phase].exports[r] * sizeof(double),
                           e->packed, &e->done[phase], 0));
        MUST(p->out[r], rsend(p->out[r], &phase, sizeof(phase), 0));
    }
}

static void windows_receive(struct part *p, int phase)
{
    for (int r = 0; r < p->g.nranks; r++) {
        size_t bytes;
        int got = -1;

        if (p->in[r] == NULL)
            continue;
        MUST(p->in[r], rrecv(p->in[r], &got, sizeof(got), &bytes, 0));
        MUST_HOLD(bytes == sizeof(got) && got == phase);
        p->from[r] = (const double *)rregion_mem(p->exchange[r].ghosts) +
                     phase_at(p, phase, false, r) / sizeof(double);
    }
}

/* ---- the run ---- */

static void exchange(struct part *p, int phase)
{
    if (windows) {
        windows_send(p, phase);
        windows_receive(p, phase);
    } else {
        send_values(p, phase);
        read_values(p, phase);
    }
}

static double run(struct part *p)
{
    double began, from, inside, computed;

    for (int r = 0; r < p->g.nranks;
         r++) { /* time begins when all are joined; the first messages would wait for it */
        if (p->in[r] != NULL) {
            MUST(p->in[r], rwait(p->in[r]));
            MUST(p->out[r], rwait(p->out[r]));
        }
    }
    MUST(NULL, network_barrier());
    began = from = app_seconds();
    for (uint32_t step = 0; step < shape.steps; step++) {
        for (int phase = 0; phase < EM3D_KINDS; phase++) {
            exchange(p, phase);
            inside = app_seconds();
            em3d_compute(&p->g, phase, p->from);
            computed = app_seconds();
            if (!windows)
                free_values(p);
            app_laps_add(&p->laps, inside - from);
            from = computed; /* freeing the messages belongs to the next phase */
        }
        if (p->g.rank == 0)
            app_progress_show("em3d", "step", step + 1, shape.steps, began);
    }
    MUST(NULL, network_barrier());
    return app_seconds() - began;
}

/* ---- the result ---- */

/* All values to rank 0, a kind as one message of each; its digest there. */
static uint64_t gather(const struct part *p)
{
    struct em3d_graph all = {0};
    size_t bytes = p->g.count * sizeof(double);
    uint64_t digest = 0;

    if (p->g.rank == 0) {
        all.count = shape.nodes;
        for (int kind = 0; kind < EM3D_KINDS; kind++) {
            all.value[kind] = malloc(shape.nodes * sizeof(double));
            MUST_HOLD(all.value[kind] != NULL);
            memcpy(all.value[kind], p->g.value[kind], bytes);
        }
        for (int r = 1; r < p->g.nranks; r++) {
            size_t first = (size_t)shape.nodes * (size_t)r / (size_t)p->g.nranks;
            size_t behind = (size_t)shape.nodes * ((size_t)r + 1) / (size_t)p->g.nranks;
            rch_t ch = open_pipe(r, 0, GATHER, heap_for((uint32_t)(behind - first), 0));

            for (int kind = 0; kind < EM3D_KINDS; kind++) {
                raddr_t d;
                const void *mem = must_read(ch, &d, &bytes);

                MUST_HOLD(bytes == (behind - first) * sizeof(double));
                memcpy(all.value[kind] + first, mem, bytes);
                MUST(ch, rfree(ch, d));
            }
            MUST(ch, rclose(ch));
        }
        digest = em3d_digest(&all);
        free(all.value[EM3D_E]);
        free(all.value[EM3D_H]);
    } else {
        rch_t ch = open_pipe(0, 1, GATHER, heap_for(p->g.count, 0));

        for (int kind = 0; kind < EM3D_KINDS; kind++) {
            raddr_t d;

            memcpy(must_alloc(ch, bytes, &d), p->g.value[kind], bytes);
            MUST(ch, rwrite(ch, d));
        }
        MUST(ch, rclose(ch));
    }
    return digest;
}

static int report(const struct part *p, double took, double comm, double waiting, uint64_t digest)
{
    struct app_result result = {"em3d",
                                windows ? "rpipe windows" : app_op_name(op),
                                p->g.nranks,
                                took,
                                comm,
                                waiting,
                                (double)shape.steps,
                                "steps",
                                digest};
    uint64_t alone;

    app_result_print(&result);
    if (app_options.check) {
        MUST_HOLD(em3d_serial(&shape, &alone) == 0);
        if (alone != digest) {
            fprintf(stderr, "em3d: WRONG: the digest is %016llx; one process gets %016llx\n",
                    (unsigned long long)digest, (unsigned long long)alone);
            return 1;
        }
        if (!app_options.json)
            printf("em3d: right: %u nodes of each kind equal those of one process bit for bit\n",
                   shape.nodes);
    }
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    struct part p = {0};
    double took, comm, waiting;
    uint64_t digest;
    int rank, nranks, status = 0;

    app_parse(doc, option_table, argc, argv);
    if (app_options.quick)
        shape = (struct em3d_shape)EM3D_SHAPE_QUICK;
    MUST(NULL, rinit(&rank, &nranks));
    part_create(&p, rank, nranks);
    if (windows)
        windows_open(&p);
    took = run(&p);
    comm = app_least(&p.laps);
    waiting = app_mean(p.laps.sum) - comm;
    digest = gather(&p);
    if (rank == 0)
        status = report(&p, took, comm, waiting, digest);
    if (windows)
        windows_close(&p);
    MUST(NULL, rexit());
    em3d_destroy(&p.g);
    free(p.laps.beyond);
    free(p.in);
    free(p.out);
    free(p.reading);
    free(p.from);
    return status;
}
