/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario_team.c: a team of the two ends: operations of one line, of blocks, and of several chunks, plans that overlap, an agreement,
 * a team of those that live: see scenario.h. The survivor gets -ECONNRESET and the member, agrees with itself, and goes on with a team of one.
 */
#include "scenario_ends.h"

#include <rcoll.h>

#define COUNT 30000 /* doubles of the longest operation: several chunks, and parts of the heap */
#define ROUNDS 3

static double mine[COUNT], sum[COUNT];

static void check_sum(const struct player *p, size_t count, int round)
{
    (void)p;
    for (size_t i = 0; i < count; i += 1 + count / 7)
        CHECK(NULL, sum[i] == 3 * (double)i + round);
}

/* Contributions of rank r are (r + 1) i, and rank 0 adds the round. */
static void fill(const struct player *p, size_t count, int round)
{
    for (size_t i = 0; i < count; i++)
        mine[i] = (p->rank + 1) * (double)i + (p->rank == 0 ? round : 0);
}

static int add(struct player *p, rteam_t team, size_t count, int round)
{
    int rc;

    fill(p, count, round);
    rc = rcoll_allreduce(team, mine, sum, count, RGROUP_DOUBLE, RGROUP_SUM);
    if (rc == 0)
        check_sum(p, count, round);
    return rc;
}

/* Two operations at a time; the memory of one, too long for a cell, is read by the other process, where that is permitted. */
static int overlap(struct player *p, rteam_t team)
{
    rcoll_params_t params = rcoll_params_of(RCOLL_BCAST, mine, mine, 1000);
    rplan_t plan[2] = {NULL, NULL};
    int rc = 0;

    (void)p;
    for (int i = 0; i < 2 && rc == 0; i++) {
        params.root = i;
        params.algorithm = i == 1 ? "fetch" : NULL;
        rc = rcoll_plan(&plan[i], team, &params);
        if (rc == -ENOTSUP) {
            params.algorithm = NULL;
            rc = rcoll_plan(&plan[i], team, &params);
        }
    }
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = rcoll_start(plan[i]);
    for (int i = 1; i >= 0 && rc == 0; i--)
        rc = rcoll_wait(plan[i]);
    for (int i = 0; i < 2; i++)
        if (plan[i] != NULL)
            (void)rcoll_free(plan[i]);
    return rc;
}

/* A team of those that live: of both, if the peer does not die meanwhile. */
static int shrink(struct player *p, rteam_t team)
{
    rteam_t living = NULL;
    int rc;

    CHECK_OK(NULL, rcoll_shrink(&living, team));
    rc = rcoll_size(living) == 2 ? add(p, living, 1, 0) : -ECONNRESET;
    CHECK(NULL, rcoll_close(living) == 0 || rc != 0);
    return rc;
}

static int operate(struct player *p, rteam_t team)
{
    uint64_t flags = p->rank == 0 ? 7 : 5;
    int dead[2], rc = 0;

    for (int i = 0; i < ROUNDS && rc == 0; i++) {
        if (i % 2 == p->rank)
            backoff_us(3000); /* the other one sleeps */
        rc = rcoll_barrier(team);
        if (rc == 0)
            rc = add(p, team, 1, i);
        if (rc == 0)
            rc = add(p, team, COUNT, i);
        if (rc == 0)
            rc = overlap(p, team);
    }
    if (rc != 0)
        return rc;
    rc = rcoll_agree(team, &flags, dead, 2);
    CHECK(NULL, rc < 0 || (rc == 0 && flags == 5) || (rc == 1 && dead[0] == p->peer));
    return rc == 1 ? -ECONNRESET : rc == 0 ? shrink(p, team) : rc;
}

/* The peer is dead: what is left of the team goes on. */
static void survive(struct player *p, rteam_t team)
{
    rteam_t living = NULL;
    uint64_t flags = 3;
    int dead[2] = {-1, -1};
    double one = 1, all = 0;

    CHECK(NULL, rcoll_agree(team, &flags, dead, 2) == 1 && dead[0] == p->peer && flags == 3);
    CHECK(NULL, rcoll_shrink(&living, team) == 0);
    if (living == NULL)
        return;
    CHECK(NULL, rcoll_size(living) == 1 && rcoll_peer(living, 0) == p->rank);
    CHECK(NULL, rcoll_allreduce(living, &one, &all, 1, RGROUP_DOUBLE, RGROUP_SUM) == 0 && all == 1);
    CHECK(NULL, rcoll_close(living) == 0);
}

int scene_team(struct player *p)
{
    int member = -1, rc;
    rteam_t team;

    rc = rcoll_team(&team, NULL, NULL,
                    2); /* its deadline is RPIPE_TIMEOUT_MS, which no stop reaches */
    CHECK(NULL, rc == 0 || rc == -ECONNRESET);
    if (rc != 0)
        return rc;
    rc = operate(p, team);
    CHECK(NULL, rc == 0 || rc == -ECONNRESET);
    if (rc == -ECONNRESET && rcoll_lost(team, &member) != 0)
        CHECK(NULL, member == p->peer);
    if (rc == -ECONNRESET)
        survive(p, team);
    CHECK(NULL, rcoll_close(team) == 0 || rc != 0);
    return rc;
}
