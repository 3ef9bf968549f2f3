/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.h: drives connections, on threads of the user and on the service thread. No lock held.
 */
#ifndef BTL_TCP_PROGRESS_H
#define BTL_TCP_PROGRESS_H

#include "btl/tcp/tcp.h"

/* The service thread makes progress from now on. 0 or -errno. */
int progress_start(struct btl *btl);
void progress_stop(struct btl *btl);
/* A thread of the user drives this connection, and now and then the others. */
void progress_one(struct btl_connection *c);
/* A thread of the user drives all connections. */
void progress_all(struct btl *btl);
/* A thread of the user that waits drives what it need not wait for (btl_ops.progress_round). */
void progress_round(struct btl *btl);
/* btl.lock held: something has a deadline. */
void progress_need_timer(struct btl *btl);

#endif
