/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * join.h: how the two ends of a pipe find each other (join.c).
 */
#ifndef RPIPE_CONNECT_JOIN_H
#define RPIPE_CONNECT_JOIN_H

#include "rpipe/end/message.h"
#include "rpipe/end/rch.h"

/* Registers the end, posts its handshake, and joins it if the peer's has arrived. 0, -EEXIST, -ENOMEM. */
int join_open(struct rch *ch);
/* The peer is in rexit: the end is never joined, unless the peer has opened the other one. Rendezvous lock held. */
void join_peer_exiting(struct rch *ch);
/* Writer, ATTACHED -> JOINED: 0, R_PENDING, or the error. */
int join_complete(struct rch *ch, int64_t deadline);
/* What the peer has opened and this process has not, for the message of a deadline. Buffer of the calling thread. */
const char *join_pending(const struct rch *ch);

extern const struct message_handler join_handshake_handler;

#endif
