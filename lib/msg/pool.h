/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.h: objects of one size with numbers that are not used twice: requests, and messages that wait.
 *
 * A number is a generation and an index; a free object has the generation of its next use. The pool grows in chunks and never
 * shrinks, so objects do not move. The object of index 0 is never used: 0 is no number.
 *
 *     handle    generation:32 | index:32      what the program has
 *     id        generation:12 | index:20      what a peer has
 */
#ifndef MSG_POOL_H
#define MSG_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define POOL_CHUNK 256u
#define POOL_LINE 64u        /* bytes; an object begins a line */
#define POOL_IDS (1u << 20)  /* objects that have ids, index 0 included */
#define POOL_MOST (1u << 31) /* objects */

struct pool_item {          /* first member of an object */
    struct pool_item *next; /* free: the next free object, or NULL; used: the object itself */
    uint32_t index, generation;
};

struct pool {
    struct pool_item *free;
    char **chunk;
    size_t object_bytes; /* whole lines */
    uint32_t objects;    /* index 0 included */
    uint32_t most, room, used;
    void (*made)(void *object); /* of a new object, which is zero but for its item; or NULL */
};

/* most: objects, index 0 included; at most POOL_IDS where ids are used. */
static inline void pool_init(struct pool *p, size_t object_bytes, uint32_t most,
                             void (*made)(void *object))
{
    memset(p, 0, sizeof(*p));
    p->object_bytes = (object_bytes + POOL_LINE - 1) / POOL_LINE * POOL_LINE;
    p->most = most;
    p->made = made;
}

static inline void pool_destroy(struct pool *p)
{
    for (uint32_t i = 0; i < p->objects / POOL_CHUNK; i++)
        free(p->chunk[i]);
    free(p->chunk);
}

/* The object with an index below `objects`. */
static inline void *pool_at(const struct pool *p, uint32_t index)
{
    return p->chunk[index / POOL_CHUNK] + index % POOL_CHUNK * p->object_bytes;
}

static inline bool pool_is_used(const struct pool_item *item) { return item->next == item; }

/* False: no memory, or all objects that may be. */
bool pool_grow(struct pool *p) __attribute__((cold));

/* An object whose other members are as its last user has left them; NULL: no memory. */
static inline void *pool_get(struct pool *p)
{
    struct pool_item *item;

    if (__builtin_expect(p->free == NULL, 0) && !pool_grow(p))
        return NULL;
    item = p->free;
    p->free = item->next;
    item->next = item;
    p->used++;
    return item;
}

static inline void pool_put(struct pool *p, struct pool_item *item)
{
    item->generation++;
    item->next = p->free;
    p->free = item;
    p->used--;
}

static inline uint64_t pool_handle(const struct pool_item *item)
{
    return (uint64_t)item->generation << 32 | item->index;
}

static inline uint32_t pool_id(const struct pool_item *item)
{
    return item->generation << 20 | item->index;
}

static inline void *pool_by_index(const struct pool *p, uint32_t index)
{
    struct pool_item *item;

    if (index >= p->objects)
        return NULL;
    item = pool_at(p, index);
    return pool_is_used(item) ? item : NULL;
}

static inline void *pool_by_handle(const struct pool *p, uint64_t handle)
{
    struct pool_item *item = pool_by_index(p, (uint32_t)handle);

    return item != NULL && item->generation == handle >> 32 ? item : NULL;
}

static inline void *pool_by_id(const struct pool *p, uint32_t id)
{
    struct pool_item *item = pool_by_index(p, id & (POOL_IDS - 1));

    return item != NULL && pool_id(item) == id ? item : NULL;
}

#endif
