/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_pipeline.c: examples/pipeline over MPI, for comparison.
 *
 * --by=send: MPI_Isend out of --window buffers, into as many posted receives. --by=put: MPI_Put
 * into one of --window boxes of the next stage, with a flag; a flag the other way gives the box
 * back.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "../app.h"
#include "../pipeline_stage.h"
#include "memory.h"
#include "notify.h"

static struct pipeline_options options = PIPELINE_OPTIONS_DEFAULT;
static int by;
static bool by_put;

static struct {
    int rank, nranks;
    uint64_t **receive, **send; /* [window] */
    MPI_Request *receiving, *sending;
    struct notify boxes; /* [0, window): blocks; [window]: how many the next stage has used */
} job;

static const char *const ways[] = {"send", "put", NULL};
static const struct app_option option_table[] = {
    PIPELINE_OPTION_TABLE(options),
    APP_WORD("by", 'b', &by, ways, "send: blocks by MPI_Isend; put: by MPI_Put, flush and flags"),
    APP_END,
};

static size_t block_bytes(void) { return (size_t)options.kib * 1024; }

static void receive_post(uint32_t n)
{
    uint32_t i = n % options.window;

    if (!by_put && job.rank > 0 && n < options.blocks)
        MPI_Irecv(job.receive[i], (int)pipeline_words(&options), MPI_UINT64_T, job.rank - 1, 0,
                  MPI_COMM_WORLD, &job.receiving[i]);
}

static void create(void)
{
    job.receive = memory(options.window, sizeof(*job.receive));
    job.send = memory(options.window, sizeof(*job.send));
    job.receiving = memory(options.window, sizeof(MPI_Request));
    job.sending = memory(options.window, sizeof(MPI_Request));
    for (uint32_t i = 0; i < options.window; i++) {
        job.receive[i] = memory(pipeline_words(&options), sizeof(uint64_t));
        job.send[i] = memory(pipeline_words(&options), sizeof(uint64_t));
        job.receiving[i] = MPI_REQUEST_NULL;
        job.sending[i] = MPI_REQUEST_NULL;
    }
    if (by_put)
        notify_create(&job.boxes, (int)options.window + 1, block_bytes());
    for (uint32_t n = 0; n < options.window; n++)
        receive_post(n);
}

static void destroy(void)
{
    if (by_put)
        notify_destroy(&job.boxes);
    for (uint32_t i = 0; i < options.window; i++) {
        free(job.receive[i]);
        free(job.send[i]);
    }
    free(job.receive);
    free(job.send);
    free(job.receiving);
    free(job.sending);
}

static const uint64_t *block_receive(uint32_t n)
{
    uint32_t i = n % options.window;

    if (by_put) {
        notify_await(&job.boxes, (int)i, (uint64_t)n + 1);
        return notify_data(&job.boxes, (int)i);
    }
    MPI_Wait(&job.receiving[i], MPI_STATUS_IGNORE);
    return job.receive[i];
}

static void block_release(uint32_t n)
{
    if (by_put)
        notify_flag(&job.boxes, job.rank - 1, (int)options.window, (uint64_t)n + 1);
    else
        receive_post(n + options.window);
}

static uint64_t *block_memory(uint32_t n)
{
    if (!by_put)
        MPI_Wait(&job.sending[n % options.window], MPI_STATUS_IGNORE);
    else if (n >= options.window)
        notify_await(&job.boxes, (int)options.window, (uint64_t)n - options.window + 1);
    return job.send[n % options.window];
}

static void block_send(uint32_t n)
{
    uint32_t i = n % options.window;

    if (by_put)
        notify_put(&job.boxes, job.rank + 1, (int)i, job.send[i], block_bytes(), (uint64_t)n + 1);
    else
        MPI_Isend(job.send[i], (int)pipeline_words(&options), MPI_UINT64_T, job.rank + 1, 0,
                  MPI_COMM_WORLD, &job.sending[i]);
}

static double run(uint64_t *digest)
{
    int first = job.rank == 0, last = job.rank + 1 == job.nranks;
    double began;

    MPI_Barrier(MPI_COMM_WORLD);
    began = app_seconds();
    for (uint32_t n = 0; n < options.blocks; n++) {
        const uint64_t *from = first ? NULL : block_receive(n);
        uint64_t *to = last ? NULL : block_memory(n);

        if (first)
            pipeline_make(to, pipeline_words(&options), n);
        else if (last)
            *digest = app_digest(*digest, from, pipeline_words(&options));
        else
            pipeline_change(to, from, pipeline_words(&options), &options, job.rank);
        if (!first)
            block_release(n);
        if (!last)
            block_send(n);
        if (first)
            app_progress_show("mpi_pipeline", "block", n + 1, options.blocks, began);
    }
    MPI_Waitall((int)options.window, job.sending, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    return app_seconds() - began;
}

int main(int argc, char **argv)
{
    uint64_t digest = 0;
    double took;
    int status = 0;

    app_parse("pipeline over MPI.", option_table, argc, argv);
    by_put = by == 1;
    if (app_options.quick)
        options = (struct pipeline_options)PIPELINE_OPTIONS_QUICK;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.nranks);
    if (job.nranks < 2) {
        fprintf(stderr, "mpi_pipeline: this takes 2 processes at least\n");
        MPI_Finalize();
        return 2;
    }
    create();
    took = run(&digest);
    MPI_Bcast(&digest, 1, MPI_UINT64_T, job.nranks - 1, MPI_COMM_WORLD);
    if (job.rank == 0) {
        struct app_result result = {"pipeline",
                                    by_put ? "mpi put" : "mpi send",
                                    job.nranks,
                                    took,
                                    -1,
                                    0,
                                    (double)options.blocks * (double)block_bytes(),
                                    "bytes",
                                    digest};

        app_result_print(&result);
        fflush(stdout);
        if (app_options.check && digest != pipeline_serial(&options, job.nranks)) {
            fprintf(
                stderr,
                "mpi_pipeline: WRONG: the last stage saw other blocks than one process makes\n");
            status = 1;
        }
    }
    destroy();
    MPI_Finalize();
    return status;
}
