/* SPDX-License-Identifier: BSD-3-Clause */
/* receive_in.h: messages that arrive on a link from a peer. */
#ifndef AM_RECEIVE_IN_H
#define AM_RECEIVE_IN_H

#include "am/am.h"

/* The result of rread_nb other than R_PENDING. 1: a handler has run; 0; or the link has ended: an error. */
int am_in_receive(struct ram *am, struct am_in *in, int rc, raddr_t d, size_t size);

#endif
