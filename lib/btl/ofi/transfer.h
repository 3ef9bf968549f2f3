/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.h: write, get, atomic and flush, as struct btl_ops. Inside the endpoint for all.
 */
#ifndef BTL_OFI_TRANSFER_H
#define BTL_OFI_TRANSFER_H

#include "btl/ofi/ofi.h"

int transfer_write(struct btl_connection *connection, const struct btl_transfer *payload,
                   const struct btl_transfer *slot);
int transfer_get(struct btl_connection *connection, const struct btl_transfer *t,
                 struct btl_done *done);
int transfer_atomic(struct btl_connection *connection, int code, const struct btl_transfer *at,
                    uint64_t operand, uint64_t compare, struct btl_done *done);
int transfer_flush(struct btl_connection *connection);
/* A flush operation, not posted yet; NULL: none is free. */
struct ofi_op *transfer_take_flush(struct btl_connection *connection);

#endif
