/* SPDX-License-Identifier: BSD-3-Clause */
/* areas.c: see areas.h. */
#include "rpipe/connect/areas.h"

#include "alloc/heap.h"
#include "rpipe/end/attach.h"
#include "rpipe/end/path.h"
#include "rpipe/end/area.h"
#include "rpipe/end/device.h"
#include "rpipe/end/job_state.h"

#include <rinfo.h>
#include <string.h>

static bool areas_exist(const struct rch *ch) { return ch->cfg.op != OP_CELLS; }

/* Where this end's own heap is for the program. */
static void *areas_own_heap(const struct rch *ch)
{
    return device_has_heap(ch) ? ch->device.base : ch->heap_memory.base;
}

static int areas_make_heap(struct rch *ch, void *base, struct error *err)
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
    int rc = heap_create(&ch->w.blocks.heap, &c);

    if (rc != 0)
        error_note(err, "cannot create the allocator of the heap: %s", rinfo_strerror(rc));
    return rc;
}

/* Memory is used again: an old flag or tag must never be taken for a new one. */
static int areas_allocate_zero(struct rch *ch, size_t bytes, uint32_t access,
                               struct btl_memory *memory, struct error *err)
{
    int rc = ch->ops->alloc(ch->btl, ch->peer, bytes, access, false, memory, err);

    if (rc == 0)
        memset(memory->base, 0, bytes);
    return rc;
}

static int areas_allocate_writer(struct rch *ch, struct error *err)
{
    int rc = 0;

    if (ch->cfg.mode == RPIPE_SYNC_CHANNEL)
        rc = areas_allocate_zero(ch, area_reverse_bytes(&ch->cfg), BTL_PEER_WRITES,
                                 &ch->reverse_memory, err);
    if (rc == 0 && area_heap_is_own(ch))
        rc = areas_make_heap(ch, areas_own_heap(ch), err);
    ch->w.blocks.reverse = ch->reverse_memory.base;
    return rc;
}

static int areas_allocate_reader(struct rch *ch, struct error *err)
{
    int rc = areas_allocate_zero(ch, ring_area_bytes(ch->cfg.slots), BTL_PEER_WRITES,
                                 &ch->ring_memory, err);

    if (rc == 0)
        rc = areas_allocate_zero(ch, area_credit_bytes(&ch->cfg), BTL_PEER_READS,
                                 &ch->credit_memory, err);
    if (rc != 0)
        return rc;
    ch->ring = ch->ring_memory.base;
    ch->credit = ch->credit_memory.base;
    if (area_heap_is_own(ch))
        ch->r.heap_base = areas_own_heap(ch);
    ch->r.heap_bytes = ch->cfg.heap_bytes;
    ch->r.shift = (uint32_t)__builtin_ctz(ch->cfg.unit_bytes);
    ch->r.sync = ch->cfg.mode;
    ch->r.most = ch->cfg.mode == RPIPE_SYNC_BLOCKS ? ch->units : ch->cfg.sync_queue;
    ring_cursor_init(&ch->r.blocks.next, ch->cfg.sync_queue, (uint32_t)job_first() + 1);
    ch->r.nread = job_first();
    credit_line_init(&ch->credit->line, job_first());
    return 0;
}

/* The keys by which the other end finds the memory. */
static int areas_key(struct rch *ch, struct error *err)
{
    struct btl_memory *memory[] = {&ch->heap_memory, &ch->credit_memory, &ch->ring_memory,
                                   &ch->reverse_memory};
    int rc = 0;
    size_t i;

    for (i = 0; rc == 0 && i < sizeof(memory) / sizeof(memory[0]); i++)
        if (memory[i]->slab != NULL)
            rc = end_key(ch, memory[i], &memory[i]->key, err);
    return rc;
}

int areas_allocate(struct rch *ch, struct error *err)
{
    bool reader = config_side(&ch->cfg) == SIDE_READER;
    uint32_t access = reader ? BTL_PEER_WRITES : BTL_PEER_READS;
    int rc = 0;

    if (!areas_exist(ch))
        return 0;
    if (area_heap_is_own(ch) && device_has_heap(ch))
        rc = device_allocate(ch, &ch->device, area_heap_bytes(&ch->cfg), access, &ch->heap_memory,
                             err);
    else if (area_heap_is_own(ch))
        rc = ch->ops->alloc(ch->btl, ch->peer, area_heap_bytes(&ch->cfg), access,
                            ch->cfg.huge_pages, &ch->heap_memory, err);
    if (rc == 0)
        rc = reader ? areas_allocate_reader(ch, err) : areas_allocate_writer(ch, err);
    return rc == 0 ? areas_key(ch, err) : rc;
}

void areas_offer(const struct rch *ch, struct handshake *h)
{
    const struct btl_key *eager = ch->path->eager_key(ch, &h->eager);

    h->ring = ch->ring_memory.key;
    h->credit = ch->credit_memory.key;
    h->heap = ch->heap_memory.key;
    h->reverse = ch->reverse_memory.key;
    if (eager != NULL) {
        h->heap = *eager;
        h->features |= HANDSHAKE_EAGER;
    }
}

int areas_attach(struct rch *ch, const struct handshake *h, struct error *err)
{
    bool writer = config_side(&ch->cfg) == SIDE_WRITER;
    int rc = 0;

    if (!areas_exist(ch))
        return 0;
    if (!area_heap_is_own(ch) && device_has_heap(ch) && device_is_shared(ch))
        rc = device_import(ch, &ch->device, &h->heap, area_heap_bytes(&ch->cfg), err);
    else if (!area_heap_is_own(ch))
        rc = end_attach(ch, &h->heap, area_heap_bytes(&ch->cfg),
                        writer ? BTL_PEER_WRITES : BTL_PEER_READS, &ch->heap_remote, err);
    if (rc == 0 && !writer && ch->cfg.mode == RPIPE_SYNC_CHANNEL)
        rc = end_attach(ch, &h->reverse, area_reverse_bytes(&ch->cfg), BTL_PEER_WRITES,
                        &ch->reverse_remote, err);
    if (rc != 0 || !writer)
        return rc;
    rc = end_attach(ch, &h->ring, ring_area_bytes(ch->cfg.slots), BTL_PEER_WRITES, &ch->ring_remote,
                    err);
    if (rc == 0)
        rc = end_attach(ch, &h->credit, area_credit_bytes(&ch->cfg), BTL_PEER_READS,
                        &ch->credit_remote, err);
    if (rc == 0 && ch->cfg.op == OP_GET && (h->features & HANDSHAKE_EAGER) != 0)
        rc = ch->path->eager_attach(ch, &h->heap, h->eager, err);
    return rc;
}

int areas_attached(struct rch *ch, struct error *err)
{
    void *heap = NULL;

    if (!areas_exist(ch))
        return 0;
    ch->path->attached(ch, &heap);
    if (area_heap_is_own(ch))
        return 0;
    if (device_has_heap(ch))
        heap = ch->device.base;
    if (config_side(&ch->cfg) == SIDE_WRITER)
        return areas_make_heap(ch, heap, err);
    ch->r.heap_base = heap;
    return 0;
}

static void areas_detach(struct rch *ch, struct btl_remote *remote)
{
    if (remote->mapping != NULL)
        ch->ops->detach(ch->btl, remote);
}

static void areas_free(struct rch *ch, struct btl_memory *memory)
{
    if (memory->slab != NULL)
        ch->ops->free(ch->btl, memory);
}

void areas_release(struct rch *ch)
{
    areas_detach(ch, &ch->heap_remote);
    areas_detach(ch, &ch->credit_remote);
    areas_detach(ch, &ch->ring_remote);
    areas_detach(ch, &ch->reverse_remote);
    areas_free(ch, &ch->heap_memory);
    areas_free(ch, &ch->credit_memory);
    areas_free(ch, &ch->ring_memory);
    areas_free(ch, &ch->reverse_memory);
}
