/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h: reading and sending on all links of a context, and waiting. */
#ifndef MSG_PROGRESS_H
#define MSG_PROGRESS_H

#include "msg/arrive.h"
#include "msg/msg.h"

#define PROGRESS_BURST 16          /* messages of one link in a row */
#define PROGRESS_THOROUGH_EVERY 16 /* turns, one of which checks for new links */

/* A wait of one call. {0} at first. */
struct msg_wait {
    uint32_t turns;   /* in a row that found nothing */
    uint32_t found;   /* turns that found something */
    bool due;         /* the deadline is checked before the next turn */
    int64_t deadline; /* ms; 0: not known yet */
    int64_t yields;   /* time at which the turns began to yield, ns; 0: not yet */
};

/* Reads and sends on all links, and opens some. True: something has arrived. */
bool msg_progress_all(struct rmsg *msg);
/* The first half of that, and the second one. */
bool msg_progress_read(struct rmsg *msg);
bool msg_progress_send(struct rmsg *msg);
/* There is nothing for the second half to do, unless something arrives. */
static inline bool msg_progress_only_reads(const struct rmsg *msg)
{
    return msg->readers > 0 && list_empty(&msg->busy) && list_empty(&msg->sharing);
}

/* Reads the link at once, all others now and then; l NULL: all. Sends what can be sent. True: something has arrived. */
bool msg_progress_turn(struct rmsg *msg, struct msg_link *l, uint32_t turn);

/*
 * True: a turn that has only read, and has found nothing. False: something was read and handled, or a whole turn is due; the caller makes
 * one.
 */
static MSG_INLINE bool msg_progress_is_vain(struct rmsg *msg)
{
    if (MSG_UNLIKELY(!msg_progress_only_reads(msg) || msg->opening > 0 ||
                     msg->turns % PROGRESS_THOROUGH_EVERY == PROGRESS_THOROUGH_EVERY - 1))
        return false;
    msg->turns++;
    for (int i = 0; i < msg->readers; i++) {
        rtaken_t m;
        int rc = rpipe_take(msg->reading[i], &m);

        if (MSG_UNLIKELY(rc != R_PENDING)) {
            msg_arrive_several(msg->reader[i], rc, &m, PROGRESS_BURST);
            (void)msg_progress_send(msg);
            return false;
        }
    }
    return true;
}

/*
 * Between two attempts of a call that waits for what `l`, or (NULL) any link brings. 0; -ETIMEDOUT: the deadline has passed; or
 * another error. The message is set, without the name of the call.
 */
int msg_progress_wait(struct rmsg *msg, struct msg_link *l, struct msg_wait *w);

#endif
