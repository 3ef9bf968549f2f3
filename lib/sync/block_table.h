/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * block_table.h: which block an index stands for: how a writer names its blocks to the reader (tag and channel mode).
 *
 * An entry is a block that is out, or free, and then it tells the next free entry. The index that came back last is given
 * out first, so that few of them are in the cache. As many entries as sync_queue: no index is free when so many heap messages are
 * outstanding, which is what bounds the tag queue and the reverse ring (doc/protocol.md).
 *
 * What the reader names is not to be believed: block_table_take() refuses an index that is not out.
 */
#ifndef SYNC_BLOCK_TABLE_H
#define SYNC_BLOCK_TABLE_H

#include "alloc/desc.h"

#include <assert.h>

#define BLOCK_TABLE_NONE UINT32_MAX

struct block_table {
    uintptr_t *entry; /* the address of a descriptor, which is even; or 2 * next free + 1 */
    uint32_t size;
    uint32_t free; /* BLOCK_TABLE_NONE: all are out */
};
static_assert(sizeof(uintptr_t) >= 8, "an entry holds twice an index");

int block_table_create(struct block_table *t, uint32_t size); /* 0 or -ENOMEM */
void block_table_destroy(struct block_table *t);

/* There is a free entry: the caller has counted. */
static inline uint32_t block_table_put(struct block_table *t, struct rdesc *d)
{
    uint32_t index = t->free;

    t->free = (uint32_t)(t->entry[index] >> 1);
    t->entry[index] = (uintptr_t)d;
    return index;
}

/* The block that is out as `index`, which is free from now on; or NULL. */
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
