/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * take.h: a message is taken from a slot: inline, for the fast path of rread and for the paths.
 *
 * A slot is copied into a descriptor and validated there; each word that the peer has written is loaded once. Only then is the slot
 * given back. Heap messages wait in a list, in the order of their slots, until every older one is freed (block mode).
 */
#ifndef RPIPE_DATA_TAKE_H
#define RPIPE_DATA_TAKE_H

#include "rpipe/data/violation.h"
#include "rpipe/end/call.h"
#include "rpipe/grow/grow.h"
#include "util/failpoint.h"

#include <string.h>

/* `mem` is where the block of `d` is; offset and size have been checked. */
static FORCE_INLINE void take_block_at(struct reader *r, struct rdesc *d, char *mem, uint32_t block)
{
    d->mem = mem;
    d->block = block;
    d->units = d->size != 0 ? (uint32_t)((d->size - 1) >> r->shift) + 1 : 1;
    if (r->sync == RPIPE_SYNC_BLOCKS)
        release_append(&r->blocks, d);
    r->blocks.taken++;
    r->units_held += d->units;
}

static FORCE_INLINE int take_block(struct rch *ch, struct rdesc *d, const struct slot *s)
{
    struct reader *r = &ch->r;
    char *mem;

    d->offset = __atomic_load_n(&s->heap.offset, __ATOMIC_RELAXED);
    d->size = __atomic_load_n(&s->heap.size, __ATOMIC_RELAXED);
    if (LIKELY(d->offset < r->heap_bytes && d->size <= r->heap_bytes - d->offset))
        mem = r->heap_base + d->offset;
    else
        mem = grow_find(ch, d->offset, d->size);
    if (UNLIKELY(mem == NULL)) {
        desc_put(&ch->pool, d);
        return violation_of_message(ch, "is outside the heap", "offset", d->offset, "bytes",
                                    d->size);
    }
    if (UNLIKELY(r->blocks.taken - r->blocks.freed >= r->most)) {
        desc_put(&ch->pool, d);
        return violation_of_message(ch, "exceeds the messages of the heap that may be in flight",
                                    "in flight", r->blocks.taken - r->blocks.freed, "limit",
                                    r->most);
    }
    take_block_at(r, d, mem, __atomic_load_n(&s->block, __ATOMIC_RELAXED));
    return 0;
}

static FORCE_INLINE void take_small(struct rdesc *d, const struct slot *s, size_t bytes)
{
    if (bytes <= sizeof(uint64_t))
        memcpy(desc_payload(d), s->payload, sizeof(uint64_t));
    else
        memcpy(desc_payload(d), s->payload, DESC_INLINE_MAX);
    d->mem = desc_payload(d);
    d->size = bytes;
    d->units = 0;
}

/* The slot has been copied: it is given back. Then the writer's wake word is loaded. */
static FORCE_INLINE void take_slot(struct rch *ch, uint64_t nread, size_t bytes)
{
    RPIPE_FAILPOINT("rread: slot copied");
    ch->r.nread = nread;
    ch->r.held++;
    ch->bytes += bytes;
    /* release: the slot is copied before the writer overwrites it. Pairs with slot_credit_refresh */
    atomic_store_explicit(&ch->credit->line.slots_read, nread, memory_order_release);
    RPIPE_FAILPOINT("rread: slot given back");
}

/* `s` is complete (acquire). `region`: its payload may be in a region of the writer (SLOT_REGION). `size` may be NULL. */
static FORCE_INLINE int take_message(struct rch *ch, const struct slot *s, bool region,
                                     struct rdesc **out, size_t *size)
{
    struct rdesc *d = desc_take(&ch->pool);
    uint32_t kind, bytes;
    int rc;

    if (UNLIKELY(d == NULL))
        return call_no_descriptor(ch, ch->r.held);
    RPIPE_FAILPOINT("rread: message seen");
    /* once: the peer may change it at any time */
    kind = __atomic_load_n(&s->kind, __ATOMIC_RELAXED);
    d->header = s->header;
    if (LIKELY(kind == SLOT_INLINE)) {
        bytes = __atomic_load_n(&s->bytes, __ATOMIC_RELAXED);
        if (UNLIKELY(bytes > DESC_INLINE_MAX)) {
            desc_put(&ch->pool, d);
            return violation_of_message(ch, "is longer than a slot", "bytes", bytes, "limit",
                                        DESC_INLINE_MAX);
        }
        take_small(d, s, bytes);
    } else {
        if (UNLIKELY(kind != SLOT_HEAP) && !(region && kind == SLOT_REGION)) {
            desc_put(&ch->pool, d);
            return violation_of_message(ch, "has an unknown kind", "kind", kind, "highest",
                                        region ? SLOT_REGION : SLOT_HEAP);
        }
        rc = take_block(ch, d, s);
        if (UNLIKELY(rc != 0))
            return rc;
    }
    take_slot(ch, ch->r.nread + 1, d->size);
    wake_writer(ch);
    *out = d;
    RPIPE_FAILPOINT("rread: writer woken");
    if (size != NULL)
        *size = d->size;
    return 0;
}

#endif
