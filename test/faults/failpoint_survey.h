/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint_survey.h: which steps of the library (failpoint.h) each end passes in which scenario (scenario.h), and how often; found
 * by playing all scenarios undisturbed. And work on steps in several processes at once.
 */
#ifndef TEST_FAULTS_FAILPOINT_SURVEY_H
#define TEST_FAULTS_FAILPOINT_SURVEY_H

#include "scenario.h"

#include "failpoint.h"

/* Whose a step is, and in which scenarios it has to occur. */
enum survey_kind {
    SURVEY_HOST,    /* over shared memory */
    SURVEY_NETWORK, /* "net: ", "ofi: ": of pipes and casts over networks alone */
    SURVEY_TEAM     /* "net: rcoll": of teams between hosts alone */
};
enum survey_kind survey_kind_of(unsigned step);

/*
 * Plays the scenarios of this kind until each step that is theirs has occurred, or several times; one that never has is a failure. All
 * below are about these scenarios, and no others.
 */
void survey_all(enum survey_kind kind);
bool survey_knows(unsigned step, int end);
/* From now on without the scenarios over this backend; NULL: with all. */
void survey_without(const char *backend);

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

#define DEATH_TIMEOUT_MS 20000
/* Kills this end there. False: it has not come there. */
bool survey_kill(unsigned step, int end, bool first, uint64_t *random, struct findings *f);

/* Stops this end there, and lets it go on later; calls of the other end are ended by their deadlines, and made again. */
bool survey_stop(unsigned step, int end, bool first, uint64_t *random, struct findings *f);

/* Does it `times` times, to the ends in turn, from this one; an end that does not come there is passed over. How often it was done. */
int survey_repeat(bool (*what)(unsigned, int, bool, uint64_t *, struct findings *), unsigned step,
                  int from, int times, uint64_t *random, struct findings *f);

/* Two processes, each with every other step whose name contains `name` (NULL: all); what they have found is added up in `sum`. */
void survey_share(void (*work)(unsigned step, uint64_t random, struct findings *f),
                  const char *name, uint64_t seed, struct findings *sum);

/* [TIMES [NAME]]: surveys the scenarios over shared memory, then does the work at each step. */
void survey_main(int argc, char **argv, int *times,
                 void (*work)(unsigned step, uint64_t random, struct findings *f),
                 struct findings *sum);

#endif
