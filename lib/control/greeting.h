/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * greeting.h: HELLO and WELCOME: each process shows the cookie of the other one. Over a Unix socket
 * each gets the liveness page of the other: with the WELCOME, and with the PAGE that follows it.
 * Service thread only.
 */
#ifndef CONTROL_GREETING_H
#define CONTROL_GREETING_H

#include "control/connection.h"

/* False: no memory. */
bool greeting_send(struct connection *c, uint32_t type, uint32_t to, const uint8_t *cookie);
/* The first frame of an incoming connection, and of an outgoing one. 0; -ENOMEM: the same frame
 * has to come again. */
int greeting_hello(struct connection *c, const struct wire_frame *frame, const void *body);
int greeting_welcome(struct connection *c, const struct wire_frame *frame, const void *body);

/* The PAGE. 0; -ENOMEM: as above. */
int greeting_page(struct connection *c);

/* How many bytes the peer takes unread on a lane; 0 before its first greeting. Any thread. */
uint32_t greeting_window(int peer, unsigned lane);

#endif
