/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collective.h: send, receive, barrier and allgather over the control network (network_send(3) and so on).
 *
 * Point to point: messages from A to B are received in the order sent, whole; a receive whose size differs from the
 * message's is -EMSGSIZE and leaves the message. At most a window of bytes per pair is on its way or unreceived; beyond it
 * the sender waits, as with pipe(2), so a rank that never receives costs nobody memory without bound. The barrier is a
 * dissemination barrier (ceil(log2 n) rounds); allgather is Bruck's, of the same shape. A dead peer ends a call with
 * -ECONNRESET, but for collect_leave(), which passes over the dead.
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
/* The barrier of rexit: waits for everybody but the dead, and those who have left. 0 or -ETIMEDOUT. */
int collect_leave(int64_t deadline);
/* True: every call that waits in here ends with -ENOTCONN, and so does every one that comes; false: no longer. */
void collect_abandon(bool abandon);
/* Called by control.c: start, stop, and on the service thread a message or the end of a peer. */
int collect_start(int rank, int size);
void collect_stop(void);
int collect_message(int from, uint32_t type, const void *body,
                    size_t bytes); /* -ENOMEM: it has to come again */
void collect_peer_gone(int rank);

#endif
