/* SPDX-License-Identifier: BSD-3-Clause */
/* region_write.h: messages from regions (region_write.c). */
#ifndef RPIPE_REGION_REGION_WRITE_H
#define RPIPE_REGION_REGION_WRITE_H

#include "rpipe/region/registration.h"

void region_abort(struct rch *ch,
                  int code); /* the peer is lost: every word in flight gets the code */
int region_wait_transfers(struct rch *ch); /* 0, -ETIMEDOUT, or the error */

#endif
