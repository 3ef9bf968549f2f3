/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * join.h: handshakes, close messages, and what the service thread does with ends (join.c).
 */
#ifndef RPIPE_CONNECT_JOIN_H
#define RPIPE_CONNECT_JOIN_H

#include "rpipe/end/rch.h"

/* Registers the end, joins it if the peer's handshake has arrived, and posts its own handshake. */
int join_open(struct rch *ch);
bool join_make_close(struct rch *ch); /* false: no memory */
void join_set_closed_locked(struct rch *ch);
void join_post_close_locked(struct rch *ch, uint64_t final);
/* CLOSED; posts the close message and releases what can be released. */
void join_close(struct rch *ch, uint64_t final);
void join_message(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                  int nfds);
void join_peer_gone(int rank, bool died);
void join_tick(void);                /* ends in event mode: has the peer died? */
void join_leave(void);               /* rexit: sets EXITING at every open end */
int join_ask_events(struct rch *ch); /* passes ch->signal_fd to the writer */
/* Writer, ATTACHED -> JOINED: 0, R_PENDING, or the error. */
int join_complete(struct rch *ch, int64_t deadline);
void join_signal(struct rch *ch, uint64_t number); /* writer over a network, event mode */
/* What the peer has pending here, for the message of a deadline. Buffer of the calling thread. */
const char *join_pending(const struct rch *ch);
/* The end may be gone after these. */
void join_release_if_done(struct rch *ch);
void join_release_locked(struct rch *ch); /* rendezvous lock held */

/* Reports a failure of this end to the peer (end_fail_reported_by). */
void join_post_failure(struct rch *ch, int code, const char *reason);

/* The former names of end_fail and end_fail_locked, which store no message of the call. */
void join_fail(struct rch *ch, int code, const char *reason);
void join_fail_locked(struct rch *ch, int code, const char *reason);

#endif
