/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_end.h: how a peer ends. Service thread only, but for control_check_liveness() and the
 * questions.
 *
 * A peer has ended when no message of it can follow: its FIN has come, the connection that carries
 * its messages has closed, or its liveness word states its death. All messages that it sent before
 * are delivered first. The loss of our own connection to it is less: its messages travel on the
 * other one, which is drained for a moment. A peer that is stopped is not dead: the control network
 * does not give up a peer whose kernel still accepts connections.
 */
#ifndef CONTROL_PEER_END_H
#define CONTROL_PEER_END_H

#include "control/hooks.h"

#include <stdatomic.h>
#include <stdbool.h>

struct peer;
struct connection;

/* The peer has ended, now. `reason` of PEER_DIED: an error message. */
void peer_end(struct peer *p, enum control_end end, const char *reason);
/* Our connection to the peer is lost: it ends after what it has sent, or after a moment. */
void peer_end_soon(struct peer *p, const char *reason);
/* Reads what the peer has sent, and ends it. */
void peer_end_after_drain(struct peer *p, const char *reason);
/* Its FIN has come on this connection. */
void peer_end_fin(struct connection *c);
/* Its EXITING has come: it is in rexit, and opens nothing any more. */
void peer_end_exiting(struct peer *p);
/* Ends every peer whose liveness word states its death. */
void peer_end_check_liveness(void);

/* This peer violates the protocol of a layer above: it ends as if it had died. */
void control_cut_off(int peer, const char *reason);
/* Makes the service thread check the liveness words now: peer_gone() follows for the dead, after
 * the messages that they sent. */
void control_check_liveness(void);
/* 0: the peer is alive as far as is known; -EPIPE: it has left; -ECONNRESET: it has died. */
int control_peer_state(int peer);
/* It is in rexit, or was: it opens and sends nothing any more, and what it had posted before has
 * been delivered. */
bool control_peer_exiting(int peer);
/* Why it is considered dead: "its host has not answered for 9000 ms ..."; "" while it is not.
 * Valid until control_stop(). */
const char *control_peer_why(int peer);
/* The liveness word of the peer (read-only page), or NULL: not connected yet, or not on this
 * host. The word is the owner's thread id while it lives. After the end of the peer the page is
 * unmapped, so the word is valid on the service thread until that of the peer, */
const _Atomic uint32_t *control_liveness(int peer);
/* and for a holder until it drops it. */
const _Atomic uint32_t *control_liveness_hold(int peer);
void control_liveness_drop(int peer, const _Atomic uint32_t *word);
/* As control_check_liveness(), if the word of this peer states its death. Any thread. */
void control_check_peer(int peer);

#endif
