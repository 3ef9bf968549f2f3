/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tag.h: how the reader names the blocks that it has freed: tags in its own memory, or slots in the writer's.
 *
 * Both are rings of sync_queue entries, any number from 1. The reader fills them in the order in which it frees, without reading the
 * writer's position: the writer never has more messages in flight than there are entries (block_table.h).
 *
 * A tag is 8 bytes: the lap of the ring, from 1, above the index of the block. It validates itself: a position has the lap that
 * the writer expects, or the one before it, so that 32 bits may wrap. A ring begins with zeroes.
 */
#ifndef SYNC_TAG_H
#define SYNC_TAG_H

#include "sync/slot.h"
#include "util/failpoint.h"

/* A position in a ring that is not a power of two. */
struct ring_cursor {
    uint32_t at, size;
    uint32_t lap; /* from 1, unless a test begins elsewhere */
};

/* The first lap is not 0, which a new ring contains. */
static inline void ring_cursor_init(struct ring_cursor *c, uint32_t size, uint32_t first_lap)
{
    *c = (struct ring_cursor){.size = size, .lap = first_lap != 0 ? first_lap : 1};
}

static inline void ring_cursor_advance(struct ring_cursor *c)
{
    if (++c->at < c->size)
        return;
    c->at = 0;
    c->lap++;
}

static inline size_t credit_area_bytes(uint32_t tags)
{
    return sizeof(struct credit_area) + (size_t)tags * sizeof(uint64_t);
}

/* Reader: the block is free. Release: its last access precedes the writer's next store. Pairs with tag_next. */
static inline void tag_append(struct credit_area *area, struct ring_cursor *c, uint32_t block)
{
    RPIPE_FAILPOINT("rfree: before the tag");
    atomic_store_explicit(&area->tag[c->at], (uint64_t)c->lap << 32 | block, memory_order_release);
    RPIPE_FAILPOINT("rfree: tag written");
    ring_cursor_advance(c);
}

/*
 * Writer: has the reader filled the cache line of the next tag? Polling a line that the reader still writes causes coherence misses;
 * it is skipped unless memory is needed. Tags are written in order. Pairs with tag_append.
 */
static inline bool tag_line_is_full(const struct credit_area *area, const struct ring_cursor *c)
{
    uint32_t last = c->at | (CACHE_LINE / sizeof(uint64_t) - 1);

    if (last >= c->size)
        last = c->size - 1;
    return (uint32_t)(atomic_load_explicit(&area->tag[last], memory_order_acquire) >> 32) == c->lap;
}

/* Writer: true, and the index, if one more block has been freed. Acquire: pairs with tag_append. */
static inline bool tag_next(const struct credit_area *area, struct ring_cursor *c, uint32_t *block)
{
    uint64_t tag = atomic_load_explicit(&area->tag[c->at], memory_order_acquire);

    if ((uint32_t)(tag >> 32) != c->lap)
        return false;
    *block = (uint32_t)tag;
    ring_cursor_advance(c);
    return true;
}

/* Reader: names a block in the writer's memory: `freed` counts from 1. Pairs with reverse_next. */
static inline void reverse_append(struct slot *ring, struct ring_cursor *c, uint64_t freed,
                                  uint32_t block)
{
    struct slot *s = &ring[c->at];

    s->kind = SLOT_FREED;
    s->block = block;
    RPIPE_FAILPOINT("rfree: before the flag of a reverse slot");
    ring_slot_publish(s, freed);
    RPIPE_FAILPOINT("rfree: after the flag of a reverse slot");
    ring_cursor_advance(c);
    cpu_prefetch_write(&ring[c->at]); /* the writer read it a lap ago */
}

/* Writer: `freed` is the expected number. Pairs with reverse_append. */
static inline bool reverse_next(const struct slot *ring, struct ring_cursor *c, uint64_t freed,
                                uint32_t *block)
{
    const struct slot *s = &ring[c->at];

    if (!ring_slot_ready(s, freed))
        return false;
    *block =
        __atomic_load_n(&s->block, __ATOMIC_RELAXED); /* once: the peer may change it at any time */
    ring_cursor_advance(c);
    return true;
}

#endif
