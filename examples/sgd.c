/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sgd.c: data-parallel training: gradients are summed while the next ones are computed.
 *
 * Each process computes the gradients of its share of the samples, in memory of the team, which the
 * other members on its host read where it is. The allreduce of a layer is a plan that is made once;
 * that of the output layer is started as soon as its gradient is there, and runs while that of the
 * hidden layer is computed. The sums are not copied either: the weights are changed from views.
 *
 * With --ordered sums are formed in one order whatever the algorithm, so that the weights have the
 * bits of a run by one process.
 *
 *     mpirun -n 4 sgd --ordered
 */
#include <errno.h>
#include <rcoll.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_draw.h"
#include "app_pipes.h"
#include "sgd_net.h"

static struct sgd_options options = SGD_OPTIONS_DEFAULT;
static const char *output = "sgd.png", *losses = "";
static bool ordered;

struct part {
    int rank, nranks;
    struct sgd_net net;
    rteam_t team;
    double *gradient[SGD_LAYERS]; /* memory of the team */
    rplan_t sum[SGD_LAYERS];
    double *loss; /* of each step */
    struct app_laps laps;
};

static const struct app_option option_table[] = {
    SGD_OPTION_TABLE(options),
    APP_FLAG("ordered", 'd', &ordered, "Sums in one order: the bits of a run by one process"),
    APP_OUTPUT(&output),
    APP_TEXT("losses", 'l', &losses, NULL, "FILE", "CSV of the loss of each step"),
    APP_END,
};

static const char doc[] =
    "Training of a small neural network whose samples are divided among the processes of a job.\v"
    "Run it as: mpirun -n 4 sgd. The exit status is 0 if the weights are those of one process. "
    "What a step takes beyond computing is \"communication\" as far as all processes have it, and "
    "else \"waiting\".";

static void part_create(struct part *p)
{
    rcoll_team_config_t cfg = {0};
    rcoll_params_t params = {.kind = RCOLL_ALLREDUCE, .type = RGROUP_DOUBLE, .op = RGROUP_SUM};

    for (int layer = 0; layer < SGD_LAYERS; layer++)
        cfg.mem_bytes += sgd_elements(&options, layer) * sizeof(double) + 4096;
    MUST(NULL, rcoll_team(&p->team, &cfg, NULL, p->nranks));
    params.flags = RCOLL_VIEWS | (ordered ? RCOLL_ORDERED : 0);
    for (int layer = 0; layer < SGD_LAYERS; layer++) {
        params.count = sgd_elements(&options, layer);
        p->gradient[layer] = rcoll_alloc(p->team, params.count * sizeof(double));
        MUST_HOLD(p->gradient[layer] != NULL);
        params.from = p->gradient[layer];
        MUST(NULL, rcoll_plan(&p->sum[layer], p->team, &params));
    }
    p->loss = calloc((size_t)options.steps, sizeof(*p->loss));
    MUST_HOLD(p->loss != NULL && sgd_create(&p->net, &options) == 0);
    MUST_HOLD(app_laps_begin(&p->laps, (uint64_t)options.steps) == 0);
}

/* Changes the weights by the sums, part by part, where they are in memory. */
static void update(struct part *p, int layer)
{
    size_t elements = sgd_elements(&options, layer), begin = 0;

    for (int i = 0; begin < elements; i++) {
        const void *sum;
        size_t bytes;

        MUST(NULL, rcoll_view(p->sum[layer], i, &sum, &bytes));
        sgd_update(&p->net, layer, sum, begin, bytes / sizeof(double));
        begin += bytes / sizeof(double);
    }
    MUST(NULL, rcoll_release(p->sum[layer]));
}

/* Returns the seconds beyond computing. */
static double step(struct part *p, int number)
{
    double beyond = 0, now;

    for (int layer = SGD_LAYERS - 1; layer >= 0; layer--) { /* backward */
        now = app_seconds();
        MUST(NULL, rcoll_settled(p->sum[layer], 0)); /* the last gradient is still being read */
        beyond += app_seconds() - now;
        sgd_gradient(&p->net, layer, number, p->rank, p->nranks, p->gradient[layer]);
        now = app_seconds();
        MUST(NULL, rcoll_start(p->sum[layer]));
        beyond += app_seconds() - now;
    }
    for (int layer = SGD_LAYERS - 1; layer >= 0; layer--) {
        now = app_seconds();
        MUST(NULL, rcoll_wait(p->sum[layer]));
        beyond += app_seconds() - now;
        update(p, layer);
    }
    p->loss[number] = p->net.loss;
    return beyond;
}

static double run(struct part *p)
{
    double began;

    MUST(NULL, rcoll_barrier(p->team));
    began = app_seconds();
    for (int i = 0; i < options.steps; i++) {
        app_laps_add(&p->laps, step(p, i));
        if (p->rank == 0)
            app_progress_show("sgd", "step", (uint64_t)i + 1, (uint64_t)options.steps, began);
    }
    MUST(NULL, rcoll_barrier(p->team));
    return app_seconds() - began;
}

/* ---- the result ---- */

static int write_losses(const struct part *p)
{
    FILE *f = fopen(losses, "w");

    if (f == NULL) {
        fprintf(stderr, "sgd: %s was not written: %s\n", losses, strerror(errno));
        return 1;
    }
    fprintf(f, "step,loss\n");
    for (int i = 0; i < options.steps; i++)
        fprintf(f, "%d,%.9g\n", i, p->loss[i]);
    return fclose(f) != 0;
}

static int report(const struct part *p, struct app_result *result)
{
    struct picture picture;
    int status = 0;

    result->digest = sgd_digest(&p->net);
    app_result_print(result);
    if (!app_options.json)
        printf("sgd: the loss went from %.4f to %.4f; %.1f %% of %d points are classified right\n",
               p->loss[0], p->net.loss, sgd_right(&p->net) * 100, options.samples);
    if (app_options.check)
        status = sgd_compare("sgd", &p->net, &(struct sgd_era){0, p->nranks}, 1, ordered);
    if (*losses != '\0')
        status |= write_losses(p);
    if (*output != '\0') {
        MUST_HOLD(sgd_draw(&p->net, p->loss, &picture) == 0);
        status |= app_write_picture("sgd", &picture, output);
    }
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    const char *const usual = output;
    struct part p = {0};
    struct app_result result = {.app = "sgd", .unit = "steps"};
    int status = 0;

    app_parse(doc, option_table, argc, argv);
    if (app_options.quick) {
        options = (struct sgd_options)SGD_OPTIONS_QUICK;
        output = output == usual ? "" : output;
    }
    MUST(NULL, rinit(&p.rank, &p.nranks));
    if (p.rank == 0) {
        app_must_be_writable("sgd", output);
        app_must_be_writable("sgd", losses);
    }
    part_create(&p);
    result.by = ordered ? "rcoll ordered" : "rcoll";
    result.ranks = p.nranks;
    result.seconds = run(&p);
    result.work = (double)options.steps;
    result.communication = app_least(&p.laps);
    result.waiting = app_mean(p.laps.sum) - result.communication;
    if (p.rank == 0)
        status = report(&p, &result);
    MUST(NULL, rcoll_close(p.team));
    MUST(NULL, rexit());
    sgd_destroy(&p.net);
    free(p.laps.beyond);
    free(p.loss);
    return status;
}
