/* SPDX-License-Identifier: BSD-3-Clause */
/* send.h: starting a send or a receive: what isend, irecv and rmsg_start have in common. */
#ifndef MSG_SEND_H
#define MSG_SEND_H

#include "msg/msg.h"

/* Starts an inactive request. 0, or the code: it is inactive still. */
int msg_send_start(struct rmsg *msg, struct msg_request *r, const char *call);
int msg_receive_start(struct rmsg *msg, struct msg_request *r, const char *call);

#endif
