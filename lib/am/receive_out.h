/* SPDX-License-Identifier: BSD-3-Clause */
/* receive_out.h: messages that arrive on a link to a peer: replies, acknowledgements, and messages of the link itself. */
#ifndef AM_RECEIVE_OUT_H
#define AM_RECEIVE_OUT_H

#include "am/am.h"

/* The result of rread_nb other than R_PENDING. 1: a handler has run; 0; or the link has ended: an error. */
int am_out_receive(struct ram *am, struct am_out *out, int rc, raddr_t d, size_t size);

/* A call on the writer of the link has failed: takes the messages that have arrived, ends the link. Returns the code. */
int am_out_broken(struct ram *am, struct am_out *out, int code);

#endif
