/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path.h: the two paths and what both need (the interface is rpipe/end/path.h).
 */
#ifndef RPIPE_DATA_PATH_H
#define RPIPE_DATA_PATH_H

#include "rpipe/end/path.h"

/* Taking up credits on mapped memory: the fast paths call it directly. */
int mapped_fetch_credits(struct rch *ch, enum credit_need need);

#endif
