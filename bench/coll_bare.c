/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_bare.c: the limit of bench/compare_coll: short collectives by hand, without a library, see coll_loop.h and by_hand.h. One round
 * for everything; a process that waits yields if processes share processors. Only barrier, and bcast and allreduce of 8 bytes: there
 * is nothing that could be left out.
 */
#include "bench/by_hand.h"
#include "bench/coll_loop.h"

#include <stdio.h>
#include <string.h>

static struct by_hand job;

static void bare_abort(int status) { by_hand_abort(&job, status); }

static void bare_run(enum coll_loop_kind kind, const void *from, void *into, size_t bytes, int root)
{
    double value = 0;

    if (kind == LOOP_BARRIER) {
        (void)by_hand_fold(&job, 0, false);
        return;
    }
    if (bytes != sizeof(value) || (kind != LOOP_BCAST && kind != LOOP_ALLREDUCE)) {
        fprintf(stderr, "coll_bare: barrier, and bcast and allreduce of 8 bytes only\n");
        bare_abort(2);
    }
    if (kind == LOOP_ALLREDUCE) {
        memcpy(&value, from, sizeof(value));
        value = by_hand_fold(&job, value, false);
        memcpy(into, &value, sizeof(value));
        return;
    }
    job.number++;
    if (job.number % (BY_HAND_DEPTH / 2) ==
        0) { /* all have read what was in the lines that come next */
        (void)by_hand_fold(&job, 0, false);
        job.number++;
    }
    if (job.rank == root) {
        memcpy(&value, into, sizeof(value));
        by_hand_put(&job, value);
        return;
    }
    value = by_hand_get(&job, root);
    memcpy(into, &value, sizeof(value));
}

static double bare_most(double mine) { return by_hand_fold(&job, mine, true); }

int main(int argc, char **argv)
{
    static const struct coll_library bare = {.program = "coll_bare",
                                             .library = "bare",
                                             .run = bare_run,
                                             .most = bare_most,
                                             .abort = bare_abort};
    int status;

    if (!by_hand_begin(&job, "coll_bare") || !by_hand_map(&job, 0))
        return 1;
    status = coll_loop_main(&bare, job.rank, job.ranks, argc, argv);
    (void)by_hand_fold(&job, 0, false);
    return status;
}
