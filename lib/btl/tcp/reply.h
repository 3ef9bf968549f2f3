/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reply.h: requests of the peer that have not been answered. Lock of the connection held for all.
 *
 * They wait here while the queue is full, so that reading never waits for sending: two ends that
 * both have much to send cannot block each other. The peer has announced how many it has at most.
 */
#ifndef BTL_TCP_REPLY_H
#define BTL_TCP_REPLY_H

#include "btl/tcp/tcp.h"

/* Adds an answer. 0; -EPROTO: the peer has more requests than it has announced. */
int reply_add(struct btl_connection *c, const struct tcp_reply *r);
/* Whether answers are not even in the queue. They have precedence over transfers of this end. */
static inline bool reply_waits(const struct btl_connection *c)
{
    return c->requested != c->replied;
}

/* Puts answers into the queue, as many as fit, and sends. May fail the connection. */
void reply_send(struct btl_connection *c);

#endif
