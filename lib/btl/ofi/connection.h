/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.h: connections and their transfers, as struct btl_ops.
 *
 * A connection is the address of a peer and counters: all share one endpoint, or that of a stream. It is up when it has
 * the other end's address; the provider connects, if it connects at all, with the first transfer,
 * and refuses transfers until then.
 */
#ifndef BTL_OFI_CONNECTION_H
#define BTL_OFI_CONNECTION_H

#include "btl/ofi/ofi.h"

int ofi_connection_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                        struct btl_connection **out, struct btl_address *address,
                        struct error *err);
int ofi_connection_connect(struct btl_connection *connection, const struct btl_address *address,
                           struct error *err);
int ofi_connection_state(struct btl_connection *connection, struct error *err);
void ofi_connection_close(struct btl_connection *connection);
void ofi_connection_describe(struct btl_connection *connection, char *text, size_t text_bytes);
void ofi_connection_counts(struct btl_connection *connection, struct btl_counts *counts);
uint32_t ofi_connection_atomics(struct btl_connection *connection);
int ofi_connection_write(struct btl_connection *connection, const struct btl_transfer *payload,
                         const struct btl_transfer *slot);
int ofi_connection_get(struct btl_connection *connection, const struct btl_transfer *transfer,
                       struct btl_done *done);
int ofi_connection_atomic(struct btl_connection *connection, int op, const struct btl_transfer *at,
                          uint64_t operand, uint64_t compare, struct btl_done *done);
int ofi_connection_flush(struct btl_connection *connection);
int ofi_connection_progress(struct btl_connection *connection);

#endif
