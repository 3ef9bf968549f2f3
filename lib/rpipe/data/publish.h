/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * publish.h: a message is stored into a slot that is mapped: inline, for the fast path of rwrite and for the mapped path.
 *
 * Order of the stores of a message (doc/protocol.md): payload; `sent`, for the event protocol; slot; flag (release). Then the wake
 * word is loaded, and `after`, and at the watermark the credit line.
 */
#ifndef RPIPE_DATA_PUBLISH_H
#define RPIPE_DATA_PUBLISH_H

#include "rpipe/end/rch.h"
#include "util/failpoint.h"

#include <string.h>

/* The slot so far ahead is fetched for writing: the reader had it a lap ago, and its transfer takes as long as several messages. */
#define SLOTS_AHEAD 8

/* `offset`: end_slot_offset of the message that is being written. */
static FORCE_INLINE void publish_prefetch(const struct rch *ch, uint32_t offset)
{
    offset = (offset + SLOTS_AHEAD * (uint32_t)sizeof(struct slot)) & ch->ring_mask;
    cpu_prefetch_write(ring_slot_at(ch->ring, offset));
}

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

static FORCE_INLINE void publish_small(struct rch *ch, struct slot *s, struct rdesc *d,
                                       size_t bytes, uint64_t sent)
{
    const uint8_t *payload = desc_payload(d);

    RPIPE_FAILPOINT("rwrite: before the slot of a small message");
    /* a word that the user has just stored is loaded as a word: a wider load would wait until the store has drained */
    if (bytes <= sizeof(uint64_t))
        memcpy(s->payload, payload, sizeof(uint64_t));
    else
        memcpy(s->payload, payload, DESC_INLINE_MAX);
    s->word = slot_word_inline(bytes);
    RPIPE_FAILPOINT("rwrite: before the flag of a small message");
    ring_slot_publish(s, sent + 1);
    desc_put(&ch->pool, d);
    RPIPE_FAILPOINT("rwrite: after the flag of a small message");
}

/* There is a free slot, an index where one is needed, and the descriptor is the user's. `block`: it has one. */
static FORCE_INLINE void publish_message(struct rch *ch, struct rdesc *d, bool block, size_t bytes,
                                         uint64_t sent)
{
    uint32_t offset = end_slot_offset(ch, sent);
    struct slot *s = ring_slot_at(ch->ring, offset);
    struct writer *w = &ch->w;

    /* visible before the slot, by the release of its flag */
    atomic_store_explicit(&w->sent, sent + 1, memory_order_relaxed);
    s->header = d->header;
    if (block)
        publish_block(w, s, d, bytes, sent);
    else
        publish_small(ch, s, d, bytes, sent);
    publish_prefetch(ch, offset);
    w->allocated--;
    ch->bytes += bytes;
}

/*
 * After the slot: whether something is left to do: the reader sleeps, or a fence is needed before that is seen, or it is in event
 * mode. The words are loaded after the slot is stored: the membarrier of the waiting side orders the two, or the fence of
 * wake_reader, before which the load of the wake word proves nothing; for AFTER_SIGNAL the membarrier of the service thread.
 */
static FORCE_INLINE bool publish_leaves_more(const struct rch *ch)
{
    compiler_store_before_wake_look();
    return (atomic_load_explicit(&ch->ring->control.reader_wake, memory_order_relaxed) |
            atomic_load_explicit(&ch->w.after, memory_order_relaxed)) != 0;
}

#endif
