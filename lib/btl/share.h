/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share.h: the names of the categories of streams (btl.h, doc/threads.md), for the descriptions that backends give.
 */
#ifndef BTL_SHARE_H
#define BTL_SHARE_H

#include "btl/btl.h"

static inline const char *btl_share_name(enum btl_share share)
{
    static const char *const name[] = {
        [BTL_SHARE_DYNAMIC] = "dynamic",     [BTL_SHARE_EVERYWHERE] = "everywhere",
        [BTL_SHARE_2XDYNAMIC] = "2xdynamic", [BTL_SHARE_SHARED_DYNAMIC] = "shared dynamic",
        [BTL_SHARE_STATIC] = "static",       [BTL_SHARE_THREADS] = "threads"};

    return name[share];
}

#endif
