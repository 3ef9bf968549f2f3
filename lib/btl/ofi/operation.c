/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * operation.c: see operation.h.
 *
 * Operations are allocated when connections are opened, in chunks whose scratch memory is
 * registered. They belong to an endpoint.
 *
 * Invariants: an outstanding operation is in the list of its connection or in that of the orphans; it has
 * one step posted, or is in the list `stuck`. connection.pending is the number of operations in its list,
 * connection.placing the number of those that place something in the peer's memory, flushes
 * included, connection.alone the number of those that are writes without a slot.
 */
#include "btl/ofi/operation.h"

#include "btl/ofi/address.h"
#include "btl/ofi/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define OPS_CHUNK 256u /* operations allocated at a time */

struct ofi_chunk {
    struct ofi_chunk *next;
    struct ofi_registration registration;
    struct ofi_scratch scratch[OPS_CHUNK];
    struct ofi_op op[OPS_CHUNK];
};

/* Enough for a few operations of every connection, or many of a few connections. */
int operation_reserve(struct ofi_endpoint *e, struct error *err)
{
    struct ofi_chunk *c;
    size_t i;
    int rc;

    while (e->ops < OPS_CHUNK + 4 * e->connection_count) {
        c = calloc(1, sizeof(*c));
        if (c == NULL)
            return error_set(err, -ENOMEM, "there is no memory for %u more operations", OPS_CHUNK);
        rc = memory_register(e, c->scratch, sizeof(c->scratch), BTL_LOCAL, NULL, &c->registration,
                             err);
        if (rc != 0) {
            free(c);
            return rc;
        }
        for (i = 0; i < OPS_CHUNK; i++) {
            struct ofi_op *op = &c->op[i];

            op->scratch = &c->scratch[i];
            op->scratch_desc = c->registration.desc;
            list_init(&op->stuck);
            list_append(&e->spare, &op->link);
        }
        c->next = e->chunks;
        e->chunks = c;
        e->ops += OPS_CHUNK;
    }
    return 0;
}

void operation_release_all(struct ofi_endpoint *e)
{
    struct ofi_chunk *c;

    while ((c = e->chunks) != NULL) {
        e->chunks = c->next;
        memory_deregister(&c->registration);
        free(c);
    }
}

static bool operation_places(const struct ofi_op *op) { return op->kind != OFI_GET; }

struct ofi_op *operation_take(struct btl_connection *connection, enum ofi_kind kind,
                              struct btl_done *done)
{
    struct ofi_endpoint *e = connection->endpoint;
    struct ofi_op *op;

    if (connection->pending >= connection->depth || list_empty(&e->spare))
        return NULL;
    op = container_of(e->spare.next, struct ofi_op, link);
    list_remove(&op->link);
    list_append(&connection->ops, &op->link);
    op->endpoint = e;
    op->connection = connection;
    op->peer = connection->peer;
    op->to = connection->to;
    op->kind = kind;
    op->alone = false;
    op->done = done;
    op->old = NULL;
    op->part.bytes = op->next.bytes = 0;
    connection->pending++;
    if (operation_places(op))
        connection->placing++;
    return op;
}

void operation_put(struct ofi_op *op)
{
    if (op->connection == NULL) { /* relaxed: what is freed a little later is freed, too */
        atomic_fetch_sub_explicit(&op->endpoint->orphan_count, 1, memory_order_relaxed);
    } else {
        op->connection->pending--;
        if (operation_places(op))
            op->connection->placing--;
        op->connection->alone -= op->alone;
        op->connection = NULL;
    }
    if (op->remote != NULL)
        address_put(op->endpoint, op->remote);
    op->remote = NULL;
    list_remove(&op->stuck);
    list_remove(&op->link);
    list_insert(&op->endpoint->spare, &op->link); /* in front: it is in the cache */
}

void operation_complete(struct ofi_op *op, int error)
{
    if (op->done == NULL)
        return;
    if (error != 0) {
        int none = 0;

        atomic_compare_exchange_strong_explicit(&op->done->error, &none, error,
                                                memory_order_relaxed, memory_order_relaxed);
    }
    /* release: the data and the error; pairs with the acquire of a caller that reads 0 */
    atomic_fetch_sub_explicit(&op->done->pending, 1, memory_order_release);
    op->done = NULL;
}

int operation_fail_connection(struct btl_connection *connection, int error, const char *call,
                              const char *message)
{
    struct link *at, *after;
    char text[128] = "an unknown address";

    if (ofi_error_of(connection) != 0)
        return ofi_error_of(connection);
    if (connection->remote != NULL)
        address_print(connection->endpoint, &connection->remote->address, text, sizeof(text));
    snprintf(connection->failure, sizeof(connection->failure),
             "provider %s, to rank %d at %s: %s: %s", connection->endpoint->provider,
             connection->peer, text, call, message);
    /* release: the message; pairs with the acquire in ofi_connection_state */
    atomic_store_explicit(&connection->error, error, memory_order_release);
    list_for_each (at, after, &connection->ops)
        operation_complete(container_of(at, struct ofi_op, link), error);
    if (connection->btl->host.connection_failed != NULL)
        connection->btl->host.connection_failed();
    return error;
}

int operation_errno(int fi_error) { return fi_error <= 0 || fi_error > 255 ? EIO : fi_error; }
