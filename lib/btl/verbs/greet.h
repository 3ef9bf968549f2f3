/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * greet.h: the first messages of a connection. Lock held, except for opening and closing.
 */
#ifndef BTL_VERBS_GREET_H
#define BTL_VERBS_GREET_H

#include "btl/verbs/verbs.h"

int verbs_greet_open(struct btl *btl, struct error *err);
int verbs_greet_watch(struct btl *btl);
void verbs_greet_stop(struct btl *btl);
void verbs_greet_close(struct btl *btl);
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
