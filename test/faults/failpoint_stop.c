/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint_stop.c: either end is stopped (SIGSTOP) at every step that the library names, and goes on later.
 *
 * A stopped process is not dead: calls of the other end go on, as far as they do not need it, or end with -ETIMEDOUT when their deadline
 * has passed. They are made again, and after SIGCONT everything goes on: every message is there, once, and right, and all
 * ranks end as if nothing had been.
 *
 *     failpoint_stop [TIMES [NAME]]       one of the two ends is stopped TIMES times at each step whose name contains NAME
 */
#include "failpoint_survey.h"

#include <signal.h>

#define TRIES 8

static int times = 1;

static bool stop_once(unsigned step, int end, bool first, uint64_t *random, struct findings *f)
{
    if (!survey_stop(step, end, first, random, f))
        return false;
    f->done++;
    return true;
}

/* Ends in turn, from one that is drawn; once only: that one, or the other if it never comes there. */
static void stop_at(unsigned step, uint64_t random, struct findings *f)
{
    int from = (int)(random_draw(&random) % 2), i, tries, before = f->done;

    for (i = 0, tries = 0; i < times && tries < TRIES + 2 * times; tries++)
        i += stop_once(step, (from + tries) % 2, i == 0, &random, f);
    f->steps += f->done > before;
}

int main(int argc, char **argv)
{
    static struct findings sum;

    survey_main(argc, argv, &times, stop_at, &sum);
    printf("%d stops at %d of %u steps; %d ended by a deadline\n", sum.done, sum.steps,
           step_count(), sum.warned);
    printf("%s\n", check_failures == 0 ? "all went on" : "FAILED");
    return check_failures == 0 ? 0 : 1;
}
