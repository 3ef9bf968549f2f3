/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.h: the data path; inside the stream of the connection, if it is in one (transfer.c).
 */
#ifndef BTL_VERBS_POST_H
#define BTL_VERBS_POST_H

#include "btl/verbs/verbs.h"

int verbs_post_write(struct btl_connection *connection, const struct btl_transfer *payload,
                     const struct btl_transfer *slot);
int verbs_post_get(struct btl_connection *connection, const struct btl_transfer *transfer,
                   struct btl_done *done);
int verbs_post_atomic(struct btl_connection *connection, int op, const struct btl_transfer *at,
                      uint64_t operand, uint64_t compare, struct btl_done *done);
int verbs_post_hold(struct btl_connection *connection, uint32_t most);
int verbs_post_flush(struct btl_connection *connection);
int verbs_post_progress(struct btl_connection *connection);

#endif
