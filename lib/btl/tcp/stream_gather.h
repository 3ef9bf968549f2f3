/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_gather.h: writes of a stream that stay in the queues of its connections, to be sent together (gather.h).
 *
 * Its thread sends them with a later call; the service thread does when it has not called for a millisecond.
 *
 * Invariant: either the service thread checks the streams every millisecond, or btl.sleeps is set, and a thread that leaves a write in a queue wakes it
 * by btl.alarm. Both store first and load then, with a membarrier in the service thread: one of them sees the other.
 */
#ifndef BTL_TCP_STREAM_GATHER_H
#define BTL_TCP_STREAM_GATHER_H

#include "btl/tcp/tcp.h"

/* Inside: a write stays in the queue of a connection; nothing stays any more; sends what stays in the queues of the stream. */
void stream_gather(struct btl_connection *c);
void stream_gather_forget(struct btl_connection *c);
void stream_gather_send(struct btl_stream *s);

/*
 * Service thread: sends what stays in streams that no thread drives. Whether it has to check again in a millisecond.
 */
bool streams_tend(struct btl *btl, int64_t now);
/* The same by a thread that waits, if a stream is late; not if it would have to wait for a lock. */
void streams_tend_late(struct btl *btl, int64_t now);
/* Service thread: from now on it sleeps until epoll has an event. False: it must not, as streams_tend. */
bool streams_may_sleep(struct btl *btl);
void streams_awake(struct btl *btl);

#endif
