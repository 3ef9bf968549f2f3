/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members that wait for each other, each in another operation, get -EPROTO, and not their deadlines, which are far: in a ring of all members; on two
 * hosts in a ring of three of four; where those that are asked are late. They wait, poll by rcoll_test, or leave all to the thread of RCOLL_ASYNC.
 * Which cases there are depends on the number of ranks. -apart: each rank is a host of its own.
 */
#include "test/lib/mp_check.h"

#include <poll.h>
#include <rcoll.h>
#include <sched.h>
#include <stdlib.h>

#define DEADLINE_MS 25000 /* that of the team: a test that comes to it fails */

enum how { WAIT, POLL, ASYNC };

static uint64_t mine[8], all[64];

static rteam_t open_team(enum how how)
{
    rcoll_team_config_t cfg = {.timeout_ms = DEADLINE_MS, .flags = how == ASYNC ? RCOLL_ASYNC : 0};
    rteam_t team;

    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    CHECK_OK(NULL, network_barrier()); /* all have opened it before it fails */
    return team;
}

/* Member i of a broadcast in a tree of large radix receives from the root alone; in a chain from the one before, and the root is the first. */
static rcoll_params_t bcast(int root, const char *algorithm)
{
    return (rcoll_params_t){.kind = RCOLL_BCAST,
                            .from = mine,
                            .into = mine,
                            .count = 1,
                            .element = sizeof(mine[0]),
                            .root = root,
                            .algorithm = algorithm};
}

/* Member i receives from member i - 1. */
static rcoll_params_t scan(void)
{
    return (rcoll_params_t){.kind = RCOLL_SCAN,
                            .from = mine,
                            .into = all,
                            .count = 1,
                            .type = RGROUP_UINT64,
                            .algorithm = "linear"};
}

/* Member `root` receives from each other one, and these wait for nothing. */
static rcoll_params_t gather(int root)
{
    return (rcoll_params_t){.kind = RCOLL_GATHER,
                            .from = mine,
                            .into = all,
                            .count = 1,
                            .element = sizeof(mine[0]),
                            .root = root,
                            .algorithm = "linear"};
}

static rplan_t start(rteam_t team, const rcoll_params_t *p)
{
    rplan_t plan;

    CHECK_OK(NULL, rcoll_plan(&plan, team, p));
    CHECK_OK(NULL, rcoll_start(plan));
    return plan;
}

static int end_by_polls(rplan_t plan)
{
    const double end = now_ms() + DEADLINE_MS;
    int rc;

    while ((rc = rcoll_test(plan)) == R_PENDING && now_ms() < end)
        sched_yield();
    return rc;
}

/* No call of the team advances it, but for the one that drains the descriptor. */
static int end_by_thread(rteam_t team, rplan_t plan)
{
    struct pollfd ended = {.fd = rcoll_fd(team), .events = POLLIN};
    int rc;

    CHECK(NULL, ended.fd >= 0);
    rc = rcoll_test(plan);
    if (rc != R_PENDING)
        return rc;
    CHECK(NULL, poll(&ended, 1, DEADLINE_MS) == 1);
    return rcoll_test(plan);
}

/* The operation of this member never ends: all get the same code, and the team has failed. */
static void expect_mismatch(rteam_t team, const rcoll_params_t *p, enum how how)
{
    rplan_t plan = start(team, p);
    int member = -1;

    CHECK_RC(-EPROTO, NULL,
             how == WAIT   ? rcoll_wait(plan)
             : how == POLL ? end_by_polls(plan)
                           : end_by_thread(team, plan));
    CHECK(NULL, rcoll_lost(team, &member) == -EPROTO && member >= 0 && member < mp_ranks);
    CHECK_RC(-EPROTO, NULL, rcoll_barrier(team));
    CHECK_OK(NULL, rcoll_close(team));
}

/* Member i waits for member i + 1, and member 0 is the next one of the last. `first`: how member 0 waits. */
static void in_a_ring(enum how first, enum how others)
{
    const rcoll_params_t p = bcast((mp_rank + 1) % mp_ranks, "tree:16");
    rteam_t team = open_team(first == ASYNC ? ASYNC : others);

    expect_mismatch(team, &p, mp_rank == 0 ? first : others);
}

/*
 * With two members on each of two hosts those of a host do the same. 1 waits for 3, which waits for 2, which waits for 1; between 1 and 3, and between 2
 * and 1, there is a pipe in one direction alone.
 */
static void on_two_hosts(enum how how)
{
    const rcoll_params_t p = mp_rank < 2 ? bcast(3, "tree:16") : scan();

    expect_mismatch(open_team(how), &p, how);
}

/*
 * 1 and 2 do a scan: 1 waits for 0, and 2 for 1. 3, 4 and 0 do a broadcast from 2, in a chain: 3 waits for 2, 4 for 3, and 0 for 4. So 1 has to
 * ask 0, and 3 has to ask 2; and when they do so for the first time, 0 and 2 wait in the operations before, for 4, which is late.
 */
static void when_all_that_are_asked_are_late(void)
{
    const rcoll_params_t before[2] = {gather(0), gather(2)};
    const rcoll_params_t p = mp_rank == 1 || mp_rank == 2 ? scan() : bcast(2, "chain:8");
    rteam_t team = open_team(WAIT);
    rplan_t plan[2];

    if (mp_rank == 4)
        compute_ms(1500);
    for (int k = 0; k < 2; k++)
        plan[k] = start(team, &before[k]);
    for (int k = 0; k < 2; k++)
        CHECK_OK(NULL, rcoll_wait(plan[k]));
    expect_mismatch(team, &p, WAIT);
}

/*
 * Blocks whose lengths differ by whole parts, or by the word that short ones have before them: what member 0 sends to member 1, and the other
 * expects.
 */
static void in_lengths(size_t sends, size_t expects)
{
    enum { MOST = 4096 };
    static uint64_t from[MOST], into[MOST];
    rcoll_team_config_t cfg = {.timeout_ms = DEADLINE_MS, .heap_bytes = 65536};
    size_t out[16] = {0}, in[16] = {0};
    rcoll_params_t p = {.kind = RCOLL_ALLTOALL,
                        .from = from,
                        .into = into,
                        .counts = out,
                        .counts_in = in,
                        .element = sizeof(from[0])};
    rteam_t team;
    int rc;

    CHECK(NULL, mp_ranks <= 16 && sends <= MOST && expects <= MOST);
    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    CHECK_OK(NULL, network_barrier());
    out[1] = mp_rank == 0 ? sends : 0;
    in[0] = mp_rank == 1 ? expects : 0;
    rc = rcoll_run(team, &p);
    CHECK(NULL, rc == -EPROTO || (rc == 0 && mp_rank != 1)); /* the others may be over with it */
    CHECK_RC(-EPROTO, NULL, rcoll_barrier(team));
    CHECK_OK(NULL, rcoll_close(team));
}

int main(int argc, char **argv)
{
    size_t part;

    if (mp_asked(argc, argv, "-apart"))
        setenv("RPIPE_CONTROL", "tcp", 1);
    mp_begin(argc, argv, 2);
    in_a_ring(WAIT, WAIT);
    part = 65536 / 2 / (size_t)mp_ranks / sizeof(uint64_t);
    in_lengths(2 * part, part);
    in_lengths(part, 2 * part);
    in_lengths(12, 14); /* with a word the shorter one is as long */
    in_lengths(14, 12);
    if (mp_ranks == 3) {
        in_a_ring(POLL, WAIT);
        in_a_ring(POLL, POLL);
        in_a_ring(ASYNC, ASYNC);
    }
    if (mp_ranks == 4) {
        on_two_hosts(WAIT);
        on_two_hosts(ASYNC);
    }
    if (mp_ranks == 5)
        when_all_that_are_asked_are_late();
    return mp_end();
}
