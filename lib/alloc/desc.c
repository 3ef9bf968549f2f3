/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * desc.c: pools of descriptors, see desc.h.
 *
 * Memory comes in chunks (chunk.h), which are freed with the pool, never before: this makes the
 * pool type-stable.
 */
#include "alloc/desc.h"

#include "alloc/broken.h"
#include "alloc/chunk.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CHUNK 16u /* descriptors: an idle channel pays 1 or 2 KiB */

struct desc_chunk {
    struct desc_chunk *next;
    size_t bytes;
    uint32_t count;
    char desc[] __attribute__((aligned(CACHE_LINE)));
};

uint32_t desc_owner_id(void)
{
    static _Atomic uint32_t last;
    uint32_t id;

    do
        id = (atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1) & DESC_OWNER_MOST;
    while (id == 0);
    return id;
}

static struct rdesc *desc_at(const struct desc_pool *pool, const struct desc_chunk *chunk,
                             uint32_t i)
{
    return (struct rdesc *)(void *)((uintptr_t)chunk->desc + (size_t)i * pool->stride);
}

void desc_pool_init(struct desc_pool *pool, uint32_t limit, uint32_t stride)
{
    *pool = (struct desc_pool){.limit = limit, .stride = stride};
}

static size_t desc_bytes_of(const struct desc_pool *pool, uint32_t count)
{
    return sizeof(struct desc_chunk) + (size_t)count * pool->stride;
}

void desc_pool_destroy(struct desc_pool *pool)
{
    struct desc_chunk *chunk = pool->chunks, *next;

    for (; chunk != NULL; chunk = next) {
        next = chunk->next;
        chunk_free(chunk, chunk->bytes);
    }
    *pool = (struct desc_pool){.limit = pool->limit, .stride = pool->stride};
}

int desc_pool_grow(struct desc_pool *pool)
{
    const uint32_t left = pool->limit - pool->made, least = left < FIRST_CHUNK ? left : FIRST_CHUNK;
    const size_t bytes = chunk_bytes((size_t)pool->made * pool->stride, desc_bytes_of(pool, least));
    const size_t room = (bytes - sizeof(struct desc_chunk)) / pool->stride;
    struct desc_chunk *chunk;
    uint32_t count;

    if (left == 0)
        return -ENOBUFS;
    chunk = chunk_alloc(bytes);
    if (chunk == NULL)
        return -ENOMEM;
    count = room < left ? (uint32_t)room : left;
    memset(chunk, 0, desc_bytes_of(pool, count));
    chunk->count = count;
    chunk->bytes = bytes;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->made += count;
    while (count-- > 0) /* backwards, so that they are taken in the order of their addresses */
        desc_put(pool, desc_at(pool, chunk, count));
    return 0;
}

size_t desc_pool_bytes(const struct desc_pool *pool)
{
    size_t bytes = 0;

    for (const struct desc_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next)
        bytes += chunk->bytes;
    return bytes;
}

bool desc_pool_holds(const struct desc_pool *pool, const struct rdesc *d)
{
    const struct desc_chunk *chunk;
    uintptr_t distance;

    for (chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        distance = (uintptr_t)d - (uintptr_t)chunk->desc;
        if (distance < (size_t)chunk->count * pool->stride)
            return distance % pool->stride == 0;
    }
    return false;
}

int desc_pool_check(const struct desc_pool *pool, struct error *err, uint32_t *pooled)
{
    const struct desc_chunk *chunk;
    const struct rdesc *d;
    uint32_t made = 0, idle = 0, listed = 0, i;

    for (chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        made += chunk->count;
        for (i = 0; i < chunk->count; i++)
            idle += desc_at(pool, chunk, i)->state == DESC_POOLED;
    }
    for (d = pool->free; d != NULL && listed <= made; d = d->link, listed++) {
        if (!desc_pool_holds(pool, d))
            return broken(err,
                          "the free list of the descriptor pool leads out of it after %u entries",
                          listed);
        if (d->state != DESC_POOLED)
            return broken(err, "entry %u of the descriptor pool's free list is in state %u", listed,
                          d->state);
    }
    if (made != pool->made || made > pool->limit || listed != idle)
        return broken(err,
                      "descriptor pool: %u made (%u counted, limit %u), %u unused of which %u are "
                      "on the free list",
                      made, pool->made, pool->limit, idle, listed);
    *pooled = listed;
    return 0;
}
