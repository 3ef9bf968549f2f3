/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill_anywhere.c: either end is killed at an arbitrary instruction.
 *
 * The victim sets a timer of the kernel whose signal is SIGKILL, to a number of nanoseconds that is drawn, as likely within a
 * microsecond as within ten milliseconds, and plays its part; it dies wherever its threads are when the timer's interrupt comes,
 * in the middle of a store or a call as well as between them. What the others must see is in kill_job.c.c.
 *
 *     kill_anywhere [SECONDS [NAME]]   in scenarios whose name contains NAME. FAULTS_SEED repeats the draws, not where they hit
 */
#include "scenario.h"

#include <signal.h>

#define SHORTEST_NS 1000
#define EARLY_NS (4 * NS_PER_MS) /* within this time after the fork a process joins its job */

/* Each power of two is as likely as any other. */
static int64_t moment(uint64_t *random, int64_t most)
{
    int64_t ns = SHORTEST_NS;

    while (ns < most && random_draw(random) % 14 != 0)
        ns *= 2;
    ns += (int64_t)(random_draw(random) % (uint64_t)ns);
    return ns < most ? ns : most;
}

static const struct scenario *one_of(uint64_t *random, const char *name)
{
    const struct scenario *chosen = NULL, *s;
    uint64_t n = 0;

    for (s = scenarios; s < scenarios + scenario_count; s++)
        if (!s->network && strstr(s->name, name) != NULL && random_draw(random) % ++n == 0)
            chosen = s;
    if (chosen == NULL) {
        printf("no scenario is called like \"%s\"\n", name);
        exit(99);
    }
    return chosen;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 6;
    uint64_t random = seed_of(argc, argv);
    int64_t until = clock_now() + (int64_t)(seconds * 1e9);
    static struct spread calls, exits;
    int rounds = 0, deaths = 0;

    setenv("RPIPE_LOG", "error", 0);
    for (; clock_now() < until; rounds++) {
        struct plan plan = {.sig = SIGKILL, .timeout_ms = 20000};
        char what[64];

        plan.s = one_of(&random, argc > 2 ? argv[2] : "");
        plan.victim = (int)(random_draw(&random) % 2);
        plan.early = random_draw(&random) % 8 == 0;
        plan.kill_ns = moment(&random, plan.early ? EARLY_NS : 12 * NS_PER_MS);
        snprintf(what, sizeof(what), "after %lld ns%s", (long long)plan.kill_ns,
                 plan.early ? ", in rinit" : "");
        deaths += scenario_kill(&plan, what, &calls, &exits);
    }
    printf("%d deaths in %d rounds\n", deaths, rounds);
    spread_show(&calls, "the call that a death ends");
    spread_show(&exits, "rexit, after new pipes to another rank");
    printf("%s\n", check_failures == 0 ? "no instruction was bad" : "FAILED");
    return check_failures == 0 ? 0 : 1;
}
