/* SPDX-License-Identifier: BSD-3-Clause */
/* region_read.h: messages into regions (region_read.c). */
#ifndef RPIPE_REGION_REGION_READ_H
#define RPIPE_REGION_REGION_READ_H

#include "rpipe/region/registration.h"

int region_wait_placements(struct rch *ch); /* 0, -ETIMEDOUT, or the error */

#endif
