/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint.h: named places in the library at which a test can end or stop the process (doc/faults.md).
 *
 * The library itself is built without RPIPE_FAILPOINTS: a step is nothing then, on the data path too. The tests of faults link a second
 * copy of the same sources (lib/libsteps.la in Makefile.am), which calls failpoint_reached() of test/faults/failpoint.c. All steps of
 * a program lie in one section of it, so that a test knows them, also those that are never reached.
 *
 * A name says where the process is: "WHAT: what has just been done, or is about to be".
 */
#ifndef UTIL_FAILPOINT_H
#define UTIL_FAILPOINT_H

#ifdef RPIPE_FAILPOINTS

#include <stdint.h>

struct step {
    const char *name;
    uint64_t number; /* the test's: steps of one name have one number */
};

__attribute__((visibility("default"))) void
failpoint_reached(const struct step *step); /* for modules, too */

#define RPIPE_FAILPOINT(what)                                                                      \
    do {                                                                                           \
        static struct step here __attribute__((section("rpipe_failpoints"), used,                  \
                                               aligned(sizeof(struct step)))) = {what, 0};         \
        failpoint_reached(&here);                                                                  \
    } while (0)

#else

#define RPIPE_FAILPOINT(what) ((void)0)

#endif

#endif
