/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index_pool.c: see index_pool.h.
 */
#include "alloc/index_pool.h"

#include "alloc/broken.h"
#include "alloc/chunk.h"

#include <string.h>

#define FIRST_CHUNK ((size_t)2048)

struct index_chunk {
    struct index_chunk *next;
    size_t bytes;
    char nodes[] __attribute__((aligned(CACHE_LINE)));
};

static uint32_t index_pool_whole_lines(size_t bytes)
{
    return (uint32_t)((bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1));
}

void index_pool_init(struct index_pool *pool, enum index_kind kind)
{
    *pool = (struct index_pool){
        .kind = kind,
        .bytes = {index_pool_whole_lines(offsetof(struct index_node, weight)),
                  index_pool_whole_lines(sizeof(struct index_node))},
    };
}

void index_pool_destroy(struct index_pool *pool)
{
    struct index_chunk *chunk = pool->chunks, *next;

    for (; chunk != NULL; chunk = next) {
        next = chunk->next;
        chunk_free(chunk, chunk->bytes);
    }
    index_pool_init(pool, pool->kind);
}

void index_pool_put(struct index_pool *pool, struct index_node *node, uint32_t level)
{
    const unsigned form = index_node_weighs(pool->kind, level);

    node->link = pool->free[form];
    pool->free[form] = node;
    pool->idle[form]++;
}

static struct index_node *index_pool_take_fresh(struct index_pool *pool, unsigned form)
{
    struct index_node *node = (struct index_node *)(void *)pool->fresh;

    pool->fresh += pool->bytes[form];
    memset(node->key, 0xff, sizeof(node->key)); /* INDEX_UNUSED */
    node->count = 0;
    node->zero = 0;
    if (form == 1)
        memset(node->weight, 0, sizeof(node->weight));
    return node;
}

struct index_node *index_pool_take(struct index_pool *pool, uint32_t level)
{
    const unsigned form = index_node_weighs(pool->kind, level);
    struct index_node *node = pool->free[form];

    if (node == NULL)
        return index_pool_take_fresh(pool, form);
    pool->free[form] = node->link;
    pool->idle[form]--;
    return node;
}

static NOINLINE int index_pool_grow(struct index_pool *pool, size_t least)
{
    const size_t whole = least + sizeof(struct index_chunk);
    const size_t bytes = chunk_bytes(pool->made, whole < FIRST_CHUNK ? FIRST_CHUNK : whole);
    struct index_chunk *chunk = chunk_alloc(bytes);

    if (chunk == NULL)
        return -ENOMEM;
    while ((size_t)(pool->end - pool->fresh) >=
           pool->bytes[0]) /* the rest of the old chunk becomes leaves */
        index_pool_put(pool, index_pool_take_fresh(pool, 0), 0);
    pool->lost += (size_t)(pool->end - pool->fresh);
    *chunk = (struct index_chunk){.next = pool->chunks, .bytes = bytes};
    pool->chunks = chunk;
    pool->made += bytes;
    pool->fresh = chunk->nodes;
    pool->end = (char *)chunk + bytes;
    return 0;
}

int index_pool_reserve(struct index_pool *pool, uint32_t leaves, uint32_t inner)
{
    const bool one_form = pool->kind == INDEX_PLAIN;
    const uint32_t need[2] = {one_form ? leaves + inner : leaves, one_form ? 0 : inner};
    size_t bytes = 0;

    for (unsigned form = 0; form < 2; form++)
        if (need[form] > pool->idle[form])
            bytes += (size_t)(need[form] - pool->idle[form]) * pool->bytes[form];
    return LIKELY(bytes <= (size_t)(pool->end - pool->fresh)) ? 0 : index_pool_grow(pool, bytes);
}

/* ---- check ---- */

static bool index_pool_holds(const struct index_pool *pool, const struct index_node *node)
{
    const struct index_chunk *chunk = pool->chunks;

    while (chunk != NULL && (uintptr_t)node - (uintptr_t)chunk >= chunk->bytes)
        chunk = chunk->next;
    return chunk != NULL;
}

int index_pool_check(const struct index_pool *pool, const uint32_t nodes[2], struct error *err)
{
    const bool one_form = pool->kind == INDEX_PLAIN;
    const uint32_t used[2] = {one_form ? nodes[0] + nodes[1] : nodes[0], one_form ? 0 : nodes[1]};
    size_t made = 0, room = 0, seen = (size_t)(pool->end - pool->fresh) + pool->lost;

    for (const struct index_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        made += chunk->bytes;
        room += chunk->bytes - sizeof(*chunk);
    }
    for (unsigned form = 0; form < 2; form++) {
        const struct index_node *node = pool->free[form];
        uint32_t idle = 0;

        for (; node != NULL && idle <= pool->idle[form]; node = node->link, idle++) {
            if (!index_pool_holds(pool, node))
                return broken(
                    err, "the free list of the node pool leads out of it after %u entries", idle);
            if (node->count != 0 || index_node_below(node, INDEX_UNUSED) != 0)
                return broken(err, "entry %u of the node pool's free list is not empty", idle);
        }
        if (idle != pool->idle[form])
            return broken(err,
                          "of the node pool's free list %u entries are counted, and there are %s",
                          pool->idle[form], idle < pool->idle[form] ? "fewer" : "more");
        seen += (size_t)(idle + used[form]) * pool->bytes[form];
    }
    if (made != pool->made || seen != room)
        return broken(
            err, "node pool: %zu bytes (%zu counted), of which %zu of %zu are in nodes or unused",
            made, pool->made, seen, room);
    return 0;
}
