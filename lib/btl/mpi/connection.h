/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.h: the functions of struct btl_ops for connections and transfers.
 */
#ifndef BTL_MPI_CONNECTION_H
#define BTL_MPI_CONNECTION_H

#include "btl/mpi/rma.h"

int rma_connection_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                        struct btl_connection **out, struct btl_address *address,
                        struct error *err);
int rma_connection_connect(struct btl_connection *connection, const struct btl_address *address,
                           struct error *err);
int rma_connection_state(struct btl_connection *connection, struct error *err);
void rma_connection_close(struct btl_connection *connection);
void rma_connection_describe(struct btl_connection *connection, char *text, size_t text_bytes);
void rma_connection_counts(struct btl_connection *connection, struct btl_counts *counts);
uint32_t rma_connection_atomics(struct btl_connection *connection);

int rma_connection_write(struct btl_connection *connection, const struct btl_transfer *payload,
                         const struct btl_transfer *slot);
int rma_connection_get(struct btl_connection *connection, const struct btl_transfer *transfer,
                       struct btl_done *done);
int rma_connection_atomic(struct btl_connection *connection, int op, const struct btl_transfer *at,
                          uint64_t operand, uint64_t compare, struct btl_done *done);
int rma_connection_flush(struct btl_connection *connection);
int rma_connection_progress(struct btl_connection *connection);

#endif
