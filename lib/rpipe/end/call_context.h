/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call_context.h: the public call that a thread is in: its name, for error messages, and the count of such threads, for rexit.
 *
 *     struct call call;
 *     call_enter(&call, "rflush");
 *     ... if (calls_ended()) -> -ENOTCONN
 *     call_leave(&call);
 *
 * Calls nest: a call that the library makes itself has its own name, and call_leave restores the one of the outer call.
 *
 * A thread counts itself, then checks whether another thread is in rexit; rexit sets that flag, then reads the count. So
 * nothing is released under a call that is counted. Fast paths are not counted (thread_quiesce.h) and set no name.
 *
 * A call that is counted is not a cancellation point (pthread_cancel(3)): cancellation would leave locks held and messages
 * half sent.
 */
#ifndef RPIPE_END_CALL_CONTEXT_H
#define RPIPE_END_CALL_CONTEXT_H

#include "util/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rch;

/* The most that is copied outside of a counted call: rexit takes a thread that has run for 1 ms for outside (thread_quiesce.h). */
#define COPY_UNCOUNTED_MOST (64u << 10)

struct call {
    const char *outer;  /* name of the call around this one; NULL: none */
    struct rch *inside; /* the end that it has entered (debug_check.h); NULL: none */
    uint32_t shard;
    int cancel; /* cancellation state of this thread before the call */
};

void call_enter(struct call *call, const char *name);
void call_leave(const struct call *call);
/* This thread is counted: it is between call_enter and call_leave. */
bool call_is_counted(void);
/* The innermost call of this thread; NULL: none (the service thread). */
const char *call_name(void);
/* Only the name, without the count: returns the name to restore. */
const char *call_rename(const char *name);
extern _Atomic bool calls_ending;   /* a thread is in rexit, or has been */
bool calls_end_here(void) NOINLINE; /* it is this thread, which is in rexit */
/* Another thread is in rexit, or has been: this call ends. seq_cst: after the count of call_enter; rexit uses the opposite order */
static inline bool calls_ended(void)
{
    return UNLIKELY(atomic_load_explicit(&calls_ending, memory_order_seq_cst)) && !calls_end_here();
}

/* ---- rexit ---- */
void calls_end(void);    /* from here on calls_ended() is true for all threads but this one */
void calls_done(void);   /* and for this one too, when rexit returns */
bool calls_any(void);    /* a thread is in a counted call */
void calls_forked(void); /* in the child of a fork: no thread is */

#endif
