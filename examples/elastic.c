/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elastic.c: training goes on when a process dies.
 *
 * Each step is an allreduce of the gradients of all members, as in sgd.c. If one dies, the call ends
 * with -ECONNRESET at the others. They open a team of the living with rcoll_shrink, and agree on the
 * last step that all of them have completed: one that was a step ahead takes back its last step. Then
 * the samples are divided among those that are left.
 *
 * Sums are ordered, so that the result equals, bit for bit, that of one process which takes the parts
 * of four members up to some step, and those of three from then on.
 *
 *     mpirun --enable-recovery -n 4 elastic --kill 2@500
 */
#include <errno.h>
#include <math.h>
#include <rcoll.h>
#include <rpipe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_draw.h"
#include "must.h"
#include "sgd_net.h"

#define ERAS 64 /* deaths that can be survived, and one */

static struct sgd_options options = SGD_OPTIONS_DEFAULT;
static const char *output = "elastic.png", *kill_text = "";

struct part {
    int rank, nranks;
    struct sgd_net net, last;    /* last: before the last step */
    double *gradient, *sum;      /* of both layers */
    size_t elements[SGD_LAYERS]; /* of each */
    rteam_t team;
    int64_t done; /* steps */
    struct sgd_era era[ERAS];
    int eras;
    double *loss; /* of each step */
};

static bool kill_parse(const char *text, int *rank, int *step)
{
    int end = 0;

    return sscanf(text, "%6d@%9d%n", rank, step, &end) == 2 && text[end] == '\0' && *rank >= 0 &&
           *step >= 0;
}

static bool kill_valid(const char *text)
{
    int rank, step;

    return kill_parse(text, &rank, &step);
}

static const struct app_option option_table[] = {
    SGD_OPTION_TABLE(options),
    APP_TEXT("kill", 'k', &kill_text, kill_valid, "RANK@STEP", "This rank kills itself at a step"),
    APP_OUTPUT(&output),
    APP_END,
};

static const char doc[] =
    "Training of a small neural network that goes on when processes die.\v"
    "Run it as: mpirun --enable-recovery -n 4 elastic --kill 2@500; or kill a process yourself. "
    "The exit status is 0 if the weights equal, bit for bit, those of one process that takes the "
    "same parts.";

static void part_create(struct part *p)
{
    size_t elements = 0;

    for (int layer = 0; layer < SGD_LAYERS; layer++)
        elements += p->elements[layer] = sgd_elements(&options, layer);
    p->gradient = malloc(elements * sizeof(*p->gradient));
    p->sum = malloc(elements * sizeof(*p->sum));
    p->loss = calloc((size_t)options.steps, sizeof(*p->loss));
    MUST_HOLD(p->gradient != NULL && p->sum != NULL && p->loss != NULL);
    MUST_HOLD(sgd_create(&p->net, &options) == 0 && sgd_create(&p->last, &options) == 0);
    MUST(NULL, rcoll_team(&p->team, NULL, NULL, p->nranks));
    p->era[p->eras++] = (struct sgd_era){0, p->nranks};
}

/* ---- a step, and what to do if it fails ---- */

static int train(struct part *p)
{
    rcoll_params_t params = {.kind = RCOLL_ALLREDUCE,
                             .flags = RCOLL_ORDERED,
                             .from = p->gradient,
                             .into = p->sum,
                             .type = RGROUP_DOUBLE,
                             .op = RGROUP_SUM};
    double *output_at = p->gradient + p->elements[SGD_HIDDEN];
    int code;

    sgd_gradient(&p->net, SGD_OUTPUT, (int)p->done, rcoll_rank(p->team), rcoll_size(p->team),
                 output_at);
    sgd_gradient(&p->net, SGD_HIDDEN, (int)p->done, rcoll_rank(p->team), rcoll_size(p->team),
                 p->gradient);
    params.count = p->elements[SGD_HIDDEN] + p->elements[SGD_OUTPUT];
    code = rcoll_run(p->team, &params);
    if (code != 0)
        return code; /* nothing has been changed */
    sgd_copy(&p->last, &p->net);
    sgd_update(&p->net, SGD_HIDDEN, p->sum, 0, p->elements[SGD_HIDDEN]);
    sgd_update(&p->net, SGD_OUTPUT, p->sum + p->elements[SGD_HIDDEN], 0, p->elements[SGD_OUTPUT]);
    p->loss[p->done++] = p->net.loss;
    return 0;
}

/*
 * Goes on with the living. All of them have contributed to a step that one of them has completed, so
 * none is more than a step ahead of another one.
 */
static void recover(struct part *p)
{
    int64_t least;
    int code;

    do { /* again, if another one dies meanwhile */
        rteam_t living;

        MUST(NULL, rcoll_shrink(&living, p->team));
        MUST(NULL, rcoll_close(p->team));
        p->team = living;
        code = rcoll_allreduce(p->team, &p->done, &least, 1, RGROUP_INT64, RGROUP_MIN);
    } while (code == -ECONNRESET);
    MUST(NULL, code);
    MUST_HOLD(p->done == least || p->done == least + 1);
    if (p->done > least) {
        sgd_copy(&p->net, &p->last);
        p->done = least;
    }
    MUST_HOLD(p->eras < ERAS);
    p->era[p->eras++] = (struct sgd_era){(int)p->done, rcoll_size(p->team)};
    if (rcoll_rank(p->team) == 0)
        fprintf(stderr, "elastic: %d processes go on from step %lld\n", rcoll_size(p->team),
                (long long)p->done);
}

static void run(struct part *p)
{
    int victim = -1, when = -1;
    double began = app_seconds();

    (void)kill_parse(kill_text, &victim, &when);
    while (p->done < options.steps) {
        int code;

        if (p->rank == victim && p->done == when) {
            fprintf(stderr, "elastic: rank %d kills itself at step %d\n", victim, when);
            raise(SIGKILL);
        }
        code = train(p);
        if (code == -ECONNRESET)
            recover(p);
        else
            MUST(NULL, code);
        if (rcoll_rank(p->team) == 0)
            app_progress_show("elastic", "step", (uint64_t)p->done, (uint64_t)options.steps, began);
    }
}

/* ---- the result ---- */

/* The loss of each step, on a logarithmic scale; a red line where a process was lost. */
static void draw(const struct part *p, struct picture *picture)
{
    const int wide = 720, high = 300;

    MUST_HOLD(picture_create(picture, wide, high, 0x10131a) == 0);
    for (int decade = 0; decade < 4; decade++) /* 1, 0.1, 0.01, 0.001 */
        for (int x = 0; x < wide; x++)
            picture_mix(picture, x, (2 * decade + 1) * high / 8, 0xffffff, 0.2);
    for (int i = 1; i < p->eras; i++)
        for (int y = 0; y < high; y++)
            for (int k = -1; k <= 1; k++)
                picture_mix(picture, (int)((long)p->era[i].first * wide / options.steps) + k, y,
                            0xe5355a, k == 0 ? 1 : 0.4);
    for (int i = 0; i < options.steps; i++) {
        int x = (int)((long)i * wide / options.steps),
            y = (int)((0.5 - log10(p->loss[i])) * high / 4);

        for (int k = 0; k < 4; k++)
            picture_mix(picture, x + k % 2, y + k / 2, 0xfbc84a, 0.7);
    }
}

static int report(const struct part *p)
{
    struct picture picture;
    int status = 0;

    if (!app_options.json)
        printf("elastic: %d processes began, and %d are left; the loss went from %.4f to %.4f; "
               "%.1f %% of %d points are classified right\n",
               p->nranks, rcoll_size(p->team), p->loss[0], p->net.loss, sgd_right(&p->net) * 100,
               options.samples);
    if (app_options.check)
        status = sgd_compare("elastic", &p->net, p->era, p->eras, true);
    if (*output != '\0') {
        draw(p, &picture);
        status |= app_write_picture("elastic", &picture, output);
    }
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    const char *const usual = output;
    struct part p = {0};
    int victim = -1, when = -1, status = 0;

    app_parse(doc, option_table, argc, argv);
    if (app_options.quick) {
        options = (struct sgd_options)SGD_OPTIONS_QUICK;
        output = output == usual ? "" : output;
    }
    MUST(NULL, rinit(&p.rank, &p.nranks));
    if (app_options.quick && *kill_text == '\0' && p.nranks > 1)
        kill_text = "1@20";
    if (kill_parse(kill_text, &victim, &when) && (victim >= p.nranks || p.nranks == 1)) {
        if (p.rank == 0)
            fprintf(stderr,
                    "elastic: --kill is %s; this job has ranks 0 to %d, of which one has to be "
                    "left\n",
                    kill_text, p.nranks - 1);
        rexit();
        return 2;
    }
    if (p.rank == 0)
        app_must_be_writable("elastic", output);
    part_create(&p);
    run(&p);
    if (rcoll_rank(p.team) == 0)
        status = report(&p);
    MUST(NULL, rcoll_close(p.team));
    MUST(NULL, rexit());
    sgd_destroy(&p.net);
    sgd_destroy(&p.last);
    free(p.gradient);
    free(p.sum);
    free(p.loss);
    return status;
}
