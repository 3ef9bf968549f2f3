/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rvmem.h: the allocator alone, without a pipe and without a job.
 *
 * It keeps nothing inside the memory that it manages, so this may be memory that the process cannot access, such as
 * that of a device. An allocator belongs to one thread at a time. The heap of a pipe can be examined by the same functions.
 */
#ifndef RVMEM_H
#define RVMEM_H

#include <rmalloc.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored                                                                     \
    "-Wshadow" /* C++: a function has the name of the structure that it stores */
#pragma GCC visibility push(                                                                       \
    default) /* the declarations of this header are exported, all others are hidden */

typedef struct rvmem *rvmem_t; /* an allocator of one range */

typedef struct rvmem_config {
    void *
        buffer; /* the range, aligned to units; stays the caller's; NULL: a range that is not mapped here */
    uint64_t bytes;          /* bytes of the range, to 2^31 units; default 1 MiB */
    rmalloc_fit_t heuristic; /* which free block a request gets; default next-fit */
    uint32_t unit_bytes;     /* granularity, a power of two, to 1 MiB; default 64 */
    uint32_t max_blocks;     /* blocks allocated at a time; default 1,000,000 */
    uint32_t zero;           /* 0 */
    uint64_t seed;           /* start of the generator of random-fit; any number */
} rvmem_config_t;

typedef struct rvmem_stats {
    uint64_t bytes;      /* bytes of the range */
    uint64_t bytes_used; /* bytes allocated, in whole units */
    uint64_t bytes_free; /* bytes - bytes_used - bytes_stuck */
    uint64_t
        bytes_stuck; /* next-fit: bytes freed or skipped, and not usable yet, behind an older block */
    uint64_t largest;     /* bytes of the largest request that would succeed now */
    uint64_t peak;        /* largest value of bytes_used so far */
    uint64_t allocs;      /* successful calls of rvmem_alloc */
    uint64_t frees;       /* successful calls of rvmem_free */
    uint64_t failures;    /* requests that did not fit at that moment */
    uint64_t blocks_used; /* blocks allocated now */
    uint64_t blocks_free; /* blocks that the free and the stuck memory consists of */
    uint64_t segments;    /* 1, and one for each rvmem_grow */
    uint64_t metadata;    /* bytes of descriptors and index */
} rvmem_stats_t;

typedef enum {
    RVMEM_FREE = 0, /* free */
    RVMEM_USED = 1, /* allocated */
    RVMEM_STUCK = 2 /* next-fit: freed or skipped, and not usable yet */
} rvmem_state_t;

/* A block as rvmem_walk shows it. The library owns it; it may grow at its end. */
typedef struct rvmem_block {
    uint64_t offset;     /* bytes from the beginning of the range */
    uint64_t bytes;      /* length of the block: whole units, except for a short one at the end */
    uint64_t size;       /* RVMEM_USED: bytes requested */
    raddr_t d;           /* RVMEM_USED: the descriptor; else ADDR_NULL */
    rvmem_state_t state; /* free, used or stuck */
    uint32_t segment;    /* the segment that it is in, from 0 */
} rvmem_block_t;

/* Creates an allocator. The buffer must stay until rvmem_destroy. cfg is copied. */
int rvmem_create(rvmem_t *vmem, const rvmem_config_t *cfg, size_t size);

/* The heap of a pipe, at its writer, to be examined: walk, stats, dump, check, size, offset. It stays the pipe's, until rclose; R_PENDING: not joined. */
int rvmem_of_pipe(rvmem_t *vmem, rch_t ch);

/* Destroys the allocator; all descriptors are invalid afterwards. */
int rvmem_destroy(rvmem_t vmem);

/* Allocates bytes. ADDR_NULL, and errno ENOMEM: no free block is large enough now; EMSGSIZE: none can ever be. */
raddr_t rvmem_alloc(rvmem_t vmem, size_t bytes);

/* Frees a block. */
int rvmem_free(rvmem_t vmem, raddr_t d);

/* Address of a block; NULL: the range is not mapped here, or d is wrong; errno has the code. */
void *rvmem_mem(rvmem_t vmem, raddr_t d);

/* Bytes requested. 0: an empty block, or d is wrong: errno is set. */
size_t rvmem_size(rvmem_t vmem, raddr_t d);

/* Bytes from the beginning of the range to the block; UINT64_MAX: d is wrong. */
uint64_t rvmem_offset(rvmem_t vmem, raddr_t d);

/* Adds a segment behind the last; no block spans two. buffer is NULL exactly where that of the allocator is. */
int rvmem_grow(rvmem_t vmem, void *buffer, uint64_t bytes);

/* Visits every block in the order of addresses; a visitor that returns other than 0 ends it with that value. */
int rvmem_walk(rvmem_t vmem, int (*visit)(const rvmem_block_t *block, void *argument),
               void *argument);

/* Stores the statistics. */
int rvmem_stats(rvmem_t vmem, rvmem_stats_t *stats, size_t size);

/* Prints statistics, a map and every block, for people. */
int rvmem_dump(rvmem_t vmem, FILE *to);

/* Verifies every invariant; -EUCLEAN and an error message if one is broken. */
int rvmem_check(rvmem_t vmem);

#pragma GCC visibility pop
#pragma GCC diagnostic pop

/* A macro adds the size that a structure has in this header; see "Sizes" in rmalloc.h. */
#define rvmem_create(...) rvmem_create(__VA_ARGS__, sizeof(rvmem_config_t))
#define rvmem_stats(...) rvmem_stats(__VA_ARGS__, sizeof(rvmem_stats_t))

#ifdef __cplusplus
}
#endif
#endif
