/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim_transfer.c: what a line accepts: everything is checked here, at once, and queued.
 */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORK_REQUEST_MOST ((size_t)1 << 20)

/* 0: go on; else the code of the call. */
static int admit(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    bool full;

    if (connection->error != 0)
        return connection->error;
    full = !connection->up || connection->outstanding >= connection->depth;
    if (full || (!btl->calm && sim_draw(btl, 16) == 0)) {
        connection->counts.refused++;
        return -EAGAIN;
    }
    if (btl->fail_at != 0 && connection->accepted + 1 >= btl->fail_at) {
        sim_line_fail(connection, btl->error,
                      "line %llu: operation %llu failed, as RPIPE_SIM_FAIL requests",
                      (unsigned long long)connection->id, (unsigned long long)btl->fail_at);
        return connection->error;
    }
    return 0;
}

static uint8_t *near_at(struct btl *btl, const struct btl_transfer *t)
{
    const struct sim_piece *p = t->memory->slab;

    if (p == NULL || hash_get(&btl->pieces, p->id) != p)
        sim_die("a transfer from or to a region here that is not in use");
    if (t->offset > p->bytes || t->bytes > p->bytes - t->offset)
        sim_die("a transfer of %zu bytes at %llu of a region here of %zu bytes", t->bytes,
                (unsigned long long)t->offset, p->bytes);
    return p->base + t->offset;
}

static uint8_t *far_at(struct btl *btl, const struct btl_transfer *t, uint32_t access_needed)
{
    const struct sim_piece *p = t->remote->mapping;

    if (p == NULL || p->attached == 0)
        sim_die("a transfer to or from a remote region that is not attached");
    if (p->id == 0 || hash_get(&btl->pieces, p->id) != p)
        sim_die("a transfer to or from a region of %zu bytes that the peer has given back",
                p->bytes);
    if (p->access != BTL_PEER_ATOMICS && p->access != access_needed)
        sim_die("the peer may not do that to a region with access %u; it needs %u", p->access,
                access_needed);
    if (t->remote_offset > t->remote->bytes || t->bytes > t->remote->bytes - t->remote_offset)
        sim_die("a transfer of %zu bytes at %llu of a remote region of %zu bytes", t->bytes,
                (unsigned long long)t->remote_offset, t->remote->bytes);
    return p->base + t->remote_offset;
}

/* Cuts `bytes` at words, into as many parts as are drawn; single words where there are few. */
static void cut(struct btl *btl, struct sim_op *op)
{
    size_t words = (op->bytes + 7) / 8, most = words < SIM_CHUNKS ? words : SIM_CHUNKS, i;

    op->chunks = (unsigned)(words <= SIM_CHUNKS ? words : 1 + sim_draw(btl, most));
    for (i = 0; i <= op->chunks; i++) {
        size_t at = op->chunks == 0 ? 0 : words * i / op->chunks * 8;

        op->cut[i] = at < op->bytes ? at : op->bytes;
    }
}

static struct sim_op *op_new(enum sim_kind kind, size_t bytes)
{
    struct sim_op *op = calloc(1, sizeof(*op));

    if (op == NULL || (bytes > 0 && (op->copy = malloc(bytes)) == NULL))
        sim_die("no memory for an operation of %zu bytes", bytes);
    op->kind = kind;
    op->bytes = bytes;
    return op;
}

static uint64_t work_requests(size_t bytes)
{
    return (bytes + WORK_REQUEST_MOST - 1) / WORK_REQUEST_MOST;
}

int sim_write(struct btl_connection *connection, const struct btl_transfer *payload,
              const struct btl_transfer *slot)
{
    struct btl *btl = connection->btl;
    struct sim_op *op;
    int rc;

    pthread_mutex_lock(&btl->lock);
    rc = admit(connection);
    if (rc != 0 && (rc != -EAGAIN || !connection->up || btl->defect != DEFECT_REFUSED_DONE))
        goto out;
    op = op_new(SIM_WRITE, payload != NULL ? payload->bytes : 0);
    if (payload != NULL && payload->bytes > 0) {
        op->near_at = near_at(btl, payload);
        op->far_at = far_at(btl, payload, BTL_PEER_WRITES);
        op->near = payload->memory->slab;
        op->far = payload->remote->mapping;
        memcpy(op->copy, op->near_at, op->bytes);
    }
    cut(btl, op);
    op->todo = (1u << op->chunks) - 1;
    if (slot != NULL) {
        if (slot->bytes != SIM_SLOT_BYTES || slot->remote_offset % SIM_SLOT_BYTES != 0)
            sim_die("a slot of %zu bytes at %llu", slot->bytes,
                    (unsigned long long)slot->remote_offset);
        op->slot_near_at = near_at(btl, slot);
        op->slot_far_at = far_at(btl, slot, BTL_PEER_WRITES);
        op->slot_near = slot->memory->slab;
        op->slot_far = slot->remote->mapping;
        memcpy(op->slot, op->slot_near_at, SIM_SLOT_BYTES);
        op->todo |= 0x01ff0000u;
        if (btl->defect == DEFECT_SLOT_WORD && sim_draw(btl, 32) == 0)
            op->todo &= ~(1u << (16 + sim_draw(btl, 7)));
        connection->counts.inlined++;
        connection->counts.work_requests++;
    }
    connection->counts.work_requests += work_requests(op->bytes);
    connection->counts.doorbells++;
    sim_op_begin(connection, op);
out:
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

/* A program that reads what is being fetched must notice its mistake. */
static void scribble(struct btl *btl, struct sim_op *op)
{
    if (btl->scribble)
        memset(op->near_at, 0xa5, op->bytes);
}

int sim_get(struct btl_connection *connection, const struct btl_transfer *transfer,
            struct btl_done *done)
{
    struct btl *btl = connection->btl;
    struct sim_op *op;
    int rc;

    pthread_mutex_lock(&btl->lock);
    rc = admit(connection);
    if (rc != 0)
        goto out;
    if (transfer->bytes == 0)
        sim_die("a get of nothing");
    op = op_new(SIM_GET, transfer->bytes);
    op->near_at = near_at(btl, transfer);
    op->far_at = far_at(btl, transfer, BTL_PEER_READS);
    op->near = transfer->memory->slab;
    op->far = transfer->remote->mapping;
    op->done = done;
    cut(btl, op);
    op->todo = ((1u << op->chunks) - 1) * 0x10001u;
    scribble(btl, op);
    connection->counts.gets++;
    connection->counts.work_requests += work_requests(op->bytes);
    connection->counts.doorbells++;
    connection->counts.signaled++;
    sim_op_begin(connection, op);
out:
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

int sim_atomic(struct btl_connection *connection, int kind, const struct btl_transfer *at,
               uint64_t operand, uint64_t compare, struct btl_done *done)
{
    struct btl *btl = connection->btl;
    struct btl_transfer cell = *at;
    struct sim_op *op;
    int rc;

    pthread_mutex_lock(&btl->lock);
    if (kind < 0 || kind > 31 || (btl->atomics & 1u << kind) == 0) {
        rc = -EOPNOTSUPP;
        goto out;
    }
    rc = admit(connection);
    if (rc != 0)
        goto out;
    cell.bytes = 8;
    if (at->remote_offset % 8 != 0)
        sim_die("an atomic on a cell at %llu", (unsigned long long)at->remote_offset);
    op = op_new(SIM_ATOMIC, 8);
    op->far_at = far_at(btl, &cell, BTL_PEER_ATOMICS);
    op->far = at->remote->mapping;
    op->todo = 1u;
    if (at->memory != NULL) {
        op->near_at = near_at(btl, &cell);
        op->near = at->memory->slab;
        op->todo |= 1u << 16;
        scribble(btl, op);
    }
    if (btl->incoherent || btl->defect == DEFECT_ATOMIC_TORN)
        op->todo |= 2u;
    op->atomic = kind;
    op->operand = operand;
    op->compare = compare;
    op->done = done;
    connection->counts.atomics++;
    connection->counts.work_requests++;
    connection->counts.doorbells++;
    connection->counts.signaled++;
    sim_op_begin(connection, op);
out:
    pthread_mutex_unlock(&btl->lock);
    return rc;
}
