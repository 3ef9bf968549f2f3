/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held.h: reads of a socket that leave short messages in it for a while.
 *
 * recv(2) sends the acknowledgement of what it takes before it returns. A connection of a pipe
 * carries little back with which it could go, and for a message to and fro the packets of two
 * acknowledgements are a third of the time. So a short read leaves the bytes in the socket (MSG_PEEK
 * with SO_PEEK_OFF); they are processed at once, and taken, hence acknowledged, later: where a read
 * finds nothing, by the service thread, before a long read, or when there are so many that the peer
 * may have to wait for an acknowledgement. Kernels before Linux 6.9 have no SO_PEEK_OFF for TCP:
 * there every read takes its bytes.
 *
 * Lock of the connection held.
 */
#ifndef BTL_TCP_HELD_H
#define BTL_TCP_HELD_H

#include "btl/tcp/tcp.h"

#include <sys/types.h>

/* The connection is up: bytes may be held from now on. */
void held_begin(struct btl_connection *c);
/* Reads what follows the held bytes, and may hold it. recv(2) or -errno. */
ssize_t held_read(struct btl_connection *c, void *to, size_t bytes);
/* Takes the held bytes. 0 or -EIO: they are not there. */
int held_take(struct btl_connection *c);

#endif
