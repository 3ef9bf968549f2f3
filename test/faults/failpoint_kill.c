/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint_kill.c: either end is killed at every step that the library names (lib/util/failpoint.h, doc/faults.md).
 *
 * The steps are those of the program itself; failpoint_survey.c finds out in which scenarios each end passes which. Then each end dies at each
 * of its steps: at the first time, and with TIMES more than 1 at others that are drawn, in scenarios that are drawn. What the others must
 * see is in kill_job.c.
 *
 * rpipe(7) promises 100 ms on shm. A machine that is busy with other things may take longer, so that is asked of the best of
 * several deaths at a step alone, and not at all where a bare kill takes long to be noticed.
 *
 *     failpoint_kill [TIMES [NAME]]       each end dies TIMES times at each step whose name contains NAME
 */
#include "failpoint_survey.h"

#include <signal.h>
#include <sys/wait.h>

#define PROMISED_MS 100
#define QUIET_MS 20
#define TRIES 8
#define SEVERAL 6 /* where fewer deaths end a call, the best of them may have met a busy moment */

static int times = 1;

/* How long it takes on this machine now to notice a death by a hang-up, the best of some: ms. */
static double bare_death(void)
{
    double best = 1e9, ms;
    int i, fd[2];
    char byte;

    for (i = 0; i < 5; i++) {
        int64_t began;
        pid_t pid;

        if (pipe(fd) != 0 || (pid = fork()) < 0)
            return 1e9;
        if (pid == 0) {
            close(fd[0]);
            for (;;)
                pause();
        }
        close(fd[1]);
        began = clock_now();
        kill(pid, SIGKILL);
        (void)!read(fd[0], &byte, 1);
        ms = (double)(clock_now() - began) / 1e6;
        waitpid(pid, NULL, 0);
        close(fd[0]);
        best = ms < best ? ms : best;
    }
    return best;
}

static double best_of(const struct spread *s)
{
    double best = 1e9;
    int i;

    for (i = 0; i < s->n; i++)
        best = s->ms[i] < best ? s->ms[i] : best;
    return best;
}

static bool die(unsigned step, int end, bool first, uint64_t *random, struct spread *calls,
                struct spread *exits)
{
    struct plan plan;
    char what[128];

    if (!survey_plan(&plan, step, end, first, random))
        return false;
    plan.sig = SIGKILL;
    plan.timeout_ms = 20000;
    plan.early = survey_is_early(step);
    snprintf(what, sizeof(what), "\"%s\"", step_name(step));
    return scenario_kill(&plan, what, calls, exits);
}

static void print_step(unsigned step, struct spread *calls, struct spread *exits, int deaths)
{
    printf("%-44s %3d deaths", step_name(step), deaths);
    if (calls->n > 0)
        printf("; call ended after ms: %s", spread_text(calls));
    if (exits->n > 0)
        printf("; rexit: %s", spread_text(exits));
    printf("%s\n", deaths == 0 ? ": not passed this time" : "");
    fflush(stdout);
}

static void die_at(unsigned step, uint64_t random, struct findings *f)
{
    static struct spread calls, exits;
    int end, i, tries, deaths = 0;

    calls.n = exits.n = 0;
    for (end = 0; end < 2; end++) {
        for (i = 0, tries = 0; i < times && tries < TRIES + times && survey_knows(step, end);
             tries++)
            i += die(step, end, i == 0, &random, &calls, &exits);
        deaths += i;
    }
    for (tries = 0; tries < TRIES && calls.n > 0 && best_of(&calls) > PROMISED_MS; tries++)
        deaths += die(step, tries % 2, tries < TRIES / 2, &random, &calls, &exits);
    EXPECT(calls.n < SEVERAL || best_of(&calls) <= PROMISED_MS || bare_death() > QUIET_MS,
           "\"%s\": of %d deaths the first to be noticed was noticed after %.1f ms",
           step_name(step), calls.n, best_of(&calls));
    print_step(step, &calls, &exits, deaths);
    for (i = 0; i < calls.n; i++)
        spread_add(&f->calls, calls.ms[i]);
    for (i = 0; i < exits.n; i++)
        spread_add(&f->exits, exits.ms[i]);
    f->done += deaths;
    f->steps += deaths > 0;
}

int main(int argc, char **argv)
{
    static struct findings sum;

    survey_main(argc, argv, &times, die_at, &sum);
    printf("%d deaths at %d of %u steps\n", sum.done, sum.steps, step_count());
    spread_show(&sum.calls, "the call that a death ends");
    spread_show(&sum.exits, "rexit, after new pipes to another rank");
    printf("%s\n", check_failures == 0 ? "every death was noticed" : "FAILED");
    return check_failures == 0 ? 0 : 1;
}
