/* SPDX-License-Identifier: BSD-3-Clause */
/* connect.h: a link to a peer that is ready for requests. */
#ifndef AM_CONNECT_H
#define AM_CONNECT_H

#include "am/am.h"

/* The link, opened if necessary. 0; R_PENDING and the reason: not yet; or an error. */
int am_out_get(struct ram *am, int peer, const char *call, struct am_out **found);
int am_out_proceed(struct ram *am, struct am_out *out); /* continues with opening; as above */

#endif
