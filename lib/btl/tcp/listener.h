/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listener.h: the listening socket of the backend, and connections that have not been authenticated.
 *
 * Any process can dial the listener. What it has dialed is a guest until it has sent the cookie of a
 * connection that waits. There are at most btl.guests_most guests, a quarter of the descriptors of
 * this process, and each for GUEST_NS: a new one evicts the oldest. btl.lock held for all but listener_open() and listener_close().
 */
#ifndef BTL_TCP_LISTENER_H
#define BTL_TCP_LISTENER_H

#include "btl/tcp/tcp.h"

#define GUESTS_MOST 4096u
#define GUESTS_LEAST 16u
#define GUEST_NS (10 * NS_PER_S)

/* Listens at the address of this rank; stores it in btl.name. 0, or -errno and an error message. */
int listener_open(struct btl *btl, struct error *err);
/* Closes all guests, too. */
void listener_close(struct btl *btl);

/* Somebody has dialed. */
void listener_accept(struct btl *btl);
/* A guest has sent something. */
void listener_guest_ready(struct btl *btl, struct tcp_guest *guest);
/* Closes guests whose time has come, and listens again after a lack of descriptors. True: the timer has to call again. */
bool listener_expire(struct btl *btl, int64_t now);

#endif
