/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deferred.c: see deferred.h.
 */
#include "btl/ofi/deferred.h"

#include "btl/ofi/address.h"
#include "btl/ofi/operation.h"
#include "btl/ofi/post.h"
#include "btl/ofi/ordered.h"
#include "btl/ofi/transfer.h"

#include <errno.h>
#include <stdlib.h>

/* ---- operations ---- */

void deferred_continue(struct ofi_endpoint *e)
{
    struct link *at, *after;

    list_for_each (at, after, &e->stuck_connections) {
        struct btl_connection *connection = container_of(at, struct btl_connection, stuck);

        if (ordered_continue(connection) != -EAGAIN)
            list_remove(&connection->stuck);
    }
    list_for_each (at, after, &e->stuck)
        post_continue(container_of(at, struct ofi_op, stuck));
}

void deferred_abandon(struct btl_connection *connection)
{
    struct ofi_endpoint *e = connection->endpoint;
    struct link *at, *after;

    connection->depth = UINT32_MAX;
    if (connection->unflushed && ofi_error_of(connection) == 0) {
        struct ofi_op *op = transfer_take_flush(connection);

        if (op != NULL)
            list_append(&e->stuck, &op->stuck);
        else /* which quarantines the memory of the peer */
            (void)operation_fail_connection(connection, -ENOBUFS, "closing the connection",
                                            "no operation is free to flush its writes");
    }
    list_for_each (at, after, &connection->ops) {
        struct ofi_op *op = container_of(at, struct ofi_op, link);

        op->connection = NULL;
        op->done = NULL;
        op->remote = connection->remote; /* until operation_put() */
        if (op->remote != NULL)
            op->remote->uses++;
        list_remove(&op->link);
        list_append(&e->orphans, &op->link);
        atomic_fetch_add_explicit(&e->orphan_count, 1, memory_order_relaxed); /* by this thread */
    }
    connection->pending = connection->placing = connection->alone = 0;
    list_remove(&connection->stuck);
    deferred_continue(e);
}

/* Inside. */
static bool deferred_has_orphan(const struct ofi_endpoint *e, int peer)
{
    struct link *at, *after;

    list_for_each (at, after, &e->orphans)
        if (container_of(at, struct ofi_op, link)->peer == peer)
            return true;
    return false;
}

/* In a stream; btl.lock held. */
static bool deferred_stream_has_orphan(struct ofi_endpoint *e, int peer)
{
    bool as_owner, has;

    /* relaxed: the connection is closed before its memory is freed, by the same thread or ordered by a lock */
    if (atomic_load_explicit(&e->orphan_count, memory_order_relaxed) == 0)
        return false;
    as_owner = ofi_enter(e, BIASED_NEVER);
    has = deferred_has_orphan(e, peer);
    ofi_leave(e, as_owner);
    return has;
}

/* btl.lock held. */
static bool deferred_has_orphans(struct btl *btl, int peer)
{
    struct link *at, *after;

    if (deferred_has_orphan(&btl->rma, peer))
        return true;
    list_for_each (at, after, &btl->streams)
        if (deferred_stream_has_orphan(&container_of(at, struct btl_stream, link)->endpoint, peer))
            return true;
    return false;
}

/*
 * An operation that was not posted stays an orphan, since the provider may still access memory
 * because of what was posted before it. The connections fail because some providers would try to
 * connect with every call and return -FI_EAGAIN for ever.
 */
void deferred_peer_gone(struct ofi_endpoint *e, int peer)
{
    struct link *at, *after;

    list_for_each (at, after, &e->connections) {
        struct btl_connection *connection = container_of(at, struct btl_connection, link);

        if (connection->peer == peer)
            (void)operation_fail_connection(connection, -ECONNRESET, "the control network",
                                            "this rank is gone");
    }
    list_for_each (at, after, &e->stuck) {
        struct ofi_op *op = container_of(at, struct ofi_op, stuck);

        if (op->peer == peer && op->connection == NULL)
            list_remove(&op->stuck);
    }
}

/* ---- memory ---- */

struct ofi_deferred {
    struct link link;
    int peer;
    struct btl_memory memory;
};

/* Without memory for the entry, the block stays in its slab until the backend is closed. */
static void deferred_add(struct btl *btl, const struct btl_memory *memory)
{
    struct ofi_deferred *d = malloc(sizeof(*d));

    if (d == NULL)
        return;
    d->peer = slab_peer(memory);
    d->memory = *memory;
    list_append(&btl->deferred, &d->link);
    atomic_fetch_add_explicit(&btl->deferred_count, 1, memory_order_relaxed);
}

void deferred_free(struct btl *btl, struct btl_memory *memory)
{
    bool wait;

    if (memory->slab == NULL)
        return;
    ofi_lock(btl);
    wait = deferred_has_orphans(btl, slab_peer(memory));
    if (wait)
        deferred_add(btl, memory);
    ofi_unlock(btl);
    if (!wait)
        slab_free(btl->slabs, memory);
    memory->slab = NULL;
    memory->base = NULL;
}

void deferred_free_ready(struct btl *btl)
{
    struct link ready, *at, *after;

    if (atomic_load_explicit(&btl->deferred_count, memory_order_relaxed) == 0)
        return; /* an entry added at this moment is found by the next call */
    list_init(&ready);
    ofi_lock(btl);
    list_for_each (at, after, &btl->deferred) {
        if (deferred_has_orphans(btl, container_of(at, struct ofi_deferred, link)->peer))
            continue;
        list_remove(at);
        list_append(&ready, at);
        atomic_fetch_sub_explicit(&btl->deferred_count, 1, memory_order_relaxed);
    }
    ofi_unlock(btl);
    while (!list_empty(&ready)) {
        struct ofi_deferred *d = container_of(ready.next, struct ofi_deferred, link);

        list_remove(&d->link);
        slab_free(btl->slabs, &d->memory);
        free(d);
    }
}

void deferred_release_all(struct btl *btl)
{
    while (!list_empty(&btl->deferred)) {
        struct ofi_deferred *d = container_of(btl->deferred.next, struct ofi_deferred, link);

        list_remove(&d->link);
        free(d);
    }
}
