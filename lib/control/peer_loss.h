/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_loss.h: what the end of a connection means for its peer: another attempt, or the peer's end.
 * Service thread only.
 */
#ifndef CONTROL_PEER_LOSS_H
#define CONTROL_PEER_LOSS_H

#include <stdbool.h>

#define PEER_REFUSALS_MAX 3 /* greetings that end early, before the address counts as unreachable */

struct peer;
struct connection;

/* Dials, or sends, again after this time. */
void peer_retry_in(struct peer *p, int ms);
/* This connection has ended, or has to. */
void peer_lost(struct connection *c, const char *reason);
/* The address that was tried does not lead to the peer: the next one, or its end. */
void peer_unreachable(struct peer *p, bool is_unix, const char *reason);

#endif
