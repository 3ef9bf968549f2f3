/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * one_thread.h: finds a second thread inside an object that belongs to one thread at a time (RMALLOC_DEBUG=1).
 *
 * A call enters the object and leaves it. Calls of one thread nest: a handler makes calls on its own context. A call that another thread's
 * call keeps out is not made, so what it would have corrupted is as it was.
 *
 * Invariants: `depth` belongs to the thread that is inside. The thread that was inside in the parent of a fork is not inside in the child.
 */
#ifndef UTIL_ONE_THREAD_H
#define UTIL_ONE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct one_thread {
    _Atomic(const char *) inside; /* stands for the thread that is; NULL: none is */
    _Atomic(const char *) call;   /* its outermost call */
    uint32_t depth;               /* of its calls */
    _Atomic int process;          /* of the last thread that entered; 0: none has */
};

/* False: another thread is inside; *other is its call, or NULL. */
bool one_thread_enter(struct one_thread *o, const char *call, const char **other);
/* After an enter that returned true. */
void one_thread_leave(struct one_thread *o);

#endif
