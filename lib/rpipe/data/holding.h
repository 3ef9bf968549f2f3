/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * holding.h: which messages keep the memory that a writer waits for: for the message of a deadline, and for a line in the log of the
 * reader, which may have forgotten rfree (holding.c).
 */
#ifndef RPIPE_DATA_HOLDING_H
#define RPIPE_DATA_HOLDING_H

#include "rpipe/end/message.h"

/* After the deadline of a call for `size` bytes of memory, or (0) for an index of sync_queue. -ETIMEDOUT and its message. */
int holding_explain(struct rch *ch, size_t size);

/* Receives MESSAGE_STARVED: the writer has waited for memory that this end holds. */
extern const struct message_handler holding_starved_handler;

#endif
