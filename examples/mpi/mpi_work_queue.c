/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_work_queue.c: examples/work_queue over MPI, for comparison.
 *
 * --by=atomics: the counter is in rank 0's window, and a claim is MPI_Fetch_and_op and
 * MPI_Win_flush. --by=send: rank 0 hands out tasks, and works itself while there is no request; the
 * others request their next tasks before they start on the current ones, so that they wait as
 * little as possible.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../app.h"
#include "../queens.h"

enum { ASK, TELL }; /* tags */

static struct queens_options options = QUEENS_OPTIONS_DEFAULT;
static int by;

static struct {
    int rank, nranks;
    uint64_t tasks, next; /* next: of the master */
    int finished;         /* workers that have the reply that there are no more tasks */
    MPI_Win win;
    uint64_t *counter;
    double claiming_s, began;
    struct queens_sum sum;
} job;

static const char *const ways[] = {"atomics", "send", NULL};
static const struct app_option option_table[] = {
    QUEENS_OPTION_TABLE(options),
    APP_WORD("by", 'b', &by, ways,
             "atomics: MPI_Fetch_and_op; send: rank 0 hands out what it is asked for"),
    APP_END,
};

static void work(uint64_t first)
{
    queens_work(&options, first, &job.sum);
    if (job.rank == 0)
        app_progress_show("mpi_work_queue", "task", first, job.tasks, job.began);
}

/* ---- by atomics ---- */

static void counter_create(void)
{
    MPI_Aint bytes = job.rank == 0 ? (MPI_Aint)sizeof(*job.counter) : 0;

    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &job.counter, &job.win);
    if (job.rank == 0)
        *job.counter = 0;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, job.win);
    MPI_Win_sync(job.win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void counter_destroy(void)
{
    MPI_Win_unlock_all(job.win);
    MPI_Win_free(&job.win);
}

static uint64_t claim(void)
{
    uint64_t chunk = options.chunk, first;
    double began = app_seconds();

    MPI_Fetch_and_op(&chunk, &first, MPI_UINT64_T, 0, 0, MPI_SUM, job.win);
    MPI_Win_flush(0, job.win);
    job.claiming_s += app_seconds() - began;
    return first;
}

static void work_by_atomics(void)
{
    uint64_t first;

    while ((first = claim()) < job.tasks)
        work(first);
}

/* ---- by messages ---- */

static uint64_t take(void)
{
    uint64_t first = job.next;

    if (first < job.tasks)
        job.next += options.chunk;
    return first;
}

/* Answers all requests that have arrived; with `waiting`, waits for the first one. */
static void answer(bool waiting)
{
    double began = app_seconds();
    MPI_Status status;
    int there = 1;

    for (;;) {
        uint64_t first;

        if (waiting)
            MPI_Probe(MPI_ANY_SOURCE, ASK, MPI_COMM_WORLD, &status);
        else
            MPI_Iprobe(MPI_ANY_SOURCE, ASK, MPI_COMM_WORLD, &there, &status);
        if (!there)
            break;
        waiting = false;
        MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, ASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        first = take();
        job.finished += first >= job.tasks;
        MPI_Send(&first, 1, MPI_UINT64_T, status.MPI_SOURCE, TELL, MPI_COMM_WORLD);
    }
    job.claiming_s += app_seconds() - began;
}

static void work_as_master(void)
{
    while (job.next < job.tasks || job.finished < job.nranks - 1) {
        answer(job.next >= job.tasks);
        if (job.next < job.tasks)
            work(take());
    }
}

static void ask(uint64_t *first, MPI_Request *request)
{
    MPI_Irecv(first, 1, MPI_UINT64_T, 0, TELL, MPI_COMM_WORLD, request);
    MPI_Send(NULL, 0, MPI_BYTE, 0, ASK, MPI_COMM_WORLD);
}

static void work_as_asked(void)
{
    uint64_t reply, first;
    MPI_Request request;
    double began = app_seconds();

    ask(&reply, &request);
    for (;;) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        first = reply;
        if (first < job.tasks)
            ask(&reply, &request);
        job.claiming_s += app_seconds() - began;
        if (first >= job.tasks)
            break;
        work(first);
        began = app_seconds();
    }
}

/* ---- the run ---- */

static double run(struct queens_sum *sum)
{
    uint64_t mine[3];

    MPI_Barrier(MPI_COMM_WORLD);
    job.began = app_seconds();
    if (by == 0)
        work_by_atomics();
    else if (job.rank == 0)
        work_as_master();
    else
        work_as_asked();
    mine[0] = job.sum.tasks;
    mine[1] = job.sum.solutions;
    mine[2] = job.sum.digest;
    MPI_Allreduce(MPI_IN_PLACE, mine, 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    *sum = (struct queens_sum){mine[0], mine[1], mine[2]};
    return app_seconds() - job.began;
}

int main(int argc, char **argv)
{
    struct queens_sum sum;
    double took, claiming;
    int status = 0;

    app_parse("work_queue over MPI.", option_table, argc, argv);
    queens_begin(&options);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.nranks);
    job.tasks = queens_tasks(&options);
    if (by == 0)
        counter_create();
    took = run(&sum);
    MPI_Reduce(&job.claiming_s, &claiming, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (job.rank == 0) {
        struct app_result result = {"work_queue",
                                    by == 0 ? "mpi atomics" : "mpi send",
                                    job.nranks,
                                    took,
                                    claiming / job.nranks,
                                    0,
                                    (double)sum.tasks,
                                    "tasks",
                                    sum.digest};

        app_result_print(&result);
        fflush(stdout);
        if (app_options.check && !queens_right("mpi_work_queue", &options, &sum))
            status = 1;
    }
    if (by == 0)
        counter_destroy();
    MPI_Finalize();
    return status;
}
