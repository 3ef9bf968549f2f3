/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.h: connections and their transfers, as struct btl_ops.
 */
#ifndef BTL_TCP_CONNECTION_H
#define BTL_TCP_CONNECTION_H

#include "btl/tcp/tcp.h"

int tcp_connection_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                        struct btl_connection **out, struct btl_address *address,
                        struct error *err);
int tcp_connection_connect(struct btl_connection *c, const struct btl_address *address,
                           struct error *err);
int tcp_connection_state(struct btl_connection *c, struct error *err);
void tcp_connection_close(struct btl_connection *c);
void tcp_connection_describe(struct btl_connection *c, char *text, size_t text_bytes);
void tcp_connection_counts(struct btl_connection *c, struct btl_counts *counts);
uint32_t tcp_connection_atomics(struct btl_connection *c);
int tcp_connection_write(struct btl_connection *c, const struct btl_transfer *payload,
                         const struct btl_transfer *slot);
int tcp_connection_hold(struct btl_connection *c, uint32_t most);
int tcp_connection_get(struct btl_connection *c, const struct btl_transfer *t,
                       struct btl_done *done);
int tcp_connection_atomic(struct btl_connection *c, int op, const struct btl_transfer *at,
                          uint64_t operand, uint64_t compare, struct btl_done *done);
int tcp_connection_flush(struct btl_connection *c);
void tcp_connection_position(struct btl_connection *c, uint64_t *accepted, uint64_t *released);
int tcp_connection_progress(struct btl_connection *c);

#endif
