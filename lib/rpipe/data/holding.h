/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * holding.h: which messages keep the memory that a writer waits for: for the message of a deadline, and for a line in the log of the
 * reader, which may have forgotten rfree (holding.c).
 */
#ifndef RPIPE_DATA_HOLDING_H
#define RPIPE_DATA_HOLDING_H

#include "rpipe/end/message.h"

/* On the wire: `number` of the head is the least number of messages that the reader holds. */
struct starved_message {
    struct end_message_head head;
    uint64_t bytes;  /* of the heap, in all messages that have not come back */
    uint64_t waited; /* ms, of the call that reached its deadline */
};
static_assert(sizeof(struct starved_message) == 48, "on the wire");

/* After the deadline of a call for `size` bytes of memory, or (0) for an index of sync_queue. -ETIMEDOUT and its message. */
int holding_explain(struct rch *ch, size_t size);

/* Receives MESSAGE_STARVED: the writer has waited for memory that this end holds. */
extern const struct message_handler holding_starved_handler;

#endif
