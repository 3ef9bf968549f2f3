/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listener.h: the listening socket of the backend, and connections that have not been
 * authenticated.
 *
 * Any process can dial the listener. Its connection is an arrival until it has sent the cookie of
 * an end that waits. There are at most btl.arrivals_most arrivals, a quarter of the descriptors of
 * this process, and each for ARRIVAL_NS: a new one evicts the oldest. btl.lock held for all but
 * listener_open() and listener_close().
 */
#ifndef BTL_TCP_LISTENER_H
#define BTL_TCP_LISTENER_H

#include "btl/tcp/tcp.h"

#define ARRIVALS_MOST 4096u
#define ARRIVALS_LEAST 16u
#define ARRIVAL_NS (10 * NS_PER_S)

/* Listens at the address of this rank; stores it in btl.name. 0, or -errno and an error message. */
int listener_open(struct btl *btl, struct error *err);
/* Closes all arrivals, too. */
void listener_close(struct btl *btl);

/* A process has dialed. */
void listener_accept(struct btl *btl);
/* An arrival has sent something. */
void listener_arrival_ready(struct btl *btl, struct tcp_arrival *g);
/*
 * Closes arrivals whose time has come, and listens again after a lack of descriptors. True: the
 * timer has to call again.
 */
bool listener_expire(struct btl *btl, int64_t now);

#endif
