/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread_quiesce.h: waits until every other thread of this process has left the code that it is in
 * now.
 *
 * For memory that threads use without a lock and without a count. A flag of the caller keeps
 * threads from entering such code again; those that are left were inside when the flag was set.
 * Such code makes no system call that sleeps, and takes microseconds: so a thread that sleeps is
 * outside of it, and so is one that has run for a millisecond since. Threads of the library itself
 * are not awaited (util/thread.h): they are ended later, with a deadline.
 */
#ifndef RPIPE_JOB_THREAD_QUIESCE_H
#define RPIPE_JOB_THREAD_QUIESCE_H

#include <stdbool.h>
#include <stdint.h>

/* False: the deadline has passed before that. */
bool thread_quiesce_await(int64_t deadline);

#endif
