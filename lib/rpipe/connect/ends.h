/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ends.h: what concerns all ends at once: the start of the connection code, the end of a peer, rexit (ends.c).
 */
#ifndef RPIPE_CONNECT_ENDS_H
#define RPIPE_CONNECT_ENDS_H

#include <stdbool.h>

/* rinit, before the service thread starts: registers the handlers of messages. */
void ends_start(void);
/* Hooks of the control network (struct control_hooks), on the service thread. */
void ends_peer_gone(int rank, bool died);
void ends_peer_exiting(int rank);
void ends_tick(void);
/* rexit: sets EXITING at every open end. */
void ends_leave(void);

#endif
