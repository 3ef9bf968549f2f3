/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.h: contexts of the device (struct device_context): that of the process, and those of streams that share nothing (doc/threads.md).
 *
 * Invariants
 * 1. Queue pairs, completion queues, domains and registrations that are used together are of one context.
 * 2. The context of a stream is opened with it, and closed after its last connection; then its index is used again. A key with the index of a
 *    context that was closed names a registration that has ended.
 * 3. Each connection in a context has an entry in the completion queue of greetings, which is made longer for it: all may greet at once. A device
 *    that cannot make it longer has the limit of the queue: connections beyond it are in the context of the process; those beyond that of
 *    the process are a warning, since they must not all connect at the same moment.
 */
#ifndef BTL_VERBS_CONTEXT_H
#define BTL_VERBS_CONTEXT_H

#include "btl/verbs/verbs.h"

/*
 * The completion queue of greetings, which the service thread watches; unwatched before it is closed, with no lock of the backend held. 0, or -errno
 * and an error message.
 */
int verbs_context_open_greetings(struct device_context *context, struct error *err);
int verbs_context_watch(struct device_context *context); /* without a message */
void verbs_context_unwatch(struct device_context *context);
void verbs_context_close_greetings(struct device_context *context);
/* One connection more, or less, in this context. 0, or -errno: the queue of greetings is full, and cannot be made longer. */
int verbs_context_enter(struct device_context *context);
void verbs_context_leave(struct device_context *context);
/* Opens the device once more. 0, or -errno and the reason. */
int verbs_context_open(struct btl *btl, struct device_context **out, struct error *err);
/* Nothing of it is used any more. No lock of the backend held. */
void verbs_context_close(struct device_context *context);
/* In the child of a fork: the descriptors of all contexts become those of `nowhere`. */
void verbs_contexts_forked(struct btl *btl, int nowhere);
/* The queue pair of connection->id, in the domain `pd` of its context. 0, or -1 and errno. */
int verbs_context_queue_pair(struct btl_connection *connection, struct ibv_pd *pd,
                             struct ibv_qp_init_attr *init);

#endif
