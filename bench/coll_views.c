/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_views.c: our part of bench/compare_coll without copies: contributions are memory of the team (rcoll_alloc), results are views,
 * see coll_loop.h. bcast, allgather and allreduce; a persistent plan for each kind, root and length, whose views are held until the
 * next operation begins. The loop reads no result, as those with copies do not.
 */
#include "bench/coll_loop.h"

#include <rcoll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLANS 64 /* more roots than any benchmark has */

static rteam_t team;
static int members;
static struct views_plan {
    rplan_t plan;
    const void *from;
    size_t bytes;
} plans[LOOP_KINDS][PLANS];
static rplan_t last;

static void views_abort(int status) { network_abort(status); }

static void views_check(const char *what, int code)
{
    if (code == 0)
        return;
    fprintf(stderr, "coll_views: %s: %s\n", what, rerror(NULL));
    views_abort(1);
}

static rplan_t views_plan(enum coll_loop_kind kind, const void *from, size_t bytes, int root)
{
    static const rcoll_kind_t kinds[LOOP_KINDS] = {[LOOP_BCAST] = RCOLL_BCAST,
                                                   [LOOP_ALLREDUCE] = RCOLL_ALLREDUCE,
                                                   [LOOP_ALLGATHER] = RCOLL_ALLGATHER};
    struct views_plan *p = &plans[kind][root];
    rcoll_params_t params = {
        .kind = kinds[kind], .flags = RCOLL_VIEWS, .from = from, .count = bytes};

    if (kind == LOOP_BCAST)
        params.root = root;
    if (kind == LOOP_ALLREDUCE) {
        params.count = bytes / sizeof(double);
        params.type = RGROUP_DOUBLE;
        params.op = RGROUP_SUM;
    }
    if (p->plan != NULL && (p->from != from || p->bytes != bytes)) {
        views_check("rcoll_free", rcoll_free(p->plan));
        p->plan = NULL;
    }
    if (p->plan == NULL)
        views_check("rcoll_plan", rcoll_plan(&p->plan, team, &params));
    p->from = from;
    p->bytes = bytes;
    return p->plan;
}

static void views_run(enum coll_loop_kind kind, const void *from, void *into, size_t bytes,
                      int root)
{
    (void)into;
    if (last != NULL)
        views_check("rcoll_release", rcoll_release(last));
    last = NULL;
    if (kind == LOOP_BARRIER) {
        views_check("rcoll_barrier", rcoll_barrier(team));
        return;
    }
    if ((kind != LOOP_BCAST && kind != LOOP_ALLREDUCE && kind != LOOP_ALLGATHER) || root >= PLANS) {
        fprintf(stderr, "coll_views: bcast, allgather and allreduce of up to %d members\n", PLANS);
        views_abort(2);
    }
    last = views_plan(kind, from, bytes, root);
    views_check("rcoll_start", rcoll_start(last));
    views_check("rcoll_wait", rcoll_wait(last));
}

static double views_most(double mine)
{
    double most = 0;

    views_check("rcoll_allreduce",
                rcoll_allreduce(team, &mine, &most, 1, RGROUP_DOUBLE, RGROUP_MAX));
    return most;
}

static void *views_alloc(size_t bytes)
{
    void *mem = rcoll_alloc(team, bytes);

    views_check("rcoll_alloc", mem == NULL);
    return memset(mem, 0, bytes);
}

static void views_release(void *mem)
{
    if (last != NULL)
        views_check("rcoll_release", rcoll_release(last));
    last = NULL;
    views_check("rcoll_barrier", rcoll_barrier(team)); /* all have read what is in it */
    views_check("rcoll_dealloc", rcoll_dealloc(team, mem));
}

static void views_copy(void *into)
{
    const void *at;
    size_t bytes, done = 0;

    for (int i = 0; last != NULL && rcoll_view(last, i, &at, &bytes) == 0; i++) {
        memcpy((char *)into + done, at, bytes);
        done += bytes;
    }
}

int main(int argc, char **argv)
{
    static const struct coll_library views = {.program = "coll_views",
                                              .library = "rcoll, views",
                                              .run = views_run,
                                              .most = views_most,
                                              .abort = views_abort,
                                              .alloc = views_alloc,
                                              .release = views_release,
                                              .copy_result = views_copy};
    rcoll_team_config_t cfg = {.mem_bytes = 16 << 20};
    int rank, status;

    if (rinit(&rank, &members) != 0 || rcoll_team(&team, &cfg, NULL, members) != 0) {
        fprintf(stderr, "coll_views: %s\n", rerror(NULL));
        return 1;
    }
    status = coll_loop_main(&views, rank, members, argc, argv);
    for (int kind = 0; kind < LOOP_KINDS; kind++)
        for (int root = 0; root < PLANS; root++)
            if (plans[kind][root].plan != NULL)
                views_check("rcoll_free", rcoll_free(plans[kind][root].plan));
    if (rcoll_close(team) != 0 || rexit() != 0)
        return 1;
    return status;
}
