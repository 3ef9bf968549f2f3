/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.h: connections, as struct btl_ops.
 */
#ifndef BTL_VERBS_CONNECTION_H
#define BTL_VERBS_CONNECTION_H

#include "btl/verbs/verbs.h"

int verbs_connection_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                          struct btl_connection **out, struct btl_address *address,
                          struct error *err);
int verbs_connection_connect(struct btl_connection *connection, const struct btl_address *address,
                             struct error *err);
void verbs_connection_join(struct btl_connection *connection, struct btl_stream *stream,
                           struct btl_address *address);
void verbs_connection_close(struct btl_connection *connection);
void verbs_connection_describe(struct btl_connection *connection, char *text, size_t text_bytes);
void verbs_connection_counts(struct btl_connection *connection, struct btl_counts *counts);
uint32_t verbs_connection_atomics(struct btl_connection *connection);

#endif
