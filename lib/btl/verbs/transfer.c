/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.c: the transfers of struct btl_ops: those of post.c, inside the stream of the connection if it is in one.
 *
 * The stream's thread enters with two stores and a load; it becomes the stream's thread with its first transfer. Progress is none:
 * a thread that opens the pipes for another one makes it in rwait. The service thread, which drives what is being closed, does not
 * become it either (util/biased.h). Progress of a connection that has made no transfer, as that of the reader of a PUT pipe, does not enter: it has
 * no completion to take but that of its greeting.
 */
#include "btl/verbs/transfer.h"

#include "btl/verbs/memory.h"
#include "btl/verbs/post.h"
#include "btl/verbs/state.h"
#include "btl/verbs/stream.h"

static inline bool transfer_enter(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;

    /* relaxed: by the thread that loads it, or before that has taken over the connection */
    if (UNLIKELY(!atomic_load_explicit(&connection->used, memory_order_relaxed)))
        atomic_store_explicit(&connection->used, true, memory_order_relaxed);
    return biased_enter(&connection->stream->lock,
                        atomic_load_explicit(&btl->service_thread, memory_order_relaxed) !=
                                biased_self()
                            ? BIASED_AT_ONCE
                            : BIASED_NEVER);
}

static inline int transfer_leave(struct btl_connection *connection, bool as_owner, int rc)
{
    biased_leave(&connection->stream->lock, as_owner);
    return rc;
}

/* The registration fails: so does the connection, which could not transfer. */
static NOINLINE int transfer_register(struct btl_connection *connection,
                                      const struct btl_memory *memory)
{
    struct error why = {""};
    int rc = verbs_memory_copy(connection->context, memory, &why);

    if (rc == 0)
        return 0;
    verbs_state_fail(connection, rc,
                     "%s to rank %d: memory cannot be registered in the context of a stream: %s",
                     connection->btl->device, connection->peer, why.text);
    return rc;
}

/* In a context of the stream: local memory of the transfer is registered by the first one. NULL: none. */
static inline int transfer_reach(struct btl_connection *connection, const struct btl_transfer *t)
{
    if (LIKELY(connection->context->index == 0) || t == NULL || t->memory == NULL ||
        LIKELY(verbs_memory_in(connection->context, t->memory) != NULL))
        return 0;
    return transfer_register(connection, t->memory);
}

int verbs_write(struct btl_connection *connection, const struct btl_transfer *payload,
                const struct btl_transfer *slot)
{
    bool as_owner;
    int rc;

    if (connection->stream == NULL)
        return verbs_post_write(connection, payload, slot);
    as_owner = transfer_enter(connection);
    rc = transfer_reach(connection, payload);
    if (rc == 0)
        rc = transfer_reach(connection, slot);
    if (rc == 0)
        rc = verbs_post_write(connection, payload, slot);
    return transfer_leave(connection, as_owner, rc);
}

int verbs_get(struct btl_connection *connection, const struct btl_transfer *transfer,
              struct btl_done *done)
{
    bool as_owner;
    int rc;

    if (connection->stream == NULL)
        return verbs_post_get(connection, transfer, done);
    as_owner = transfer_enter(connection);
    rc = transfer_reach(connection, transfer);
    if (rc == 0)
        rc = verbs_post_get(connection, transfer, done);
    return transfer_leave(connection, as_owner, rc);
}

int verbs_atomic(struct btl_connection *connection, int op, const struct btl_transfer *at,
                 uint64_t operand, uint64_t compare, struct btl_done *done)
{
    bool as_owner;
    int rc;

    if (connection->stream == NULL)
        return verbs_post_atomic(connection, op, at, operand, compare, done);
    as_owner = transfer_enter(connection);
    rc = transfer_reach(connection, at);
    if (rc == 0)
        rc = verbs_post_atomic(connection, op, at, operand, compare, done);
    return transfer_leave(connection, as_owner, rc);
}

int verbs_hold(struct btl_connection *connection, uint32_t most)
{
    bool as_owner;

    if (connection->stream == NULL)
        return verbs_post_hold(connection, most);
    as_owner = transfer_enter(connection);
    return transfer_leave(connection, as_owner, verbs_post_hold(connection, most));
}

int verbs_flush(struct btl_connection *connection)
{
    bool as_owner;

    if (connection->stream == NULL)
        return verbs_post_flush(connection);
    as_owner = transfer_enter(connection);
    return transfer_leave(connection, as_owner, verbs_post_flush(connection));
}

int verbs_progress(struct btl_connection *connection)
{
    bool as_owner;

    if (connection->stream == NULL)
        return verbs_post_progress(connection);
    if (!atomic_load_explicit(&connection->used, memory_order_relaxed))
        /* acquire: the error, written before FAILED */
        return atomic_load_explicit(&connection->state, memory_order_acquire) == CONNECTION_FAILED
                   ? connection->error
                   : 0;
    as_owner = biased_enter(&connection->stream->lock, BIASED_NEVER);
    return transfer_leave(connection, as_owner, verbs_post_progress(connection));
}
