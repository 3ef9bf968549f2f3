/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.h: what the connections of one thread share, and share with no other thread (doc/threads.md, doc/ofi.md).
 *
 * An endpoint with its completion queue, its address vector, its operations and the list of its connections; where the provider permits it, in a
 * domain of its own, in which all memory that peers may access is registered again, with the same keys (memory.c).
 *
 * Invariants
 * 1. One thread at a time is inside a stream (util/biased.h), as inside the endpoint of the process with the lock of the backend: that is the
 *    stream's thread, or one that drives, opens or closes one of its connections, or registers memory.
 * 2. A connection is in a stream from connection_join on until it is closed; it has no address of a peer before.
 * 3. A stream that is closed, as all of its connections are, keeps its endpoint: peers may still have reads from it outstanding, and its own
 *    last operations complete. The service thread drives it. The next stream takes it, with another thread. So there are as many endpoints as
 *    there were streams at once, and none is closed before the backend is.
 * 4. A thread enters a stream as its owner within a call on one of its connections, or with btl.lock held. A stream without users has no
 *    connections: with btl.lock held, it may get another owner.
 */
#ifndef BTL_OFI_STREAM_H
#define BTL_OFI_STREAM_H

#include "btl/ofi/ofi.h"

int ofi_stream_open(struct btl *btl, enum btl_share wanted, struct btl_stream **out,
                    enum btl_share *got, struct error *why);
void ofi_stream_close(struct btl_stream *s);
void ofi_connection_join(struct btl_connection *connection, struct btl_stream *s,
                         struct btl_address *address);
/* Outside: a connection of it has been closed, or it has. */
void stream_put(struct btl_stream *s);

/* At closing: their endpoints; and when no memory is registered any more, their domains and all that is left. */
void streams_close_endpoints(struct btl *btl);
void streams_free(struct btl *btl);

#endif
