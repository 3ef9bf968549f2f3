/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipeline.c: a stream of blocks through stages, each a process; the heap of a pipe is what holds a
 * fast stage back.
 *
 * A stage reads a block where the one before has written it, and writes what becomes of it where
 * the next one will read it. A pipe has memory for --window blocks: a stage that is ahead waits in
 * rmalloc until the next has freed one. There are no credits to count and no acknowledgements to
 * send in this program.
 *
 *     mpirun -n 4 pipeline --kib 64 --window 4
 */
#include <rinfo.h>
#include <rpipe.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>

#include "app_pipes.h"
#include "pipeline_stage.h"

static struct pipeline_options options = PIPELINE_OPTIONS_DEFAULT;
static int op; /* of app_ops */

static const struct app_option option_table[] = {PIPELINE_OPTION_TABLE(options), APP_OP(&op),
                                                 APP_END};

static const char doc[] =
    "A stream of blocks through as many stages as the job has processes, with back-pressure.\v"
    "Run it as: mpirun -n 4 pipeline. The exit status is 0 if the last stage saw what one process "
    "would have made.";

static rch_t open_pipe(int peer, int writer)
{
    rpipe_config_t cfg = {0};
    rch_t ch;

    cfg.op = app_op(op);
    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = (uint64_t)options.window * options.kib * 1024;
    MUST(NULL, rpipe(&ch, &cfg));
    return ch;
}

/* One block through this stage. */
static void step(rch_t in, rch_t out, int stage, uint32_t n, uint64_t *digest)
{
    const uint32_t words = pipeline_words(&options);
    size_t size, bytes = words * sizeof(uint64_t);
    const uint64_t *from = NULL;
    uint64_t *to = NULL;
    raddr_t d_in = ADDR_NULL, d_out = ADDR_NULL;

    if (in != NULL) {
        from = must_read(in, &d_in, &size);
        MUST_HOLD(size == bytes);
    }
    if (out != NULL)
        to = must_alloc(out, bytes, &d_out);
    if (in == NULL)
        pipeline_make(to, words, n);
    else if (out == NULL)
        *digest = app_digest(*digest, from, words);
    else
        pipeline_change(to, from, words, &options, stage);
    if (in != NULL)
        MUST(in, rfree(in, d_in));
    if (out != NULL)
        MUST(out, rwrite(out, d_out));
}

int main(int argc, char **argv)
{
    rch_t in = NULL, out = NULL;
    uint64_t digest = 0, *digests;
    double began, took;
    int rank, nranks, status = 0;

    app_parse(doc, option_table, argc, argv);
    if (app_options.quick)
        options = (struct pipeline_options)PIPELINE_OPTIONS_QUICK;
    MUST(NULL, rinit(&rank, &nranks));
    if (nranks < 2) {
        fprintf(stderr, "pipeline: this takes 2 processes at least: mpirun -n 4 pipeline\n");
        rexit();
        return 2;
    }
    if (rank > 0)
        in = open_pipe(rank - 1, 0);
    if (rank + 1 < nranks)
        out = open_pipe(rank + 1, 1);
    if (in != NULL) /* time begins when all are joined */
        MUST(in, rwait(in));
    if (out != NULL)
        MUST(out, rwait(out));
    MUST(NULL, network_barrier());
    began = app_seconds();
    for (uint32_t n = 0; n < options.blocks; n++) {
        step(in, out, rank, n, &digest);
        if (rank == 0)
            app_progress_show("pipeline", "block", n + 1, options.blocks, began);
    }
    MUST(NULL, network_barrier());
    took = app_seconds() - began;

    digests = calloc((size_t)nranks, sizeof(*digests));
    MUST_HOLD(digests != NULL);
    MUST(NULL, network_allgather(&digest, sizeof(digest), digests));
    digest = digests[nranks - 1];
    free(digests);
    if (rank == 0) {
        double bytes = (double)options.blocks * options.kib * 1024;
        struct app_result result = {"pipeline", app_op_name(op), nranks,  took,  -1,
                                    0,          bytes,           "bytes", digest};
        uint64_t stalls;

        app_result_print(&result);
        MUST(out, rinfo_count(out, "stalls_heap", &stalls));
        if (!app_options.json)
            printf("pipeline: the source was held back at %llu of %u blocks\n",
                   (unsigned long long)stalls, options.blocks);
        if (app_options.check && digest != pipeline_serial(&options, nranks)) {
            fprintf(stderr,
                    "pipeline: WRONG: the last stage saw other blocks than one process makes\n");
            status = 1;
        }
    }
    MUST(NULL, rexit());
    return status;
}
