/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short collectives in one call each: those that find nothing in flight, which are executed by themselves, between those that find a plan
 * that has been started, one whose deadline has passed, or a member that is late. All count the same operations, so all results are right.
 * -bound: ranks share two processors, and each is bound to one of them, so that it polls what comes from the other one.
 */
#include "test/lib/mp_check.h"

#include <rcoll.h>
#include <sched.h>

#define ROUNDS 3000
#define LATE                                                                                       \
    20000 /* steps of a computation that is longer than a member polls before its operation is queued */

static uint64_t shared; /* the same sequence at all ranks */

static uint32_t draw(uint32_t below) { return (uint32_t)(mp_draw(&shared) % below); }

static void be_late(void)
{
    volatile uint64_t x = 1;

    for (int i = 0; i < LATE; i++)
        x = x * 3;
}

/* What rank r contributes to an operation. */
static uint64_t value(uint64_t round, int r) { return round * 1000 + (uint64_t)r; }

static uint64_t sum_to(uint64_t round, int last)
{
    uint64_t sum = 0;

    for (int r = 0; r <= last; r++)
        sum += value(round, r);
    return sum;
}

/* Word i is `first`, and i for each of n members. */
static void check_words(const uint64_t *words, size_t count, uint64_t first, int n)
{
    for (size_t i = 0; i < count; i++)
        CHECK(NULL, words[i] == first + i * (uint64_t)n);
}

/* One collective, whose result is checked. */
static void one(rteam_t team, uint64_t round)
{
    uint64_t from[16], into[16]; /* 6 are in one line of a cell, 14 in both, more are not in it */
    size_t count = 1 + draw(16);
    int root = (int)draw((uint32_t)mp_ranks);

    for (size_t i = 0; i < count; i++)
        from[i] = into[i] = value(round, mp_rank) + i;
    switch (draw(4)) {
    case 0:
        CHECK_OK(NULL, rcoll_barrier(team));
        return;
    case 1:
        CHECK_OK(NULL, rcoll_bcast(team, into, count * sizeof(*into), root));
        check_words(into, count, value(round, root), 1);
        return;
    case 2:
        CHECK_OK(NULL, rcoll_scan(team, from, into, count, RGROUP_UINT64, RGROUP_SUM));
        check_words(into, count, sum_to(round, mp_rank), mp_rank + 1);
        return;
    default:
        CHECK_OK(NULL, rcoll_allreduce(team, from, into, count, RGROUP_UINT64, RGROUP_SUM));
        check_words(into, count, sum_to(round, mp_ranks - 1), mp_ranks);
    }
}

/* One call of three finds a plan in flight; in one round of eight a member is late. */
static void rounds(rteam_t team)
{
    uint64_t from, into;
    rcoll_params_t p = rcoll_params_of(RCOLL_ALLREDUCE, &from, &into, 1);
    rplan_t plan;

    p.type = RGROUP_UINT64;
    CHECK_OK(NULL, rcoll_plan(&plan, team, &p));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        bool starts = draw(3) == 0;

        if (draw(8) == 0 && draw((uint32_t)mp_ranks) == (uint32_t)mp_rank)
            be_late();
        from = value(round, mp_rank);
        if (starts)
            CHECK_OK(NULL, rcoll_start(plan));
        one(team, round);
        if (!starts)
            continue;
        CHECK_OK(NULL, rcoll_wait(plan));
        CHECK(NULL, into == sum_to(round, mp_ranks - 1));
    }
    CHECK_OK(NULL, rcoll_free(plan));
}

/* More of one root than there are cells: it needs the numbers that the others publish. */
static void one_root(rteam_t team)
{
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t x = mp_rank == 0 ? i : 0;

        CHECK_OK(NULL, rcoll_bcast(team, &x, sizeof(x), 0));
        CHECK(NULL, x == i);
    }
}

/* Rank 0 comes when the deadline of all others has passed; the operation goes on beside later ones. */
static void late_for_a_deadline(rteam_t team, rteam_t other)
{
    if (mp_rank > 0) {
        CHECK_OK(NULL, rcoll_set_timeout(team, R_AT_ONCE));
        CHECK_RC(-ETIMEDOUT, NULL, rcoll_barrier(team));
        CHECK_OK(NULL, rcoll_set_timeout(team, R_FOREVER));
    }
    CHECK_OK(NULL, rcoll_barrier(other));
    if (mp_rank == 0)
        CHECK_OK(NULL, rcoll_barrier(team));
}

/* To the first or the second processor that there is. */
static void bind_to_one_of_two(void)
{
    cpu_set_t all, own;
    int found = 0;

    CHECK(NULL, sched_getaffinity(0, sizeof(all), &all) == 0);
    CPU_ZERO(&own);
    for (size_t i = 0; i < CPU_SETSIZE && found < 2; i++) {
        if (!CPU_ISSET(i, &all) || (found++ == 1 && mp_rank % 2 == 0))
            continue;
        CPU_ZERO(&own);
        CPU_SET(i, &own);
    }
    CHECK(NULL, sched_setaffinity(0, sizeof(own), &own) == 0);
}

int main(int argc, char **argv)
{
    rcoll_team_config_t cfg = {.context = 1};
    rteam_t team, other;

    mp_begin(argc, argv, 1);
    if (mp_asked(argc, argv, "-bound"))
        bind_to_one_of_two();
    cfg.depth = 4u << mp_seed % 5;
    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    CHECK_OK(NULL, rcoll_team(&other, NULL, NULL, mp_ranks));
    rounds(team);
    for (int i = 0; i < 3 && mp_ranks > 1; i++) {
        late_for_a_deadline(team, other);
        rounds(team);
        one_root(team);
    }
    CHECK_OK(NULL, rcoll_close(other));
    CHECK_OK(NULL, rcoll_close(team));
    return mp_end();
}
