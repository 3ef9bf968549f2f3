/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.c: the transfers of struct btl_ops: those of post.c, inside the stream of the connection if it is in one.
 *
 * The stream's thread enters with two stores and a load; it becomes the stream's thread with its first transfer, or, if it only reads, after
 * some calls of progress: a thread that opens the pipes for another one makes a few in rwait. The service thread, which drives what is being
 * closed, does not become it (util/biased.h).
 */
#include "btl/verbs/transfer.h"

#include "btl/verbs/post.h"
#include "btl/verbs/stream.h"

static inline bool transfer_enter(struct btl_connection *connection, enum biased_claim claim)
{
    struct btl *btl = connection->btl;

    if (atomic_load_explicit(&btl->service_thread, memory_order_relaxed) == biased_self())
        claim = BIASED_NEVER;
    return biased_enter(&connection->stream->lock, claim);
}

static inline int transfer_leave(struct btl_connection *connection, bool as_owner, int rc)
{
    biased_leave(&connection->stream->lock, as_owner);
    return rc;
}

int verbs_write(struct btl_connection *connection, const struct btl_transfer *payload,
                const struct btl_transfer *slot)
{
    bool as_owner;

    if (connection->stream == NULL)
        return verbs_post_write(connection, payload, slot);
    as_owner = transfer_enter(connection, BIASED_AT_ONCE);
    return transfer_leave(connection, as_owner, verbs_post_write(connection, payload, slot));
}

int verbs_get(struct btl_connection *connection, const struct btl_transfer *transfer,
              struct btl_done *done)
{
    bool as_owner;

    if (connection->stream == NULL)
        return verbs_post_get(connection, transfer, done);
    as_owner = transfer_enter(connection, BIASED_AT_ONCE);
    return transfer_leave(connection, as_owner, verbs_post_get(connection, transfer, done));
}

int verbs_atomic(struct btl_connection *connection, int op, const struct btl_transfer *at,
                 uint64_t operand, uint64_t compare, struct btl_done *done)
{
    bool as_owner;

    if (connection->stream == NULL)
        return verbs_post_atomic(connection, op, at, operand, compare, done);
    as_owner = transfer_enter(connection, BIASED_AT_ONCE);
    return transfer_leave(connection, as_owner,
                          verbs_post_atomic(connection, op, at, operand, compare, done));
}

int verbs_hold(struct btl_connection *connection, uint32_t most)
{
    bool as_owner;

    if (connection->stream == NULL)
        return verbs_post_hold(connection, most);
    as_owner = transfer_enter(connection, BIASED_AT_ONCE);
    return transfer_leave(connection, as_owner, verbs_post_hold(connection, most));
}

int verbs_flush(struct btl_connection *connection)
{
    bool as_owner;

    if (connection->stream == NULL)
        return verbs_post_flush(connection);
    as_owner = transfer_enter(connection, BIASED_AT_ONCE);
    return transfer_leave(connection, as_owner, verbs_post_flush(connection));
}

int verbs_progress(struct btl_connection *connection)
{
    bool as_owner;

    if (connection->stream == NULL)
        return verbs_post_progress(connection);
    /* acquire: the queue pair, written before UP */
    if (atomic_load_explicit(&connection->state, memory_order_acquire) == CONNECTION_DOWN)
        return 0;
    as_owner = transfer_enter(connection, BIASED_POLLING);
    return transfer_leave(connection, as_owner, verbs_post_progress(connection));
}
