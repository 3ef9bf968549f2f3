/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dispatch.h: gives each frame to its receiver: a greeting, the layers above, the lanes. Service
 * thread only.
 *
 * Nothing that a peer sends stops the service thread: a violation of the protocol closes the
 * connection, and for memory or descriptors the frame waits.
 */
#ifndef CONTROL_DISPATCH_H
#define CONTROL_DISPATCH_H

struct peer;

/* Registers the handlers of receive.h. */
void dispatch_start(void);
/* What this rank has posted to itself. */
void dispatch_to_self(struct peer *p);

#endif
