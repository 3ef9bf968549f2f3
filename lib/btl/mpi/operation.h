/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * operation.h: how operations end, and the failure of a connection. Lock held for all.
 */
#ifndef BTL_MPI_OPERATION_H
#define BTL_MPI_OPERATION_H

#include "btl/mpi/rma.h"

/* An operation that is in no list becomes spare. */
void rma_operation_release(struct rma_op *op);
/* Removes the operations of a connection from the queue, without completing them. */
void rma_operation_forget(struct btl_connection *connection);
/* An operation leaves its round: completes it with op->code. The connection may be freed. */
void rma_operation_complete(struct rma_op *op);
/*
 * Fails a connection: the first failure stays, what is outstanding completes with it, and what no round has is
 * dropped.
 */
void rma_operation_fail_connection(struct btl_connection *connection, int error,
                                   const char *reason);

#endif
