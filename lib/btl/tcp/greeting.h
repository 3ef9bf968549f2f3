/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * greeting.h: how a connection comes up.
 *
 * The connecting end dials the listener of the accepting one and sends that connection's cookie,
 * which it has received over the control network. The accepting end answers with the cookie of the
 * connecting end, as soon as it has received that; it then transfers. The connecting end transfers
 * when it has the answer.
 *
 * A greeting that fits no connection is answered by a refusal. Where a connection ends without an
 * answer, the accepting end may have had too many unauthenticated connections (listener.h): then
 * the connecting end dials again, until its deadline. Lock of the connection held for all.
 */
#ifndef BTL_TCP_GREETING_H
#define BTL_TCP_GREETING_H

#include "btl/tcp/tcp.h"

/* The addresses of the two, for people: "10.0.0.1:4711". */
#define TCP_ADDRESS_TEXT 64
void greeting_print(const struct tcp_name *name, char *text, size_t bytes);

/* Compares in a time that does not depend on the contents. */
bool greeting_same_cookie(const uint8_t *a, const uint8_t *b);

/* The connecting end, when it has the address: dials. 0, or -errno and an error message. */
int greeting_dial(struct btl_connection *c, struct error *err);
/* Dialing has ended, with success or without. */
void greeting_dialed(struct btl_connection *c);
/* The socket has ended before the answer. */
void greeting_lost(struct btl_connection *c);
/* The timer: dials again if it is time to. */
void greeting_dial_again(struct btl_connection *c, int64_t now);
/* What refuses an arrival. */
void greeting_refuse(int fd);
/* The accepting end has the socket of a connection that has sent its cookie. */
void greeting_accepted(struct btl_connection *c, int fd);
/* The accepting end has the address. */
void greeting_named(struct btl_connection *c);
/* The connecting end has received this. */
void greeting_answered(struct btl_connection *c, const struct tcp_greeting *greeting);

/*
 * Options of every socket: small messages leave at once. An idle connection is probed as those of
 * the control network are (RPIPE_KEEPALIVE_MS): a firewall that has forgotten it is noticed.
 */
void greeting_configure(const struct btl *btl, int fd);

#endif
