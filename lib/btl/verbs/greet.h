/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * greet.h: the first messages of a connection. Lock held, except for verbs_greet_received.
 */
#ifndef BTL_VERBS_GREET_H
#define BTL_VERBS_GREET_H

#include "btl/verbs/verbs.h"

/* For the service thread: the completion queue of greetings of a context, arg, is not empty. */
void verbs_greet_received(void *arg);
/*
 * Posts the receive for the other end's first message, before the connection is established. 0 or
 * -errno.
 */
int verbs_greet_expect(struct btl_connection *connection);
/* Sends the greeting. 0: the connection is up, or will be when the answer arrives; or -errno. */
int verbs_greet(struct btl_connection *connection);
/* At retry_at. 0 or -errno. */
int verbs_greet_nudge(struct btl_connection *connection);

#endif
