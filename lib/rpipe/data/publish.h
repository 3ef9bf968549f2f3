/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * publish.h: a message is stored into a slot that is mapped: inline, for the fast path of rwrite and for the mapped path.
 *
 * Order of the stores of a message (doc/protocol.md): payload; `sent`, for the event protocol; slot; flag (release). Then the wake
 * word is loaded, and STATE_EVENT, and at the watermark the credit line.
 */
#ifndef RPIPE_DATA_PUBLISH_H
#define RPIPE_DATA_PUBLISH_H

#include "rpipe/end/rch.h"
#include "util/failpoint.h"

#include <string.h>

/* The slot so far ahead is fetched for writing: the reader had it a lap ago, and its transfer takes as long as several messages. */
#define SLOTS_AHEAD 8

/* The message becomes shorter, at most its size; whole units behind it return to the heap where the heuristic allows. */
static inline void write_shrink(struct rch *ch, struct rdesc *d, size_t bytes)
{
    if (d->units == 0)
        d->size = bytes;
    else
        heap_shrink(ch->w.blocks.heap, d, bytes);
}

/* A block has been sent. At the watermark of the heap credits are refreshed after this message. */
static FORCE_INLINE void publish_count_block(struct writer *w, struct rdesc *d)
{
    if (reclaim_sent(&w->blocks, d))
        w->slots.refresh_at = 0;
}

/* Inline: in a stream the writer has to stay ahead of the reader, or both contend for each slot. */
static FORCE_INLINE void publish_block(struct writer *w, struct slot *s, struct rdesc *d,
                                       size_t bytes, uint64_t sent)
{
    RPIPE_FAILPOINT("rwrite: before the slot of a block");
    s->heap.offset = d->offset;
    s->heap.size = bytes;
    s->kind = SLOT_HEAP;
    if (w->blocks.table.entry != NULL)
        s->block = block_table_put(&w->blocks.table, d);
    RPIPE_FAILPOINT("rwrite: before the flag of a block");
    ring_slot_publish(s, sent + 1);
    publish_count_block(w, d);
    RPIPE_FAILPOINT("rwrite: after the flag of a block");
}

/* There is a free slot, an index where one is needed, and the descriptor is the user's. */
static FORCE_INLINE void publish_message(struct rch *ch, struct rdesc *d, size_t bytes,
                                         uint64_t sent)
{
    struct slot *s = end_slot(ch, sent);
    struct writer *w = &ch->w;

    /* visible before the slot, by the release of its flag */
    atomic_store_explicit(&w->sent, sent + 1, memory_order_relaxed);
    s->header = d->header;
    if (d->units == 0) {
        const uint8_t *payload = desc_payload(d);

        RPIPE_FAILPOINT("rwrite: before the slot of a small message");
        /* a word that the user has just stored is loaded as a word: a wider load would wait until the store has drained */
        if (bytes <= sizeof(uint64_t))
            memcpy(s->payload, payload, sizeof(uint64_t));
        else
            memcpy(s->payload, payload, DESC_INLINE_MAX);
        s->kind = SLOT_INLINE;
        s->bytes = (uint8_t)bytes;
        RPIPE_FAILPOINT("rwrite: before the flag of a small message");
        ring_slot_publish(s, sent + 1);
        desc_put(&ch->pool, d);
        RPIPE_FAILPOINT("rwrite: after the flag of a small message");
    } else {
        publish_block(w, s, d, bytes, sent);
    }
    wake_reader(ch);
    RPIPE_FAILPOINT("rwrite: reader woken");
    cpu_prefetch_write(end_slot(ch, sent + SLOTS_AHEAD));
    w->allocated--;
    ch->bytes += bytes;
}

#endif
