/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * operation.h: the pools of operations, and the failure of a connection. Inside the endpoint for all.
 */
#ifndef BTL_OFI_OPERATION_H
#define BTL_OFI_OPERATION_H

#include "btl/ofi/ofi.h"

#define OFI_DEPTH 64u /* outstanding operations of a connection, unless it requests more */

/* Allocates operations for e->connection_count connections. 0, or -errno and an error message. */
int operation_reserve(struct ofi_endpoint *e, struct error *err);
void operation_release_all(struct ofi_endpoint *e);

/*
 * A free operation for a connection; NULL: the connection has `depth` outstanding, or none is free.
 */
struct ofi_op *operation_take(struct btl_connection *connection, enum ofi_kind kind,
                              struct btl_done *done);
/* Returns an operation that the provider no longer refers to. */
void operation_put(struct ofi_op *op);
/* Completes the caller's btl_done, once. */
void operation_complete(struct ofi_op *op, int error);

/*
 * Fails a connection: the first failure stays, its outstanding operations complete with it. Returns
 * the error.
 */
int operation_fail_connection(struct btl_connection *connection, int error, const char *call,
                              const char *message);

/* A positive errno value for one of libfabric, whose numbers from 256 on are its own. */
int operation_errno(int fi_error);

#endif
