/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * map.h: mappings that begin at a multiple of more than a page.
 *
 * The segments of a heap consist of whole units of allocation, of up to 1 MiB, and each is aligned
 * to its unit. For that a mapping begins at a multiple of the largest power of two that is not
 * above its length, up to a huge page: a segment whose length is a multiple of its unit, at a
 * multiple of its length from the beginning, is aligned to that unit.
 */
#ifndef UTIL_MAP_H
#define UTIL_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAP_ALIGNMENT_MOST ((size_t)2 << 20)

static inline size_t map_round_up(size_t bytes, size_t to) { return (bytes + to - 1) & ~(to - 1); }

/* Private memory of whole pages; MAP_FAILED and errno. Maps more, and unmaps what is before and
 * behind it. */
static inline void *map_aligned(size_t bytes, int protection, int flags)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), alignment = MAP_ALIGNMENT_MOST, whole, mapped,
           head;
    char *at;

    while (alignment > bytes)
        alignment /= 2;
    if (alignment < page)
        alignment = page;
    whole = map_round_up(bytes, page);
    mapped = whole + alignment - page;
    at = mmap(NULL, mapped, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (at == MAP_FAILED)
        return MAP_FAILED;
    head = (alignment - (uintptr_t)at % alignment) % alignment;
    if (head > 0)
        munmap(at, head);
    if (head + whole < mapped)
        munmap(at + head + whole, mapped - head - whole);
    return at + head;
}

#endif
