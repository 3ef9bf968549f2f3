/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fit.h: a heap from inside, and what a heuristic implements. For heap.c, vmem.c and the fits; others include heap.h.
 *
 * A fit decides where a block lies and keeps the order of its blocks; heap.c keeps what is the same for all: range,
 * units, descriptors, counters. Next-fit, the default, is called directly (next_fit.h), the others through their
 * table: a new one is a file, a line in heap.c, and its state in the descriptors. Of a free block's descriptor all
 * but offset, units, state and owner is the fit's: prev and next for neighbours by address, link and the second line
 * for a tree.
 */
#ifndef ALLOC_FIT_H
#define ALLOC_FIT_H

#include "alloc/heap.h"

struct fit_ops {
    const char *name;
    int (*open)(struct heap *h, const struct heap_config *cfg); /* 0 or -ENOMEM */
    void (*close)(struct heap *h);
    /* As heap_alloc(). Sets the descriptor whole, counts allocs, or failures and error. */
    struct rdesc *(*alloc)(struct heap *h, size_t size);
    /* As heap_free(). Counts frees. */
    void (*free)(struct heap *h, struct rdesc *d);
    uint64_t (*used)(const struct heap *h);    /* bytes handed out, in whole units */
    uint64_t (*largest)(const struct heap *h); /* request that would succeed, but for a lack of descriptors */
    uint64_t (*stuck)(const struct heap *h);   /* bytes neither handed out nor usable */
    /* As heap_check(); tells how many descriptors of the pool are in blocks, and how many blocks are handed out. */
    int (*check)(const struct heap *h, char *why, size_t why_bytes, uint32_t *descriptors, uint32_t *handed_out);
};

struct heap {
    /* What every alloc and free touches, and first what they write. */
    uint64_t head;      /* next-fit: where the next block begins, */
    uint64_t limit;     /* which byte it may not reach: the end of the range, or the oldest block, */
    uint64_t mark;      /* and where the head will be when more is handed out than ever: see next_fit.c */
    struct rdesc *last; /* the newest block, or &list */
    uint64_t allocs, frees;
    struct desc_pool pool;
    uint64_t round_up; /* bytes of a unit - 1, to be added, */
    uint64_t whole;    /* and its complement, to be masked with: the next whole unit */
    char *base;        /* where the range is mapped, or NULL */
    uint32_t owner;    /* of blocks in use: an id of its own, or of whoever it was made for */
    uint32_t whose;    /* desc_owned_by(owner) */
    uint32_t shift;    /* log2 of the bytes of a unit */
    rmalloc_algorithm_t algorithm;
    bool plain; /* vmem.c: next-fit, and nothing to check after an operation */
    int error;  /* of the last alloc that failed */
    uint64_t failures;
    uint64_t bytes; /* of the range; the last unit may be short */
    uint64_t peak;  /* largest number of bytes handed out, in whole units, so far */
    const struct fit_ops *ops;
    void *fit; /* state of a fit that needs more than what is here */

    struct rdesc list; /* next-fit: list.next is the oldest block, where there is one */
    struct rdesc gap;  /* the one gap that there can be */
};

/* Bytes of a block: whole units, but for a block that ends at the short end of the range. */
static inline uint64_t block_bytes(const struct heap *h, const struct rdesc *d)
{
    uint64_t units = (uint64_t)d->units << h->shift, rest = h->bytes - d->offset;

    return units < rest ? units : rest;
}

/* Writes the sentence; returns -EUCLEAN. */
int heap_broken(char *why, size_t why_bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
