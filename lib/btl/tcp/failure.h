/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure.h: the failure of a connection.
 */
#ifndef BTL_TCP_FAILURE_H
#define BTL_TCP_FAILURE_H

#include "btl/tcp/tcp.h"

/*
 * Lock of the connection held, and that of no region. The first failure stays: the socket is
 * closed, what waits to be sent is forgotten, every outstanding request completes with the error.
 * Returns the error of the connection.
 */
int tcp_fail(struct btl_connection *c, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/*
 * Lock held: closes the socket, of which no event is reported any more. Forgets what waits to be
 * sent, so that no memory is referred to, and what has come in part.
 */
void tcp_disconnect(struct btl_connection *c);

#endif
