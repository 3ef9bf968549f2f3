/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill_job.c: a job in which one of the two ends is killed: what the others must have seen (scenario.h).
 *
 * They end by themselves, with status 0, which means that everything that they checked was right. Of the messages the
 * survivor has read each one that was complete, and at most one that the dead had no time to count. The call that the death ended,
 * ended after it.
 */
#include "scenario.h"
#include <rinfo.h>
#include <rpipe.h>

#include <signal.h>
#include <sys/wait.h>

/* Everything that waits for a death is to end far below this, on any machine. */
#define MOST_MS 10000

static void took(struct spread *spread, const char *what, const char *which, int64_t from,
                 int64_t to)
{
    double ms = (double)(to - from) / 1e6;

    EXPECT(ms < MOST_MS, "%s: %s ended %.0f ms after the kill", what, which, ms);
    spread_add(spread, ms);
}

static void judge(const struct plan *plan, struct job *job, const char *what, struct spread *calls,
                  struct spread *exits)
{
    struct board_rank *dead = &job->board->rank[plan->victim],
                      *left = &job->board->rank[1 - plan->victim];
    int64_t killed = atomic_load(&job->board->killed), returned = atomic_load(&left->returned);
    uint64_t wrote = atomic_load(&dead->done), got = atomic_load(&left->number);
    int code = atomic_load(&left->code);

    if (plan->early)
        return;
    EXPECT(code == 0 || code == -EPIPE || code == -ECONNRESET,
           "%s: the survivor's part ended with %d (%s): %s", what, code, rinfo_strerror(code),
           left->error_message);
    /* what a network has accepted is lost with its sender */
    EXPECT(got == wrote || got == wrote + 1 || (plan->s->network != NULL && got < wrote),
           "%s: %llu messages read, %llu written; %s", what, (unsigned long long)got,
           (unsigned long long)wrote, left->error_message);
    if (code != 0) {
        EXPECT(returned >= killed || plan->kill_ns > 0, "%s: it ended %.3f ms before the kill: %s",
               what, (double)(killed - returned) / 1e6, left->error_message);
        took(calls, what, left->error_message, killed, returned);
    }
    if (atomic_load(&left->left) > killed)
        took(exits, what, "rexit", killed, atomic_load(&left->left));
}

bool scenario_kill(const struct plan *plan, const char *what, struct spread *calls,
                   struct spread *exits)
{
    struct job job;
    int rank, failures = check_failures;
    bool killed = false;

    job_prepare(&job, SCENARIO_RANKS);
    job_start(&job, scenario_rank, plan);
    for (rank = 0; rank < SCENARIO_RANKS; rank++)
        job_ended(&job, rank);
    if (plan->victim >= 0)
        killed =
            WIFSIGNALED(job.status[plan->victim]) && WTERMSIG(job.status[plan->victim]) == SIGKILL;
    for (rank = 0; rank < SCENARIO_RANKS; rank++)
        EXPECT(job_status_is(&job, rank, 0) || (killed && rank == plan->victim),
               "%s, %s: rank %d%s: status 0x%x", what, plan->s->name, rank,
               rank == plan->victim ? ", the victim" : "", job.status[rank]);
    if (killed && failures == check_failures)
        judge(plan, &job, what, calls, exits);
    if (failures != check_failures)
        printf("    that was: %s, victim %d, %s, time %u\n", plan->s->name, plan->victim, what,
               plan->nth);
    job_finish(&job);
    return killed;
}
