/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failing_calls.h: calls that ask the system for something, and fail when the test requires it.
 *
 * The functions of the C library that take memory, mappings, descriptors and threads go through those of failing_calls.c, in the
 * program as in libraries and modules: link it with -rdynamic. They are counted, in all threads, while they are armed; of those the
 * n-th fails, or the n-th and all behind it.
 */
#ifndef TEST_FAULTS_FAILING_CALLS_H
#define TEST_FAULTS_FAILING_CALLS_H

#include <stdbool.h>
#include <stdint.h>

struct place {
    int64_t from, to; /* calls since they were armed */
};
#define NO_PLACE ((struct place){INT64_MAX, INT64_MAX}) /* they are only counted */

extern const bool
    failing_memory; /* false: another malloc is in force, and so only the other calls fail */

/* Counts calls of the main thread and of the library's own thread alone: what other threads do is not the test's. Before failing_arm. */
void failing_in_library(void);
void failing_arm(struct place place);
int64_t failing_disarm(void);    /* how many calls there were */
bool failing_occurred(void);     /* one of them, at least */
const char *failing_name(void);  /* the last that failed, "nothing" if none has */
const char *failing_words(void); /* what an error message about that has to contain; "": anything */
bool failing_is_expected(int rc); /* a code of a resource failure, or of a deadline */

#endif
