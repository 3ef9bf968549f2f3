/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c: waits that advance messages and collective operations alike.
 *
 * A process that waits for a collective operation has sends and receives which other processes need to go on, and the other
 * way round. MPI promises that both advance.
 */
#include "rmpi.h"

#include <sched.h>
#include <time.h>

#define PROGRESS_MESSAGES_EVERY 8 /* tests of a plan, between two turns of messages */
#define PROGRESS_SPINS 200        /* tests, before the processor is given away, */
#define PROGRESS_YIELD_NS 2000000 /* so long, before the process sleeps, */
#define PROGRESS_SLEEP_NS 50000   /* so long each time */

static int64_t progress_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void rmpi_pause(struct rmpi_turns *t)
{
    int64_t now;

    if (RMPI_LIKELY(++t->turns < PROGRESS_SPINS)) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        return;
    }
    now = progress_now();
    if (t->since == 0)
        t->since = now;
    if (now - t->since < PROGRESS_YIELD_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = PROGRESS_SLEEP_NS}, NULL);
}

static void progress_active(void)
{
    struct rmpi_request *r, *next;

    for (r = rmpi.active; r != NULL; r = next) {
        next = r->next;
        (void)rmpi_request_test(r);
    }
}

void rmpi_progress(void)
{
    (void)rmsg_progress(rmpi.msg);
    if (RMPI_UNLIKELY(rmpi.active != NULL))
        progress_active();
}

int rmpi_plan_wait(rplan_t plan)
{
    struct rmpi_turns t = {0};
    int rc;

    while ((rc = rcoll_test(plan)) == R_PENDING) {
        if (t.turns % PROGRESS_MESSAGES_EVERY == PROGRESS_MESSAGES_EVERY - 1 ||
            t.turns >= PROGRESS_SPINS)
            rmpi_progress();
        rmpi_pause(&t);
    }
    return rc;
}
