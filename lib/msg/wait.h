/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.h: waiting for requests. */
#ifndef MSG_WAIT_H
#define MSG_WAIT_H

#include "msg/msg.h"

/* Waits for the request of a blocking call and frees it. At the deadline it is taken back; what has begun to move is given up. */
int msg_wait_blocking(struct rmsg *msg, struct msg_request *r, rmsg_status_t *status,
                      const char *call);

#endif
