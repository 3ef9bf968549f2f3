/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * desc.h: descriptors, the handles of descriptors that users have, and pools of descriptors.
 *
 * A descriptor represents a block of memory that may or may not be mapped here, so that nothing
 * about the block is stored in it. It is one cache line; the descriptor of a message that may be
 * sent inside a slot is followed by a second line, for the payload (struct rdesc_message).
 *
 * The handle of a user (raddr_t) is the address of the descriptor with a generation in the bits
 * that an address leaves free:
 *
 *   handle   63 .. 47 generation, high part | 46 .. 6 address                      | 5 .. 0 low part
 *   word     63 .. 47 generation, high part | 46 .. 16 owner | 15 .. 8 state       | 5 .. 0 low part
 *
 * The generation changes each time that the descriptor is taken, so that a handle is valid in one
 * life of its descriptor. Owner, state and generation are one word, and one comparison verifies all
 * three (desc_is_users). The state is changed by stores of the whole word: a load of the word that
 * follows a store of one byte of it would wait for that store.
 *
 * After DESC_LIVES lives a descriptor is worn: it rests, and the pool makes another one. The oldest
 * of more than DESC_RESTING_MOST begins again. So a stale handle can be mistaken for a valid one
 * after DESC_LIVES * DESC_RESTING_MOST = 5.5e11 lives in one pool, five hours of 30 million
 * messages a second, and then only if it has the one generation of 2^23 that is valid.
 *
 * The memory of a descriptor is never used for anything else, also when its pool is gone, and stays
 * mapped: a stale handle is recognized without an access to foreign memory. A chunk of descriptors
 * goes from pool to pool with its generations.
 */
#ifndef ALLOC_DESC_H
#define ALLOC_DESC_H

#include "util/cpu.h"
#include "util/error.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <rmalloc.h>
#include <stdint.h>

#define DESC_INLINE_MAX 40 /* bytes of payload inside a slot */
#define DESC_OWNER_MOST 0x7fffffffu
#define DESC_LIMIT_DEFAULT 1000000u /* descriptors of a pool without a limit */

enum desc_state {
    DESC_POOLED,  /* free; any use is a use-after-free */
    DESC_OWNED,   /* owned by the user: allocated and not sent, or read and not freed */
    DESC_SENT,    /* sent; its block is in use until the reader has freed it */
    DESC_FREED,   /* waiting: freed before an older one; segregated-fit: not merged yet */
    DESC_GAP,     /* units skipped at the end of a next-fit arena */
    DESC_FREE,    /* a free block, in an index or in the list of its class */
    DESC_LOOSE,   /* a free block that is in no index at the moment */
    DESC_RESTING, /* worn: all its generations have been used */
};

/* Bits of an address that a process can have: those of mmap without a hint. */
#if defined(__x86_64__)
#define DESC_ADDRESS_BITS 47
#else
#define DESC_ADDRESS_BITS 48
#endif
#define DESC_GENERATION_LOW ((uint64_t)CACHE_LINE - 1)
#define DESC_GENERATION_ONE (UINT64_C(1) << DESC_ADDRESS_BITS) /* of the high part */
#define DESC_ADDRESS ((DESC_GENERATION_ONE - 1) & ~DESC_GENERATION_LOW)
#define DESC_LIVES (UINT64_C(1) << (70 - DESC_ADDRESS_BITS)) /* a handle for each */
#define DESC_RESTING_MOST 65536u
#define DESC_STATE_SHIFT 8
#define DESC_STATE_MASK (UINT64_C(0xff) << DESC_STATE_SHIFT)
#define DESC_OWNER_SHIFT 16
static_assert((uint64_t)DESC_OWNER_MOST << DESC_OWNER_SHIFT < DESC_GENERATION_ONE,
              "behind the owner begins the generation");

struct lowest_entry;

struct rdesc {
    void *mem; /* address of the block; NULL if the range is not mapped here */
    union {
        size_t size;        /* bytes requested, or received */
        struct rdesc *back; /* a free block of segregated-fit: the previous one of its list */
    };
    uint64_t offset; /* bytes from the beginning of the heap; meaningless for an inline message */
    union {
        uint64_t header;            /* DESC_OWNED: user header that travels with the message */
        struct rdesc *link;         /* else: pool; order of notifications; unindexed free blocks */
        struct lowest_entry *entry; /* a free block of best-fit in the list of its size */
    };
    struct rdesc *prev,
        *next; /* neighbors in the order of the owner: of allocation, of address, or of reading */
    uint32_t units; /* length of the block; 0: an inline message, no block */
    uint32_t block; /* reader: index of the block, for tag and channel */
    uint64_t word;  /* generation, owner (id of the heap or of the channel end), state */
} __attribute__((aligned(CACHE_LINE)));

/* A descriptor with space for a payload. */
struct rdesc_message {
    struct rdesc d;
    uint8_t payload[DESC_INLINE_MAX]; /* at a multiple of 16, as rmem(3) specifies */
} __attribute__((aligned(CACHE_LINE)));

static_assert(sizeof(struct rdesc) == CACHE_LINE, "a descriptor is one line");
static_assert(sizeof(struct rdesc_message) == 2 * CACHE_LINE,
              "a descriptor with its payload is two");

static_assert(CACHE_LINE == 64, "the low part of a generation has 6 bits");
static_assert(sizeof(uintptr_t) == sizeof(uint64_t), "a handle has 64 bits");

static inline enum desc_state desc_state(const struct rdesc *d)
{
    return (enum desc_state)(uint8_t)(d->word >> DESC_STATE_SHIFT);
}

static inline uint32_t desc_owner(const struct rdesc *d)
{
    return (uint32_t)(d->word >> DESC_OWNER_SHIFT) & DESC_OWNER_MOST;
}

static inline void desc_set_state(struct rdesc *d, enum desc_state state)
{
    d->word = (d->word & ~DESC_STATE_MASK) | (uint64_t)state << DESC_STATE_SHIFT;
}

/*
 * Between a comparison of the word and its change: the compiler does not keep it in a register, so that either is one
 * instruction.
 */
static FORCE_INLINE void desc_word_in_memory(struct rdesc *d) { __asm__("" : "+m"(d->word)); }

/* The same, where the state is known: one instruction. */
static FORCE_INLINE void desc_change_state(struct rdesc *d, enum desc_state from,
                                           enum desc_state to)
{
    desc_word_in_memory(d);
    d->word += ((uint64_t)to - (uint64_t)from) << DESC_STATE_SHIFT;
}

/* Stores the whole word, also where the compiler sees that one byte of it changes. */
static FORCE_INLINE void desc_store_word(struct rdesc *d, uint64_t word)
{
    __asm__("" : "+r"(word));
    d->word = word;
}

/* The word without its generation. */
static inline uint64_t desc_word(uint32_t owner, enum desc_state state)
{
    return (uint64_t)owner << DESC_OWNER_SHIFT | (uint64_t)state << DESC_STATE_SHIFT;
}

/* ---- handles ---- */

/* The descriptor of a handle, or what would be its address. */
static FORCE_INLINE struct rdesc *desc_of(raddr_t handle)
{
    uintptr_t d = (uintptr_t)handle & DESC_ADDRESS;

    /* a value of its own: derived from the mask anew, the generation costs an instruction more */
    __asm__("" : "+r"(d));
    return (struct rdesc *)d; /* NOLINT(performance-no-int-to-ptr) */
}

/* In any state, for a walk. */
static inline raddr_t desc_handle(const struct rdesc *d)
{
    return (raddr_t)((uintptr_t)d |
                     (d->word & ~DESC_ADDRESS)); /* NOLINT(performance-no-int-to-ptr) */
}

/* Order of the generations of a descriptor, from its word or from a handle. */
static inline uint64_t desc_generation(uint64_t bits)
{
    return (bits & DESC_GENERATION_LOW) << 32 | bits >> DESC_ADDRESS_BITS;
}

/* Of a descriptor that is DESC_OWNED, of the pool with this `key`: shorter. */
static FORCE_INLINE raddr_t desc_users_handle(const struct rdesc *d, uint64_t key)
{
    return (raddr_t)((uintptr_t)d + d->word - key); /* NOLINT(performance-no-int-to-ptr) */
}

/* The word of a descriptor that the user of the pool with this `key` owns, if it is in the life that the handle is of. */
static FORCE_INLINE uint64_t desc_users_word(const struct rdesc *d, raddr_t handle, uint64_t key)
{
    return (uintptr_t)handle - (uintptr_t)d + key;
}

/*
 * Whether `d`, which is desc_of(handle), is a descriptor that the user of the pool with this `key`
 * owns, in the life that the handle is of.
 */
static FORCE_INLINE bool desc_is_users(const struct rdesc *d, raddr_t handle, uint64_t key)
{
    return LIKELY(d != NULL && d->word == desc_users_word(d, handle, key));
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
    struct rdesc *free;                /* linked by .link */
    uint64_t key;                      /* desc_word(owner, DESC_OWNED) */
    uint64_t step;                     /* from a pooled word to that of its next life */
    struct desc_chunk *_Atomic chunks; /* the newest first */
    uint32_t made, limit; /* descriptors that exist; that may exist besides those that rest */
    uint32_t stride;      /* bytes of one: sizeof(struct rdesc) or sizeof(struct rdesc_message) */
    uint32_t resting;     /* worn descriptors */
    struct rdesc *oldest_resting, *newest_resting; /* linked by .link */
};

void desc_pool_init(struct desc_pool *pool, uint32_t limit, uint32_t stride, uint32_t owner);
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

/* Whether it is at its limit. */
static inline bool desc_pool_is_full(const struct desc_pool *pool)
{
    return pool->made - pool->resting >= pool->limit;
}

/*
 * The high part of the generation of `d`, which is in no list, is used up: begins the next low
 * part. A worn descriptor rests, and another one takes its place; the result is DESC_OWNED.
 */
struct rdesc *desc_renew(struct desc_pool *pool, struct rdesc *d) NOINLINE;
/*
 * The same for a descriptor that cannot be replaced in place: false if it is worn.
 */
bool desc_renew_in_place(const struct desc_pool *pool, struct rdesc *d);
/* A worn descriptor, which is in no list, rests. */
void desc_rest(struct desc_pool *pool, struct rdesc *d);

/* The word of the next life of a pooled descriptor. False: desc_renew() makes it. */
static FORCE_INLINE bool desc_next_word(const struct desc_pool *pool, const struct rdesc *d,
                                        uint64_t *word)
{
    *word = pool->step + d->word;
    return LIKELY(*word >= pool->step);
}

/* desc_take() of a pool that has none, or whose first one begins a new part of its generations. */
struct rdesc *desc_take_slow(struct desc_pool *pool) NOINLINE;

/* desc_take() without its slow way: NULL. */
static FORCE_INLINE struct rdesc *desc_take_fast(struct desc_pool *pool)
{
    struct rdesc *d = pool->free;
    uint64_t word;

    if (UNLIKELY(d == NULL || !desc_next_word(pool, d, &word)))
        return NULL;
    pool->free = d->link;
    d->word = word;
    return d;
}

/* Takes a descriptor, DESC_OWNED; NULL if the pool cannot grow. */
static FORCE_INLINE struct rdesc *desc_take(struct desc_pool *pool)
{
    struct rdesc *d = desc_take_fast(pool);

    return LIKELY(d != NULL) ? d : desc_take_slow(pool);
}

/* Puts a descriptor in front of a list of pooled ones: the new list. */
static FORCE_INLINE struct rdesc *desc_put_before(struct rdesc *d, struct rdesc *list)
{
    static_assert(DESC_POOLED == 0, "a mask makes the state");
    desc_word_in_memory(d);
    d->word &= ~DESC_STATE_MASK;
    d->link = list;
    return d;
}

static inline void desc_put(struct desc_pool *pool, struct rdesc *d)
{
    pool->free = desc_put_before(d, pool->free);
}

#endif
