/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segregated.h: the lists of free blocks of segregated-fit; the idea and the invariants are in
 * segregated_fit.c.
 */
#ifndef ALLOC_SEGREGATED_H
#define ALLOC_SEGREGATED_H

#include "alloc/tree_block.h"

#define QUICK_UNITS 64u       /* the largest size that has a quick list */
#define QUICK_FEW 64u         /* blocks of a quick list: so many, */
#define QUICK_SHARE 64u       /* or, if that is more, so small a share of the descriptors, */
#define QUICK_MOST 512u       /* but no more than so many */
#define SEGREGATED_PROBES 16u /* blocks of a class that a search compares with the request */
#define ARRIVING 16u          /* blocks between their free and their quick list, in a large heap */
#define ARRIVING_FROM 1024u   /* a heap is large from so many descriptors on: 64 KiB of them */

/* Freed blocks of one size that are not merged with their neighbors, the newest first. */
struct quick_list {
    struct rdesc *head; /* linked by .link */
    uint32_t count;
};

struct segregated {
    struct quick_list quick[QUICK_UNITS]; /* of size i + 1 */
    struct rdesc *arriving[ARRIVING];     /* the newest waiting blocks, in a circle, or NULL */
    uint32_t oldest;                      /* of them: the index of the next that is replaced */
    uint32_t most;                        /* blocks of a quick list, at most quick_most() */
    uint32_t units;                       /* the largest size that waits: QUICK_UNITS; ragged: 0 */
    struct class_set some;                /* the classes whose list is not empty */
    uint32_t blocks;                      /* blocks of all classes */
    uint32_t unlisted;                    /* all others: allocated or waiting */
    uint32_t classes;                     /* lists: all classes up to the largest segment's */
    struct rdesc *list[];                 /* free blocks by fine class, linked by .link and .back */
};

/* Most blocks of a quick list in a heap of so many descriptors. */
static inline uint32_t quick_most(uint32_t descriptors)
{
    const uint32_t share = descriptors / QUICK_SHARE;

    return share < QUICK_FEW ? QUICK_FEW : share > QUICK_MOST ? QUICK_MOST : share;
}

/* Blocks of all quick lists, and arriving: counted by slow paths alone, since a block that waits is taken again unlisted. */
static inline uint32_t segregated_waiting(const struct heap *h)
{
    return h->segregated->unlisted - (uint32_t)(h->allocs - h->frees);
}

/* The class of a free block: that of its whole units, so that a short last one is not counted. */
static inline uint32_t segregated_class(const struct heap *h, const struct rdesc *d)
{
    return fine_class(LIKELY(!h->ragged) ? d->units : (uint32_t)(block_bytes(h, d) >> h->shift));
}

#endif
