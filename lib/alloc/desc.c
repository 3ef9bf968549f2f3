/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * desc.c: pools of descriptors, see desc.h.
 *
 * Memory comes in chunks (desc_chunk.h), which stay with the pool until it is destroyed: this makes
 * the pool type-stable.
 */
#include "alloc/desc.h"

#include "alloc/broken.h"
#include "alloc/chunk.h"
#include "alloc/desc_chunk.h"

#include <errno.h>
#include <stdatomic.h>

#define FIRST_CHUNK 16u /* descriptors: an idle channel pays 1 or 2 KiB */

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
    return desc_chunk_at(chunk, pool->stride, i);
}

void desc_pool_init(struct desc_pool *pool, uint32_t limit, uint32_t stride, uint32_t owner)
{
    *pool = (struct desc_pool){.limit = limit,
                               .stride = stride,
                               .key = desc_word(owner & DESC_OWNER_MOST, DESC_OWNED),
                               .step = DESC_GENERATION_ONE + desc_word(0, DESC_OWNED)};
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
        desc_chunk_free(chunk, pool->stride);
    }
    *pool = (struct desc_pool){
        .limit = pool->limit, .stride = pool->stride, .key = pool->key, .step = pool->step};
}

int desc_pool_grow(struct desc_pool *pool)
{
    const uint64_t word = pool->key - desc_word(0, DESC_OWNED);
    const uint32_t left = desc_pool_is_full(pool) ? 0 : pool->limit - (pool->made - pool->resting),
                   least = left < FIRST_CHUNK ? left : FIRST_CHUNK;
    size_t bytes = chunk_bytes((size_t)(pool->made - pool->resting) * pool->stride,
                               desc_bytes_of(pool, least));
    struct desc_chunk *chunk;
    size_t room;
    uint32_t count;

    if (left == 0)
        return -ENOBUFS;
    if (bytes > desc_bytes_of(pool, left))
        bytes = desc_bytes_of(pool, left);
    chunk = desc_chunk_alloc(bytes, pool->stride);
    if (chunk == NULL)
        return -ENOMEM;
    room = (chunk->bytes - sizeof(struct desc_chunk)) / pool->stride;
    count = room < left ? (uint32_t)room : left;
    chunk->count = count;
    chunk->next = atomic_load_explicit(&pool->chunks, memory_order_relaxed);
    /* release: the chunk is complete; pairs with desc_pool_holds */
    atomic_store_explicit(&pool->chunks, chunk, memory_order_release);
    pool->made += count;
    while (count-- > 0) { /* backwards, so that they are taken in the order of their addresses */
        struct rdesc *d = desc_at(pool, chunk, count);

        d->word = (d->word & ~DESC_ADDRESS) | word; /* with the generation of an earlier pool */
        desc_put(pool, d);
    }
    return 0;
}

/* ---- generations ---- */

bool desc_renew_in_place(const struct desc_pool *pool, struct rdesc *d)
{
    const uint64_t low = d->word & DESC_GENERATION_LOW;

    if (low == DESC_GENERATION_LOW)
        return false;
    d->word = pool->key | (low + 1);
    return true;
}

void desc_rest(struct desc_pool *pool, struct rdesc *d)
{
    desc_set_state(d, DESC_RESTING);
    d->link = NULL;
    if (pool->newest_resting != NULL)
        pool->newest_resting->link = d;
    else
        pool->oldest_resting = d;
    pool->newest_resting = d;
    pool->resting++;
}

/* The descriptor that has rested the longest begins again. */
static struct rdesc *desc_restart(struct desc_pool *pool)
{
    struct rdesc *d = pool->oldest_resting;

    pool->oldest_resting = d->link;
    if (d->link == NULL)
        pool->newest_resting = NULL;
    pool->resting--;
    d->word = pool->key;
    return d;
}

/* A descriptor in the place of one whose high part is used up; NULL: it rests, and another one is free. */
static struct rdesc *desc_replace(struct desc_pool *pool, struct rdesc *d)
{
    if (desc_renew_in_place(pool, d))
        return d;
    desc_rest(pool, d);
    if (pool->resting > DESC_RESTING_MOST ||
        (pool->free == NULL && desc_pool_grow(pool) != 0)) /* no memory is no reason to fail */
        return desc_restart(pool);
    return NULL;
}

struct rdesc *desc_renew(struct desc_pool *pool, struct rdesc *d)
{
    struct rdesc *renewed = desc_replace(pool, d);

    return renewed != NULL ? renewed : desc_take(pool);
}

/* A loop: as many worn descriptors may be free as there are. */
struct rdesc *desc_take_slow(struct desc_pool *pool)
{
    struct rdesc *d, *renewed;
    uint64_t word;

    if (pool->free == NULL && desc_pool_grow(pool) != 0)
        return NULL;
    do {
        d = pool->free;
        pool->free = d->link;
        if (desc_next_word(pool, d, &word)) {
            d->word = word;
            return d;
        }
        renewed = desc_replace(pool, d);
    } while (renewed == NULL);
    return renewed;
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

    /* acquire: pairs with the release in desc_pool_grow; with RMALLOC_DEBUG=1 other threads than the owner ask */
    for (chunk = atomic_load_explicit(&pool->chunks, memory_order_acquire); chunk != NULL;
         chunk = chunk->next) {
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
    uint32_t made = 0, idle = 0, listed = 0, resting = 0, i;

    for (chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        made += chunk->count;
        for (i = 0; i < chunk->count; i++) {
            idle += desc_state(desc_at(pool, chunk, i)) == DESC_POOLED;
            resting += desc_state(desc_at(pool, chunk, i)) == DESC_RESTING;
        }
    }
    for (d = pool->free; d != NULL && listed <= made; d = d->link, listed++) {
        if (!desc_pool_holds(pool, d))
            return broken(err,
                          "the free list of the descriptor pool leads out of it after %u entries",
                          listed);
        if (desc_state(d) != DESC_POOLED)
            return broken(err, "entry %u of the descriptor pool's free list is in state %u", listed,
                          desc_state(d));
    }
    if (made != pool->made || resting != pool->resting || made - resting > pool->limit ||
        listed != idle)
        return broken(err,
                      "descriptor pool: %u made (%u counted, limit %u), %u worn (%u counted), %u "
                      "unused of which %u are on the free list",
                      made, pool->made, pool->limit, resting, pool->resting, idle, listed);
    *pooled = listed + resting;
    return 0;
}
