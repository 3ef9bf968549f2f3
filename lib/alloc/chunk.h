/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chunk.h: the pieces of memory that pools of descriptors and of nodes are made of.
 *
 * They begin small, since most heaps are, and grow with the pool by a quarter of it, which is all that can be left unused. The
 * largest, CHUNK_HUGE, are asked of the system as huge pages: with a million blocks it is the translation of addresses
 * that takes the time, more than the misses of the cache. Where there are no huge pages they are memory like any other.
 */
#ifndef ALLOC_CHUNK_H
#define ALLOC_CHUNK_H

#include "util/cpu.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define CHUNK_HUGE ((size_t)2 << 20)

/* How long the next one of a pool is that has `made` bytes: whole cache lines, at least `least`. */
static inline size_t chunk_bytes(size_t made, size_t least)
{
    size_t bytes = made / 4 < CHUNK_HUGE ? made / 4 : CHUNK_HUGE;

    bytes = bytes < least ? least : bytes;
    return (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
}

/* Maps twice as much, and gives back what lies before and behind the aligned half of it. */
static inline void *chunk_map_huge(void)
{
    char *map = mmap(NULL, 2 * CHUNK_HUGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t before;

    if (map == MAP_FAILED)
        return NULL;
    before = -(uintptr_t)map & (CHUNK_HUGE - 1);
    if (before != 0)
        munmap(map, before);
    munmap(map + before + CHUNK_HUGE, CHUNK_HUGE - before);
    madvise(map + before, CHUNK_HUGE, MADV_HUGEPAGE);
    return map + before;
}

/* NULL: there is no memory. Aligned to a cache line. */
static inline void *chunk_alloc(size_t bytes)
{
    return bytes == CHUNK_HUGE ? chunk_map_huge() : aligned_alloc(CACHE_LINE, bytes);
}

static inline void chunk_free(void *chunk, size_t bytes)
{
    if (bytes == CHUNK_HUGE)
        munmap(chunk, bytes);
    else
        free(chunk);
}

#endif
