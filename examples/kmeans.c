/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kmeans.c: k-means clustering: centers by a broadcast that nothing copies, sums by an allreduce.
 *
 * Member 0 chooses the centers of a start in memory of the team. The broadcast hands out a view of
 * it: the others on its host compute their first step with the centers where member 0 has written
 * them, and release the view. rcoll_settled is how member 0 waits until it may choose the next ones.
 *
 * Then a step is an allreduce of clusters * (dimensions + 1) numbers. They are exact, so the result
 * equals that of one process bit for bit.
 *
 *     mpirun -n 4 kmeans --points 1000000
 */
#include <rcoll.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_draw.h"
#include "app_pipes.h"
#include "kmeans_points.h"

static struct kmeans_options options = KMEANS_OPTIONS_DEFAULT;
static const char *output = "kmeans.png";

struct part {
    int rank, nranks;
    struct kmeans k;
    rteam_t team;
    rplan_t bcast;
    double *chosen; /* memory of the team at member 0: centers with which a start begins */
    double *all;    /* sums of all processes */
    uint64_t steps;
    struct app_laps laps;
};

static const struct app_option option_table[] = {
    KMEANS_OPTION_TABLE(options),
    APP_OUTPUT(&output),
    APP_END,
};

static const char doc[] =
    "k-means clustering of points that are divided among the processes of a job.\v"
    "Run it as: mpirun -n 4 kmeans. The exit status is 0 if the centers equal, bit for bit, those "
    "of one process. "
    "What a step takes beyond computing is \"communication\" as far as all processes have it, and "
    "else \"waiting\".";

static void part_create(struct part *p)
{
    rcoll_team_config_t cfg = {0};
    rcoll_params_t bcast = {.kind = RCOLL_BCAST, .flags = RCOLL_VIEWS};

    bcast.count = kmeans_coordinates(&options) * sizeof(double);
    cfg.mem_bytes = bcast.count + 4096;
    MUST(NULL, rcoll_team(&p->team, &cfg, NULL, p->nranks));
    if (p->rank == 0) {
        p->chosen = rcoll_alloc(p->team, bcast.count);
        MUST_HOLD(p->chosen != NULL);
        bcast.from = p->chosen;
    }
    MUST(NULL, rcoll_plan(&p->bcast, p->team, &bcast));
    p->all = calloc(kmeans_sums(&options), sizeof(double));
    MUST_HOLD(p->all != NULL && kmeans_create(&p->k, &options, p->rank, p->nranks) == 0);
    MUST_HOLD(app_laps_begin(&p->laps, (uint64_t)options.starts * (uint64_t)options.steps) == 0);
}

/* The centers with which a start begins, where member 0 has them. */
static const double *choose(struct part *p, int start)
{
    const void *center;
    size_t bytes;

    if (p->rank == 0) {
        MUST(NULL, rcoll_settled(p->bcast, 0)); /* the last ones are still being read */
        kmeans_choose(&options, start, p->chosen);
    }
    MUST(NULL, rcoll_start(p->bcast));
    MUST(NULL, rcoll_wait(p->bcast));
    MUST(NULL, rcoll_view(p->bcast, 0, &center, &bytes));
    MUST_HOLD(bytes == kmeans_coordinates(&options) * sizeof(double));
    return center;
}

/* Returns false if no point has moved. */
static bool step(struct part *p, const double *center)
{
    double computed;
    bool more;

    kmeans_assign(&p->k, center);
    computed = app_seconds();
    MUST(NULL, rcoll_allreduce(p->team, p->k.sum, p->all, kmeans_sums(&options), RGROUP_DOUBLE,
                               RGROUP_SUM));
    app_laps_add(&p->laps, app_seconds() - computed);
    more = kmeans_move(&p->k, center, p->all);
    p->steps++;
    return more;
}

static double run(struct part *p)
{
    double began;

    MUST(NULL, rcoll_barrier(p->team));
    began = app_seconds();
    for (int start = 0; start < options.starts; start++) {
        bool more = step(p, choose(p, start));

        MUST(NULL, rcoll_release(p->bcast));
        for (int i = 1; i < options.steps && more; i++)
            more = step(p, p->k.center);
        kmeans_keep(&p->k, start, p->all);
        if (p->rank == 0)
            app_progress_show("kmeans", "start", (uint64_t)start + 1, (uint64_t)options.starts,
                              began);
    }
    MUST(NULL, rcoll_barrier(p->team));
    return app_seconds() - began;
}

static int report(const struct part *p, struct app_result *result)
{
    struct picture picture;
    int status = 0;

    result->digest = kmeans_digest(&p->k);
    app_result_print(result);
    if (app_options.check)
        status = kmeans_compare("kmeans", &p->k);
    if (*output != '\0') {
        MUST_HOLD(kmeans_draw(&p->k, &picture) == 0);
        status |= app_write_picture("kmeans", &picture, output);
    }
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    const char *const usual = output;
    struct part p = {0};
    struct app_result result = {.app = "kmeans", .by = "rcoll", .unit = "steps"};
    int status = 0;

    app_parse(doc, option_table, argc, argv);
    if (app_options.quick) {
        options = (struct kmeans_options)KMEANS_OPTIONS_QUICK;
        output = output == usual ? "" : output;
    }
    MUST(NULL, rinit(&p.rank, &p.nranks));
    if (p.rank == 0)
        app_must_be_writable("kmeans", output);
    part_create(&p);
    result.ranks = p.nranks;
    result.seconds = run(&p);
    result.work = (double)p.steps;
    result.communication = app_least(&p.laps);
    result.waiting = app_mean(p.laps.sum) - result.communication;
    if (p.rank == 0)
        status = report(&p, &result);
    MUST(NULL, rcoll_close(p.team));
    MUST(NULL, rexit());
    kmeans_destroy(&p.k);
    free(p.laps.beyond);
    free(p.all);
    return status;
}
