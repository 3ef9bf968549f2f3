/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.h: reads a connection and passes each frame to the registered
 * handlers (dispatch.c). Service thread only.
 *
 * A frame for which there is no memory stays in the buffer, and reading pauses:
 * then the kernel's buffer fills, and the peer has to wait. Reading continues
 * RECEIVE_PAUSE_MS later.
 */
#ifndef CONTROL_RECEIVE_H
#define CONTROL_RECEIVE_H

#include "control/connection.h"

#define RECEIVE_TURN_BYTES (1u << 20) /* from one connection, before it is the turn of the others */
#define RECEIVE_DRAIN_BYTES (64u << 20) /* more than any socket buffer, so that draining ends */

struct receive_handlers {
    /* A whole frame. 0; -ENOMEM: no memory, or no descriptor, for it now: the
   * same frame is passed again. */
    int (*frame)(struct connection *c, const struct wire_frame *frame, const void *body);
    /* The bytes on this connection violate the protocol. */
    void (*violation)(struct connection *c, const char *reason);
    /* The connection has ended. */
    void (*ended)(struct connection *c, const char *reason);
};

void receive_set_handlers(const struct receive_handlers *handlers);
/* At most about `budget` bytes. The handlers may end the connection, or the
 * peer. */
void receive_read(struct connection *c, size_t budget);
/* Continues those of a list of connections that are paused. */
void receive_resume(struct link *connections);

#endif
