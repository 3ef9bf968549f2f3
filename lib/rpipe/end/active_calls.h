/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inside.h: the threads that are in calls which may wait, and what rexit says to them.
 *
 *     struct inside in;
 *     inside_enter(&in);
 *     ... if (inside_ended()) → -ENOTCONN
 *     inside_leave(&in);
 *
 * A thread counts itself, then looks whether another one is in rexit; rexit says so, then looks at the count: so nothing is
 * given back under a call that is counted. Fast paths are not counted (quiet.h).
 *
 * Such a call is not a point at which a thread is cancelled (pthread_cancel(3)): it would leave locks, and halves of messages.
 */
#ifndef RPIPE_INSIDE_H
#define RPIPE_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

struct inside {
    uint32_t shard;
    int cancel; /* state of this thread before */
};

void inside_enter(struct inside *in);
void inside_leave(const struct inside *in);
bool inside_ended(void); /* another thread is in rexit, or has been: this call ends */

/* rexit */
void inside_end(void);  /* from here on inside_ended() is true for all threads but this one */
void inside_done(void); /* and for this one too, as rexit returns */
bool inside_any(void);
void inside_forked(void); /* in the child: nobody is inside */

#endif
