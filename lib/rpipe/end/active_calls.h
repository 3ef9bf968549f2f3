/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * active_calls.h: the threads that are in calls which may wait, and what rexit says to them.
 *
 *     struct inside in;
 *     active_call_enter(&in);
 *     ... if (active_calls_ended()) → -ENOTCONN
 *     active_call_leave(&in);
 *
 * A thread counts itself, then looks whether another one is in rexit; rexit says so, then looks at the count: so nothing is
 * given back under a call that is counted. Fast paths are not counted (thread_quiesce.h).
 *
 * Such a call is not a point at which a thread is cancelled (pthread_cancel(3)): it would leave locks, and halves of messages.
 */
#ifndef RPIPE_END_ACTIVE_CALLS_H
#define RPIPE_END_ACTIVE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

struct active_call {
    uint32_t shard;
    int cancel; /* state of this thread before */
};

void active_call_enter(struct active_call *in);
void active_call_leave(const struct active_call *in);
bool active_calls_ended(void); /* another thread is in rexit, or has been: this call ends */

/* rexit */
void active_calls_end(
    void); /* from here on active_calls_ended() is true for all threads but this one */
void active_calls_done(void); /* and for this one too, as rexit returns */
bool active_calls_any(void);
void active_calls_forked(void); /* in the child: nobody is inside */

#endif
