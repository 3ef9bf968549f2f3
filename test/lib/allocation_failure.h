/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allocation_failure.h: memory that can be counted and cut off: aligned_alloc, by which heaps, indices and pools of descriptors get all of theirs.
 *
 * For one file of a program: it takes the place of the C library's. Chunks of descriptors, which the library keeps for the next
 * pool, are freed here, so that the next pool needs memory, unless CHUNKS_OF_THE_LIBRARY is defined.
 */
#ifndef TEST_LIB_ALLOCATION_FAILURE_H
#define TEST_LIB_ALLOCATION_FAILURE_H

#include "alloc/chunk.h"
#include "alloc/desc_chunk.h"
#include "util/cpu.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static unsigned granted, denied_after = UINT32_MAX;
static bool (*denies)(void); /* decides for each allocation; may be NULL */

void *aligned_alloc(size_t alignment, size_t size)
{
    void *p;

    if (granted >= denied_after || (denies != NULL && denies()) ||
        posix_memalign(&p, alignment, size) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    granted++;
    return p;
}

#ifndef CHUNKS_OF_THE_LIBRARY
struct desc_chunk *desc_chunk_alloc(size_t bytes, uint32_t stride)
{
    struct desc_chunk *chunk = chunk_alloc(bytes);

    (void)stride;
    if (chunk == NULL)
        return NULL;
    memset(chunk, 0, bytes);
    chunk->bytes = bytes;
    return chunk;
}

void desc_chunk_free(struct desc_chunk *chunk, uint32_t stride)
{
    (void)stride;
    chunk_free(chunk, chunk->bytes);
}
#endif

/* Valgrind puts its own in the place of this one. */
static inline void skip_unless_memory_can_be_cut_off(void)
{
    void *(*volatile call)(size_t, size_t) = aligned_alloc;
    unsigned before = granted;

    free(call(CACHE_LINE, CACHE_LINE));
    if (granted == before)
        skip();
}

#endif
