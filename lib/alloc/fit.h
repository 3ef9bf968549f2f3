/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fit.h: the structure of a heap, and the interface that a heuristic implements. For lib/alloc
 * only; others include heap.h.
 *
 * A heuristic ("fit") decides where a block is placed and keeps the order of its blocks; heap.c
 * keeps what is common: segments, units, descriptors, counters. heap.c alone names the heuristics.
 * Next-fit, the default, and segregated-fit are called directly (next_fit.h, segregated_fit.h), the
 * others, which share tree_fit.c, through their table.
 *
 *   range      all memory that a heap manages: one or more segments, whose offsets are consecutive
 *   segment    a contiguous part of the range: whole units; the last one may be short
 *   block      consecutive units with one descriptor: allocated, free, or waiting (freed, not
 *              usable yet)
 *   ragged     a heap in which some segment has a short last unit
 */
#ifndef ALLOC_FIT_H
#define ALLOC_FIT_H

#include "alloc/desc.h"
#include "alloc/index_pool.h"
#include "alloc/lowest.h"
#include "alloc/size_class.h"
#include "util/error.h"

#include <rvmem.h>

struct heap;
struct index;
struct segment;
struct segregated;

typedef int (*heap_visit)(const rvmem_block_t *block, void *arg);

struct fit_ops {
    const char *name;
    void (*open)(struct heap *h, uint64_t seed); /* allocates no memory */
    void (*close)(struct heap *h);
    /*
     * Adds an empty segment, before it is linked behind the last. 0, or -ENOMEM and nothing has
     * changed.
     */
    int (*grow)(struct heap *h, struct segment *s);
    /* As heap_alloc(). Sets all members of the descriptor; counts allocs, or failures and error. */
    struct rdesc *(*alloc)(struct heap *h, size_t size);
    /* As heap_free(). Counts frees. */
    void (*free)(struct heap *h, struct rdesc *d);
    /*
     * Reduces an allocated block to `units`, which are fewer than it has, or leaves it as it is;
     * never fails.
     */
    void (*shrink)(struct heap *h, struct rdesc *d, uint32_t units);
    /* Bytes allocated, in whole units. */
    uint64_t (*used)(const struct heap *h);
    /* Bytes of the largest request that would succeed, regardless of descriptors. */
    uint64_t (*largest)(const struct heap *h);
    /* As heap_unsent_room(), for one segment. */
    uint64_t (*unsent_room)(const struct heap *h, const struct segment *s);
    /* As heap_walk(), for one segment. */
    int (*walk)(const struct heap *h, const struct segment *s, heap_visit visit, void *arg);
    /* Sets bytes_stuck and blocks_free, adds the memory of the heuristic to metadata. */
    void (*stats)(const struct heap *h, rvmem_stats_t *stats);
    /*
     * As heap_check(). Stores how many descriptors of the pool are in blocks, and how many blocks
     * are allocated.
     */
    int (*check)(const struct heap *h, struct error *err, uint32_t *descriptors,
                 uint32_t *handed_out);
};

/* State of next-fit in a segment: see next_fit.c. */
struct arena {
    uint64_t head;      /* offset at which the next block begins */
    uint64_t limit;     /* first offset behind it in use: the oldest block, or the end */
    struct rdesc *last; /* the newest block, or the segment's edge */
};

struct segment {
    struct segment *next; /* the following segment, or NULL */
    uint64_t begin; /* offset of the first byte: the next whole unit behind the previous segment */
    uint64_t end;   /* offset behind the last byte; not at a whole unit if the last unit is short */
    uintptr_t zero; /* address of offset 0 if the whole range were mapped as this segment is */
    uint32_t number;
    struct rdesc
        edge; /* before the first block and behind the last, in the order of the fit; never free */
    struct arena arena; /* next-fit: valid while the heap allocates from another segment */
    struct rdesc gap;   /* next-fit: the only gap that a segment can have */
};

/* The free blocks of first-, best-, worst- and random-fit: see free_set.h. */
struct free_set {
    struct rdesc
        *loose; /* the block that changed last, in no index; else the edge of the first segment */
    struct rdesc *unindexed; /* blocks without memory for an entry in an index, linked by .link */
    struct index *index;     /* the indices, by size class */
    uint32_t indices;      /* number of indices: all classes up to the largest segment's, or one */
    uint32_t indexed;      /* blocks that are DESC_FREE */
    struct class_set some; /* the classes whose index or list is not empty */
    struct index_pool nodes;
    struct lowest *list;      /* best-fit: the lists, by listed class */
    struct lowest_pool lists; /* their nodes */
    uint64_t random;          /* state of the generator */
};

struct heap {
    /* Members that every alloc and free uses come first. */
    struct arena now;   /* next-fit: arena of the segment `at` */
    struct segment *at; /* next-fit: the segment that it allocated from last */
    uint64_t mark;      /* next-fit: now.head at which the peak is exceeded: see next_fit.c */
    uint64_t used;      /* other fits: bytes allocated, in whole units */
    uint64_t allocs, frees;
    struct segregated *segregated; /* segregated-fit: its lists */
    /* rvmem_alloc() and rvmem_free(), by the heuristic: vmem.c. */
    raddr_t (*vmem_alloc)(struct heap *h, size_t bytes);
    int (*vmem_free)(struct heap *h, raddr_t d);
    struct desc_pool pool;
    uint64_t round_up; /* bytes of a unit - 1: added to round up, */
    uint64_t whole;    /* and its complement, to mask with */
    uint32_t owner;    /* owner of allocated blocks */
    uint32_t shift;    /* log2 of the bytes of a unit */
    uint32_t most;     /* other fits: most blocks allocated at a time */
    uint64_t largest;  /* bytes of the largest segment */
    uintptr_t mapped;  /* all ones, or 0 if the range is not mapped here */
    uintptr_t zero;    /* next-fit: of the segment `at` */
    struct free_set free;
    rmalloc_fit_t algorithm;
    bool ragged;  /* some segment has a short last unit */
    bool checked; /* rvmem: every invariant is verified after each operation */
    int error;    /* of the last allocation that failed */
    uint64_t failures;
    uint64_t bytes; /* of all segments */
    uint64_t peak;  /* largest number of bytes allocated so far, in whole units */
    const struct fit_ops *ops;
    uint32_t segments;
    uint32_t waiting;       /* next-fit: waiting blocks, gaps included */
    struct segment *newest; /* the last segment */
    struct segment first;
};

/* The segment that contains an offset. */
static inline const struct segment *segment_of(const struct heap *h, uint64_t offset)
{
    const struct segment *s = &h->first;

    while (offset >= s->end && s->next != NULL)
        s = s->next;
    return s;
}

/* Bytes of a block: whole units, except for one that ends at the short end of its segment. */
static inline uint64_t block_bytes(const struct heap *h, const struct rdesc *d)
{
    uint64_t units = (uint64_t)d->units << h->shift, rest;

    if (LIKELY(!h->ragged))
        return units;
    rest = segment_of(h, d->offset)->end - d->offset;
    return units < rest ? units : rest;
}

/* Whether the last unit of a block is short. */
static inline bool block_is_short(const struct heap *h, const struct rdesc *d)
{
    return UNLIKELY(h->ragged) && block_bytes(h, d) != (uint64_t)d->units << h->shift;
}

/* Address of an offset in the segment with this `zero`, or NULL if the range is not mapped here. */
static inline void *address_of(const struct heap *h, uintptr_t zero, uint64_t offset)
{
    return (void *)((zero + (uintptr_t)offset) & h->mapped);
}

/* Records why an allocation fails. */
static inline struct rdesc *heap_refuse(struct heap *h, int error)
{
    h->failures++;
    h->error = error;
    return NULL;
}

/*
 * Verifies what must hold for a block of any heuristic in any state: 0, or -EUCLEAN and an error
 * message.
 */
int fit_check_block(const struct heap *h, const struct segment *s, const struct rdesc *d,
                    struct error *err);

#endif
