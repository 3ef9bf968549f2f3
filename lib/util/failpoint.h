/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint.h: named places in the library at which a test can kill or stop the process
 * (doc/faults.md).
 *
 * The library itself is built without RPIPE_FAILPOINTS: a failpoint is nothing then, on the data
 * path too. The fault tests link a second copy of the same sources (lib/libsteps.la), which calls
 * failpoint_reached() of test/faults/failpoint.c. All failpoints of a program are in one section of
 * it, so that a test can list them, also those that are never reached.
 *
 * A name states where the process is: "WHAT: what has just been done, or is about to be".
 */
#ifndef UTIL_FAILPOINT_H
#define UTIL_FAILPOINT_H

#ifdef RPIPE_FAILPOINTS

#include <stdint.h>

struct failpoint {
    const char *name;
    uint64_t number; /* assigned by the test: failpoints of one name have one number */
};

/* Exported: modules call it too. */
__attribute__((visibility("default"))) void failpoint_reached(const struct failpoint *failpoint);

#define RPIPE_FAILPOINT(what)                                                                      \
    do {                                                                                           \
        static struct failpoint here __attribute__((                                               \
            section("rpipe_failpoints"), used, aligned(sizeof(struct failpoint)))) = {what, 0};    \
        failpoint_reached(&here);                                                                  \
    } while (0)

#else

#define RPIPE_FAILPOINT(what) ((void)0)

#endif

#endif
