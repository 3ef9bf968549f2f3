/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.c: see transfer.h.
 */
#include "btl/ofi/transfer.h"

#include "btl/ofi/operation.h"
#include "btl/ofi/post.h"
#include "btl/ofi/ordered.h"

#include "util/failpoint.h"

#include <errno.h>

/* 0: the connection accepts a transfer. A write that it has accepted is posted completely first. */
static int transfer_ready(struct btl_connection *connection)
{
    int rc = ofi_error_of(connection);

    if (rc != 0)
        return rc;
    if (!connection->connected)
        return -EAGAIN;
    if (connection->rest.bytes == 0 && connection->rest_slot.bytes == 0)
        return 0;
    rc = ordered_continue(connection);
    if (rc == 0)
        list_remove(&connection->stuck);
    return rc;
}

int transfer_write(struct btl_connection *connection, const struct btl_transfer *payload,
                   const struct btl_transfer *slot)
{
    struct ofi_op *op;
    int rc = transfer_ready(connection);

    if (rc == 0 && slot != NULL && connection->alone > 0)
        rc = -EAGAIN; /* it must not pass the payload that it follows */
    if (rc != 0) {
        connection->counts.refused += rc == -EAGAIN;
        return rc;
    }
    if (payload != NULL && payload->bytes == 0)
        payload = NULL;
    if (payload == NULL && slot == NULL)
        return 0;
    if (connection->endpoint->ordered &&
        (payload == NULL || payload->bytes <= connection->endpoint->ordered_most))
        return ordered_write(connection, payload, slot);
    op = operation_take(connection, OFI_WRITE, NULL);
    if (op == NULL) {
        connection->counts.refused++;
        return -EAGAIN;
    }
    op->part = post_part_of(op->endpoint, payload != NULL ? payload : slot);
    op->next = post_part_of(op->endpoint, payload != NULL ? slot : NULL);
    op->alone = slot == NULL;
    connection->alone += op->alone;
    return post_start(connection, op, "fi_writemsg");
}

int transfer_get(struct btl_connection *connection, const struct btl_transfer *t,
                 struct btl_done *done)
{
    struct ofi_op *op = NULL;
    int rc = transfer_ready(connection);

    if (rc == 0 && t->bytes == 0)
        return 0;
    if (rc == 0)
        op = operation_take(connection, OFI_GET, done);
    if (op == NULL) {
        connection->counts.refused += rc == 0 || rc == -EAGAIN;
        return rc != 0 ? rc : -EAGAIN;
    }
    op->part = post_part_of(op->endpoint, t);
    rc = post_start(connection, op, "fi_readmsg");
    RPIPE_FAILPOINT("ofi: fetch posted");
    connection->counts.gets += rc == 0;
    return rc;
}

int transfer_atomic(struct btl_connection *connection, int code, const struct btl_transfer *at,
                    uint64_t operand, uint64_t compare, struct btl_done *done)
{
    struct ofi_op *op = NULL;
    int rc = transfer_ready(connection);

    if (rc == 0 && (code < BTL_ATOMIC_ADD || code > BTL_ATOMIC_XOR ||
                    (connection->endpoint->atomics & 1u << code) == 0))
        return -ENOTSUP;
    if (rc == 0)
        op = operation_take(connection, OFI_ATOMIC, done);
    if (op == NULL) {
        connection->counts.refused += rc == 0 || rc == -EAGAIN;
        return rc != 0 ? rc : -EAGAIN;
    }
    op->atomic = code;
    op->part = (struct ofi_part){.remote = at->remote->key.word[KEY_ADDRESS] + at->remote_offset,
                                 .key = at->remote->key.word[KEY_KEY],
                                 .bytes = sizeof(uint64_t)};
    op->old = at->memory != NULL ? (char *)at->memory->base + at->offset : NULL;
    op->scratch->operand = operand;
    op->scratch->compare = compare;
    rc = post_start(connection, op, "an atomic operation");
    connection->counts.atomics += rc == 0;
    return rc;
}

/* A read of the end of the last write: it is ordered behind all writes. */
struct ofi_op *transfer_take_flush(struct btl_connection *connection)
{
    struct ofi_op *op = operation_take(connection, OFI_FLUSH, NULL);

    if (op == NULL)
        return NULL;
    op->part = connection->last;
    op->part.local = (char *)&op->scratch->placement;
    op->part.desc = op->scratch_desc;
    return op;
}

int transfer_flush(struct btl_connection *connection)
{
    struct ofi_op *op;
    int rc = transfer_ready(connection);

    if (rc != 0)
        return rc;
    if (connection->unflushed) {
        op = transfer_take_flush(connection);
        if (op == NULL)
            return -EAGAIN;
        rc = post_start(connection, op, "fi_readmsg, behind writes");
        if (rc != 0)
            return rc;
        RPIPE_FAILPOINT("ofi: flush posted");
        connection->unflushed = false;
        connection->counts.flushes++;
    }
    return connection->placing > 0 ? -EAGAIN : 0;
}
