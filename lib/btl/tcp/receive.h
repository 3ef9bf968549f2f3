/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.h: what a connection receives. Lock of the connection held.
 */
#ifndef BTL_TCP_RECEIVE_H
#define BTL_TCP_RECEIVE_H

#include "btl/tcp/tcp.h"

/*
 * Reads what the socket has, up to a limit, places it, answers requests, and sends what waits. May
 * fail the connection. Whether it has read anything.
 */
bool receive_drive(struct btl_connection *c);

#endif
