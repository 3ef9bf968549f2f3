/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stops.c: either end is stopped (SIGSTOP) at every step that the library names, and goes on later.
 *
 * Who is stopped is not dead: calls of the other end go on, as far as they do not need it, or end with -ETIMEDOUT when their deadline
 * has passed. They are made again, and after SIGCONT everything goes on: every message is there, once, and right, and all
 * ranks end as if nothing had been.
 *
 *     stops [TIMES [NAME]]       one of the two ends is stopped TIMES times at each step whose name contains NAME
 */
#include "survey.h"

#include <signal.h>
#include <sys/wait.h>

#define DEADLINE_MS 40
#define PATIENT_MS 40 /* how long one is stopped where no call of the other ends by its deadline */
#define TRIES 8

static int times = 1;

/*
 * True: it has stopped, of which the kernel has told: a SIGCONT that came before the SIGSTOP would be lost. False: it has played its
 * part without passing the step so often.
 */
static bool wait_stopped(struct job *job, const struct plan *plan)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);
    bool passed;

    for (;;) {
        siginfo_t info = {.si_pid = 0};

        passed = atomic_load(&plan->table->happened) != 0;
        if (waitid(P_PID, (id_t)job->pid[plan->victim], &info, WSTOPPED | WNOHANG) == 0 && info.si_pid != 0)
            return true;
        if (!passed && atomic_load(&job->board->rank[plan->victim].phase) == 3)
            return false;
        EXPECT(!deadline_passed(patience), "rank %d neither stops nor ends", plan->victim);
        if (deadline_passed(patience))
            return false;
        nap_us(100);
    }
}

/* The other end is told by a deadline, or has no need of the one who is stopped. */
static bool wait_told(struct job *job, const struct plan *plan, const char *what)
{
    struct board_rank *other = &job->board->rank[1 - plan->victim];
    bool joined = atomic_load(&job->board->rank[plan->victim].phase) > 0;
    uint64_t before = atomic_load(&other->late);
    int64_t patience = deadline_in_ms(PATIENCE_MS);

    if (plan->s->patient || !joined) {
        nap_us(PATIENT_MS * 1000);
        return false;
    }
    while (atomic_load(&other->late) == before && atomic_load(&other->phase) < 2) {
        EXPECT(!deadline_passed(patience), "%s: no deadline ends the call of the other end", what);
        if (deadline_passed(patience))
            return false;
        nap_us(200);
    }
    return atomic_load(&other->late) > before;
}

static bool stop(const struct plan *plan, const char *what, struct findings *f)
{
    int rank, failures = job_failures;
    struct job job;
    bool happened;

    job_prepare(&job, SCENARIO_RANKS);
    job_start(&job, scenario_rank, plan);
    happened = wait_stopped(&job, plan);
    if (happened) {
        f->told += wait_told(&job, plan, what);
        job_kill(&job, plan->victim, SIGCONT);
    }
    for (rank = 0; rank < SCENARIO_RANKS; rank++)
        job_ended(&job, rank);
    for (rank = 0; rank < SCENARIO_RANKS; rank++) {
        EXPECT(job_status_is(&job, rank, 0), "%s: rank %d: status 0x%x", what, rank, job.status[rank]);
        EXPECT(atomic_load(&job.board->rank[rank].code) == 0, "%s: rank %d: %s", what, rank,
               job.board->rank[rank].sentence);
    }
    if (failures != job_failures)
        printf("    that was: %s, victim %d, %s, time %u\n", plan->s->name, plan->victim, what, plan->nth);
    job_finish(&job);
    f->done += happened;
    return happened;
}

static bool stop_once(unsigned step, int end, bool first, uint64_t *random, struct findings *f)
{
    struct plan plan;

    if (!survey_plan(&plan, step, end, first, random))
        return false;
    plan.sig = SIGSTOP;
    plan.timeout_ms = DEADLINE_MS;
    plan.again = true;
    return stop(&plan, step_name(step), f);
}

/* Ends in turn, from one that is drawn; once only: that one, or the other if it never comes there. */
static void stop_at(unsigned step, uint64_t random, struct findings *f)
{
    int from = (int)(draw(&random) % 2), i, tries, before = f->done;

    for (i = 0, tries = 0; i < times && tries < TRIES + 2 * times; tries++)
        i += stop_once(step, (from + tries) % 2, i == 0, &random, f);
    f->steps += f->done > before;
}

int main(int argc, char **argv)
{
    uint64_t seed = seed_of(argc, argv);
    static struct findings sum;

    if (argc > 1)
        times = atoi(argv[1]);
    setenv("RPIPE_LOG", "error", 0);
    survey_all(false);
    if (job_failures == 0) /* else all of them would fail in the same way */
        survey_share(stop_at, argc > 2 ? argv[2] : NULL, seed, &sum);
    printf("%d stops at %d of %u steps; %d were told by a deadline\n", sum.done, sum.steps, step_count(), sum.told);
    printf("%s\n", job_failures == 0 ? "all went on" : "FAILED");
    return job_failures == 0 ? 0 : 1;
}
