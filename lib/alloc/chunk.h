/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chunk.h: chunks of memory for pools of descriptors and of nodes.
 *
 * The first chunks are small, since most heaps are; each further one is a quarter of its pool,
 * which bounds what is unused. The largest, CHUNK_HUGE, are requested as huge pages: with a million
 * blocks address translation costs more than cache misses. Without huge pages they are ordinary
 * memory.
 */
#ifndef ALLOC_CHUNK_H
#define ALLOC_CHUNK_H

#include "util/cpu.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define CHUNK_HUGE ((size_t)2 << 20)

/* Bytes of the next chunk of a pool that has `made` bytes: whole cache lines, at least `least`. */
static inline size_t chunk_bytes(size_t made, size_t least)
{
    size_t bytes = made / 4 < CHUNK_HUGE ? made / 4 : CHUNK_HUGE;

    bytes = bytes < least ? least : bytes;
    return (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
}

/* Maps twice as much and unmaps what is outside the aligned half. */
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

/* Memory aligned to a cache line; NULL: there is none. */
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
