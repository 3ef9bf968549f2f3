/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error.h: error messages of public calls: which pipe, which call, what happened, both values, what to do.
 *
 * A thread keeps the last message of all its calls in memory that no other thread uses (util/last_error.h). An end has a copy of
 * the last one of all its threads, under a lock of its own: calls fail with the end's lock and without it.
 */
#ifndef RPIPE_END_ERROR_H
#define RPIPE_END_ERROR_H

#include "util/cpu.h"
#include "util/last_error.h"

struct rch;

/*
 * Stores the message of this failure, "PIPE: CALL: MESSAGE", and returns `code`. CALL is the public call that this thread is
 * in (call_context.h); without one it is left out. ch NULL: a failure that concerns no pipe.
 */
int call_error(struct rch *ch, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4))) NOINLINE;
/* Frees the message of an end, which is opened anew. */
void error_drop(struct rch *ch);
void error_forked(void); /* in the child of a fork: no thread has the lock */
/* "pipe 0>1 context 3": its writer and reader. Buffer of the calling thread. */
const char *end_name(const struct rch *ch);

#endif
