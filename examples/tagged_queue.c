/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagged_queue.c: tasks that a master hands out to any process that asks, by messages with tags (rmsg(7)).
 *
 * The other processes ask for their next task before they start on the current one. The master receives requests from any source; it
 * works itself while none has come. At the end each process sends its share of the result, under another tag, so that a request and a
 * share are never confused, in whatever order they arrive. The tasks are those of work_queue.c, which has no master.
 *
 *     mpirun -n 4 tagged_queue --queens 16
 */
#include <rmsg.h>
#include <rpipe.h>
#include <stdio.h>

#include "app_pipes.h"
#include "queens.h"

enum { ASK, TASK, SHARE }; /* tags */
enum { SPACE = 0 };

static struct queens_options options = QUEENS_OPTIONS_DEFAULT;

static struct {
    int rank, nranks;
    rmsg_t msg;
    uint64_t tasks, next; /* next: of the master */
    int finished;         /* processes that have the answer that there are no more tasks */
    double asking_s, began;
} job;

static const struct app_option option_table[] = {QUEENS_OPTION_TABLE(options), APP_END};

static const char doc[] =
    "In how many ways queens stand on a board: tasks that a master hands out to any process that "
    "asks, by messages with tags.\v"
    "Run it as: mpirun -n 4 tagged_queue. The exit status is 0 if the sum is what is known. "
    "\"communication\" is the time of requests and answers.";

static void work(uint64_t first, struct queens_sum *sum)
{
    queens_work(&options, first, sum);
    if (job.rank == 0)
        app_progress_show("tagged_queue", "task", first, job.tasks, job.began);
}

/* ---- the master ---- */

static uint64_t take(void)
{
    uint64_t first = job.next;

    if (first < job.tasks)
        job.next += options.chunk;
    return first;
}

/* Answers all requests that have come; wait: at least one. */
static void answer(bool wait)
{
    double began = app_seconds();
    rmsg_status_t status;
    int rc;

    while ((rc = rmsg_recv(job.msg, RMSG_ANY_SOURCE, SPACE, ASK, NULL, 0, &status,
                           wait ? 0 : R_NOWAIT)) != R_PENDING) {
        uint64_t first = take();

        MUST(NULL, rc);
        MUST(NULL, rmsg_send(job.msg, status.from, SPACE, TASK, &first, sizeof(first), 0));
        job.finished += first >= job.tasks;
        wait = false;
    }
    job.asking_s += app_seconds() - began;
}

static void work_as_master(struct queens_sum *sum)
{
    while (job.next < job.tasks || job.finished < job.nranks - 1) {
        answer(job.next >= job.tasks);
        if (job.next < job.tasks)
            work(take(), sum);
    }
}

/* ---- the others ---- */

static void ask(uint64_t *first, rmsg_request_t *request)
{
    MUST(NULL, rmsg_irecv(job.msg, 0, SPACE, TASK, first, sizeof(*first), request, 0));
    MUST(NULL, rmsg_send(job.msg, 0, SPACE, ASK, NULL, 0, 0));
}

static void work_as_asked(struct queens_sum *sum)
{
    double began = app_seconds();
    rmsg_request_t request;
    uint64_t reply, first;

    ask(&reply, &request);
    for (;;) {
        MUST(NULL, rmsg_wait(job.msg, &request, NULL, 0));
        first = reply;
        if (first < job.tasks)
            ask(&reply, &request);
        job.asking_s += app_seconds() - began;
        if (first >= job.tasks)
            break;
        work(first, sum);
        began = app_seconds();
    }
}

/* ---- the run ---- */

/* The shares come in any order. */
static void add_shares(struct queens_sum *sum)
{
    struct queens_sum share;

    for (int left = job.nranks - 1; left > 0; left--) {
        MUST(NULL,
             rmsg_recv(job.msg, RMSG_ANY_SOURCE, SPACE, SHARE, &share, sizeof(share), NULL, 0));
        sum->tasks += share.tasks;
        sum->solutions += share.solutions;
        sum->digest += share.digest;
    }
}

static double run(struct queens_sum *sum)
{
    MUST(NULL, network_barrier());
    job.began = app_seconds();
    if (job.rank == 0) {
        work_as_master(sum);
        add_shares(sum);
    } else {
        work_as_asked(sum);
        MUST(NULL, rmsg_send(job.msg, 0, SPACE, SHARE, sum, sizeof(*sum), 0));
    }
    MUST(NULL, network_barrier());
    if (job.rank == 0)
        app_progress_show("tagged_queue", "task", job.tasks, job.tasks, job.began);
    return app_seconds() - job.began;
}

int main(int argc, char **argv)
{
    struct queens_sum sum = {0};
    double took, asking;
    int status = 0;

    app_parse(doc, option_table, argc, argv);
    queens_begin(&options);
    job.tasks = queens_tasks(&options);
    MUST(NULL, rinit(&job.rank, &job.nranks));
    MUST(NULL, rmsg_open(&job.msg, NULL));
    took = run(&sum);
    asking = app_mean(job.asking_s);
    if (job.rank == 0) {
        struct app_result result = {"tagged_queue", "rmsg", job.nranks, took, asking, 0, 0,
                                    "tasks",        0};

        result.work = (double)sum.tasks;
        result.digest = sum.digest;
        app_result_print(&result);
        if (app_options.check && !queens_right("tagged_queue", &options, &sum))
            status = 1;
        fflush(stdout);
    }
    MUST(NULL, rmsg_close(job.msg));
    MUST(NULL, rexit());
    return status;
}
