/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint_hosts.c: a member of a team is killed, and stopped, at the steps that the library names of teams between hosts.
 *
 * As failpoint_kill.c and failpoint_stop.c: three ranks are members on two and on three hosts of one machine (scenario_hosts.c), over tcp and
 * over libfabric. The steps are those of lib/coll: "net: rcoll...", which only teams between hosts pass, all of which have to be passed, and
 * what these pass of the others: opening, agreements, shrinking; messages on a host by hand alone. Every member that lives gets -ECONNRESET with
 * rank and operation, agrees, and goes on in a team of those that live; a deadline names a member that is stopped, and all goes on when it
 * does.
 *
 *     failpoint_hosts                 a death of each end and a stop of one at each step
 *     failpoint_hosts TIMES [NAME]    so many times, at each step whose name contains NAME; over libfabric they die, too
 *
 * That is by hand because libfabric 1.17 has faults of its own where a connected peer dies (doc/ofi.md). The provider is
 * RPIPE_OFI_PROVIDER, or tcp.
 */
#include "failpoint_survey.h"

#include "btl/btl.h"

#include <dlfcn.h>
#include <limits.h>

static int times = 1;
static bool by_hand;
static const char *absent, *deaths_without; /* backends; NULL: none */

static void at(unsigned step, uint64_t random, struct findings *f)
{
    int from = (int)(random_draw(&random) % 2), deaths, stops;

    if ((!survey_knows(step, 0) && !survey_knows(step, 1)) ||
        (!by_hand && strncmp(step_name(step), "rcoll: ", 7) == 0))
        return;
    survey_without(deaths_without);
    deaths = survey_repeat(survey_kill, step, from, times, &random, f) +
             survey_repeat(survey_kill, step, 1 - from, times, &random, f);
    survey_without(absent);
    stops = survey_repeat(survey_stop, step, 1 - from, times, &random, f);
    EXPECT(survey_kind_of(step) != SURVEY_TEAM || deaths + stops > 0, "\"%s\": %d deaths, %d stops",
           step_name(step), deaths, stops);
    printf("%-48s %d deaths, %d stops\n", step_name(step), deaths, stops);
    fflush(stdout);
    f->done += deaths + stops;
    f->steps += deaths + stops > 0;
}

static bool find_module(char *path, size_t bytes, const char *name)
{
    const char *modules = getenv("RPIPE_MODULE_PATH");

    return modules != NULL && (size_t)snprintf(path, bytes, "%s/%s", modules, name) < bytes &&
           access(path, R_OK) == 0;
}

/* libfabric examines the machine, which takes most of a second: the ranks are forked, and need not. False: it is not there. */
static bool load_ofi(void)
{
    const struct btl_ops *ops;
    char path[PATH_MAX];
    struct error err = {""};
    void *module;

    if (!find_module(path, sizeof(path), "btl_ofi.so"))
        return false;
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ops = module != NULL ? dlsym(module, "btl_ofi_ops") : NULL;
    if (ops == NULL) {
        printf("%s: %s\n", path, dlerror());
        exit(99);
    }
    (void)ops->query(&err);
    return true;
}

int main(int argc, char **argv)
{
    static struct findings sum;
    char path[PATH_MAX];
    uint64_t seed;

    if (!find_module(path, sizeof(path), "btl_tcp.so")) {
        printf("skipped: no backend tcp at RPIPE_MODULE_PATH\n");
        return 77;
    }
    seed = seed_of(argc, argv);
    by_hand = argc > 1;
    if (by_hand)
        times = atoi(argv[1]);
    setenv("RPIPE_LOG", "error", 0);
    absent = load_ofi() ? NULL : "ofi";
    deaths_without = by_hand ? absent : "ofi";
    survey_without(absent);
    survey_all(SURVEY_TEAM);
    if (check_failures == 0) /* else all of them would fail in the same way */
        survey_share(at, argc > 2 ? argv[2] : NULL, seed, &sum);
    EXPECT(sum.warned > 0 || argc > 2, "no deadline has named a member that was stopped");
    printf("%d deaths and stops at %d of %u steps; %d times a deadline named the one that was "
           "stopped\n",
           sum.done, sum.steps, step_count(), sum.warned);
    spread_show(&sum.calls, "the call that a death ends");
    spread_show(&sum.exits, "rexit, after new pipes to another rank");
    printf("%s\n", check_failures == 0
                       ? "every death was noticed, and every stopped process went on"
                       : "FAILED");
    return check_failures == 0 ? 0 : 1;
}
