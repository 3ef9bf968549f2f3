/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * block_table.h: the block of an index, by which a writer names its blocks to the reader (tag and channel mode).
 *
 * An entry is a block in flight, or it is free and holds the index of the next free entry. The index that came back last is used
 * first, so that few entries are in the cache. There are sync_queue entries: no index is free while as many heap messages are in flight.
 * This bounds the tag queue and the reverse ring (doc/protocol.md).
 *
 * Indexes from the reader are validated: block_table_take() rejects one that is not in flight.
 */
#ifndef SYNC_BLOCK_TABLE_H
#define SYNC_BLOCK_TABLE_H

#include "alloc/desc.h"

#include <assert.h>

#define BLOCK_TABLE_NONE UINT32_MAX

struct block_table {
    uintptr_t *entry; /* the address of a descriptor, which is even; or 2 * next free + 1 */
    uint32_t size;
    uint32_t free; /* BLOCK_TABLE_NONE: all are in flight */
};
static_assert(sizeof(uintptr_t) >= 8, "an entry holds twice an index");

int block_table_create(struct block_table *t, uint32_t size); /* 0 or -ENOMEM */
void block_table_destroy(struct block_table *t);

/* There is a free entry: the caller counts. */
static inline uint32_t block_table_put(struct block_table *t, struct rdesc *d)
{
    uint32_t index = t->free;

    t->free = (uint32_t)(t->entry[index] >> 1);
    t->entry[index] = (uintptr_t)d;
    return index;
}

/* The block in flight with this index, which is free from now on; NULL: there is none. */
static inline struct rdesc *block_table_take(struct block_table *t, uint32_t index)
{
    uintptr_t entry;

    if (index >= t->size)
        return NULL;
    entry = t->entry[index];
    if ((entry & 1) != 0)
        return NULL;
    t->entry[index] = (uintptr_t)t->free << 1 | 1;
    t->free = index;
    return (struct rdesc *)entry; /* NOLINT(performance-no-int-to-ptr) */
}

#endif
