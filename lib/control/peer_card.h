/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_card.h: the business card of a peer, and the kind of connection that follows from it.
 */
#ifndef CONTROL_PEER_CARD_H
#define CONTROL_PEER_CARD_H

#include "control/card.h"

enum control_path { CONTROL_SELF, CONTROL_UNIX, CONTROL_TCP };

/* The card, which is valid until the end of the peer. NULL and a message; errno is ENOMEM where
 * only memory is missing. Service thread, or before it starts. */
const struct card *peer_card(int peer, int64_t deadline, struct error *err);
/* enum control_path; -EHOSTUNREACH and a message. */
int peer_card_path(const struct card *card, struct error *err);
/* How messages to this peer travel; may wait briefly for its card. CONTROL_TCP where that is not
 * known. */
enum control_path control_path(int peer);
/* The rank, this one or the peer, whose /proc does not show its host, so that it is not known whether
 * the two share one; -1: neither. */
int control_host_unknown(int peer);
/* The backends that the peer's card lists (btl_probe), and whether it runs under this kernel.
 * 0; -ENOENT: there is no such peer; -ENOTCONN; -EHOSTUNREACH; with a message. */
int control_peer_backends(int peer, uint32_t *backends, bool *same_kernel, struct error *err);

/* The process of the peer, or this one. On one host the kernel has confirmed the pid of a peer that has
 * connected (greeting.c). As control_peer_backends(). */
int control_process(int peer, struct control_process *process, struct error *err);
/* That of the peer, or of this rank. As control_peer_backends(). */
int control_host(int peer, struct control_host *host, struct error *err);

#endif
