/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * operation.c: see operation.h.
 *
 * Invariants: an operation is spare, or in the queue, or in a round: `used` is set if it is not spare, `in_round` if
 * it is in a round. connection.in_rounds counts those in a round, connection.placing the writes that are not spare.
 */
#include "btl/mpi/operation.h"

#include "btl/mpi/window.h"

#include <stdio.h>
#include <stdlib.h>

void rma_operation_release(struct rma_op *op)
{
    struct btl_connection *c = op->connection;

    if (op->kind == RMA_WRITE)
        c->placing--;
    op->used = false;
    list_append(&c->spare, &op->link);
}

void rma_operation_forget(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    uint32_t i;

    for (i = 0; i < connection->depth; i++) {
        struct rma_op *op = &connection->op[i];

        if (!op->used || op->in_round)
            continue;
        list_remove(&op->link);
        atomic_fetch_sub_explicit(&btl->queued, 1, memory_order_relaxed);
        rma_operation_release(op);
    }
}

/* Completes the caller's btl_done, once. */
static void operation_done(struct rma_op *op, int error)
{
    struct btl_done *done = op->done;

    op->done = NULL;
    if (done == NULL)
        return;
    if (error != 0)
        atomic_store_explicit(&done->error, error, memory_order_relaxed);
    /* release: the data and the error; pairs with the acquire of the caller */
    atomic_fetch_sub_explicit(&done->pending, 1, memory_order_release);
}

void rma_operation_fail_connection(struct btl_connection *connection, int error, const char *reason)
{
    uint32_t i;

    if (rma_error_of(connection) != 0)
        return;
    snprintf(connection->failure, sizeof(connection->failure), "%s", reason);
    /* release: the message; pairs with the acquire in rma_connection_state */
    atomic_store_explicit(&connection->error, error, memory_order_release);
    for (i = 0; i < connection->depth; i++)
        if (connection->op[i].used)
            operation_done(&connection->op[i], error);
    rma_operation_forget(connection);
    if (connection->btl->host.connection_failed != NULL)
        connection->btl->host.connection_failed();
}

void rma_operation_complete(struct rma_op *op)
{
    struct btl_connection *c = op->connection;

    c->in_rounds--;
    if (c->closed) {
        if (c->in_rounds == 0)
            free(c);
        return;
    }
    if (op->code != MPI_SUCCESS) {
        struct error cause = {""};

        (void)rma_window_failed("a transfer of MPI", op->code, &cause);
        rma_operation_fail_connection(c, -EIO, cause.text);
    }
    op->in_round = false;
    operation_done(op, 0);
    rma_operation_release(op);
}
