/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * one_thread.h: finds a second thread inside an object that belongs to one thread at a time (RMALLOC_DEBUG=1).
 *
 * A call enters the object and leaves it. Calls of one thread nest: a handler makes calls on its own context. A call that another thread's
 * call keeps out is not made, so what it would have corrupted is as it was.
 *
 * Invariants: `inside` names a thread of a process; one of another process is not inside: that was the parent before a fork. `depth` belongs to the
 * thread that is inside. Both change hands by one instruction, so of several threads that enter at once, in the child of a fork too, one
 * does; and a call that was made before the fork does not leave for a thread that has entered since.
 */
#ifndef UTIL_ONE_THREAD_H
#define UTIL_ONE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct one_thread {
    _Atomic uint64_t inside;    /* process << 32 | thread, as the kernel numbers them; 0: none is */
    _Atomic(const char *) call; /* its outermost call */
    uint32_t depth;             /* of its calls */
};

/* False: another thread is inside; *other is its call, or NULL. */
bool one_thread_enter(struct one_thread *o, const char *call, const char **other);
/* After an enter that returned true; without effect in the child of a fork that has happened since. */
void one_thread_leave(struct one_thread *o);

#endif
