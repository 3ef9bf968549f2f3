/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.h: streams: what the pipes of one thread have for themselves (doc/threads.md).
 *
 * A stream has, for each backend that its pipes use, what that backend separates (btl_ops.stream_open), from the first such pipe on.
 *
 * Invariants
 * 1. An end that was opened in a stream is in its list until rclose, and what opens pipes when it needs them is in another list
 *    (stream_holder.h); the stream cannot be closed as long as one of the two is not empty.
 * 2. A connection may outlive the stream: the backend keeps what it has of the stream until the last of them is closed.
 * 3. The mutex of streams is taken where ends and streams are opened and closed, and on no way of a message.
 */
#ifndef RPIPE_END_STREAM_H
#define RPIPE_END_STREAM_H

#include "rpipe/end/rch.h"
#include "util/error.h"

/* 0, or -ENOMEM and the message. */
int stream_begin(enum btl_share share, rstream_t *stream);
/* 0; -EINVAL: it is not open; -EBUSY: something is open in it; with the message. */
int stream_end(rstream_t stream);
/* 0; -EINVAL: it is not open; -ENOMEM; with the message. */
int stream_hold(rstream_t stream, const char *name);
/* 0; -EINVAL: it is not open; -ENOENT: it is not held by this name; with the message. */
int stream_unhold(rstream_t stream, const char *name);
/* 0, or -EINVAL: it is not open. A longer text is truncated. */
int stream_describe(rstream_t stream, char *text, size_t bytes);
/* Opens `ch` in a stream. 0, or -EINVAL and the message: it is not open. */
int stream_add(rstream_t stream, struct rch *ch, struct error *err);
/* The end is closed. Without effect if it is in no stream. */
void stream_remove(struct rch *ch);
/*
 * Puts the connection of the end into its stream, if it is in one, stores its address, where that is another one then, and sets
 * ch->stream_got. Any thread.
 */
void stream_join(struct rch *ch, struct btl_connection *connection, struct btl_address *address);
/* The same for an end on mapped memory. */
void stream_mapped(struct rch *ch);
/* rexit, when all ends are closed: closes the streams that are open. */
void streams_leave(void);

/* RMALLOC_DEBUG=1: 0; -EBUSY and the message: another thread is inside another pipe of the stream. */
int stream_debug_enter(struct rch *ch, const char *thread);
void stream_debug_leave(struct rch *ch, const char *thread);

#endif
