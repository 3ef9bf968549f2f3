/* SPDX-License-Identifier: BSD-3-Clause */
/* elastic_run.c: see elastic_run.h. */
#include "elastic_run.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the command line ---- */

static struct sgd_options options = SGD_OPTIONS_DEFAULT;
static const char *output = "elastic.png", *kill_text = "";

/* Takes "RANK@STEP" off the front of a list, and the comma behind it. */
static bool kill_next(const char **list, int *rank, int *step)
{
    int end = 0;

    if (sscanf(*list, "%6d@%9d%n", rank, step, &end) != 2 || *rank < 0 || *step < 0)
        return false;
    *list += end;
    if (**list != ',')
        return **list == '\0';
    ++*list;
    return **list != '\0';
}

static bool kill_valid(const char *list)
{
    int rank, step;

    do {
        if (!kill_next(&list, &rank, &step))
            return false;
    } while (*list != '\0');
    return true;
}

static const struct app_option option_table[] = {
    SGD_OPTION_TABLE(options),
    APP_TEXT("kill", 'k', &kill_text, kill_valid, "RANK@STEP,...",
             "This rank kills itself at a step"),
    APP_TEXT("output", 'o', &output, NULL, "FILE", "PNG of the result; \"\" for none"),
    APP_END,
};

void elastic_parse(struct elastic *e, const char *app, const char *doc, int argc, char **argv)
{
    const char *const usual = output;

    app_parse(doc, option_table, argc, argv);
    if (app_options.quick) {
        options = (struct sgd_options)SGD_OPTIONS_QUICK;
        output = output == usual ? "" : output;
    }
    e->app = app;
    e->options = options;
    e->output = output;
}

/* ---- the run ---- */

/* Whether these ranks exist, and another one. */
static bool kill_possible(const char *list, int ranks)
{
    int rank, step, count = 0;

    while (*list != '\0' && kill_next(&list, &rank, &step))
        if (rank >= ranks || ++count == ranks)
            return false;
    return true;
}

int elastic_create(struct elastic *e, int rank, int ranks)
{
    e->began = ranks;
    e->kill = app_options.quick && *kill_text == '\0' && ranks > 1 ? "1@20" : kill_text;
    if (!kill_possible(e->kill, ranks)) {
        if (rank == 0)
            fprintf(stderr,
                    "%s: --kill is %s; this job has ranks 0 to %d, of which one has to be left\n",
                    e->app, e->kill, ranks - 1);
        return 2;
    }
    for (int layer = 0; layer < SGD_LAYERS; layer++)
        e->count += e->elements[layer] = sgd_elements(&e->options, layer);
    e->loss = calloc((size_t)e->options.steps, sizeof(*e->loss));
    if (e->loss == NULL || sgd_create(&e->net, &e->options) != 0 ||
        sgd_create(&e->last, &e->options) != 0)
        return -ENOMEM;
    e->era[e->eras++] = (struct sgd_era){0, ranks};
    return 0;
}

void elastic_destroy(struct elastic *e)
{
    sgd_destroy(&e->net);
    sgd_destroy(&e->last);
    free(e->loss);
}

void elastic_die(const struct elastic *e, int rank)
{
    const char *list = e->kill;
    int victim, step;

    while (*list != '\0' && kill_next(&list, &victim, &step)) {
        if (victim != rank || step != e->done)
            continue;
        fprintf(stderr, "%s: rank %d kills itself at step %d\n", e->app, rank, step);
        raise(SIGKILL);
    }
}

void elastic_gradient(struct elastic *e, int member, int members, double *gradient)
{
    if (!e->failed)
        e->step = app_seconds();
    sgd_gradient(&e->net, SGD_OUTPUT, (int)e->done, member, members,
                 gradient + e->elements[SGD_HIDDEN]);
    sgd_gradient(&e->net, SGD_HIDDEN, (int)e->done, member, members, gradient);
}

void elastic_done(struct elastic *e, const double *sum)
{
    sgd_copy(&e->last, &e->net);
    sgd_update(&e->net, SGD_HIDDEN, sum, 0, e->elements[SGD_HIDDEN]);
    sgd_update(&e->net, SGD_OUTPUT, sum + e->elements[SGD_HIDDEN], 0, e->elements[SGD_OUTPUT]);
    e->loss[e->done++] = e->net.loss;
    if (e->failed)
        e->recovery = fmax(e->recovery, app_seconds() - e->step);
    e->failed = false;
}

void elastic_go_on(struct elastic *e, int64_t least, int member, int members)
{
    if (e->done > least)
        sgd_copy(&e->net, &e->last);
    e->done = least;
    e->failed = true;
    e->era[e->eras++] = (struct sgd_era){(int)least, members};
    if (member == 0)
        fprintf(stderr, "%s: %d processes go on from step %lld\n", e->app, members,
                (long long)least);
}

/* ---- the result ---- */

/* The loss of each step; a red line where a process was lost. */
static int draw(const struct elastic *e, struct picture *picture)
{
    const int wide = 720, high = 300;

    if (picture_create(picture, wide, high, 0x10131a) != 0)
        return -ENOMEM;
    for (int i = 1; i < e->eras; i++)
        for (int y = 0; y < high; y++)
            for (int k = -1; k <= 1; k++)
                picture_mix(picture, (int)((long)e->era[i].first * wide / e->options.steps) + k, y,
                            0xe5355a, k == 0 ? 1 : 0.4);
    sgd_draw_losses(picture, 0, high, e->loss, e->options.steps);
    return 0;
}

static int write_picture(const struct elastic *e)
{
    struct picture picture;
    char why[4400];
    int code = draw(e, &picture);

    if (code != 0) {
        fprintf(stderr, "%s: no memory for the picture\n", e->app);
        return 1;
    }
    code = picture_write(&picture, e->output, why, sizeof(why));
    if (code != 0)
        fprintf(stderr, "%s: %s\n", e->app, why);
    else if (!app_options.json)
        printf("%s: picture: %s\n", e->app, e->output);
    picture_destroy(&picture);
    return code != 0 && code != -ENOTSUP; /* ENOTSUP: there is no libpng */
}

static void print(struct elastic *e, const char *by, int members, double seconds)
{
    struct app_result result = {.app = "elastic",
                                .by = by,
                                .ranks = e->began,
                                .seconds = seconds,
                                .communication = -1,
                                .waiting = -1,
                                .work = (double)e->options.steps,
                                .unit = "steps",
                                .digest = sgd_digest(&e->net)};

    app_result_print(&result);
    if (!app_options.json)
        printf("%s: %d processes began, and %d are left; the loss went from %.4f to %.4f; "
               "%.1f %% of %d points are classified right\n",
               e->app, e->began, members, e->loss[0], e->net.loss, sgd_right(&e->net) * 100,
               e->options.samples);
    if (e->eras == 1)
        return;
    result.app = "elastic recovery";
    result.seconds = e->recovery;
    result.work = 1;
    result.unit = "recoveries";
    if (app_options.json)
        app_result_print(&result);
    else
        printf("%s: from the beginning of the step that failed to the end of its repetition: %.3f "
               "ms\n",
               e->app, e->recovery * 1e3);
}

int elastic_report(struct elastic *e, const char *by, int members, double seconds)
{
    int status;

    if (app_options.check && sgd_compare(e->app, &e->net, e->era, e->eras, true) != 0)
        return 1; /* no result: a launcher that lets others live may end with 0 nevertheless */
    print(e, by, members, seconds);
    status = *e->output != '\0' ? write_picture(e) : 0;
    fflush(stdout);
    return status;
}
