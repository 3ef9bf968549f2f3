/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc.h: memory of a pipe, configuration of a pipe, and the allocator by itself.
 *
 * A process owns a message from rmalloc() until rwrite(), and from rread() until rfree(). Exported symbols carry the
 * prefix rmalloc_ or rpipe_; the short names of the literature (rmalloc, rmem, rfree, rdmalloc ...) are inline functions
 * at the end of this header, left out where RPIPE_NO_SHORT_NAMES is defined (librdmacm has an rread and an rwrite too).
 *
 * Every function has a page in section 3 of the manual; rmalloc(7) is the overview.
 */
#ifndef RMALLOC_H
#define RMALLOC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default) /* what is declared here is exported; all else is hidden */

/* ---- results: 0, or a negative errno value, or one of these ---- */

#define R_SUCCESS 0
#define R_PENDING (-EAGAIN) /* not yet: ask again */
#define R_EOF (-4096)       /* the writer has closed, and every message has been read */

typedef struct rch *rch_t;     /* one end of a channel */
typedef struct rdesc *raddr_t; /* one allocation: a piece of memory that somebody owns */
#define ADDR_NULL ((raddr_t)0)

/* ---- configuration of a channel: both ends give the same, but for peer, rdma_active and what says "here" ---- */

typedef enum { RDMA_PUT = 0, RDMA_GET = 1, RDMA_ATOMIC = 2 } rdma_op_t;

typedef enum {
    NEXT_FIT = 0,
    FIRST_FIT = 1,
    BEST_FIT = 2,
    WORST_FIT = 3,
    RANDOM_FIT = 4
} rmalloc_algorithm_t;

typedef enum { NET_SYNC_BLOCKS = 0, NET_SYNC_TAGS = 1, CHANNEL_SYNC = 2 } rmalloc_sync_t;

typedef enum {
    RATOMIC_ADD = 0,
    RATOMIC_CAS,
    RATOMIC_SWAP,
    RATOMIC_AND,
    RATOMIC_OR,
    RATOMIC_XOR
} ratomic_op_t;

typedef struct rmalloc_allocator_config {
    rdma_op_t op;     /* who moves the payload: PUT the writer, GET the reader */
    int peer;         /* rank of the other end; may be one's own */
    bool rdma_active; /* this end moves it: the writer of a PUT pipe, the reader of a GET pipe */
    rmalloc_algorithm_t
        algorithm; /* which free block a request gets; other than NEXT_FIT: with tags or channel */
    uint32_t unit_size;       /* bytes per unit of allocation, a power of two, at most 1 MiB */
    uint64_t alloc_size;      /* bytes of the heap, at least 1, at most 2^31 units */
    ratomic_op_t atomic_type; /* for RDMA_ATOMIC */
    uint64_t seed;            /* for RANDOM_FIT */
    uint64_t
        max_alloc_size; /* bytes that the heap may grow to when it stays full; 0: it does not grow */
    rch_t
        cells_of; /* RDMA_ATOMIC, passive end: the same cells as this open passive end; NULL: its own */
    uint64_t reserved[2];
} rmalloc_allocator_config_t;

typedef struct rmalloc_thresholds {
    uint32_t inline_max; /* largest message that rides in its slot, bytes, 0..40; ~0: 40. Here */
    uint32_t
        fetch_ahead; /* GET where memory is not shared: messages fetched ahead of rread; 0: default. Here */
    uint32_t
        grow_after_us; /* writer: a heap that may grow does so when it has been full for so long; 0: 1000. Here */
    uint32_t zero;
    uint64_t reserved[3];
} rmalloc_thresholds_t;

typedef struct rmalloc_config {
    uint32_t version; /* RMALLOC_CONFIG_VERSION, from RMALLOC_CONFIG_DEFAULT */
    uint32_t ctx;     /* which of the pipes from this writer to this reader, from 0 */
    rmalloc_allocator_config_t allocator; /* see above */
    rmalloc_sync_t sync; /* how freed memory comes back; NET_SYNC_BLOCKS: with NEXT_FIT only */
    int timeout_ms;      /* deadline of calls; -1 none, RPIPE_TIMEOUT_AUTO the setting. Here */
    double watermark;    /* share of ring or heap in use at which credits are fetched, 0..1. Here */
    uint32_t slots;      /* of the ring, a power of two, 2..65536; 0: the setting RPIPE_SLOTS */
    uint32_t max_descriptors; /* messages that this end may hold; 0: 1,000,000. Here */
    uint32_t max_cqe;         /* entries of a completion queue, for backends that have one. Here */
    bool thread_sync;         /* several threads use this end: each call takes a lock. Here */
    bool huge_pages;          /* for the heap, where this machine has any to give. Here */
    const char *btl;          /* "shm"; NULL: the best that reaches the peer */
    rmalloc_thresholds_t thresholds;
    uint32_t
        sync_queue; /* tags and channel: heap messages that may be written and not known to be freed; 0: default */
    uint32_t zero;
    uint64_t reserved[7];
} rmalloc_config_t;

#define RMALLOC_CONFIG_VERSION 1u
#define RPIPE_TIMEOUT_AUTO (-2)

/* clang-format off */
#define RMALLOC_CONFIG_DEFAULT                                                                                         \
    {   RMALLOC_CONFIG_VERSION, 0,                                                                                     \
        { RDMA_PUT, -1, false, NEXT_FIT, 64, 0, RATOMIC_XOR, 0, 0, NULL, { 0, 0 } },                                      \
        NET_SYNC_BLOCKS, RPIPE_TIMEOUT_AUTO, -1.0, 0, 0, 0, false, false, NULL,                                        \
        { UINT32_MAX, 0, 0, 0, { 0, 0, 0 } },                                                                          \
        0, 0, { 0, 0, 0, 0, 0, 0, 0 } }
/* clang-format on */

/* ---- memory of a channel ---- */

raddr_t rmalloc_alloc(rch_t ch, size_t size);         /* waits for memory, up to the deadline */
int rmalloc_nb(rch_t ch, size_t size, raddr_t *d);    /* R_PENDING: none at the moment */
void *rmalloc_mem(rch_t ch, size_t size, raddr_t *d); /* both at once */
void *rmalloc_ptr(rch_t ch, raddr_t d);               /* where to write, or where to read */
size_t rmalloc_size(rch_t ch, raddr_t d);             /* bytes that were asked for, or received */
int rmalloc_free(rch_t ch, raddr_t d);                /* gives back what was read, or never sent */

/* ---- the allocator by itself: no channel, no network; one thread at a time ---- */

typedef struct rdma_vmem rdma_vmem_t;

typedef struct rdma_vmem_stats {
    uint64_t bytes;      /* of the range */
    uint64_t bytes_used; /* handed out, in whole units */
    uint64_t bytes_free; /* bytes - bytes_used - bytes_stuck */
    uint64_t
        bytes_stuck; /* given back, or skipped, but not yet usable: behind an older block (next-fit) */
    uint64_t largest; /* largest request that would succeed now */
    uint64_t peak;    /* largest bytes_used so far */
    uint64_t allocs;  /* that succeeded */
    uint64_t frees;
    uint64_t failures;    /* that did not fit at that moment */
    uint64_t blocks_used; /* handed out now */
    uint64_t blocks_free; /* pieces that the free and the stuck memory is in */
    uint64_t segments;    /* 1, and one for each rdma_vmem_grow() */
    uint64_t metadata;    /* bytes of descriptors and index: what the allocator itself uses */
    uint64_t reserved[3];
} rdma_vmem_stats_t;

typedef enum {
    RDMA_BLOCK_FREE = 0,
    RDMA_BLOCK_USED = 1, /* handed out */
    RDMA_BLOCK_STUCK = 2 /* next-fit: given back or skipped, and not yet usable */
} rdma_block_state_t;

typedef struct rdma_vmem_block {
    uint64_t offset; /* bytes from the beginning of the range */
    uint64_t bytes;  /* length of the block: whole units, but for a short one at the end */
    uint64_t size;   /* RDMA_BLOCK_USED: bytes that were asked for */
    raddr_t d;       /* RDMA_BLOCK_USED, else ADDR_NULL */
    rdma_block_state_t state;
    uint32_t segment; /* from 0: which of the segments it lies in */
    uint64_t reserved[2];
} rdma_vmem_block_t;

/* buffer: the range, unit-aligned; or NULL, for a range that is not mapped here (a shadow). It stays the caller's. */
rdma_vmem_t *rmalloc_vmem_create(void *buffer, const rmalloc_config_t *cfg);
int rmalloc_vmem_destroy(rdma_vmem_t *vmem);
raddr_t rmalloc_vmem_alloc(rdma_vmem_t *vmem, size_t size);
int rmalloc_vmem_free(rdma_vmem_t *vmem, raddr_t d);
void *rmalloc_vmem_ptr(rdma_vmem_t *vmem, raddr_t d);
int rmalloc_vmem_set(rdma_vmem_t *vmem, raddr_t d,
                     const void *from);                 /* copies as many bytes as were asked for */
size_t rmalloc_vmem_size(rdma_vmem_t *vmem, raddr_t d); /* bytes that were asked for */
uint64_t rmalloc_vmem_offset(rdma_vmem_t *vmem,
                             raddr_t d); /* bytes from the beginning of the range */
/* One more segment behind the last; no block will lie in two. buffer: as in create; NULL exactly where that was. */
int rmalloc_vmem_grow(rdma_vmem_t *vmem, void *buffer, uint64_t bytes);
/* Every block, by address. A visitor that returns other than 0 ends it; its value is returned. */
int rmalloc_vmem_walk(rdma_vmem_t *vmem, int (*visit)(const rdma_vmem_block_t *block, void *arg),
                      void *arg);
int rmalloc_vmem_dump(rdma_vmem_t *vmem, FILE *to); /* statistics, a map, every block: for people */
int rmalloc_vmem_stats(rdma_vmem_t *vmem, rdma_vmem_stats_t *stats);
int rmalloc_vmem_check(
    rdma_vmem_t *vmem); /* every invariant; -EUCLEAN and a logged sentence where one is broken */

/* ---- about the library ---- */

const char *rmalloc_strerror(int code);                     /* names every result; never NULL */

#pragma GCC visibility pop

#ifndef RPIPE_NO_SHORT_NAMES
static inline raddr_t rmalloc(rch_t ch, size_t size) { return rmalloc_alloc(ch, size); }
static inline void *rmem(rch_t ch, raddr_t d) { return rmalloc_ptr(ch, d); }
static inline size_t rsize(rch_t ch, raddr_t d) { return rmalloc_size(ch, d); }
static inline int rfree(rch_t ch, raddr_t d) { return rmalloc_free(ch, d); }
static inline const char *rstrerror(int code) { return rmalloc_strerror(code); }
static inline rdma_vmem_t *rdma_vmem_create(void *buffer, const rmalloc_config_t *cfg)
{
    return rmalloc_vmem_create(buffer, cfg);
}
static inline int rdma_vmem_destroy(rdma_vmem_t *vmem) { return rmalloc_vmem_destroy(vmem); }
static inline raddr_t rdmalloc(rdma_vmem_t *vmem, size_t size)
{
    return rmalloc_vmem_alloc(vmem, size);
}
static inline int rdmafree(rdma_vmem_t *vmem, raddr_t d) { return rmalloc_vmem_free(vmem, d); }
static inline void *getmem(rdma_vmem_t *vmem, raddr_t d) { return rmalloc_vmem_ptr(vmem, d); }
static inline int setmem(rdma_vmem_t *vmem, raddr_t d, const void *from)
{
    return rmalloc_vmem_set(vmem, d, from);
}
static inline size_t rdma_vmem_size(rdma_vmem_t *vmem, raddr_t d)
{
    return rmalloc_vmem_size(vmem, d);
}
static inline int rdma_vmem_grow(rdma_vmem_t *vmem, void *buffer, uint64_t bytes)
{
    return rmalloc_vmem_grow(vmem, buffer, bytes);
}
static inline int rdma_vmem_walk(rdma_vmem_t *vmem,
                                 int (*visit)(const rdma_vmem_block_t *block, void *arg), void *arg)
{
    return rmalloc_vmem_walk(vmem, visit, arg);
}
static inline int rdma_vmem_dump(rdma_vmem_t *vmem, FILE *to)
{
    return rmalloc_vmem_dump(vmem, to);
}
static inline uint64_t rdma_vmem_offset(rdma_vmem_t *vmem, raddr_t d)
{
    return rmalloc_vmem_offset(vmem, d);
}
static inline int rdma_vmem_stats(rdma_vmem_t *vmem, rdma_vmem_stats_t *st)
{
    return rmalloc_vmem_stats(vmem, st);
}
static inline int rdma_vmem_check(rdma_vmem_t *vmem) { return rmalloc_vmem_check(vmem); }
#endif

#ifdef __cplusplus
}
#endif
#endif
