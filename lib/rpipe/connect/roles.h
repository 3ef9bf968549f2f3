/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * roles.h: two ends that were opened with the same role for one context, or with different contexts, never join. That is reported
 * in the log, at both ends, and not only by the deadline of a call.
 */
#ifndef RPIPE_CONNECT_ROLES_H
#define RPIPE_CONNECT_ROLES_H

#include "rpipe/end/rch.h"

/* The end was opened and waits: checks it after a second if the peer has opened another one. Rendezvous lock held. */
void roles_opened(const struct rch *ch);
/* A handshake of the peer was kept: the same. Rendezvous lock held. */
void roles_kept(int peer);
void roles_stop(void); /* rexit */

#endif
