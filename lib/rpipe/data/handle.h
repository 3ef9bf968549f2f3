/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handle.h: from the handle of a user (raddr_t) to the message (struct rdesc).
 *
 * A fast path tests handle_is_users; everything else calls handle_find, which names the mistake. Below the public functions
 * there are descriptors only.
 */
#ifndef RPIPE_DATA_HANDLE_H
#define RPIPE_DATA_HANDLE_H

#include "rpipe/end/rch.h"

/* `d` is desc_of(handle). The state of the end has been tested: the messages of a closed end are not valid. */
static FORCE_INLINE bool handle_is_users(const struct rch *ch, const struct rdesc *d,
                                         raddr_t handle)
{
    return desc_is_users(d, handle, ch->pool.key);
}

/*
 * The message of a handle, which the user of this end owns: 0, or -EINVAL and its message. With RMALLOC_DEBUG=1 the handle may
 * have any value.
 */
int handle_find(struct rch *ch, raddr_t handle, struct rdesc **d) NOINLINE;

#endif
