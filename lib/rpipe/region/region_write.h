/* SPDX-License-Identifier: BSD-3-Clause */
/* region_write.h: messages from regions (region_write.c). */
#ifndef RPIPE_REGION_REGION_WRITE_H
#define RPIPE_REGION_REGION_WRITE_H

#include "rpipe/end/call.h"
#include "rpipe/region/registration.h"

void region_abort(struct rch *ch,
                  int code); /* the peer is lost: every word in flight gets the code */
/* For rclose: no transfer from memory of the program is in flight: 0; or R_PENDING and what is awaited. */
int region_settle_transfers(struct rch *ch, struct awaited *awaited);

#endif
