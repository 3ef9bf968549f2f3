/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.c: see connection.h.
 */
#include "btl/ofi/connection.h"

#include "btl/ofi/deferred.h"
#include "btl/ofi/address.h"
#include "btl/ofi/operation.h"
#include "btl/ofi/progress.h"
#include "btl/ofi/stream.h"
#include "btl/ofi/transfer.h"

#include "util/clock.h"
#include "util/cpu.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening, connecting, closing ---- */

/* Neither end initiates: the endpoint is open already, so the role makes no difference. */
int ofi_connection_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                        struct btl_connection **out, struct btl_address *address, struct error *err)
{
    struct btl_connection *connection;
    int rc = ofi_check_fork(btl, err);

    (void)role;
    if (rc != 0)
        return rc;
    connection = aligned_alloc(_Alignof(struct btl_connection), sizeof(*connection));
    if (connection == NULL)
        return error_set(err, -ENOMEM, "there is no memory for another connection");
    memset(connection, 0, sizeof(*connection));
    connection->btl = btl;
    connection->endpoint = &btl->rma;
    connection->peer = peer;
    connection->depth = depth > OFI_DEPTH ? depth : OFI_DEPTH;
    list_init(&connection->ops);
    list_init(&connection->stuck);
    ofi_lock(btl);
    btl->rma.connection_count++;
    rc = operation_reserve(&btl->rma, err);
    if (rc == 0) {
        connection->id = ++btl->rma.last_id;
        list_append(&btl->rma.connections, &connection->link);
    } else {
        btl->rma.connection_count--;
    }
    ofi_unlock(btl);
    if (rc != 0) {
        free(connection);
        return rc;
    }
    RPIPE_FAILPOINT("ofi: connection open");
    *address = btl->rma.address;
    *out = connection;
    return 0;
}

int ofi_connection_connect(struct btl_connection *connection, const struct btl_address *address,
                           struct error *err)
{
    struct ofi_endpoint *e = connection->endpoint;
    struct ofi_peer *remote = NULL;
    int rc = ofi_check_fork(connection->btl, err);
    bool as_owner;

    if (rc != 0)
        return rc;
    as_owner = ofi_enter(e, BIASED_NEVER);
    if (e->broken)
        rc = error_set(err, -EIO, "provider %s has failed (fi_cq_read); it transfers nothing more",
                       e->provider);
    if (rc == 0)
        rc = address_get(e, connection->peer, address, &remote, err);
    if (rc == 0) {
        if (connection->remote != NULL)
            address_put(e, connection->remote);
        connection->remote = remote;
        connection->to = remote->to;
        connection->connected = true;
    }
    ofi_leave(e, as_owner);
    RPIPE_FAILPOINT("ofi: address of the other end received");
    return rc;
}

int ofi_connection_state(struct btl_connection *connection, struct error *err)
{
    /* acquire: the message; pairs with the release in operation_fail_connection */
    int rc = atomic_load_explicit(&connection->error, memory_order_acquire);

    if (rc != 0)
        error_note(err, "%s", connection->failure);
    else if (!connection->connected)
        rc = -EAGAIN;
    return rc;
}

void ofi_connection_close(struct btl_connection *connection)
{
    struct ofi_endpoint *e = connection->endpoint;
    bool failed, unknown, as_owner;

    if (connection->btl->forked)
        return;
    RPIPE_FAILPOINT("ofi: before a connection is closed");
    as_owner = ofi_enter(e, BIASED_NEVER);
    deferred_abandon(connection); /* its orphans use the address too */
    failed = ofi_error_of(connection) != 0;
    /* writes without completions after a failure: the provider may refer to the address for ever */
    unknown = failed && connection->unflushed;
    if (connection->remote != NULL && !unknown)
        address_put(e, connection->remote);
    list_remove(&connection->link);
    e->connection_count--;
    progress_posted(e); /* for its orphans */
    ofi_leave(e, as_owner);
    if (e->stream != NULL)
        stream_put(e->stream);
    if (failed)
        slab_quarantine(connection->btl->slabs, connection->peer);
    free(connection);
}

/* ---- properties ---- */

void ofi_connection_describe(struct btl_connection *connection, char *text, size_t text_bytes)
{
    struct ofi_endpoint *e = connection->endpoint;
    char here[128], there[128] = "an address not received yet";
    const bool as_owner = ofi_enter(e, BIASED_NEVER);

    address_print(e, &e->address, here, sizeof(here));
    if (connection->remote != NULL)
        address_print(e, &connection->remote->address, there, sizeof(there));
    ofi_leave(e, as_owner);
    snprintf(text, text_bytes, "%s %s to %s", e->provider, here, there);
}

void ofi_connection_counts(struct btl_connection *connection, struct btl_counts *counts)
{
    struct ofi_endpoint *e = connection->endpoint;
    const bool as_owner = ofi_enter(e, BIASED_NEVER);

    *counts = connection->counts;
    ofi_leave(e, as_owner);
}

uint32_t ofi_connection_atomics(struct btl_connection *connection)
{
    return connection->endpoint->atomics;
}

/* ---- transfers: those of transfer.c, inside the endpoint ---- */

static bool ofi_connection_enter(struct btl_connection *connection)
{
    return ofi_enter(connection->endpoint, ofi_claim(connection->btl));
}

/* What has been accepted is completed even if no thread of the user calls again. */
static int ofi_connection_leave(struct btl_connection *connection, bool as_owner, int rc)
{
    progress_posted(connection->endpoint);
    ofi_leave(connection->endpoint, as_owner);
    return rc;
}

int ofi_connection_write(struct btl_connection *connection, const struct btl_transfer *payload,
                         const struct btl_transfer *slot)
{
    bool as_owner;

    if (connection->btl->forked)
        return -ENOTCONN;
    as_owner = ofi_connection_enter(connection);
    return ofi_connection_leave(connection, as_owner, transfer_write(connection, payload, slot));
}

int ofi_connection_get(struct btl_connection *connection, const struct btl_transfer *transfer,
                       struct btl_done *done)
{
    bool as_owner;

    if (connection->btl->forked)
        return -ENOTCONN;
    as_owner = ofi_connection_enter(connection);
    return ofi_connection_leave(connection, as_owner, transfer_get(connection, transfer, done));
}

int ofi_connection_atomic(struct btl_connection *connection, int op, const struct btl_transfer *at,
                          uint64_t operand, uint64_t compare, struct btl_done *done)
{
    bool as_owner;

    if (connection->btl->forked)
        return -ENOTCONN;
    as_owner = ofi_connection_enter(connection);
    return ofi_connection_leave(connection, as_owner,
                                transfer_atomic(connection, op, at, operand, compare, done));
}

int ofi_connection_flush(struct btl_connection *connection)
{
    bool as_owner;
    int rc;

    if (connection->btl->forked)
        return -ENOTCONN;
    as_owner = ofi_connection_enter(connection);
    rc = transfer_flush(connection);
    if (rc == -EAGAIN) {
        atomic_store_explicit(&connection->endpoint->driven_at, clock_now(), memory_order_relaxed);
        progress_drive(connection->endpoint);
    }
    return ofi_connection_leave(connection, as_owner, rc);
}

int ofi_connection_progress(struct btl_connection *connection)
{
    if (connection->btl->forked)
        return -ENOTCONN;
    progress_connection(connection);
    return ofi_error_of(connection);
}
