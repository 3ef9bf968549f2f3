/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.h: posting: any thread queues a message for a peer, and the service thread sends it.
 *
 * A message is appended to the peer's queue under the one lock, and the eventfd is written only if
 * the service thread may be asleep: it sets that flag under the same lock, after it has found
 * nothing to do.
 */
#ifndef CONTROL_POST_H
#define CONTROL_POST_H

#include "control/hooks.h"

#define CONTROL_MESSAGE_MAX 64

/* Queues a copy of the message; descriptors are duplicated. 0; -EINVAL; -ENOENT (no such peer);
 * -ENOMEM; -EMFILE; -ENOTCONN (stopped); -ECONNRESET (the peer has died); -EPIPE (it has left);
 * -ENOTSUP (descriptors over TCP). */
int control_post(int to, uint32_t type, const void *body, size_t bytes, const int *fds, int nfds);
/* A message that is allocated now and posted later, when there may be no memory. At most
 * CONTROL_MESSAGE_MAX bytes of body. NULL: no memory. */
struct control_message;
struct control_message *control_message_alloc(uint32_t type, size_t bytes);
void control_message_free(struct control_message *m);
/* Posts it with this body; the message is consumed in any case. As control_post, but never
 * -ENOMEM. */
int control_post_message(int to, struct control_message *m, const void *body);
/* Returns when the kernel has everything that was posted to `to` (-1: to any peer) so far, or
 * the peer is gone. 0 or -ETIMEDOUT; -EDEADLK on the service thread; -ENOENT; -ENOTCONN. */
int control_flush(int to, int64_t deadline);
/* Messages posted to `to` that the kernel does not have yet. */
uint64_t control_backlog(int to);
/* Makes sure that the end of `peer` will be noticed: connects, if there is no connection yet.
 * For a caller that waits for a peer to which it sends nothing. */
void control_monitor(int peer);

#endif
