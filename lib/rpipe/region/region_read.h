/* SPDX-License-Identifier: BSD-3-Clause */
/* region_read.h: messages into regions (region_read.c). */
#ifndef RPIPE_REGION_REGION_READ_H
#define RPIPE_REGION_REGION_READ_H

#include "rpipe/end/call.h"
#include "rpipe/region/registration.h"

/* For rclose: no transfer into memory of the program is in flight: 0; or R_PENDING and what is awaited. */
int region_settle_placements(struct rch *ch, struct awaited *awaited);

#endif
