/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * accept.h: incoming connections, until they have sent their HELLO. Service thread only.
 */
#ifndef CONTROL_ACCEPT_H
#define CONTROL_ACCEPT_H

#include <stdbool.h>

/* Accepts what waits at a listening socket. */
void accept_connections(int listener, bool is_unix);
/* Whether the loop watches the listening sockets. */
void accept_watch_listeners(bool on);

#endif
