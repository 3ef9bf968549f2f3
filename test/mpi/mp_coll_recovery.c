/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members of a team die in the middle of its operations, one after the other: each time all that live get the code and the member,
 * agree on flags and on the dead, and go on as a smaller team, until one is left. -apart: each rank is a host of its own; -cast, on several hosts: what can
 * go by casts does, with losses; -async: a thread of the library advances the operations, and the descriptor shows that they have
 * ended; -fetch: broadcasts are read from the memory of the root; -withdrawn: so they are, and the root changes it when the operation
 * has failed.
 *
 * On one host the time from each death to the error of the last living member is printed; rcoll_agree(3) promises 100 ms. A machine that is busy with other
 * things may take longer, so that is asked of the best death.
 */
#include "test/lib/mp_check.h"

#include <poll.h>
#include <rcoll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 100000

/* ---- how long it takes ---- */

#define PROMISED_MS 100

static rboard_t moments; /* of each rank: when it dies, in ms; NULL: not on one host */
static double best_ms = -1;

static void open_moments(void)
{
    rboard_config_t cfg = {.context = rcontext("mp_coll_recovery"), .flags = RBOARD_GO_ON};

    CHECK_OK(NULL, rboard_open(&moments, &cfg, NULL, mp_ranks));
    CHECK_OK(NULL, rboard_wait(moments));
    for (int i = 0; i < mp_ranks && moments != NULL; i++)
        if (rboard_host(moments, i) != 0) {
            CHECK_OK(NULL, rboard_close(moments));
            moments = NULL;
        }
}

static void die(void)
{
    if (moments != NULL)
        atomic_store_explicit((_Atomic double *)rboard_mem(moments), now_ms(),
                              memory_order_release);
    raise(SIGKILL);
}

/* ms from the death of a rank, of which the error has just been returned. */
static double since_death(int rank)
{
    const _Atomic double *moment = moments != NULL ? rboard_mem_of(moments, rank) : NULL;

    if (moment == NULL)
        return 0;
    return now_ms() - atomic_load_explicit(moment, memory_order_acquire);
}

/* Of all that live the one that has noticed last. */
static void measured(rteam_t living, int rank, double ms)
{
    double last = ms;

    if (moments == NULL)
        return;
    CHECK_OK(NULL, rcoll_allreduce(living, &ms, &last, 1, RGROUP_DOUBLE, RGROUP_MAX));
    if (rcoll_rank(living) == 0)
        printf("rank %d has died: the last of %d members got the error after %.2f ms\n", rank,
               rcoll_size(living), last);
    best_ms = best_ms < 0 || last < best_ms ? last : best_ms;
}

/* ---- deaths ---- */

/*
 * A loop of operations in which the victim dies: how it ends for the others. The first operation is over by then: so the others have
 * opened the team.
 */
static int until_death(rteam_t team, int victim, int step)
{
    double values[300], sums[300];
    int n = rcoll_size(team), rc = 0;

    for (int i = 0; i < 300; i++)
        values[i] = i + rcoll_rank(team);
    for (int i = 0; i < STEPS && rc == 0; i++) {
        size_t count = i % 3 == 0 ? 1 : i % 3 == 1 ? 300 : 6;

        if (i == step && rcoll_rank(team) == victim)
            die();
        rc = i % 4 == 3 ? rcoll_bcast(team, sums, 2000, i % n)
                        : rcoll_allreduce(team, values, sums, count, RGROUP_DOUBLE, RGROUP_SUM);
        if (rc == 0 && i % 4 != 3)
            CHECK(NULL, sums[count - 1] == n * (double)(count - 1) + n * (n - 1) / 2.0);
    }
    return rc;
}

/* Both have opened the team. The survivor has started a barrier: the descriptor becomes readable, and the plan has the code. */
static int until_failure(rteam_t team, int victim)
{
    rcoll_params_t barrier = {.kind = RCOLL_BARRIER};
    struct pollfd p = {.fd = rcoll_fd(team), .events = POLLIN};
    rplan_t plan;
    int rc;

    CHECK(NULL, p.fd >= 0);
    CHECK_OK(NULL, rcoll_plan(&plan, team, &barrier));
    rc = rcoll_barrier(team);
    if (rcoll_rank(team) == victim)
        die();
    if (rc == 0)
        rc = rcoll_start(plan);
    while (rc == 0 && (rc = rcoll_test(plan)) == R_PENDING) {
        CHECK(NULL, poll(&p, 1, 60000) == 1);
        rc = 0;
    }
    return rc;
}

/* ---- memory of a member whose operation has failed ---- */

#define LENT 100000 /* bytes */

static _Atomic uint32_t *await_word(rboard_t b, int member, uint32_t value)
{
    _Atomic uint32_t *word = (_Atomic uint32_t *)(uintptr_t)rboard_mem_of(b, member);
    rboard_word_t awaited = {word, 0};

    while ((awaited.seen = atomic_load_explicit(word, memory_order_acquire)) != value)
        CHECK_OK(NULL, rboard_sleep(b, &awaited, 1, R_FOREVER));
    return word;
}

static void set_word(rboard_t b, uint32_t value)
{
    _Atomic uint32_t *word = rboard_mem(b);

    atomic_store_explicit(word, value, memory_order_release);
    rboard_wake(b, word);
}

/*
 * Rank 2 dies; the broadcast of rank 0 fails, and rank 0 changes what it has lent. Only then does rank 1 begin, and read: what it gets is the
 * failure, or what rank 0 has sent.
 */
static void changed_after_failure(void)
{
    static char bytes[LENT];
    rboard_config_t cfg = {.flags = RBOARD_GO_ON};
    rteam_t team;
    rboard_t b;
    int rc;

    CHECK_OK(NULL, rboard_open(&b, &cfg, NULL, mp_ranks));
    CHECK_OK(NULL, rboard_wait(b));
    CHECK_OK(NULL, rcoll_team(&team, NULL, NULL, mp_ranks));
    if (mp_rank == 2) {
        (void)await_word(b, 1, 1);
        raise(SIGKILL);
    }
    if (mp_rank == 0) {
        memset(bytes, 1, LENT);
        set_word(b, 0);
        CHECK_RC(-ECONNRESET, NULL, rcoll_bcast(team, bytes, LENT, 0));
        memset(bytes, 2, LENT);
        set_word(b, 1);
        (void)await_word(b, 1, 2);
    } else {
        set_word(b, 1);
        (void)await_word(b, 0, 1);
        rc = rcoll_bcast(team, bytes, LENT, 0);
        CHECK(NULL, rc == -ECONNRESET);
        set_word(b, 2);
    }
    CHECK_OK(NULL, rcoll_close(team));
    CHECK_OK(NULL, rboard_close(b));
}

/* What each living member gets of the death of one, and how it goes on: the team of those that are left. */
static rteam_t lose_one(rteam_t team, int victim, int step, bool polls)
{
    int n = rcoll_size(team), rank = rcoll_peer(team, victim), member = -1, dead[8] = {-1};
    uint64_t flags = ~(UINT64_C(1) << rcoll_rank(team));
    char named[64];
    rteam_t living;
    double ms;

    CHECK_RC(-ECONNRESET, NULL,
             polls ? until_failure(team, victim) : until_death(team, victim, step));
    ms = since_death(rank);
    snprintf(named, sizeof(named), "rank %d", rank);
    CHECK_ERROR(NULL, named);
    CHECK_ERROR(NULL, "has died");
    CHECK_ERROR(NULL, "operation ");
    CHECK(NULL, rcoll_lost(team, &member) == -ECONNRESET && member == victim);
    CHECK_RC(-ECONNRESET, NULL, rcoll_barrier(team));
    CHECK(NULL, rcoll_agree(team, &flags, dead, 8) == 1 && dead[0] == victim);
    CHECK(NULL, flags == (~(UINT64_C(0)) << n | UINT64_C(1) << victim));
    CHECK_OK(NULL, rcoll_shrink(&living, team));
    CHECK(NULL, rcoll_size(living) == n - 1);
    CHECK_OK(NULL, rcoll_close(team));
    measured(living, rank, ms);
    return living;
}

int main(int argc, char **argv)
{
    rcoll_team_config_t cfg = {.flags = mp_asked(argc, argv, "-async") ? RCOLL_ASYNC : 0};
    uint64_t state = 0;
    rteam_t team;

    if (mp_asked(argc, argv, "-cast")) {
        setenv("RCOLL_ALGORITHM", "bcast=cast,allreduce=cast:4,barrier=cast:4", 1);
        setenv("RPIPE_CAST_LOSE", "1:5", 1);
    }
    if (mp_asked(argc, argv, "-apart"))
        setenv("RPIPE_CONTROL", "tcp", 1);
    if (mp_asked(argc, argv, "-fetch") || mp_asked(argc, argv, "-withdrawn"))
        setenv("RCOLL_ALGORITHM", "bcast=fetch", 1);
    mp_begin(argc, argv, 2);
    if (mp_asked(argc, argv, "-withdrawn")) {
        changed_after_failure();
        return mp_end();
    }
    if (!mp_asked(argc, argv, "-cast") && !mp_asked(argc, argv, "-apart"))
        open_moments();
    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    while (rcoll_size(team) > 1) {
        int n = rcoll_size(team), victim = (int)(mp_draw(&state) % (uint64_t)n);
        int step = 1 + (int)(mp_draw(&state) % 499);

        team = lose_one(team, victim, step, cfg.flags != 0 && n == 2);
    }
    CHECK_OK(NULL, rcoll_close(team));
    REQUIRE(best_ms <= PROMISED_MS, "the best of the deaths took %.1f ms", best_ms);
    return mp_end();
}
