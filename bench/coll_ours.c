/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_ours.c: our part of bench/compare_coll: collectives in loops, see coll_loop.h. --async: the team has RCOLL_ASYNC. --open COUNT: instead,
 * the time in which a team of all ranks opens, ns, of so many teams: of the slowest rank, where all begin with a barrier.
 */
#include "bench/coll_loop.h"

#include <rcoll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static rteam_t team;

static void ours_abort(int status) { network_abort(status); }

/* Blocks of unequal length. */
static int ours_run_uneven(enum coll_loop_kind kind, const void *from, void *into, size_t bytes,
                           int root)
{
    static const rcoll_kind_t kinds[LOOP_KINDS] = {[LOOP_GATHERV] = RCOLL_GATHER,
                                                   [LOOP_ALLGATHERV] = RCOLL_ALLGATHER,
                                                   [LOOP_ALLTOALLV] = RCOLL_ALLTOALL};
    rcoll_params_t p = rcoll_params_of(kinds[kind], from, into, 0);

    p.root = kind == LOOP_GATHERV ? root : 0;
    p.element = sizeof(double);
    p.counts = coll_loop_counts(kind, bytes)->elements;
    p.counts_in = kind == LOOP_ALLTOALLV ? p.counts : NULL;
    return rcoll_run(team, &p);
}

static void ours_run(enum coll_loop_kind kind, const void *from, void *into, size_t bytes, int root)
{
    size_t count = bytes / sizeof(double);
    int rc = 0;

    switch (kind) {
    case LOOP_BARRIER:
        rc = rcoll_barrier(team);
        break;
    case LOOP_BCAST:
        rc = rcoll_bcast(team, into, bytes, root);
        break;
    case LOOP_REDUCE:
        rc = rcoll_reduce(team, from, into, count, RGROUP_DOUBLE, RGROUP_SUM, root);
        break;
    case LOOP_ALLREDUCE:
        rc = rcoll_allreduce(team, from, into, count, RGROUP_DOUBLE, RGROUP_SUM);
        break;
    case LOOP_REDUCE_SCATTER:
        rc = rcoll_reduce_scatter(team, from, into, count, RGROUP_DOUBLE, RGROUP_SUM);
        break;
    case LOOP_SCAN:
        rc = rcoll_scan(team, from, into, count, RGROUP_DOUBLE, RGROUP_SUM);
        break;
    case LOOP_EXSCAN:
        rc = rcoll_exscan(team, from, into, count, RGROUP_DOUBLE, RGROUP_SUM);
        break;
    case LOOP_GATHER:
        rc = rcoll_gather(team, from, into, bytes, root);
        break;
    case LOOP_ALLGATHER:
        rc = rcoll_allgather(team, from, into, bytes);
        break;
    case LOOP_SCATTER:
        rc = rcoll_scatter(team, from, into, bytes, root);
        break;
    case LOOP_ALLTOALL:
        rc = rcoll_alltoall(team, from, into, bytes);
        break;
    default:
        rc = ours_run_uneven(kind, from, into, bytes, root);
    }
    if (rc != 0) {
        fprintf(stderr, "coll_ours: %s\n", rerror(NULL));
        ours_abort(1);
    }
}

static double ours_most(double mine)
{
    double most = 0;

    if (rcoll_allreduce(team, &mine, &most, 1, RGROUP_DOUBLE, RGROUP_MAX) != 0)
        ours_abort(1);
    return most;
}

/* The plan of the last start; made when the length is another one. */
static rplan_t started;
static size_t started_bytes;

static void ours_start(const void *from, void *into, size_t bytes)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_ALLREDUCE, from, into, bytes / sizeof(double));
    int rc = 0;

    p.type = RGROUP_DOUBLE;
    if (started_bytes != bytes) {
        rc = rcoll_plan(&started, team, &p);
        started_bytes = bytes;
    }
    if (rc != 0 || rcoll_start(started) != 0)
        ours_abort(1);
}

static void ours_finish(void)
{
    if (rcoll_wait(started) != 0)
        ours_abort(1);
}

/* ---- opening ---- */

static double ours_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int ours_open(int rank, int ranks, int count)
{
    rcoll_team_config_t cfg = {.context = 1};

    if (rank == 0)
        printf("{\"library\": \"rcoll\", \"ranks\": %d, \"open 0\": [", ranks);
    for (int i = 0; i < count; i++) {
        double began, took;
        rteam_t opened;

        if (rcoll_barrier(team) != 0)
            ours_abort(1);
        began = ours_now();
        if (rcoll_team(&opened, &cfg, NULL, ranks) != 0)
            ours_abort(1);
        took = ours_most(ours_now() - began);
        if (rank == 0)
            printf("%s%.0f", i > 0 ? ", " : "", took);
        if (rcoll_close(opened) != 0)
            ours_abort(1);
    }
    if (rank == 0)
        printf("]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct coll_library ours = {.program = "coll_ours",
                                             .library = "rcoll",
                                             .run = ours_run,
                                             .most = ours_most,
                                             .abort = ours_abort,
                                             .start = ours_start,
                                             .finish = ours_finish};
    rcoll_team_config_t cfg = {.flags = 0};
    int rank, ranks, status, opens = 0;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--open") == 0 && i + 1 < argc)
            opens = atoi(argv[i + 1]);
    for (int i = 1; i < argc; i++)
        cfg.flags |= strcmp(argv[i], "--async") == 0 ? RCOLL_ASYNC : 0;
    if (rinit(&rank, &ranks) != 0 || rcoll_team(&team, &cfg, NULL, ranks) != 0) {
        fprintf(stderr, "coll_ours: %s\n", rerror(NULL));
        return 1;
    }
    status =
        opens > 0 ? ours_open(rank, ranks, opens) : coll_loop_main(&ours, rank, ranks, argc, argv);
    if (rcoll_close(team) != 0 || rexit() != 0)
        return 1;
    return status;
}
