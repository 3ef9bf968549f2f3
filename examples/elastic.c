/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elastic.c: training goes on when a process dies.
 *
 * Each step is an allreduce of the gradients of all members, as in sgd.c. If one dies, the call ends
 * with -ECONNRESET at the others. They open a team of the living with rcoll_shrink, and agree on the
 * last step that all of them have completed: one that was a step ahead takes back its last step. Then
 * the samples are divided among those that are left.
 *
 * Sums are ordered (RCOLL_ORDERED), so that the result has the bits of a run by one process.
 *
 *     mpirun --enable-recovery -n 4 elastic --kill 2@500
 */
#include <errno.h>
#include <rcoll.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>

#include "app_draw.h"
#include "elastic_run.h"
#include "must.h"

struct part {
    int rank, nranks;
    struct elastic run;
    rteam_t team;
    double *gradient, *sum; /* of both layers */
};

static const char doc[] =
    "Training of a small neural network that goes on when processes die.\v"
    "Run it as: mpirun --enable-recovery -n 4 elastic --kill 2@500; or kill a process yourself. "
    "The exit status is 0 if the weights equal, bit for bit, those of one process that takes the "
    "same parts.";

static int train(struct part *p)
{
    rcoll_params_t params = {.kind = RCOLL_ALLREDUCE,
                             .flags = RCOLL_ORDERED,
                             .from = p->gradient,
                             .into = p->sum,
                             .count = p->run.count,
                             .type = RGROUP_DOUBLE,
                             .op = RGROUP_SUM};
    int code;

    elastic_gradient(&p->run, rcoll_rank(p->team), rcoll_size(p->team), p->gradient);
    code = rcoll_run(p->team, &params);
    if (code == 0)
        elastic_done(&p->run, p->sum);
    return code; /* nothing has been changed if it failed */
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
        code = rcoll_allreduce(p->team, &p->run.done, &least, 1, RGROUP_INT64, RGROUP_MIN);
    } while (code == -ECONNRESET);
    MUST(NULL, code);
    MUST_HOLD(p->run.done == least || p->run.done == least + 1);
    MUST_HOLD(p->run.eras < ELASTIC_ERAS);
    elastic_go_on(&p->run, least, rcoll_rank(p->team), rcoll_size(p->team));
}

/* Returns seconds. */
static double run(struct part *p)
{
    const uint64_t steps = (uint64_t)p->run.options.steps;
    double began = app_seconds();

    while ((uint64_t)p->run.done < steps) {
        int code;

        elastic_die(&p->run, p->rank);
        code = train(p);
        if (code == -ECONNRESET)
            recover(p);
        else
            MUST(NULL, code);
        if (rcoll_rank(p->team) == 0)
            app_progress_show("elastic", "step", (uint64_t)p->run.done, steps, began);
    }
    return app_seconds() - began;
}

int main(int argc, char **argv)
{
    struct part p = {0};
    double seconds;
    int status;

    elastic_parse(&p.run, "elastic", doc, argc, argv);
    MUST(NULL, rinit(&p.rank, &p.nranks));
    status = elastic_create(&p.run, p.rank, p.nranks);
    MUST(NULL, status);
    if (status > 0) {
        rexit();
        return status;
    }
    if (p.rank == 0)
        app_must_be_writable("elastic", p.run.output);
    p.gradient = malloc(p.run.count * sizeof(*p.gradient));
    p.sum = malloc(p.run.count * sizeof(*p.sum));
    MUST_HOLD(p.gradient != NULL && p.sum != NULL);
    MUST(NULL, rcoll_team(&p.team, NULL, NULL, p.nranks));
    seconds = run(&p);
    if (rcoll_rank(p.team) == 0)
        status = elastic_report(&p.run, "rcoll", rcoll_size(p.team), seconds);
    MUST(NULL, rcoll_close(p.team));
    MUST(NULL, rexit());
    elastic_destroy(&p.run);
    free(p.gradient);
    free(p.sum);
    return status;
}
