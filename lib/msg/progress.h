/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h: reading and sending on all links of a context, and waiting. */
#ifndef MSG_PROGRESS_H
#define MSG_PROGRESS_H

#include "msg/msg.h"

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

/* Reads the link at once, all others now and then; l NULL: all. Sends what can be sent. True: something has arrived. */
bool msg_progress_turn(struct rmsg *msg, struct msg_link *l, uint32_t turn);

/*
 * Between two attempts of a call that waits for what `l`, or (NULL) any link brings. 0; -ETIMEDOUT: the deadline has passed; or
 * another error. The message is set, without the name of the call.
 */
int msg_progress_wait(struct rmsg *msg, struct msg_link *l, struct msg_wait *w);

#endif
