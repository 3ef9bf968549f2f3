/* SPDX-License-Identifier: BSD-3-Clause */
/* arrive.h: messages of a pipe that have arrived on a link, and messages that have waited for a receive. */
#ifndef MSG_ARRIVE_H
#define MSG_ARRIVE_H

#include "msg/msg.h"

/*
 * Handles what rtake has returned, other than R_PENDING: 0; or a negative code: the link has ended. The message is freed, or stays in
 * the memory of the pipe until a receive matches it.
 */
int msg_arrive(struct msg_link *l, int rc, const rtaken_t *m);

/* A message that waits is matched by a receive, which completes, or whose payload begins to move. The message is freed. */
void msg_arrive_take(struct rmsg *msg, struct msg_message *m, struct msg_request *r);

#endif
