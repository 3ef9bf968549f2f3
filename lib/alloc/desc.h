/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * desc.h: the descriptor behind raddr_t, and pools of descriptors.
 *
 * A descriptor stands for one piece of memory that may or may not be mapped here, so nothing about the piece is kept
 * in the piece itself. It is one cache line; that of a message which may ride in a slot has a second one behind it, for
 * the payload (struct rdesc_message).
 *
 * Pools are type-stable: memory of a descriptor is never anything else while its pool lives, so that a stale raddr_t
 * can be looked at, and be recognized by its state, without touching foreign memory.
 */
#ifndef ALLOC_DESC_H
#define ALLOC_DESC_H

#include "util/cpu.h"
#include "util/error.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DESC_INLINE_MAX 40 /* bytes of payload that ride in a slot */
#define DESC_HEADER_BYTES 8
#define DESC_OWNER_MOST 0xffffffu
#define DESC_LIMIT_DEFAULT 1000000u /* of a pool, where its user names none */

enum desc_state {
    DESC_POOLED, /* in its pool: whoever shows it is mistaken */
    DESC_OWNED,  /* the user's: allocated and not sent, or read and not freed */
    DESC_SENT,   /* handed over; its block is in use until the reader has freed it */
    DESC_FREED,  /* given back, but an older one is not: waits */
    DESC_GAP,    /* units skipped at the end of a next-fit arena */
    DESC_FREE,   /* a free block, in an index */
    DESC_LOOSE,  /* and one that is in none at the moment */
};

struct rdesc {
    void *mem;       /* where the user writes or reads; NULL if the range is not mapped here */
    size_t size;     /* bytes asked for, or received */
    uint64_t offset; /* bytes from the beginning of the heap; meaningless for an inline message */
    uint64_t header; /* user header that travels with the message */
    struct rdesc *prev,
        *next; /* neighbours in the order of the owner: of allocation, of address, or of reading */
    union {
        struct rdesc *
            link; /* pool; order of notifications: never the heap's while the block is handed out */
        uint32_t block; /* reader: index of the block, for tag and channel */
    };
    uint32_t units; /* length of the block; 0: an inline message, no block */
    union {
        struct {
            uint32_t owner : 24; /* id of the heap or the channel end that it belongs to */
            uint8_t state;       /* enum desc_state */
        };
        uint32_t whose; /* both at once: desc_owned_by() is what the user of `owner` may use */
    };
} __attribute__((aligned(CACHE_LINE)));

/* A descriptor with room for a payload. */
struct rdesc_message {
    struct rdesc d;
    uint8_t payload[DESC_INLINE_MAX]; /* its address is what rmem(3) promises: a multiple of 16 */
} __attribute__((aligned(CACHE_LINE)));

static_assert(offsetof(struct rdesc, state) == offsetof(struct rdesc, whose) + 3,
              "the state is behind the id");
static_assert(sizeof(struct rdesc) == CACHE_LINE, "a descriptor is one line");
static_assert(sizeof(struct rdesc_message) == 2 * CACHE_LINE,
              "a descriptor with its payload is two");

static inline uint32_t desc_owned_by(uint32_t owner)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return owner | (uint32_t)DESC_OWNED << 24;
#else
    return owner << 8 | DESC_OWNED;
#endif
}

static inline uint8_t *desc_payload(struct rdesc *d)
{
    return ((struct rdesc_message *)(void *)d)->payload;
}

/* Ids of owners: 1 .. DESC_OWNER_MOST, round and round, so that a descriptor that outlived its owner is not taken for another's. */
uint32_t desc_owner_id(void);

struct desc_chunk;
struct desc_pool {
    struct rdesc *free; /* linked by .link */
    struct desc_chunk *chunks;
    uint32_t made, limit; /* descriptors that exist, that may exist */
    uint32_t stride;      /* bytes of one: sizeof(struct rdesc) or sizeof(struct rdesc_message) */
};

void desc_pool_init(struct desc_pool *pool, uint32_t limit, uint32_t stride);
void desc_pool_destroy(struct desc_pool *pool);
/* Makes more descriptors: the only malloc, gone after warm-up. 0, -ENOMEM, or -ENOBUFS at the limit. */
int desc_pool_grow(struct desc_pool *pool) NOINLINE;
size_t desc_pool_bytes(const struct desc_pool *pool); /* that its chunks take */
/* Is `d`, which may be any pointer, a descriptor of this pool? Looks at no byte behind it. Walks the chunks. */
bool desc_pool_holds(const struct desc_pool *pool, const struct rdesc *d);
/* 0 and how many lie in the pool; or -EUCLEAN and a sentence. Invariants: every descriptor on the free list is of this
 * pool and DESC_POOLED, every other one is not DESC_POOLED, and the chunks hold `made` of them. */
int desc_pool_check(const struct desc_pool *pool, struct error *err, uint32_t *pooled);

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
