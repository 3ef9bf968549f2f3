/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * desc.h: the descriptor behind raddr_t, and pools of descriptors.
 *
 * A descriptor stands for one piece of memory that may or may not be mapped here, so nothing about the piece is kept
 * in the piece itself. Two cache lines: the first is what every path touches, the second what a small message needs.
 *
 * Pools are type-stable: memory of a descriptor is never anything else while its pool lives, so that a stale raddr_t
 * can be looked at, and be recognized by its state, without touching foreign memory.
 */
#ifndef ALLOC_DESC_H
#define ALLOC_DESC_H

#include "util/cpu.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DESC_INLINE_MAX 40 /* bytes of payload that ride in a slot */
#define DESC_HEADER_BYTES 8
#define DESC_LIMIT_DEFAULT 1000000u /* of a pool, where its user names none */

enum desc_state {
    DESC_POOLED, /* in its pool: whoever shows it is mistaken */
    DESC_OWNED,  /* the user's: allocated and not sent, or read and not freed */
    DESC_SENT,   /* handed over; its block is in use until the reader has freed it */
    DESC_FREED,  /* given back, but an older one is not: waits */
    DESC_GAP,    /* units skipped at the end of a next-fit arena */
};

struct rdesc {
    void *mem;                 /* where the user writes or reads; NULL if the range is not mapped here */
    size_t size;               /* bytes asked for, or received */
    uint64_t offset;           /* bytes from the beginning of the heap; meaningless for an inline message */
    uint32_t units;            /* length of the block; 0: an inline message, no block */
    uint32_t state;            /* enum desc_state */
    const void *owner;         /* the heap or the channel end that it belongs to */
    struct rdesc *prev, *next; /* neighbours in the order of the owner: of allocation, or of reading */
    struct rdesc *link;        /* pool; order of notifications: never the heap's while the block is handed out */

    uint8_t payload[DESC_INLINE_MAX]; /* of an inline message; its address is what rmem(3) promises: a multiple of 16 */
    uint64_t header;                  /* user header that travels with the message */
    uint64_t spare[2];
} __attribute__((aligned(CACHE_LINE)));

static_assert(offsetof(struct rdesc, payload) == CACHE_LINE, "the first line is what every path touches");
static_assert(sizeof(struct rdesc) == 2 * CACHE_LINE, "a descriptor is two lines");

struct desc_chunk;
struct desc_pool {
    struct rdesc *free; /* linked by .link */
    struct desc_chunk *chunks;
    uint32_t made, limit; /* descriptors that exist, that may exist */
};

void desc_pool_init(struct desc_pool *pool, uint32_t limit);
void desc_pool_destroy(struct desc_pool *pool);
/* Makes more descriptors: the only malloc, gone after warm-up. 0, -ENOMEM, or -ENOBUFS at the limit. */
int desc_pool_grow(struct desc_pool *pool) NOINLINE;
/* Is `d`, which may be any pointer, a descriptor of this pool? Looks at no byte behind it. Walks the chunks. */
bool desc_pool_holds(const struct desc_pool *pool, const struct rdesc *d);
/* 0 and how many lie in the pool; or -EUCLEAN and a sentence. Invariants: every descriptor on the free list is of this
 * pool and DESC_POOLED, every other one is not DESC_POOLED, and the chunks hold `made` of them. */
int desc_pool_check(const struct desc_pool *pool, char *why, size_t why_bytes, uint32_t *pooled);

/* NULL only if the pool cannot grow. The state is the caller's to set, to anything but DESC_POOLED. */
static inline struct rdesc *desc_take(struct desc_pool *pool)
{
    struct rdesc *d;

    if (UNLIKELY(pool->free == NULL) && desc_pool_grow(pool) != 0)
        return NULL;
    d = pool->free;
    pool->free = d->link;
    return d;
}

static inline void desc_put(struct desc_pool *pool, struct rdesc *d)
{
    d->state = DESC_POOLED;
    d->link = pool->free;
    pool->free = d;
}

#endif
