/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake.c: see handshake.h.
 *
 * Which piece is whose (doc/protocol.md): ring and credit line are the reader's; the heap is the reader's (PUT) or the
 * writer's (GET). Each end allocates its own pieces before it counts as open, and attaches the other's when it joins.
 */
#include "rpipe/connect/handshake.h"

#include "cells/cells.h"
#include "rpipe/grow/grow.h"
#include "rpipe/data/path_remote.h"

#include "control/control.h"
#include "util/text.h"

#include <errno.h>
#include <rinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDSHAKE_MAGIC 0x65706972u /* "ripe" */

struct handshake {
    uint32_t magic;
    uint16_t protocol, layout;
    uint32_t ctx, incarnation;
    uint8_t side, op, algorithm, sync;
    uint32_t slots, unit_size, sync_queue;
    uint64_t alloc_size;
    char btl[BTL_NAME_MAX];
    struct btl_key ring, credit, heap, reverse;
    uint64_t max_alloc_size, cells; /* enum cells_way: of the passive end of an ATOMIC pipe */
    struct btl_address address;     /* of the line, where the backend has lines */
};
static_assert(sizeof(struct handshake) == HANDSHAKE_BYTES, "on the wire");
static_assert(offsetof(struct handshake, side) == 16,
              "what handshake_identify reads stays where it is in every version");

static bool handshake_owns_heap(const struct rch *ch)
{
    return (config_side(&ch->cfg) == SIDE_WRITER) == (ch->cfg.op == OP_GET);
}

/* Whole units, so that a piece of a slab is aligned to a unit; at least a line. */
size_t handshake_heap_bytes(const struct pipe_config *cfg)
{
    uint64_t unit = cfg->unit_bytes < CACHE_LINE ? CACHE_LINE : cfg->unit_bytes;

    return (cfg->heap_bytes + unit - 1) & ~(unit - 1);
}

static int handshake_make_heap(struct rch *ch, void *base, struct error *err)
{
    struct heap_config c = {
        .algorithm = ch->cfg.heuristic,
        .unit_size = ch->cfg.unit_bytes,
        .bytes = ch->cfg.heap_bytes,
        .base = base,
        .max_descriptors = ch->cfg.max_messages,
        .seed = ch->cfg.seed,
        .owner = ch->id,
    };
    int rc = heap_create(&ch->w.heap, &c);

    if (rc != 0)
        error_note(err, "the allocator of the heap cannot be made: %s", rinfo_strerror(rc));
    return rc;
}

/* Memory is used again: a flag, or a tag, of the past must never be taken for one of the future. */
static int handshake_allocate_zero(struct rch *ch, size_t bytes, uint32_t access,
                                   struct btl_memory *memory, struct error *err)
{
    int rc = ch->ops->alloc(ch->btl, ch->peer, bytes, access, false, memory, err);

    if (rc == 0)
        memset(memory->base, 0, bytes);
    return rc;
}

size_t handshake_reverse_bytes(const struct pipe_config *cfg)
{
    return cfg->sync_queue * sizeof(struct slot);
}

size_t handshake_credit_bytes(const struct pipe_config *cfg)
{
    return credit_area_bytes(cfg->mode == RPIPE_SYNC_TAGS ? cfg->sync_queue : 0);
}

static int handshake_allocate_writer(struct rch *ch, struct error *err)
{
    int rc = 0;

    if (ch->cfg.mode == RPIPE_SYNC_CHANNEL)
        rc = handshake_allocate_zero(ch, handshake_reverse_bytes(&ch->cfg), BTL_PEER_WRITES,
                                     &ch->reverse_memory, err);
    if (rc == 0 && handshake_owns_heap(ch))
        rc = handshake_make_heap(ch, ch->heap_memory.base, err);
    ch->w.reverse = ch->reverse_memory.base;
    return rc;
}

int handshake_allocate(struct rch *ch, struct error *err)
{
    bool reader = config_side(&ch->cfg) == SIDE_READER;
    uint32_t access = reader ? BTL_PEER_WRITES : BTL_PEER_READS;
    int rc = remote_open(ch, err);

    if (rc != 0)
        return rc;
    if (ch->cfg.op == OP_CELLS)
        return cells_open(ch, err);
    if (handshake_owns_heap(ch)) {
        rc = ch->ops->alloc(ch->btl, ch->peer, handshake_heap_bytes(&ch->cfg), access,
                            ch->cfg.huge_pages, &ch->heap_memory, err);
        if (rc != 0)
            return rc;
    }
    if (!reader)
        return handshake_allocate_writer(ch, err);
    rc = handshake_allocate_zero(ch, ring_area_bytes(ch->cfg.slots), BTL_PEER_WRITES,
                                 &ch->ring_memory, err);
    if (rc == 0)
        rc = handshake_allocate_zero(ch, handshake_credit_bytes(&ch->cfg), BTL_PEER_READS,
                                     &ch->credit_memory, err);
    if (rc != 0)
        return rc;
    ch->ring = ch->ring_memory.base;
    ch->credit = ch->credit_memory.base;
    if (handshake_owns_heap(ch))
        ch->r.heap_base = ch->heap_memory.base;
    ch->r.heap_bytes = ch->cfg.heap_bytes;
    ch->r.shift = (uint32_t)__builtin_ctz(ch->cfg.unit_bytes);
    ch->r.sync = ch->cfg.mode;
    ch->r.most = ch->cfg.mode == RPIPE_SYNC_BLOCKS ? ch->units : ch->cfg.sync_queue;
    ring_cursor_init(&ch->r.back, ch->cfg.sync_queue, (uint32_t)job_first() + 1);
    ch->r.nread = job_first();
    credit_line_init(&ch->credit->line, job_first());
    if (ch->checked && debug_check_open(ch) != 0)
        return error_set(err, -ENOMEM, "no memory for the second instance of RMALLOC_DEBUG=1");
    return 0;
}

void handshake_make(const struct rch *ch, unsigned char blob[HANDSHAKE_BYTES])
{
    struct handshake h = {
        .magic = HANDSHAKE_MAGIC,
        .protocol = PROTOCOL_VERSION,
        .layout = SYNC_LAYOUT_VERSION,
        .ctx = (uint32_t)ch->cfg.context,
        .incarnation = ch->end.incarnation,
        .side = (uint8_t)config_side(&ch->cfg),
        .op = (uint8_t)ch->cfg.op,
        .algorithm = (uint8_t)ch->cfg.heuristic,
        .sync = (uint8_t)ch->cfg.mode,
        .slots = ch->cfg.slots,
        .unit_size = ch->cfg.unit_bytes,
        .sync_queue = ch->cfg.sync_queue,
        .alloc_size = ch->cfg.heap_bytes,
        .max_alloc_size = ch->cfg.max_heap_bytes,
        .ring = ch->ring_memory.key,
        .credit = ch->credit_memory.key,
        .heap = ch->heap_memory.key,
        .reverse = ch->reverse_memory.key,
    };

    if (ch->remote != NULL)
        h.address = ch->remote->address;
    if (ch->cells != NULL)
        h.cells = ch->cells->way;
    strncpy(h.btl, ch->ops->name, sizeof(h.btl) - 1);
    memcpy(blob, &h, sizeof(h));
}

bool handshake_identify(const void *blob, size_t bytes, struct handshake_id *id)
{
    struct handshake h;

    if (bytes < offsetof(struct handshake, slots))
        return false;
    memset(&h, 0, sizeof(h));
    memcpy(&h, blob, bytes < sizeof(h) ? bytes : sizeof(h));
    if (h.magic != HANDSHAKE_MAGIC || (h.side != SIDE_WRITER && h.side != SIDE_READER) ||
        h.incarnation == 0)
        return false;
    *id = (struct handshake_id){(enum side)h.side, h.op, h.ctx, h.incarnation};
    return true;
}

/* "here 64, at rank 3 128": both values, in the same order at both ends */
static int handshake_differ(const struct rch *ch, const char *what, unsigned long long here,
                            unsigned long long there, struct error *err)
{
    if (here == there)
        return 0;
    return error_set(err, -EPROTO,
                     "%s is %llu here and %llu at rank %d: both ends must give the same", what,
                     here, there, ch->peer);
}

static int handshake_differ_name(const struct rch *ch, const char *what, const char *here,
                                 const char *there, struct error *err)
{
    if (strcmp(here, there) == 0)
        return 0;
    return error_set(err, -EPROTO, "%s is %s here and %s at rank %d: both ends must give the same",
                     what, here, there, ch->peer);
}

static int handshake_compare(const struct rch *ch, const struct handshake *h, struct error *err)
{
    const struct pipe_config *a = &ch->cfg;
    char btl[BTL_NAME_MAX + 1] = "";
    int rc;

    memcpy(btl, h->btl, BTL_NAME_MAX);
    text_make_printable(btl);
    rc = handshake_differ_name(ch, "op", config_op_name((int)a->op), config_op_name(h->op), err);
    if (rc == 0)
        rc = handshake_differ(ch, "heap_bytes", a->heap_bytes, h->alloc_size, err);
    if (rc == 0)
        rc = handshake_differ(ch, "unit_bytes", a->unit_bytes, h->unit_size, err);
    if (rc == 0)
        rc = handshake_differ_name(ch, "mode", config_mode_name((int)ch->cfg.mode),
                                   config_mode_name(h->sync), err);
    if (rc == 0)
        rc = handshake_differ_name(ch, "heuristic", config_heuristic_name((int)a->heuristic),
                                   config_heuristic_name(h->algorithm), err);
    if (rc == 0)
        rc = handshake_differ(ch, "max_heap_bytes", a->max_heap_bytes, h->max_alloc_size, err);
    if (rc == 0)
        rc = handshake_differ(ch, "sync_queue", ch->cfg.sync_queue, h->sync_queue, err);
    if (rc == 0)
        rc = handshake_differ(ch, "slots", ch->cfg.slots, h->slots, err);
    if (rc == 0)
        rc = handshake_differ_name(ch, "the backend", ch->ops->name, btl, err);
    return rc;
}

static int handshake_attach_cells(struct rch *ch, const struct handshake *h, struct error *err)
{
    int rc = 0;

    if (config_side(&ch->cfg) == SIDE_READER)
        return 0;
    if (h->cells != CELLS_SERVICE)
        rc = ch->ops->attach(ch->btl, ch->peer, &h->heap, handshake_heap_bytes(&ch->cfg),
                             BTL_PEER_ATOMICS, &ch->heap_remote, err);
    return rc == 0 ? cells_attached(ch, (uint32_t)h->cells, err) : rc;
}

static int handshake_attach_all(struct rch *ch, const struct handshake *h, struct error *err)
{
    bool writer = config_side(&ch->cfg) == SIDE_WRITER;
    int rc = 0;

    if (ch->cells != NULL)
        return handshake_attach_cells(ch, h, err);
    if (!handshake_owns_heap(ch))
        rc = ch->ops->attach(ch->btl, ch->peer, &h->heap, handshake_heap_bytes(&ch->cfg),
                             writer ? BTL_PEER_WRITES : BTL_PEER_READS, &ch->heap_remote, err);
    if (rc == 0 && !writer && ch->cfg.mode == RPIPE_SYNC_CHANNEL)
        rc = ch->ops->attach(ch->btl, ch->peer, &h->reverse, handshake_reverse_bytes(&ch->cfg),
                             BTL_PEER_WRITES, &ch->reverse_remote, err);
    if (rc != 0 || !writer)
        return rc;
    rc = ch->ops->attach(ch->btl, ch->peer, &h->ring, ring_area_bytes(ch->cfg.slots),
                         BTL_PEER_WRITES, &ch->ring_remote, err);
    if (rc == 0)
        rc = ch->ops->attach(ch->btl, ch->peer, &h->credit, handshake_credit_bytes(&ch->cfg),
                             BTL_PEER_READS, &ch->credit_remote, err);
    return rc;
}

int handshake_attach(struct rch *ch, const void *blob, size_t bytes, struct error *err)
{
    struct handshake h = {0};
    int rc;

    memcpy(&h, blob, bytes < sizeof(h) ? bytes : sizeof(h));
    rc = handshake_differ(ch, "the protocol version", PROTOCOL_VERSION, h.protocol, err);
    if (rc == 0)
        rc = handshake_differ(ch, "the layout version of shared memory", SYNC_LAYOUT_VERSION,
                              h.layout, err);
    if (rc == 0)
        rc = handshake_differ(ch, "the length of a half", sizeof(h), bytes, err);
    if (rc == 0)
        rc = handshake_compare(ch, &h, err);
    if (rc == 0)
        rc = handshake_attach_all(ch, &h, err);
    if (rc == 0 && ch->remote != NULL)
        rc = ch->ops->connection_connect(ch->remote->connection, &h.address, err);
    if (rc != 0 || ch->cells != NULL)
        return rc;
    if (config_side(&ch->cfg) == SIDE_WRITER) {
        if (!handshake_owns_heap(ch))
            rc = handshake_make_heap(
                ch, ch->remote != NULL ? ch->remote->heap.base : ch->heap_remote.base, err);
        if (rc == 0) {
            ch->ring = ch->remote != NULL ? ch->remote->ring.base : ch->ring_remote.base;
            ch->credit = ch->remote != NULL ? ch->remote->credit.base : ch->credit_remote.base;
            if (ch->remote != NULL) { /* the mirror, until it is fetched */
                credit_line_init(&ch->credit->line, job_first());
                ch->remote->fetched = job_first();
            }
        }
    } else {
        ch->r.reverse = ch->remote != NULL ? ch->remote->reverse.base : ch->reverse_remote.base;
        if (!handshake_owns_heap(ch))
            ch->r.heap_base = ch->remote != NULL ? ch->remote->heap.base : ch->heap_remote.base;
    }
    return rc;
}

static void handshake_free_memory(struct rch *ch, struct btl_memory *memory)
{
    if (memory->slab != NULL)
        ch->ops->free(ch->btl, memory);
}

static void handshake_detach(struct rch *ch, struct btl_remote *remote)
{
    if (remote->mapping != NULL)
        ch->ops->detach(ch->btl, remote);
}

void handshake_release(struct rch *ch)
{
    if (config_side(&ch->cfg) == SIDE_WRITER && ch->w.heap != NULL)
        heap_destroy(ch->w.heap);
    cells_release(ch);
    if (config_side(&ch->cfg) == SIDE_WRITER)
        credit_close(ch);
    if (config_side(&ch->cfg) == SIDE_READER)
        debug_check_release(ch);
    desc_pool_destroy(&ch->pool);
    if (ch->ops != NULL) {
        remote_close(ch);
        grow_release(ch);
        handshake_detach(ch, &ch->heap_remote);
        handshake_detach(ch, &ch->credit_remote);
        handshake_detach(ch, &ch->ring_remote);
        handshake_detach(ch, &ch->reverse_remote);
        handshake_free_memory(ch, &ch->heap_memory);
        handshake_free_memory(ch, &ch->credit_memory);
        handshake_free_memory(ch, &ch->ring_memory);
        handshake_free_memory(ch, &ch->reverse_memory);
        remote_free_mirrors(ch);
    }
    if (ch->cfg.threads)
        pthread_mutex_destroy(&ch->mutex);
    control_message_free(ch->close_message);
    ch->close_message = NULL;
    free(ch->reason);
    free(ch->why);
    ch->reason = ch->why = NULL;
}
