/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work_queue.c: tasks of very different size, dealt out by a counter that all processes share.
 *
 * Rank 0 has an array of 64-bit cells (rcells_open(3)), on which every process operates. A process
 * claims tasks by an addition to the first cell: the old value is its first task. There is no
 * master, rank 0 works like the others, and a task may take a thousand times as long as another. At
 * the end each process adds its share of the result to further cells, without waiting for each sum
 * (old is NULL, then rcells_flush).
 *
 *     mpirun -n 4 work_queue --queens 16
 */
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>

#include "app_pipes.h"
#include "queens.h"

enum { NEXT, TASKS, SOLUTIONS, DIGEST, CELLS };

static struct queens_options options = QUEENS_OPTIONS_DEFAULT;

static struct {
    int rank, nranks;
    rcells_t counter; /* to rank 0's cells */
    rcells_t *owner;  /* rank 0: an end for each process, all with the same cells */
    uint64_t claims;
    double claiming_s;
} job;

static const struct app_option option_table[] = {QUEENS_OPTION_TABLE(options), APP_END};

static const char doc[] = "In how many ways queens stand on a board: tasks that are claimed from a "
                          "counter which all processes share.\v"
                          "Run it as: mpirun -n 4 work_queue. The exit status is 0 if the sum is "
                          "what is known. \"communication\" is the "
                          "time of "
                          "the claims.";

/* ---- pipes ---- */

static rcells_t open_end(int peer, rcells_role_t role, rcells_t shared)
{
    rcells_config_t cfg = {.role = role, .peer = peer, .cells = CELLS, .shared = shared};
    rcells_t cells;

    MUST(NULL, rcells_open(&cells, &cfg));
    return cells;
}

/* Rank 0 is at both ends of a pipe to itself, so that it claims as all others do. */
static void open_cells(void)
{
    if (job.rank == 0) {
        job.owner = calloc((size_t)job.nranks, sizeof(*job.owner));
        MUST_HOLD(job.owner != NULL);
        for (int r = 0; r < job.nranks; r++)
            job.owner[r] = open_end(r, RCELLS_OWNER, r > 0 ? job.owner[0] : NULL);
    }
    job.counter = open_end(0, RCELLS_USER, NULL);
    MUST(rcells_pipe(job.counter),
         rwait(rcells_pipe(job.counter))); /* time begins when all are joined */
    for (int r = 0; job.rank == 0 && r < job.nranks; r++)
        MUST(rcells_pipe(job.owner[r]), rwait(rcells_pipe(job.owner[r])));
}

static void close_cells(void)
{
    MUST(rcells_pipe(job.counter), rcells_close(job.counter));
    for (int r = 0; job.rank == 0 && r < job.nranks; r++)
        MUST(rcells_pipe(job.owner[r]), rcells_close(job.owner[r]));
    free(job.owner);
}

/* ---- work ---- */

static uint64_t claim(void)
{
    double began = app_seconds();
    uint64_t first;

    MUST(rcells_pipe(job.counter),
         rcells_atomic(job.counter, RCELLS_ADD, NEXT, options.chunk, 0, &first));
    job.claiming_s += app_seconds() - began;
    job.claims++;
    return first;
}

static void add(size_t cell, uint64_t share)
{
    MUST(rcells_pipe(job.counter), rcells_atomic(job.counter, RCELLS_ADD, cell, share, 0, NULL));
}

static double run(struct queens_sum *mine)
{
    uint64_t tasks = queens_tasks(&options), first;
    double began;

    MUST(NULL, network_barrier());
    began = app_seconds();
    while ((first = claim()) < tasks) {
        queens_work(&options, first, mine);
        if (job.rank == 0)
            app_progress_show("work_queue", "task", first, tasks, began);
    }
    add(TASKS, mine->tasks);
    add(SOLUTIONS, mine->solutions);
    add(DIGEST, mine->digest);
    MUST(rcells_pipe(job.counter), rcells_flush(job.counter));
    MUST(NULL, network_barrier()); /* now they are all in */
    if (job.rank == 0)
        app_progress_show("work_queue", "task", tasks, tasks, began);
    return app_seconds() - began;
}

static uint64_t value_of(size_t cell)
{
    uint64_t value;

    MUST(rcells_pipe(job.counter), rcells_atomic(job.counter, RCELLS_ADD, cell, 0, 0, &value));
    return value;
}

int main(int argc, char **argv)
{
    struct queens_sum mine = {0}, sum;
    double took, claiming;
    uint64_t claims;
    int status = 0;

    app_parse(doc, option_table, argc, argv);
    queens_begin(&options);
    MUST(NULL, rinit(&job.rank, &job.nranks));
    open_cells();
    took = run(&mine);
    claiming = app_mean(job.claiming_s);
    claims = app_sum(job.claims);
    if (job.rank == 0) {
        struct app_result result = {
            "work_queue", "rpipe atomic", job.nranks, took, claiming, 0, 0, "tasks", 0};

        sum = (struct queens_sum){value_of(TASKS), value_of(SOLUTIONS), value_of(DIGEST)};
        result.work = (double)sum.tasks;
        result.digest = sum.digest;
        app_result_print(&result);
        if (!app_options.json)
            printf("work_queue: %llu solutions; %llu claims, %.1f ns each\n",
                   (unsigned long long)sum.solutions, (unsigned long long)claims,
                   claiming * 1e9 * job.nranks / (double)claims);
        if (app_options.check && !queens_right("work_queue", &options, &sum))
            status = 1;
        fflush(stdout);
    }
    MUST(NULL, network_barrier());
    close_cells();
    MUST(NULL, rexit());
    return status;
}
