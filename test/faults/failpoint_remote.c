/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint_remote.c: a rank is stopped, or killed, at the steps that the library names of pipes over networks and of casts between hosts.
 *
 * As failpoint_stop.c and failpoint_kill.c, over libfabric (of teams: failpoint_hosts.c): the steps are those of lib/rpipe ("net: ...") and of the backend
 * ("ofi: ...", of a copy of it that has steps: failpoint_module.c). What a network has accepted is lost with the process that had
 * accepted it; otherwise the others must see the same (stop_job.c, kill_job.c). The steps of casts ("net: rcast_...") are passed by three
 * ranks, each a host of its own, without libfabric.
 *
 * And one is stopped for longer than the keep-alive of the control network, over TCP, as if it were on another host: it is alive, and
 * everything goes on.
 *
 *     failpoint_remote                a stop at each step; deaths in casts, and while libfabric has no connection to the dead
 *     failpoint_remote TIMES [NAME]   TIMES stops and deaths at each step whose name contains NAME, also at steps of others
 *
 * The rest of the deaths is by hand because libfabric 1.17 has faults of its own where a connected peer dies (doc/ofi.md). The
 * provider is RPIPE_OFI_PROVIDER, or tcp.
 */
#include "failpoint_survey.h"

#include "btl/btl.h"

#include <limits.h>
#include <signal.h>

#define TRIES 100         /* to find a scenario of pipes */
#define KEEPALIVE_MS 1000 /* the least that can be asked for */
#define STOPPED_MS 2500

static int times = 1;
static const char *wanted;
static bool by_hand;

static bool is_of_casts(unsigned step) { return strncmp(step_name(step), "net: rcast", 10) == 0; }

/* Each end of a cast dies in turn. */
static int die_at(unsigned step, int from, uint64_t *random, struct findings *f)
{
    int deaths = survey_repeat(survey_kill, step, from, times, random, f);

    return is_of_casts(step) ? deaths + survey_repeat(survey_kill, step, 1 - from, times, random, f)
                             : deaths;
}

/* The others do not have its address yet. */
static bool is_alone(unsigned step)
{
    return strcmp(step_name(step), "ofi: endpoint open") == 0 ||
           strcmp(step_name(step), "ofi: connection open") == 0;
}

static void at(unsigned step, uint64_t random, struct findings *f)
{
    int from = (int)(random_draw(&random) % 2), deaths = 0, stops;

    if (wanted == NULL && survey_kind_of(step) != SURVEY_NETWORK)
        return;
    if (by_hand || is_alone(step) || is_of_casts(step))
        deaths = die_at(step, from, &random, f);
    stops = survey_repeat(survey_stop, step, 1 - from, times, &random, f);
    printf("%-44s %d deaths, %d stops\n", step_name(step), deaths, stops);
    fflush(stdout);
    f->done += deaths + stops;
    f->steps += deaths + stops > 0;
}

/* A writer of pipes: it is there in its part, not in the new pipes after it alone. Its reader has deadlines to report. */
static bool plan_stop(struct plan *plan, unsigned step, uint64_t *random)
{
    for (int tries = 0; tries < TRIES; tries++)
        if (survey_plan(plan, step, 0, true, random) && plan->s->network->hosts == HOSTS_ONE &&
            !plan->s->patient)
            return true;
    return false;
}

/* The writer is stopped, as if it were on another host, and the reader's deadlines pass one after the other. */
static void outlast_keepalive(uint64_t *random)
{
    const char *const where = "net: write accepted";
    struct plan plan;
    unsigned step = 0;
    char text[16];
    int reported = 0;

    while (step < step_count() && strcmp(step_name(step), where) != 0)
        step++;
    snprintf(text, sizeof(text), "%d", KEEPALIVE_MS);
    setenv("RPIPE_KEEPALIVE_MS", text, 1);
    setenv("RPIPE_CONTROL", "tcp", 1);
    EXPECT(step < step_count() && plan_stop(&plan, step, random), "no writer passes \"%s\"", where);
    if (check_failures > 0)
        return;
    plan.sig = SIGSTOP;
    plan.timeout_ms = STOP_DEADLINE_MS;
    plan.again = true;
    plan.stopped_ms = STOPPED_MS;
    EXPECT(scenario_stop(&plan, "stopped for longer than the keep-alive", &reported) &&
               reported == 1,
           "the writer was not stopped, or no deadline of the reader expired");
}

/* The copy of the backend that has steps is built beside this program. */
static bool find_module(char *path, size_t bytes)
{
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - sizeof("/.libs"));

    if (length < 0)
        return false;
    own[length] = '\0';
    *strrchr(own, '/') = '\0';
    if (strcmp(strrchr(own, '/'), "/.libs") !=
        0) /* where libtool puts modules, and some programs */
        strcat(own, "/.libs");
    setenv("RPIPE_MODULE_PATH", own, 1);
    return (size_t)snprintf(path, bytes, "%s/btl_ofi.so", own) < bytes && access(path, R_OK) == 0;
}

/* Loads it, and lets libfabric examine the machine, which takes most of a second: the ranks are forked, and need not. */
static bool use_steps(void)
{
    const struct btl_ops *ops;
    char path[PATH_MAX + 32];
    struct error err = {""};

    if (!find_module(path, sizeof(path)))
        return false;
    ops = step_add_module(path, "btl_ofi_ops");
    if (ops == NULL)
        exit(99);
    (void)ops->query(&err);
    return true;
}

int main(int argc, char **argv)
{
    static struct findings sum;
    uint64_t seed;

    if (!use_steps()) {
        printf("skipped: backend ofi has not been built\n");
        return 77;
    }
    seed = seed_of(argc, argv);
    by_hand = argc > 1;
    if (by_hand)
        times = atoi(argv[1]);
    wanted = argc > 2 ? argv[2] : NULL;
    setenv("RPIPE_LOG", "error", 0);
    survey_all(SURVEY_NETWORK);
    if (check_failures == 0) /* else all of them would fail in the same way */
        survey_share(at, wanted, seed, &sum);
    if (check_failures == 0 && wanted == NULL)
        outlast_keepalive(&seed);
    EXPECT(sum.warned > 0, "no deadline expired");
    printf("%d deaths and stops at %d of %u steps; %d ended by a deadline\n", sum.done, sum.steps,
           step_count(), sum.warned);
    spread_show(&sum.calls, "the call that a death ends");
    spread_show(&sum.exits, "rexit, after new pipes to another rank");
    printf("%s\n", check_failures == 0
                       ? "every death was noticed, and every stopped process went on"
                       : "FAILED");
    return check_failures == 0 ? 0 : 1;
}
