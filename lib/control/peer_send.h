/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_send.h: sending on a connection, and whether the host at its other end still answers.
 * Service thread only.
 */
#ifndef CONTROL_PEER_SEND_H
#define CONTROL_PEER_SEND_H

#include "control/wire.h"

#include <stdbool.h>

struct connection;
struct peer;

/* Sends what is queued, as far as the socket takes it. */
void peer_write(struct connection *c);
/*
 * A frame without a body, behind everything that has been posted to the peer: on the peer's connection where there is none of our
 * own and nothing waits for one, so that no connection is made for it. False: nothing connects the two, or there is no memory.
 */
bool peer_send_last(struct peer *p, enum wire_type type);
/* This process is in rexit: sends EXITING to a peer that has been greeted, once. */
void peer_send_exiting(struct peer *p);
/* An open TCP connection of our own: checks that the other host answers, and sets the time of
 * the next check. */
void peer_check_host(struct connection *c);

#endif
