/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c: see pool.h. */
#include "msg/pool.h"

static bool pool_grow_table(struct pool *p)
{
    uint32_t room = p->room == 0 ? 16 : 2 * p->room;
    char **chunk = realloc(p->chunk, room * sizeof(*chunk));

    if (chunk == NULL)
        return false;
    p->chunk = chunk;
    p->room = room;
    return true;
}

bool pool_grow(struct pool *p)
{
    const size_t bytes = POOL_CHUNK * p->object_bytes;
    const uint32_t first = p->objects;
    char *chunk;

    if (first >= p->most || (first / POOL_CHUNK == p->room && !pool_grow_table(p)))
        return false;
    chunk = aligned_alloc(POOL_LINE, bytes);
    if (chunk == NULL)
        return false;
    memset(chunk, 0, bytes);
    p->chunk[first / POOL_CHUNK] = chunk;
    p->objects += POOL_CHUNK;
    for (uint32_t i = POOL_CHUNK; i-- > 0;) {
        struct pool_item *item = (struct pool_item *)(void *)(chunk + i * p->object_bytes);

        item->index = first + i;
        item->generation = 1;
        if (p->made != NULL)
            p->made(item);
        if (item->index == 0)
            continue;
        item->next = p->free;
        p->free = item;
    }
    return true;
}
