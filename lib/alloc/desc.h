/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * desc.h: the descriptor behind raddr_t, and pools of descriptors.
 *
 * A descriptor stands for a block of memory that may or may not be mapped here, so that nothing
 * about the block is stored in it. It is one cache line; the descriptor of a message that may be
 * sent inside a slot is followed by a second line, for the payload (struct rdesc_message).
 *
 * Pools are type-stable: the memory of a descriptor is never used for anything else while its pool
 * exists, so that a stale raddr_t can be inspected and recognized by its state without an access to
 * foreign memory.
 */
#ifndef ALLOC_DESC_H
#define ALLOC_DESC_H

#include "util/cpu.h"
#include "util/error.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DESC_INLINE_MAX 40 /* bytes of payload inside a slot */
#define DESC_OWNER_MOST 0xffffffu
#define DESC_LIMIT_DEFAULT 1000000u /* descriptors of a pool without a limit */

enum desc_state {
    DESC_POOLED, /* free; any use is a use-after-free */
    DESC_OWNED,  /* owned by the user: allocated and not sent, or read and not freed */
    DESC_SENT,   /* sent; its block is in use until the reader has freed it */
    DESC_FREED,  /* freed before an older one: waiting */
    DESC_GAP,    /* units skipped at the end of a next-fit arena */
    DESC_FREE,   /* a free block, in an index */
    DESC_LOOSE,  /* a free block that is in no index at the moment */
};

struct rdesc {
    void *mem;       /* address of the block; NULL if the range is not mapped here */
    size_t size;     /* bytes requested, or received */
    uint64_t offset; /* bytes from the beginning of the heap; meaningless for an inline message */
    uint64_t header; /* user header that travels with the message */
    struct rdesc *prev,
        *next; /* neighbors in the order of the owner: of allocation, of address, or of reading */
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

/* A descriptor with space for a payload. */
struct rdesc_message {
    struct rdesc d;
    uint8_t payload[DESC_INLINE_MAX]; /* at a multiple of 16, as rmem(3) specifies */
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

/*
 * The next id of an owner: 1 to DESC_OWNER_MOST, cyclically, so that a stale descriptor is not
 * taken for that of another owner.
 */
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
/*
 * Makes more descriptors; after warm-up it is not called any more. 0, -ENOMEM, or -ENOBUFS at the
 * limit.
 */
int desc_pool_grow(struct desc_pool *pool) NOINLINE;
/* Bytes of its chunks. */
size_t desc_pool_bytes(const struct desc_pool *pool);
/*
 * Whether `d`, which may be any pointer, is a descriptor of this pool. Does not dereference it.
 * Walks the chunks.
 */
bool desc_pool_holds(const struct desc_pool *pool, const struct rdesc *d);
/*
 * Verifies the pool: 0 and the number of free descriptors, or -EUCLEAN and an error message.
 * Invariants: every descriptor in the free list belongs to the pool and is DESC_POOLED, every other
 * one is not, and the chunks have `made` descriptors.
 */
int desc_pool_check(const struct desc_pool *pool, struct error *err, uint32_t *pooled);

/*
 * Takes a descriptor; NULL if the pool cannot grow. The caller sets the state, to anything but
 * DESC_POOLED.
 */
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
