/* SPDX-License-Identifier: BSD-3-Clause */
/* failpoint_survey.c: see failpoint_survey.h. */
#include "failpoint_survey.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define SCENARIOS_MOST 64
#define LOOKS 24 /* for steps that do not occur every time, as where messages cross by chance */
#define WORKERS 2
#define TRIES 8 /* of survey_repeat, and two for each time */

static struct step_table *table; /* of this process, and of the ranks that it starts */
static uint32_t occurs[SCENARIOS_MOST][2][STEPS_MOST];
static enum survey_kind kind;
static const char *avoided; /* a backend */

bool survey_is_early(unsigned step)
{
    return strncmp(step_name(step), "rinit", 5) == 0 || strncmp(step_name(step), "service", 7) == 0;
}

enum survey_kind survey_kind_of(unsigned step)
{
    const char *name = step_name(step);

    if (strncmp(name, "net: rcoll", 10) == 0)
        return SURVEY_TEAM;
    return strncmp(name, "net:", 4) == 0 || strncmp(name, "ofi:", 4) == 0 ? SURVEY_NETWORK
                                                                          : SURVEY_HOST;
}

void survey_without(const char *backend) { avoided = backend; }

/* Whether a scenario is of the kind that is surveyed, and not over a backend that is avoided. */
static bool is_played(int which)
{
    const struct scenario_network *n = scenarios[which].network;

    if (n == NULL)
        return kind == SURVEY_HOST;
    return kind == (n->team ? SURVEY_TEAM : SURVEY_NETWORK) &&
           (avoided == NULL || strcmp(n->backend, avoided) != 0);
}

static void arm(const struct plan *plan, struct board *board, int rank)
{
    step_arm(plan->table, board, rank, plan->step, rank == plan->victim ? plan->nth : 0, plan->sig);
}

static bool is_slow(int which)
{
    return scenarios[which].network != NULL && scenarios[which].network->slow;
}

static void look(int which)
{
    struct plan plan = {
        .s = &scenarios[which], .victim = -1, .table = table, .timeout_ms = 20000, .arm = arm};
    unsigned i;
    int end;

    step_clear(table);
    (void)scenario_kill(&plan, "undisturbed", NULL, NULL);
    for (end = 0; end < 2; end++)
        for (i = 0; i < step_count(); i++)
            if (atomic_load(&table->count[end][i]) > occurs[which][end][i])
                occurs[which][end][i] = atomic_load(&table->count[end][i]);
}

bool survey_knows(unsigned step, int end)
{
    int which;

    for (which = 0; which < scenario_count; which++)
        if (occurs[which][end][step] > 0)
            return true;
    return false;
}

/* Whether a process may read the memory of one that it has not started; not everywhere. */
static bool copies_are_permitted(void)
{
    static int permitted = -1;
    uint64_t here = 0, there = 1;
    const struct iovec local = {&here, sizeof(here)}, remote = {&there, sizeof(there)};
    int status = 1;
    pid_t pid;

    if (permitted >= 0)
        return permitted == 1;
    pid = fork();
    if (pid == 0)
        _exit(process_vm_readv(getppid(), &local, 1, &remote, 1, 0) != sizeof(here));
    permitted = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    return permitted == 1;
}

static bool is_hole(unsigned step)
{
    if (strncmp(step_name(step), "rmsg copy:", 10) == 0 && !copies_are_permitted())
        return false;
    return !survey_knows(step, 0) && !survey_knows(step, 1) && kind == survey_kind_of(step);
}

static bool are_holes(void)
{
    unsigned i;

    for (i = 0; i < step_count(); i++)
        if (is_hole(i))
            return true;
    return false;
}

void survey_all(enum survey_kind of)
{
    int round, which;
    unsigned i;

    EXPECT(scenario_count <= SCENARIOS_MOST, "there are %d scenarios, and the table has %d rows",
           scenario_count, SCENARIOS_MOST);
    kind = of;
    table = step_prepare();
    for (round = 0; round < LOOKS && (round == 0 || are_holes()); round++)
        for (which = 0; which < scenario_count; which++)
            if (is_played(which) && (round % 4 == 0 || !is_slow(which)))
                look(which);
    for (i = 0; i < step_count(); i++)
        EXPECT(!is_hole(i), "step \"%s\" occurs in no scenario", step_name(i));
}

/* One of the scenarios in which this end passes the step; -1: there is none. */
static int choose(unsigned step, int end, bool slow, uint64_t *random)
{
    int which, n = 0, chosen = -1;

    for (which = 0; which < scenario_count; which++)
        if (occurs[which][end][step] > 0 && is_played(which) && is_slow(which) == slow &&
            (!survey_is_early(step) || which == 0 || kind != SURVEY_HOST) &&
            random_draw(random) % (uint64_t)++n == 0)
            chosen = which;
    return chosen;
}

bool survey_plan(struct plan *plan, unsigned step, int end, bool first, uint64_t *random)
{
    int chosen = choose(step, end, false, random);

    if (chosen < 0)
        chosen = choose(step, end, true, random);
    if (chosen < 0)
        return false;
    *plan = (struct plan){
        .s = &scenarios[chosen], .victim = end, .table = table, .step = step, .arm = arm};
    plan->nth = first ? 1 : 1 + (uint32_t)(random_draw(random) % occurs[chosen][end][step]);
    step_clear(table);
    return true;
}

/* ---- work in several processes ---- */

struct share {
    struct findings found;
    int failures;
};

/* Over networks also the steps of others; of teams all of theirs, which are passed on two hosts, too. */
static bool is_worked_on(unsigned step)
{
    if (kind == SURVEY_TEAM)
        return strstr(step_name(step), "rcoll") != NULL;
    return survey_kind_of(step) == SURVEY_HOST || survey_kind_of(step) == kind;
}

static void work_on(int worker, void (*work)(unsigned, uint64_t, struct findings *),
                    const char *name, uint64_t seed, struct share *mine)
{
    unsigned step;

    table = step_prepare();
    for (step = (unsigned)worker; step < step_count(); step += WORKERS)
        if ((name == NULL || strstr(step_name(step), name) != NULL) && is_worked_on(step))
            work(step, seed + step,
                 &mine->found); /* a failpoint has its own random numbers, whatever else runs */
    mine->failures = check_failures;
}

static void add_spread(struct spread *sum, const struct spread *s)
{
    int i;

    for (i = 0; i < s->n; i++)
        spread_add(sum, s->ms[i]);
}

void survey_share(void (*work)(unsigned, uint64_t, struct findings *), const char *name,
                  uint64_t seed, struct findings *sum)
{
    struct share *share = mmap(NULL, WORKERS * sizeof(*share), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid[WORKERS], parent = getpid();
    int w, status = -1;

    if (share == MAP_FAILED) {
        perror("the findings");
        exit(99);
    }
    fflush(NULL);
    for (w = 0; w < WORKERS; w++) {
        pid[w] = fork();
        if (pid[w] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(99);
            check_failures = 0;
            work_on(w, work, name, seed, &share[w]);
            exit(0);
        }
    }
    for (w = 0; w < WORKERS; w++) {
        EXPECT(pid[w] > 0 && waitpid(pid[w], &status, 0) == pid[w] && status == 0,
               "a part of the test ended with status 0x%x", status);
        check_failures += share[w].failures;
        add_spread(&sum->calls, &share[w].found.calls);
        add_spread(&sum->exits, &share[w].found.exits);
        sum->done += share[w].found.done;
        sum->steps += share[w].found.steps;
        sum->warned += share[w].found.warned;
    }
    munmap(share, WORKERS * sizeof(*share));
}

bool survey_kill(unsigned step, int end, bool first, uint64_t *random, struct findings *f)
{
    struct plan plan;

    if (!survey_plan(&plan, step, end, first, random))
        return false;
    plan.sig = SIGKILL;
    plan.timeout_ms = DEATH_TIMEOUT_MS;
    plan.early = survey_is_early(step);
    return scenario_kill(&plan, step_name(step), &f->calls, &f->exits);
}

int survey_repeat(bool (*what)(unsigned, int, bool, uint64_t *, struct findings *), unsigned step,
                  int from, int times, uint64_t *random, struct findings *f)
{
    int i = 0, tries;

    for (tries = 0; i < times && tries < TRIES + 2 * times; tries++)
        i += what(step, (from + tries) % 2, i == 0, random, f);
    return i;
}

bool survey_stop(unsigned step, int end, bool first, uint64_t *random, struct findings *f)
{
    struct plan plan;

    if (!survey_plan(&plan, step, end, first, random))
        return false;
    plan.sig = SIGSTOP;
    plan.timeout_ms = STOP_DEADLINE_MS;
    plan.again = true;
    return scenario_stop(&plan, step_name(step), &f->warned);
}

void survey_main(int argc, char **argv, int *times,
                 void (*work)(unsigned, uint64_t, struct findings *), struct findings *sum)
{
    uint64_t seed = seed_of(argc, argv);

    if (argc > 1)
        *times = atoi(argv[1]);
    setenv("RPIPE_LOG", "error", 0);
    survey_all(SURVEY_HOST);
    if (check_failures == 0) /* else all of them would fail in the same way */
        survey_share(work, argc > 2 ? argv[2] : NULL, seed, sum);
}
