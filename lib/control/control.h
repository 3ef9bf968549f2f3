/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h: the control network: small reliable messages between any two ranks of the job, and one
 * service thread.
 *
 * Each rank opens its own outgoing connection to a peer on demand: a Unix socket if the peer is on
 * this host and in this network namespace (it can carry descriptors), TCP otherwise. Messages from
 * A to B are FIFO; the two directions are independent. A message to oneself is delivered like any
 * other. Before any message of a peer is read, the connecting process has shown the cookie of the
 * rank that it connects to, and has received its own.
 *
 * The service thread does all I/O of these sockets. control_post() only queues, so it never waits
 * and may be called from any thread, the service thread included. Hooks run on the service thread
 * with no lock held.
 *
 * Liveness: every process has one page, shared read-only with each local peer, whose first word is
 * a robust futex that the service thread holds. The kernel marks it when the process dies, before
 * it tears down the memory: a peer reads that by a plain load. An orderly exit sets the word to
 * LIVENESS_LEFT.
 *
 * This header is all that the layers above include, but for collective.h and rendezvous.h.
 */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include "control/hooks.h"
#include "control/liveness.h"
#include "control/peer_card.h"
#include "control/peer_end.h"
#include "control/post.h"
#include "control/service.h"
#include "control/watch.h"
#include "util/error.h"

/* After job_open(): opens the sockets, publishes the card (job_publish), starts the service
 * thread. */
int control_start(const struct control_hooks *hooks, int64_t deadline, struct error *err);
/* Sends what is queued (until `sent_by`), a FIN to every peer, ends the thread, closes everything.
 * 0; -ETIMEDOUT and a message: the thread has not ended by `ended_by`, and nothing that it may use
 * can be released. */
int control_stop(int64_t sent_by, int64_t ended_by, struct error *err);
/* In the child of a fork: closes the sockets. Takes no lock, waits for no thread. */
void control_forked(void);

/* The address that this rank offers first to other hosts, numeric; "" if it listens at none.
 * Valid until control_stop(). */
const char *control_address(void);
int control_local_ranks(void); /* ranks on this host that are known so far, this one included */

#endif
