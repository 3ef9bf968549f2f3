/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connect.h: connects the queue pairs of two processes.
 */
#ifndef BTL_VERBS_CONNECT_H
#define BTL_VERBS_CONNECT_H

#include "btl/verbs/verbs.h"

/* Listens, and lets the service thread watch for events. */
int verbs_connect_open(struct btl *btl, struct error *err);
/* No event is handled after it; the connections can then be closed. */
void verbs_connect_stop(struct btl *btl);
void verbs_connect_close(struct btl *btl);
void verbs_connect_forked(struct btl *btl);
/* The first attempt of the connecting end; lock held, `there` and the deadline are set. */
void verbs_connect_begin(struct btl_connection *connection);

#endif
