/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.h: requests of this end that have not been answered. Lock of the connection held for all.
 *
 * Answers come in the order of the requests. One that is not the next expected answer is a
 * violation by the peer.
 */
#ifndef BTL_TCP_REQUEST_H
#define BTL_TCP_REQUEST_H

#include "btl/tcp/tcp.h"

static inline bool request_has_space(const struct btl_connection *c)
{
    return c->asked - c->answered < c->depth;
}

/* Adds a request, for which there is space; its frame is the last thing in the queue. */
void request_add(struct btl_connection *c, const struct tcp_pending *p);
/*
 * The request that this answer is for; NULL: none. A request that has not left the queue has no
 * answer: a peer that acknowledged it could have the program change memory that is still to be sent.
 */
const struct tcp_pending *request_next(const struct btl_connection *c, enum tcp_code answer);
/* The next request has been answered. */
void request_complete(struct btl_connection *c);
/* All are completed with this error. */
void request_fail_all(struct btl_connection *c, int error);

#endif
