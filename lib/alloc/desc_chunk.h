/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * desc_chunk.h: chunks of descriptors, which go from pool to pool and stay mapped.
 *
 * The words of the descriptors keep their generations in an idle chunk, so that the next pool goes
 * on where the last one ended. Huge chunks give their memory back to the kernel while they are
 * idle, and keep their address range and the highest generation. Functions may be called by any
 * thread, and in a forked child.
 */
#ifndef ALLOC_DESC_CHUNK_H
#define ALLOC_DESC_CHUNK_H

#include "alloc/desc.h"

struct desc_chunk {
    struct desc_chunk *next;
    size_t bytes;
    uint32_t count; /* descriptors in use by the pool */
    char desc[] __attribute__((aligned(CACHE_LINE)));
};

static inline struct rdesc *desc_chunk_at(const struct desc_chunk *chunk, uint32_t stride,
                                          uint32_t i)
{
    return (struct rdesc *)(void *)((uintptr_t)chunk->desc + (size_t)i * stride);
}

/*
 * A chunk of at least `bytes`, idle or new; its words have generations alone that count, those of a
 * new one are 0. NULL: no memory.
 */
struct desc_chunk *desc_chunk_alloc(size_t bytes, uint32_t stride);
void desc_chunk_free(struct desc_chunk *chunk, uint32_t stride);

#endif
