/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread_quiesce.h: waits until every other thread of this process has left the straight piece of code that it is in now.
 *
 * For memory that threads use without a lock and without being counted. The caller has made sure, by a flag, that nobody enters
 * such code again; what is left are threads that were inside when the flag rose. Such code makes no system call that sleeps, and
 * takes microseconds: so a thread that sleeps is outside of it, and one that has run for a millisecond since is so too.
 */
#ifndef UTIL_THREAD_QUIESCE_H
#define UTIL_THREAD_QUIESCE_H

#include <stdbool.h>
#include <stdint.h>

/* False: the deadline has passed before that. */
bool thread_quiesce_others(int64_t deadline);

#endif
