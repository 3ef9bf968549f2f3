/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.h: the transfers of struct btl_ops.
 */
#ifndef BTL_VERBS_TRANSFER_H
#define BTL_VERBS_TRANSFER_H

#include "btl/verbs/verbs.h"

int verbs_write(struct btl_connection *connection, const struct btl_transfer *payload,
                const struct btl_transfer *slot);
int verbs_get(struct btl_connection *connection, const struct btl_transfer *transfer,
              struct btl_done *done);
int verbs_atomic(struct btl_connection *connection, int op, const struct btl_transfer *at,
                 uint64_t operand, uint64_t compare, struct btl_done *done);
int verbs_hold(struct btl_connection *connection, uint32_t most);
int verbs_flush(struct btl_connection *connection);
int verbs_progress(struct btl_connection *connection);

#endif
