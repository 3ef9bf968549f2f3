/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many.h: a thread waits for one of many ends (many.c): rpoll, and a group that writes to any of its members.
 */
#ifndef RPIPE_WAIT_MANY_H
#define RPIPE_WAIT_MANY_H

#include "rpipe/end/rch.h"

/*
 * Calls `attempt` until it returns something other than R_PENDING: that, or -ETIMEDOUT after the deadline, or -ENOTCONN (with its
 * message) when another thread is in rexit. In between the thread spins, yields, then sleeps on the wake words of all `n` ends.
 */
int many_await(const rch_t *ch, int n, int64_t deadline, int (*attempt)(void *of), void *of);

#endif
