/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cg.c: conjugate gradients on a grid in bands of rows: halos by pipes, sums by a collective
 * operation.
 *
 * A step has one matrix product, which needs a row of each neighbour, and one allreduce of two sums,
 * 16 bytes: its latency is what a step costs on many processes. The outermost rows are sent first;
 * the interior is computed while they travel, and the neighbours' rows are read where they arrive.
 *
 * With --pipelined the allreduce is a plan that is made once. It is started before the product of
 * the next step and waited for after it.
 *
 *     mpirun -n 4 cg --size 512 --pipelined
 */
#include <rcoll.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_draw.h"
#include "app_pipes.h"
#include "cg_grid.h"

static struct cg_options options = CG_OPTIONS_DEFAULT;
static const char *output = "cg.png";
static int op; /* of app_ops */

enum { ABOVE, BELOW, SIDES };

struct part {
    struct cg cg;
    int rank, nranks;
    rneighbor_t side[SIDES];
    rteam_t team;
    rplan_t sums;             /* --pipelined */
    double mine[2], all[2];   /* what it combines, and its result */
    double inside, reduction; /* seconds of computing, and in calls of the allreduce */
    uint64_t steps;
    struct app_laps laps;
};

static const struct app_option option_table[] = {
    CG_OPTION_TABLE(options),
    APP_OUTPUT(&output),
    APP_OP(&op),
    APP_END,
};

static const char doc[] =
    "Conjugate gradients on a grid that is shared by the processes of a job.\v"
    "Run it as: mpirun -n 4 cg. The exit status is 0 if the solution is the known one. "
    "What a step takes beyond computing is \"communication\" as far as all processes have it, and "
    "else \"waiting\".";

static void part_create(struct part *p)
{
    const rcoll_params_t sums = {.kind = RCOLL_ALLREDUCE,
                                 .from = p->mine,
                                 .into = p->all,
                                 .count = 2,
                                 .type = RGROUP_DOUBLE,
                                 .op = RGROUP_SUM};
    rpipe_config_t cfg = {0};
    int last = p->nranks - 1;

    cfg.op = app_op(op);
    cfg.heap_bytes = 3 * ((uint64_t)options.size * sizeof(double) + 64); /* two are in use */
    p->side[ABOVE] = (rneighbor_t){
        .peer = p->rank > 0 ? p->rank - 1 : R_NO_PEER, .side = ABOVE, .opposite = BELOW};
    p->side[BELOW] = (rneighbor_t){
        .peer = p->rank < last ? p->rank + 1 : R_NO_PEER, .side = BELOW, .opposite = ABOVE};
    MUST(NULL, rneighbors(p->side, SIDES, &cfg));
    MUST(NULL, rcoll_team(&p->team, NULL, NULL, p->nranks));
    MUST(NULL, rcoll_plan(&p->sums, p->team, &sums));
    MUST_HOLD(app_laps_begin(&p->laps, (uint64_t)options.steps * (uint64_t)options.solves) == 0);
}

/* ---- a step ---- */

static void advance(rplan_t plan)
{
    int code = rcoll_test(plan);

    if (code != R_PENDING)
        MUST(NULL, code);
}

/* out = A v. The sums, if they are being computed, advance meanwhile. */
static void product(struct part *p, const double *v, double *out)
{
    const struct cg_band *b = &p->cg.band;
    size_t n = (size_t)b->size;
    const double *from[SIDES] = {NULL, NULL};
    raddr_t d, reading[SIDES];
    double began;

    for (int i = 0; i < SIDES; i++) {
        rch_t ch = p->side[i].out;

        if (ch == NULL)
            continue;
        memcpy(must_alloc(ch, n * sizeof(*v), &d), i == ABOVE ? v : v + (size_t)(b->rows - 1) * n,
               n * sizeof(*v));
        MUST(ch, rwrite(ch, d));
    }
    began = app_seconds();
    cg_product(b, v, NULL, NULL, 1, b->rows - 2, out);
    p->inside += app_seconds() - began;

    if (options.pipelined)
        advance(p->sums);
    for (int i = 0; i < SIDES; i++)
        if (p->side[i].in != NULL)
            from[i] = must_read(p->side[i].in, &reading[i], NULL);

    began = app_seconds();
    cg_product(b, v, from[ABOVE], from[BELOW], 0, 1, out);
    if (b->rows > 1)
        cg_product(b, v, from[ABOVE], from[BELOW], b->rows - 1, 1, out);
    p->inside += app_seconds() - began;
    for (int i = 0; i < SIDES; i++)
        if (p->side[i].in != NULL)
            MUST(p->side[i].in, rfree(p->side[i].in, reading[i]));
}

/* The product and the sums of all processes, one after the other or both at a time. */
static void product_and_sums(struct part *p)
{
    double began, summed;

    began = app_seconds();
    if (options.pipelined) {
        cg_sums(&p->cg, p->mine);
        summed = app_seconds();
        MUST(NULL, rcoll_start(p->sums));
        p->reduction += app_seconds() - summed;
        p->inside += summed - began;

        product(p, p->cg.w, p->cg.q);
        summed = app_seconds();
        MUST(NULL, rcoll_wait(p->sums));
    } else {
        product(p, p->cg.r, p->cg.w);
        began = app_seconds();
        cg_sums(&p->cg, p->mine);
        summed = app_seconds();
        p->inside += summed - began;
        MUST(NULL, rcoll_allreduce(p->team, p->mine, p->all, 2, RGROUP_DOUBLE, RGROUP_SUM));
    }
    p->reduction += app_seconds() - summed;
}

static void solve(struct part *p, double began)
{
    double from = app_seconds(), communicated, now;
    bool more = true;

    cg_start(&p->cg);
    if (options.pipelined)
        product(p, p->cg.r, p->cg.w);
    for (int i = 0; i < options.steps && more; i++) {
        p->inside = 0;
        product_and_sums(p);
        communicated = app_seconds();
        more = cg_step(&p->cg, p->all, options.pipelined, options.digits);
        now = app_seconds();
        app_laps_add(&p->laps, communicated - from - p->inside);
        from = now;
        p->steps++;
        if (p->rank == 0 && options.solves == 1)
            app_progress_show("cg", "step", p->steps, (uint64_t)options.steps, began);
    }
}

static double run(struct part *p)
{
    double began;

    for (int i = 0; i < SIDES; i++) { /* time begins when all are joined */
        if (p->side[i].in != NULL) {
            MUST(p->side[i].in, rwait(p->side[i].in));
            MUST(p->side[i].out, rwait(p->side[i].out));
        }
    }
    MUST(NULL, rcoll_barrier(p->team));
    began = app_seconds();
    for (int i = 0; i < options.solves; i++) {
        solve(p, began);
        if (p->rank == 0 && options.solves > 1)
            app_progress_show("cg", "solve", (uint64_t)i + 1, (uint64_t)options.solves, began);
    }
    MUST(NULL, rcoll_barrier(p->team));
    return app_seconds() - began;
}

/* ---- the result ---- */

/* The solution at rank 0; NULL at the others. */
static double *gather(const struct part *p)
{
    size_t *counts = calloc((size_t)p->nranks, sizeof(*counts)), all = (size_t)options.size;
    double *x = p->rank == 0 ? malloc(all * all * sizeof(*x)) : NULL;
    rcoll_params_t params = {.kind = RCOLL_GATHER,
                             .from = p->cg.x,
                             .into = x,
                             .element = sizeof(double),
                             .counts = counts};

    MUST_HOLD(counts != NULL && (p->rank != 0 || x != NULL));
    for (int r = 0; r < p->nranks; r++) {
        struct cg_band b;

        MUST_HOLD(cg_band_of(options.size, r, p->nranks, &b) == 0);
        counts[r] = (size_t)b.rows * all;
    }
    MUST(NULL, rcoll_run(p->team, &params));
    free(counts);
    return x;
}

static int report(const struct part *p, const double *x, struct app_result *result, double share)
{
    struct picture picture;
    int status = 0;

    result->digest = cg_digest(x, options.size);
    app_result_print(result);
    if (!app_options.json)
        printf("cg: %llu steps, %.2f us each, of which the allreduce has %.1f %%\n",
               (unsigned long long)p->steps, result->seconds / (double)p->steps * 1e6, share * 100);
    if (app_options.check)
        status = cg_check("cg", x, options.size, options.digits);
    if (*output != '\0') {
        MUST_HOLD(cg_draw(x, options.size, p->nranks, &picture) == 0);
        status |= app_write_picture("cg", &picture, output);
    }
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    const char *const usual = output;
    struct part p = {0};
    struct cg_band band;
    struct app_result result = {0};
    double share, *x;
    int status = 0;

    app_parse(doc, option_table, argc, argv);
    if (app_options.quick) {
        options.size = 48;
        output = output == usual ? "" : output;
    }
    MUST(NULL, rinit(&p.rank, &p.nranks));
    if (cg_band_of(options.size, p.rank, p.nranks, &band) != 0) {
        if (p.rank == 0)
            fprintf(stderr, "cg: %d processes cannot share %d rows; give a larger --size\n",
                    p.nranks, options.size);
        rexit();
        return 2;
    }
    if (p.rank == 0)
        app_must_be_writable("cg", output);
    MUST_HOLD(cg_create(&p.cg, &band) == 0);
    part_create(&p);
    result.app = "cg";
    result.by = options.pipelined ? "rcoll pipelined" : "rcoll";
    result.ranks = p.nranks;
    result.seconds = run(&p);
    result.work = (double)p.steps;
    result.unit = "steps";
    result.communication = app_least(&p.laps);
    result.waiting = app_mean(p.laps.sum) - result.communication;
    share = app_mean(p.reduction) / result.seconds;
    x = gather(&p);
    if (p.rank == 0)
        status = report(&p, x, &result, share);
    MUST(NULL, rcoll_close(p.team));
    MUST(NULL, rexit());
    cg_destroy(&p.cg);
    free(p.laps.beyond);
    free(x);
    return status;
}
