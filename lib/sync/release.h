/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * release.h: how the reader gives the blocks of messages back: the counterpart of reclaim.h.
 *
 * Prefix: messages wait in a list, in the order of their slots, until every older one is freed too; the credit line carries a
 * count without gaps. Tags and channel: each freed block is named at once, in any order; the number of messages in flight
 * never exceeds the entries of the queue, so that the reader neither waits nor reads the writer's position.
 *
 * Invariant: freed <= taken, modulo 2^64.
 */
#ifndef SYNC_RELEASE_H
#define SYNC_RELEASE_H

#include "alloc/desc.h"
#include "sync/tag.h"
#include "util/failpoint.h"

struct release {
    struct rdesc *oldest,
        *newest;             /* prefix: heap messages that are not in the credit line, by .next */
    uint64_t taken, freed;   /* heap messages: read; reported to the writer as freed */
    struct ring_cursor next; /* tag and channel mode: where the next freed block is named */
    struct slot *reverse;    /* channel mode: the writer's ring, or what a network sends to it */
};

/* Prefix: a heap message has been read. */
static FORCE_INLINE void release_append(struct release *r, struct rdesc *d)
{
    d->next = NULL;
    if (r->newest != NULL)
        r->newest->next = d;
    else
        r->oldest = d;
    r->newest = d;
}

/* Prefix: a message has been freed. True: it was the oldest, and the credit line has the new count. */
static FORCE_INLINE bool release_prefix(struct release *r, struct credit_line *line,
                                        struct desc_pool *pool, struct rdesc *d)
{
    struct rdesc *next, *pooled;
    uint64_t freed;

    desc_change_state(d, DESC_OWNED, DESC_FREED);
    if (d != r->oldest)
        return false;
    freed = r->freed;
    pooled = pool->free;
    do {
        next = d->next;
        pooled = desc_put_before(d, pooled);
        freed++;
        d = next;
    } while (d != NULL && desc_state(d) == DESC_FREED);
    pool->free = pooled;
    r->freed = freed;
    r->oldest = d;
    if (d == NULL)
        r->newest = NULL;
    RPIPE_FAILPOINT("rfree: before the credit line");
    /* release: the user's last load of the block precedes the writer's next store to it. Pairs with prefix_fetch_of */
    atomic_store_explicit(&line->heap_freed, r->freed, memory_order_release);
    RPIPE_FAILPOINT("rfree: credit line written");
    return true;
}

/*
 * Tag and channel mode: returns the index of a freed block, which the caller names next. The descriptor is put back before: the
 * index may be used again as soon as it is named.
 */
static FORCE_INLINE uint32_t release_named(struct release *r, struct desc_pool *pool,
                                           struct rdesc *d)
{
    uint32_t block = d->block;

    desc_put(pool, d);
    r->freed++;
    RPIPE_FAILPOINT("rfree: before the block is named");
    return block;
}

#endif
