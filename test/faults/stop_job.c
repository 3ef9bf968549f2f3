/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stop_job.c: a job in which one of the two ends is stopped, and goes on later: what the others must have seen (scenario.h).
 *
 * A call of the other end ends by its deadline, or does not need the stopped rank; in a team the message of a deadline names it. Then that one goes on; every message is
 * there, once, and right, and all ranks end with status 0, as if nothing had been.
 */
#include "scenario.h"

#include "failpoint.h"

#include <signal.h>
#include <sys/wait.h>

#define PATIENT_MS 40 /* how long one is stopped where no call of the other ends by its deadline */

/*
 * True: it has stopped, as the kernel has reported: a SIGCONT that came before the SIGSTOP would be lost. False: it has played its
 * part without passing the step so often.
 */
static bool wait_stopped(struct job *job, const struct plan *plan)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);
    bool passed;

    for (;;) {
        siginfo_t info = {.si_pid = 0};

        passed = atomic_load(&plan->table->happened) != 0;
        if (waitid(P_PID, (id_t)job->pid[plan->victim], &info, WSTOPPED | WNOHANG) == 0 &&
            info.si_pid != 0)
            return true;
        if (!passed && atomic_load(&job->board->rank[plan->victim].phase) == 3)
            return false;
        EXPECT(!deadline_passed(patience), "rank %d neither stops nor ends", plan->victim);
        if (deadline_passed(patience))
            return false;
        backoff_us(100);
    }
}

/* Deadlines of the other end that have passed; of a team, deadlines of all that live whose message names the one that is stopped. */
static uint64_t count_reported(const struct job *job, const struct plan *plan)
{
    uint64_t n = 0;

    if (plan->s->network == NULL || !plan->s->network->team)
        return atomic_load(&job->board->rank[1 - plan->victim].late);
    for (int rank = 0; rank < SCENARIO_RANKS; rank++)
        n += rank != plan->victim ? atomic_load(&job->board->rank[rank].named) : 0;
    return n;
}

/* One that lives is in a call that no deadline ends. */
static bool is_patient(const struct job *job, const struct plan *plan)
{
    for (int rank = 0; rank < SCENARIO_RANKS; rank++)
        if (rank != plan->victim && atomic_load(&job->board->rank[rank].patient) != 0)
            return true;
    return false;
}

/* By a deadline; and for as long as it is to be stopped, by one after the other. */
static bool wait_reported(struct job *job, const struct plan *plan, const char *what)
{
    struct board_rank *other = &job->board->rank[1 - plan->victim];
    bool joined = atomic_load(&job->board->rank[plan->victim].phase) > 0;
    uint64_t before = count_reported(job, plan);
    int64_t patience = deadline_in_ms(PATIENCE_MS), until = deadline_in_ms(plan->stopped_ms),
            impatient = clock_now(); /* the last time that all were */

    if (plan->s->patient || !joined) {
        backoff_us(PATIENT_MS * 1000);
        return false;
    }
    while ((count_reported(job, plan) == before || !deadline_passed(until)) &&
           atomic_load(&other->phase) < 2) {
        EXPECT(!deadline_passed(patience),
               "%s: no deadline ends a call that waits for it, and names it", what);
        if (deadline_passed(patience))
            return false;
        if (!is_patient(job, plan))
            impatient = clock_now();
        else if (clock_now() - impatient > PATIENT_MS * NS_PER_MS)
            return false;
        backoff_us(200);
    }
    return count_reported(job, plan) > before;
}

bool scenario_stop(const struct plan *plan, const char *what, int *reported)
{
    int rank, failures = check_failures;
    struct job job;
    bool happened;

    job_prepare(&job, SCENARIO_RANKS);
    job_start(&job, scenario_rank, plan);
    happened = wait_stopped(&job, plan);
    if (happened) {
        *reported += wait_reported(&job, plan, what);
        job_kill(&job, plan->victim, SIGCONT);
    }
    for (rank = 0; rank < SCENARIO_RANKS; rank++)
        job_ended(&job, rank);
    for (rank = 0; rank < SCENARIO_RANKS; rank++) {
        EXPECT(job_status_is(&job, rank, 0), "%s: rank %d: status 0x%x", what, rank,
               job.status[rank]);
        EXPECT(atomic_load(&job.board->rank[rank].code) == 0, "%s: rank %d: %s", what, rank,
               job.board->rank[rank].error_message);
    }
    if (failures != check_failures)
        printf("    that was: %s, victim %d, %s, time %u\n", plan->s->name, plan->victim, what,
               plan->nth);
    job_finish(&job);
    return happened;
}
