/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint.h: the steps of the library (lib/util/failpoint.h) as tests see them: all of them by name, how often each rank has passed which,
 * and a rank that is to end, or to stop, at the n-th time at one.
 *
 * The counts are in memory that all ranks share, so that those of a dead one can be read.
 */
#ifndef TEST_FAULTS_FAILPOINT_H
#define TEST_FAULTS_FAILPOINT_H

#include "test/lib/job.h"

#define STEPS_MOST 256

struct failpoint;
typedef void (*step_range_function)(struct failpoint **from, struct failpoint **to);
#define STEP_RANGE "step_range" /* of a module */

struct step_table {
    _Atomic uint32_t count[RANKS_MOST][STEPS_MOST];
    _Atomic int64_t happened; /* when the signal was sent; 0: not yet */
};

/*
 * In the test: adds the steps of a module (failpoint_module.c) and returns the address of `symbol` in it. NULL, and a line with the
 * reason: it cannot be loaded.
 */
const void *step_add_module(const char *path, const char *symbol);
struct step_table *step_prepare(void); /* once; the table is cleared by step_clear */
void step_clear(struct step_table *t);
unsigned step_count(void);
const char *step_name(unsigned number);

/* In a rank: the nth time at `number` this process gets the signal. nth 0: never, only counted. */
void step_arm(struct step_table *t, struct board *board, int rank, unsigned number, uint32_t nth,
              int sig);

#endif
