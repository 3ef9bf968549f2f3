/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_dial.h: outgoing connections: to which address, and when again. Service thread only.
 */
#ifndef CONTROL_PEER_DIAL_H
#define CONTROL_PEER_DIAL_H

#include <stdbool.h>
#include <stdint.h>

struct peer;
struct connection;

/* Something is queued for this peer: sends it, or connects. */
void peer_serve(struct peer *p);
/* connect(2) has finished, with success or not. */
void peer_connected(struct connection *c);
/* The deadline of a connection, incoming or outgoing, that is not open yet has passed. */
void peer_greeting_late(struct connection *c);
/* The time to retry, or the end of draining, may have come. True: the peer has to be served. */
bool peer_timer(struct peer *p, int64_t now);

#endif
