/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collective.h: send, receive, barrier and allgather over the control network (network_send(3) and
 * so on).
 *
 * Point to point: messages from A to B are received in the order sent, whole; a receive whose size
 * differs from the message's is -EMSGSIZE and leaves the message. At most a window of bytes per
 * pair of ranks is in flight or unreceived; beyond it the sender waits, as with pipe(2), so that a
 * rank that never receives costs the others a bounded amount of memory. The barrier is a
 * dissemination barrier (ceil(log2 n) rounds); allgather is Bruck's, of the same shape. A dead peer
 * ends a call with -ECONNRESET, but for collect_leave(), which passes over the dead.
 */
#ifndef CONTROL_COLLECTIVE_H
#define CONTROL_COLLECTIVE_H

#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int collect_send(int to, const void *buf, size_t bytes, int64_t deadline, struct error *err);
int collect_recv(int from, void *buf, size_t bytes, int64_t deadline, struct error *err);
int collect_barrier(int64_t deadline, struct error *err);
int collect_allgather(const void *mine, size_t bytes, void *all, int64_t deadline,
                      struct error *err);
/* The barrier of rexit: waits for all ranks but those that are dead, or have left. 0, or
 * -ETIMEDOUT and the names of those that have not come; "" where that could not be found out. */
int collect_leave(int64_t deadline, struct error *missing);
/* True: every call that waits in here ends with -ENOTCONN, and so does every later one; false:
 * no longer. */
void collect_abandon(bool abandon);
/* Called by control.c; registers what the service thread calls. */
int collect_start(int rank, int size); /* 0 or -ENOMEM */
void collect_stop(void);

#endif
