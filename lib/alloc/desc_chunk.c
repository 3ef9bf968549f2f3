/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * desc_chunk.c: see desc_chunk.h.
 *
 * Idle chunks are in lists by the size of their descriptors and by the power of two of their own
 * size. A list is taken as a whole, by an exchange, searched, and put back: no lock, which a forked
 * child could find held, and no ABA. Another thread sees fewer idle chunks meanwhile, and allocates
 * a new one.
 */
#include "alloc/desc_chunk.h"

#include "alloc/chunk.h"

#include <stdatomic.h>
#include <string.h>

#define CLASSES 22      /* powers of two up to CHUNK_HUGE */
#define SEARCHED_MOST 8 /* chunks of a list: those of one size follow each other */

static _Atomic(struct desc_chunk *) chunk_idle[2][CLASSES];

/* A huge chunk without memory. */
struct chunk_range {
    struct chunk_range *next;
    struct desc_chunk *chunk;
    uint32_t stride;
    uint64_t generation; /* desc_generation: the highest of its descriptors */
};
static _Atomic(struct chunk_range *) chunk_ranges;

static_assert(CHUNK_HUGE == (size_t)1 << (CLASSES - 1), "the last class");
static_assert(sizeof(struct rdesc_message) == 2 * sizeof(struct rdesc), "two sizes");

static _Atomic(struct desc_chunk *) *chunk_list(size_t bytes, uint32_t stride)
{
    return &chunk_idle[stride / sizeof(struct rdesc) - 1][63 - __builtin_clzl(bytes)];
}

/* ---- lists ---- */

/* Puts `first` to `last` back. */
static void chunk_push(_Atomic(struct desc_chunk *) *list, struct desc_chunk *first,
                       struct desc_chunk *last)
{
    last->next = atomic_load_explicit(list, memory_order_relaxed);
    /* release: pairs with the acquire of chunk_find; the words of the chunk */
    while (!atomic_compare_exchange_weak_explicit(list, &last->next, first, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

static struct desc_chunk *chunk_last(struct desc_chunk *chunk)
{
    while (chunk->next != NULL)
        chunk = chunk->next;
    return chunk;
}

/* An idle chunk of at least `bytes`, which leaves the list; NULL: there is none. */
static struct desc_chunk *chunk_find(_Atomic(struct desc_chunk *) *list, size_t bytes)
{
    struct desc_chunk *all, *found, **at = &all, *none = NULL;
    unsigned searched = 0;

    if (atomic_load_explicit(list, memory_order_relaxed) == NULL)
        return NULL;
    all = atomic_exchange_explicit(list, NULL, memory_order_acquire); /* pairs with chunk_push */
    while (*at != NULL && (*at)->bytes < bytes && searched++ < SEARCHED_MOST)
        at = &(*at)->next;
    found = *at;
    if (found != NULL && found->bytes >= bytes)
        *at = found->next;
    else
        found = NULL;
    /* release: pairs with the acquire above */
    if (all != NULL && !atomic_compare_exchange_strong_explicit(
                           list, &none, all, memory_order_release, memory_order_relaxed))
        chunk_push(list, all, chunk_last(all)); /* another thread has pushed meanwhile */
    return found;
}

/* ---- huge chunks ---- */

static uint64_t chunk_highest_generation(const struct desc_chunk *chunk, uint32_t stride)
{
    uint64_t highest = 0;

    for (uint32_t i = 0; i < chunk->count; i++) {
        uint64_t generation = desc_generation(desc_chunk_at(chunk, stride, i)->word);

        highest = generation > highest ? generation : highest;
    }
    return highest;
}

static void chunk_push_range(struct chunk_range *range)
{
    range->next = atomic_load_explicit(&chunk_ranges, memory_order_relaxed);
    /* release: pairs with the acquire of chunk_find_range */
    while (!atomic_compare_exchange_weak_explicit(&chunk_ranges, &range->next, range,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

/*
 * Gives the memory of a huge chunk back to the kernel. False: it stays, because there is none for
 * the record, or because half of the generations are used up, which the others would lose.
 */
static bool chunk_give_back(struct desc_chunk *chunk, uint32_t stride)
{
    uint64_t generation = chunk_highest_generation(chunk, stride);
    struct chunk_range *range;

    if (generation >> 32 > DESC_GENERATION_LOW / 2)
        return false;
    range = malloc(sizeof(*range));
    if (range == NULL)
        return false;
    *range = (struct chunk_range){.chunk = chunk, .stride = stride, .generation = generation};
    madvise(chunk, CHUNK_HUGE, MADV_DONTNEED); /* a stale handle finds a word of zeros */
    chunk_push_range(range);
    return true;
}

static struct desc_chunk *chunk_from_range(const struct chunk_range *range)
{
    struct desc_chunk *chunk = range->chunk;
    uint64_t word = (range->generation >> 32) | range->generation << DESC_ADDRESS_BITS;
    uint32_t count = (uint32_t)((CHUNK_HUGE - sizeof(*chunk)) / range->stride);

    chunk->bytes = CHUNK_HUGE;
    for (uint32_t i = 0; i < count; i++)
        desc_chunk_at(chunk, range->stride, i)->word = word;
    return chunk;
}

static struct desc_chunk *chunk_find_range(uint32_t stride)
{
    /* acquire: pairs with chunk_push_range */
    struct chunk_range *range = atomic_exchange_explicit(&chunk_ranges, NULL, memory_order_acquire),
                       *next;
    struct desc_chunk *chunk = NULL;

    for (; range != NULL; range = next) {
        next = range->next;
        if (chunk == NULL && range->stride == stride) {
            chunk = chunk_from_range(range);
            free(range);
        } else {
            chunk_push_range(range);
        }
    }
    return chunk;
}

/* ---- */

static struct desc_chunk *chunk_new(size_t bytes)
{
    struct desc_chunk *chunk = chunk_alloc(bytes);

    if (chunk == NULL)
        return NULL;
    if (((uintptr_t)chunk + bytes) >> DESC_ADDRESS_BITS != 0) { /* a handle has no bits for it */
        chunk_free(chunk, bytes);
        return NULL;
    }
    memset(chunk, 0, bytes);
    chunk->bytes = bytes;
    return chunk;
}

struct desc_chunk *desc_chunk_alloc(size_t bytes, uint32_t stride)
{
    struct desc_chunk *chunk = bytes == CHUNK_HUGE ? chunk_find_range(stride) : NULL;

    if (chunk == NULL)
        chunk = chunk_find(chunk_list(bytes, stride), bytes);
    return chunk != NULL ? chunk : chunk_new(bytes);
}

void desc_chunk_free(struct desc_chunk *chunk, uint32_t stride)
{
    uint32_t i;

    if (chunk->bytes == CHUNK_HUGE && chunk_give_back(chunk, stride))
        return;
    for (i = 0; i < chunk->count; i++) /* of no owner: no stale handle is valid */
        desc_chunk_at(chunk, stride, i)->word &= ~DESC_ADDRESS;
    chunk_push(chunk_list(chunk->bytes, stride), chunk, chunk);
}
