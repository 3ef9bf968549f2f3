/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.h: write, get, atomic, flush; lock of the connection held. Rules 7 to 11 of btl.h.
 */
#ifndef BTL_TCP_TRANSFER_H
#define BTL_TCP_TRANSFER_H

#include "btl/tcp/tcp.h"

int transfer_write(struct btl_connection *c, const struct btl_transfer *payload,
                   const struct btl_transfer *slot);
/* Sends what the queue has; from here on, writes may stay there until there are so many. */
int transfer_hold(struct btl_connection *c, uint32_t most);
int transfer_get(struct btl_connection *c, const struct btl_transfer *t, struct btl_done *done);
int transfer_atomic(struct btl_connection *c, int op, const struct btl_transfer *at,
                    uint64_t operand, uint64_t compare, struct btl_done *done);
int transfer_flush(struct btl_connection *c);

#endif
