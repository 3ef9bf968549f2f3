/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fit.h: a heap from inside, and what a heuristic implements. For heap.c, vmem.c and the fits; others include heap.h.
 *
 * A fit decides where a block lies and keeps the order of its blocks; heap.c keeps what is the same for all: segments,
 * units, descriptors, counters. Next-fit, the default, is called directly (next_fit.h), the others, which are all in
 * tree_fit.c, through their table.
 *
 *   range      all that a heap manages: one or more segments, whose offsets follow each other
 *   segment    a contiguous piece of it, whole units but for its last one, which may be short
 *   block      units that belong together: handed out, free, or waiting; each has a descriptor
 *   ragged     of a heap: some segment has a short last unit
 */
#ifndef ALLOC_FIT_H
#define ALLOC_FIT_H

#include "alloc/heap.h"
#include "alloc/index.h"
#include "alloc/size_class.h"
#include "util/error.h"

typedef int (*heap_visit)(const rdma_vmem_block_t *block, void *arg);

struct segment;

struct fit_ops {
    const char *name;
    void (*open)(struct heap *h, const struct heap_config *cfg); /* asks for no memory yet */
    void (*close)(struct heap *h);
    /* Takes in an empty segment, before it is linked behind the last. 0, or -ENOMEM and nothing is changed. */
    int (*grow)(struct heap *h, struct segment *s);
    /* As heap_alloc(). Sets the descriptor whole, counts allocs, or failures and error. */
    struct rdesc *(*alloc)(struct heap *h, size_t size);
    /* As heap_free(). Counts frees. */
    void (*free)(struct heap *h, struct rdesc *d);
    uint64_t (*used)(const struct heap *h); /* bytes handed out, in whole units */
    uint64_t (*largest)(
        const struct heap *h); /* request that would succeed, but for a lack of descriptors */
    /* As heap_unsent_room(), for one segment. */
    uint64_t (*unsent_room)(const struct heap *h, const struct segment *s);
    int (*walk)(const struct heap *h, const struct segment *s, heap_visit visit, void *arg);
    /* bytes_stuck, blocks_free, and to metadata what the fit itself uses. */
    void (*stats)(const struct heap *h, rdma_vmem_stats_t *stats);
    /* As heap_check(); tells how many descriptors of the pool are in blocks, and how many blocks are handed out. */
    int (*check)(const struct heap *h, struct error *err, uint32_t *descriptors,
                 uint32_t *handed_out);
};

/* Where next-fit is in a segment: see next_fit.c. */
struct arena {
    uint64_t head; /* where the next block begins, */
    uint64_t
        limit; /* and which byte it may not reach: the end of the segment, or the oldest block */
    struct rdesc *last; /* the newest block, or the segment's edge */
};

struct segment {
    struct segment *next; /* the one behind it, or NULL */
    uint64_t begin,
        end; /* offsets; where the last unit is short, the next segment begins a little further off */
    uintptr_t zero; /* where offset 0 would lie, if all were mapped as this one is */
    uint32_t number;
    struct rdesc
        edge; /* before its first block and behind its last, in the order of the fit; never free */
    struct arena arena; /* next-fit, while it is in another segment; */
    struct rdesc gap;   /* the one gap that there can be */
};

/* The free blocks of first-, best-, worst- and random-fit: see tree_fit.c. */
struct free_set {
    struct rdesc *
        loose; /* the one that changed last is in no index; the edge of the first segment: there is none */
    struct rdesc *homeless; /* linked by .link: those that there was no memory for in an index */
    struct index *index;    /* by class; the rest is about these */
    uint32_t indices; /* how many: as many as there are classes for the largest segment, or one */
    uint32_t indexed; /* blocks in all of them */
    struct class_set some; /* those that are not empty */
    struct index_pool nodes;
    uint64_t random; /* state of the generator */
};

/* How a public function goes about it: with a check after each operation, or straight to the short paths of a fit. */
enum heap_way { HEAP_CAREFULLY, HEAP_NEXT_FIT, HEAP_TREE_FIT };

struct heap {
    /* What every alloc and free touches, and first what they write. */
    struct arena now;   /* next-fit: in this segment, */
    struct segment *at; /* the one that it gave out from last */
    uint64_t
        mark; /* and where the head will be when more is handed out than ever: see next_fit.c */
    uint64_t used; /* the other fits: bytes handed out, in whole units */
    uint64_t allocs, frees;
    struct desc_pool pool;
    uint64_t round_up; /* bytes of a unit - 1, to be added, */
    uint64_t whole;    /* and its complement, to be masked with: the next whole unit */
    uint32_t owner;    /* of blocks in use: an id of its own, or of whoever it was made for */
    uint32_t whose;    /* desc_owned_by(owner) */
    uint32_t shift;    /* log2 of the bytes of a unit */
    uint32_t most;     /* the other fits: blocks that may be handed out */
    uint64_t largest;  /* bytes of the largest segment */
    uintptr_t mapped;  /* all ones, or 0 where the range is not mapped here */
    uintptr_t zero;    /* next-fit: of the segment `at` */
    struct free_set free;
    rmalloc_algorithm_t algorithm;
    uint8_t way; /* vmem.c */
    bool ragged; /* some segment has a short last unit */
    int error;   /* of the last alloc that failed */
    uint64_t failures;
    uint64_t bytes; /* of all segments */
    uint64_t peak;  /* largest number of bytes handed out, in whole units, so far */
    const struct fit_ops *ops;
    uint32_t segments;
    uint32_t waiting;       /* next-fit: blocks that wait, gaps too */
    struct segment *newest; /* the last segment */
    struct segment first;
};

/* The segment that an offset lies in. */
static inline const struct segment *segment_of(const struct heap *h, uint64_t offset)
{
    const struct segment *s = &h->first;

    while (offset >= s->end && s->next != NULL)
        s = s->next;
    return s;
}

/* Bytes of a block: whole units, but for one that ends at the short end of its segment. */
static inline uint64_t block_bytes(const struct heap *h, const struct rdesc *d)
{
    uint64_t units = (uint64_t)d->units << h->shift, rest;

    if (LIKELY(!h->ragged))
        return units;
    rest = segment_of(h, d->offset)->end - d->offset;
    return units < rest ? units : rest;
}

/* Where that offset of the segment is mapped, or NULL. */
static inline void *address_of(const struct heap *h, uintptr_t zero, uint64_t offset)
{
    return (void *)((zero + (uintptr_t)offset) & h->mapped);
}

/* Records why there is no block. */
static inline struct rdesc *heap_refuse(struct heap *h, int error)
{
    h->failures++;
    h->error = error;
    return NULL;
}

/* What must hold of one block, wherever it hangs, and whatever state it may be in. */
int heap_check_block(const struct heap *h, const struct segment *s, const struct rdesc *d,
                     struct error *err);

#endif
