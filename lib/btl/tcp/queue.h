/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.h: what a connection has to send. Lock of the connection held for all.
 *
 * Heads, slots and short payloads are copied into one row of bytes, so that many of them are one
 * range of a sendmsg(2). A longer payload is an extent: it is sent from where it is. That of a
 * write must not change (rule 11 of btl.h); that of an answer is found and locked again for every
 * call of sendmsg, because its region may be freed meanwhile.
 */
#ifndef BTL_TCP_QUEUE_H
#define BTL_TCP_QUEUE_H

#include "btl/tcp/tcp.h"

/* Whether so much can be added. May move what is in the queue. */
bool queue_has_space(struct tcp_queue *q, size_t bytes, uint32_t extents);

/* Space has been checked for these. */
void queue_copy(struct tcp_queue *q, const void *bytes, size_t n);
void *queue_reserve(struct tcp_queue *q, size_t n); /* to be filled by the caller */
void queue_refer_local(struct tcp_queue *q, const char *local, uint64_t bytes);
void queue_refer_region(struct tcp_queue *q, uint64_t region, uint64_t offset, uint64_t bytes);

static inline bool queue_is_empty(const struct tcp_queue *q)
{
    return q->first == q->end && q->first_extent == q->end_extent;
}

/*
 * Sends what the socket takes. If something is left, epoll reports when the socket takes more. May
 * fail the connection.
 */
void queue_send(struct btl_connection *c);

#endif
