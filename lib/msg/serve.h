/* SPDX-License-Identifier: BSD-3-Clause */
/* serve.h: what a peer reports about its receives, and about messages that were sent to it. */
#ifndef MSG_SERVE_H
#define MSG_SERVE_H

#include "msg/msg.h"

/* Handles an RTR, CTS, FIN, UNDO or CREDIT. NULL, or what is wrong with it. */
const char *msg_serve(struct msg_link *l, const struct msg_wire *w,
                      const struct msg_wire_fields *f);

#endif
