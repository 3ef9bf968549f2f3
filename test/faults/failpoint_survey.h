/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint_survey.h: which steps of the library (failpoint.h) each end passes in which scenario (scenario.h), and how often; found
 * by playing all scenarios undisturbed. And work on steps in several processes at once.
 */
#ifndef TEST_FAULTS_FAILPOINT_SURVEY_H
#define TEST_FAULTS_FAILPOINT_SURVEY_H

#include "scenario.h"

#include "failpoint.h"

/*
 * Plays the scenarios over shared memory, or else those over libfabric, until each step that is theirs has occurred, or several
 * times; one that never has is a failure.
 */
void survey_all(bool network);
bool survey_knows(unsigned step, int end);
bool survey_needs_network(unsigned step); /* a step of pipes over networks alone */

/* A process that this happens to has not joined yet: the others may fail to, too. */
bool survey_is_early(unsigned step);

/*
 * Makes a plan for this end and this step, in a scenario in which it passes it: the first time, or one that is drawn. False: it
 * never does.
 */
bool survey_plan(struct plan *plan, unsigned step, int end, bool first, uint64_t *random);

/* What processes that share the work have found. */
struct findings {
    struct spread calls, exits;
    int done, steps, warned;
};

#define STOP_DEADLINE_MS 40 /* of calls that wait for a stopped process */

/* Stops this end there, and lets it go on later; calls of the other end are ended by their deadlines, and made again. */
bool survey_stop(unsigned step, int end, bool first, uint64_t *random, struct findings *f);

/* Two processes, each with every other step whose name contains `name` (NULL: all); what they have found is added up in `sum`. */
void survey_share(void (*work)(unsigned step, uint64_t random, struct findings *f),
                  const char *name, uint64_t seed, struct findings *sum);

/* [TIMES [NAME]]: surveys the scenarios over shared memory, then does the work at each step. */
void survey_main(int argc, char **argv, int *times,
                 void (*work)(unsigned step, uint64_t random, struct findings *f),
                 struct findings *sum);

#endif
