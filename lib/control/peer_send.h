/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_send.h: sending on a connection, and whether the host at its other end still answers.
 * Service thread only.
 */
#ifndef CONTROL_PEER_SEND_H
#define CONTROL_PEER_SEND_H

struct connection;

/* Sends what is queued, as far as the socket takes it. */
void peer_write(struct connection *c);
/* An open TCP connection of our own: checks that the other host answers, and sets the time of
 * the next check. */
void peer_check_host(struct connection *c);

#endif
