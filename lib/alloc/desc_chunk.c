/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * desc_chunk.c: see desc_chunk.h.
 *
 * Idle chunks are in lists by the size of their descriptors and by their own size, in quarters of a
 * power of two. A pool that is made again finds the chunks that it had: so idle chunks are as many
 * as were in use at a time. One lock is over all lists; it is held across fork(2), and no pool is
 * changed on a fast path.
 */
#include "alloc/desc_chunk.h"

#include "alloc/chunk.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define CLASSES (4 * 22) /* quarters of the powers of two up to CHUNK_HUGE */

static pthread_mutex_t chunk_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t chunk_fork_once = PTHREAD_ONCE_INIT;
static struct desc_chunk *chunk_idle[2][CLASSES];

/* A huge chunk without memory. */
struct chunk_range {
    struct chunk_range *next;
    struct desc_chunk *chunk;
    uint32_t stride;
    uint64_t generation; /* desc_generation: the highest of its descriptors */
};
static struct chunk_range *chunk_ranges;

static_assert(CHUNK_HUGE == (size_t)1 << (CLASSES / 4 - 1), "the last four classes");
static_assert(sizeof(struct rdesc_message) == 2 * sizeof(struct rdesc), "two sizes");

/* ---- the lock, also in a forked child ---- */

static void chunk_acquire(void) { pthread_mutex_lock(&chunk_lock); }
static void chunk_release(void) { pthread_mutex_unlock(&chunk_lock); }

static void chunk_survive_fork(void)
{
    (void)pthread_atfork(chunk_acquire, chunk_release, chunk_release);
}

static void chunk_enter(void)
{
    pthread_once(&chunk_fork_once, chunk_survive_fork);
    chunk_acquire();
}

/* ---- lists: the lock is held ---- */

static struct desc_chunk **chunk_list(size_t bytes, uint32_t stride)
{
    unsigned power = 63 - (unsigned)__builtin_clzl(bytes), quarter = (bytes >> (power - 2)) & 3;

    return &chunk_idle[stride / sizeof(struct rdesc) - 1][4 * power + quarter];
}

/* An idle chunk of at least `bytes`, which leaves the list; NULL: there is none. */
static struct desc_chunk *chunk_find(struct desc_chunk **at, size_t bytes)
{
    struct desc_chunk *found;

    while (*at != NULL && (*at)->bytes < bytes)
        at = &(*at)->next;
    found = *at;
    if (found != NULL)
        *at = found->next;
    return found;
}

/* ---- huge chunks ---- */

static uint64_t chunk_highest_generation(const struct desc_chunk *chunk, uint32_t stride)
{
    uint64_t highest = 0;

    /* all: an earlier pool may have used more of them than the last one */
    for (uint32_t i = 0; i < (chunk->bytes - sizeof(*chunk)) / stride; i++) {
        uint64_t generation = desc_generation(desc_chunk_at(chunk, stride, i)->word);

        highest = generation > highest ? generation : highest;
    }
    return highest;
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
    *range = (struct chunk_range){
        .next = chunk_ranges, .chunk = chunk, .stride = stride, .generation = generation};
    madvise(chunk, CHUNK_HUGE, MADV_DONTNEED); /* a stale handle finds a word of zeros */
    chunk_ranges = range;
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
    struct chunk_range **at = &chunk_ranges, *range;
    struct desc_chunk *chunk;

    while (*at != NULL && (*at)->stride != stride)
        at = &(*at)->next;
    range = *at;
    if (range == NULL)
        return NULL;
    *at = range->next;
    chunk = chunk_from_range(range);
    free(range);
    return chunk;
}

/* ---- */

/* A handle has no bits for its address: above what mmap gives, or with a tag in its upper bits. */
static bool chunk_is_out_of_reach(const void *chunk, size_t bytes)
{
    return ((uintptr_t)chunk + bytes) >> DESC_ADDRESS_BITS != 0;
}

/* Chunks are never freed, so it is not recorded which of them were mapped. */
static struct desc_chunk *chunk_map(size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (map == MAP_FAILED)
        return NULL;
    if (!chunk_is_out_of_reach(map, bytes))
        return map;
    munmap(map, bytes);
    return NULL;
}

static struct desc_chunk *chunk_new(size_t bytes)
{
    struct desc_chunk *chunk = chunk_alloc(bytes);

    if (chunk != NULL && chunk_is_out_of_reach(chunk, bytes)) { /* another malloc is in force */
        chunk_free(chunk, bytes);
        chunk = chunk_map(bytes);
    }
    if (chunk == NULL)
        return NULL;
    memset(chunk, 0, bytes);
    chunk->bytes = bytes;
    return chunk;
}

struct desc_chunk *desc_chunk_alloc(size_t bytes, uint32_t stride)
{
    struct desc_chunk *chunk;

    chunk_enter();
    chunk = bytes == CHUNK_HUGE ? chunk_find_range(stride) : NULL;
    if (chunk == NULL)
        chunk = chunk_find(chunk_list(bytes, stride), bytes);
    chunk_release();
    return chunk != NULL ? chunk : chunk_new(bytes);
}

void desc_chunk_free(struct desc_chunk *chunk, uint32_t stride)
{
    struct desc_chunk **list = chunk_list(chunk->bytes, stride);

    for (uint32_t i = 0; i < chunk->count; i++) /* of no owner: no stale handle is valid */
        desc_chunk_at(chunk, stride, i)->word &= ~DESC_ADDRESS;
    chunk_enter();
    if (chunk->bytes != CHUNK_HUGE || !chunk_give_back(chunk, stride)) {
        chunk->next = *list;
        *list = chunk;
    }
    chunk_release();
}
