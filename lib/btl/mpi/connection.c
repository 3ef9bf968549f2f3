/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.c: see connection.h.
 *
 * A connection is a number of operations and a rank of MPI: neither end has to do anything for it to be up.
 * Its operations are allocated with it. One that is closed while a round has some of them stays until the
 * round is over; its btl_done are not accessed any more.
 */
#include "btl/mpi/connection.h"

#include "btl/mpi/operation.h"
#include "btl/mpi/pump.h"
#include "btl/mpi/window.h"

#include "util/cpu.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RMA_DEPTH 64u /* operations of a connection, unless it requests more */
#define RMA_MAGIC UINT32_C(0x31696d72)

/* What btl_address has. */
struct rma_address {
    uint32_t magic, rank;
    uint64_t job;
};

/* ---- opening, connecting, closing ---- */

int rma_connection_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                        struct btl_connection **out, struct btl_address *address, struct error *err)
{
    struct rma_address own = {RMA_MAGIC, (uint32_t)rma_window.rank, rma_window.job};
    struct btl_connection *c;
    int rc = rma_check_fork(btl, err);
    uint32_t i;

    (void)role;
    if (rc == 0 && atomic_load_explicit(&rma_window.gone, memory_order_relaxed))
        rc = error_set(err, -ENOTSUP, "MPI_Finalize has been called before rexit()");
    if (rc != 0)
        return rc;
    if (depth < RMA_DEPTH)
        depth = RMA_DEPTH;
    c = calloc(1, sizeof(*c) + depth * sizeof(c->op[0]));
    if (c == NULL)
        return error_set(err, -ENOMEM, "there is no memory for another connection");
    c->btl = btl;
    c->peer = peer;
    c->depth = depth;
    list_init(&c->spare);
    for (i = 0; i < depth; i++) {
        c->op[i].connection = c;
        list_append(&c->spare, &c->op[i].link);
    }
    pthread_mutex_lock(&btl->lock);
    list_append(&btl->connections, &c->link);
    pthread_mutex_unlock(&btl->lock);
    RPIPE_FAILPOINT("mpi: connection open");
    address->bytes = sizeof(own);
    memcpy(address->byte, &own, sizeof(own));
    *out = c;
    return 0;
}

int rma_connection_connect(struct btl_connection *connection, const struct btl_address *address,
                           struct error *err)
{
    struct rma_address other;
    int rc = rma_check_fork(connection->btl, err);

    if (rc != 0)
        return rc;
    if (address->bytes != sizeof(other))
        return error_set(err, -EPROTO, "the address of rank %d has %u bytes, not %zu",
                         connection->peer, address->bytes, sizeof(other));
    memcpy(&other, address->byte, sizeof(other));
    if (other.magic != RMA_MAGIC || other.rank != (uint32_t)connection->peer ||
        other.job != rma_window.job)
        return error_set(err, -EPROTO,
                         "the address of rank %d is not one of the backend mpi of this job (it "
                         "names rank %u)",
                         connection->peer, other.rank);
    /* release: pairs with the acquire of connection_state on another thread */
    atomic_store_explicit(&connection->connected, true, memory_order_release);
    return 0;
}

int rma_connection_state(struct btl_connection *connection, struct error *err)
{
    /* acquire: the message; pairs with the release in rma_operation_fail_connection */
    int rc = atomic_load_explicit(&connection->error, memory_order_acquire);

    if (rc != 0)
        error_note(err, "%s", connection->failure);
    else if (!atomic_load_explicit(&connection->connected, memory_order_acquire))
        rc = -EAGAIN;
    return rc;
}

void rma_connection_close(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    int peer = connection->peer;
    bool failed, last;

    if (btl->forked)
        return;
    RPIPE_FAILPOINT("mpi: before a connection is closed");
    pthread_mutex_lock(&btl->lock);
    rma_operation_forget(connection);
    connection->closed = true;
    list_remove(&connection->link);
    last = connection->in_rounds == 0;
    failed = rma_error_of(connection) != 0;
    pthread_mutex_unlock(&btl->lock);
    if (failed && !last)
        slab_quarantine(btl->slabs, peer);
    if (last)
        free(connection);
}

/* ---- transfers ---- */

static struct rma_range connection_range(const struct btl_transfer *t)
{
    if (t == NULL || t->bytes == 0)
        return (struct rma_range){.bytes = 0};
    return (struct rma_range){.local = (char *)t->memory->base + t->offset,
                              .remote = t->remote->key.word[KEY_ADDRESS] + t->remote_offset,
                              .bytes = t->bytes};
}

/* Lock held. An operation; NULL and *rc: the connection has failed, or is not up, or has none left. */
static struct rma_op *connection_take(struct btl_connection *c, enum rma_kind kind,
                                      struct btl_done *done, int *rc)
{
    struct rma_op *op = NULL;

    *rc = rma_error_of(c);
    if (*rc == 0 &&
        (!atomic_load_explicit(&c->connected, memory_order_relaxed) || list_empty(&c->spare)))
        *rc = -EAGAIN;
    if (*rc == 0) {
        op = container_of(c->spare.next, struct rma_op, link);
        list_remove(&op->link);
        op->kind = kind;
        op->done = done;
        op->used = true;
        op->payload.bytes = op->slot.bytes = 0;
    }
    c->counts.refused += *rc == -EAGAIN;
    return op;
}

/* Lock held. */
static void connection_queue(struct rma_op *op, uint32_t requests)
{
    struct btl_connection *c = op->connection;
    struct btl *btl = c->btl;

    c->counts.work_requests += requests;
    c->counts.doorbells++;
    c->counts.signaled++;
    if (op->kind == RMA_WRITE)
        c->placing++;
    if (op->done != NULL)
        atomic_fetch_add_explicit(&op->done->pending, 1, memory_order_relaxed);
    list_append(&btl->queue, &op->link);
    atomic_fetch_add_explicit(&btl->queued, 1, memory_order_relaxed);
    rma_pump_posted(btl);
}

int rma_connection_write(struct btl_connection *connection, const struct btl_transfer *payload,
                         const struct btl_transfer *slot)
{
    struct btl *btl = connection->btl;
    struct rma_op *op;
    int rc;

    if (btl->forked)
        return -ENOTCONN;
    pthread_mutex_lock(&btl->lock);
    op = connection_take(connection, RMA_WRITE, NULL, &rc);
    if (op != NULL) {
        op->payload = connection_range(payload);
        op->slot = connection_range(slot);
        connection_queue(op, 1u + (op->payload.bytes > 0 && op->slot.bytes > 0));
        RPIPE_FAILPOINT("mpi: write queued");
    }
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

int rma_connection_get(struct btl_connection *connection, const struct btl_transfer *transfer,
                       struct btl_done *done)
{
    struct btl *btl = connection->btl;
    struct rma_op *op;
    int rc;

    if (btl->forked)
        return -ENOTCONN;
    pthread_mutex_lock(&btl->lock);
    op = connection_take(connection, RMA_GET, done, &rc);
    if (op != NULL) {
        op->payload = connection_range(transfer);
        connection->counts.gets++;
        connection_queue(op, 1);
    }
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

/*
 * None is offered, so cells are operated on by the service thread of their owner. MPI defines what two
 * accumulates to one address do at the same time only if both are the same operation, and MPI_Compare_and_swap to the
 * own rank crashes in Open MPI 4.1.
 */
int rma_connection_atomic(struct btl_connection *connection, int op, const struct btl_transfer *at,
                          uint64_t operand, uint64_t compare, struct btl_done *done)
{
    (void)connection, (void)op, (void)at, (void)operand, (void)compare, (void)done;
    return -ENOTSUP;
}

uint32_t rma_connection_atomics(struct btl_connection *connection)
{
    (void)connection;
    return 0;
}

int rma_connection_flush(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    int rc;

    if (btl->forked)
        return -ENOTCONN;
    pthread_mutex_lock(&btl->lock);
    rc = rma_error_of(connection);
    if (rc == 0 && connection->placing > 0)
        rc = -EAGAIN;
    connection->counts.flushes += rc == 0;
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

int rma_connection_progress(struct btl_connection *connection)
{
    if (connection->btl->forked)
        return -ENOTCONN;
    rma_window_progress();
    return rma_error_of(connection);
}

/* ---- properties ---- */

void rma_connection_describe(struct btl_connection *connection, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "rank %d to rank %d of MPI_COMM_WORLD", rma_window.rank,
             connection->peer);
}

void rma_connection_counts(struct btl_connection *connection, struct btl_counts *counts)
{
    pthread_mutex_lock(&connection->btl->lock);
    *counts = connection->counts;
    pthread_mutex_unlock(&connection->btl->lock);
}
