/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap_model.h: an allocator that is too simple to be wrong, and a heap beside it.
 *
 * The model has the blocks that are handed out, by address, and the age of each; nothing else is kept. Free memory is
 * what is between them, found anew for every question by reading all of it, so there is nothing to split, to merge
 * or to index. The heuristics are written down from their definitions (doc/allocator.md), one loop each.
 *
 * "twins" are a heap and its model that live through the same operations; whatever can be seen of the one is compared
 * with the other. The first difference prints what led to it and aborts. No test framework in here: unit tests, the
 * enumeration and the fuzzers share it.
 */
#ifndef TEST_UNIT_HEAP_MODEL_H
#define TEST_UNIT_HEAP_MODEL_H

#include "alloc/heap.h"

#include <rvmem.h>
#include <rmalloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MODEL_SEGMENTS 6 /* that the model has space for */
#define MODEL_UNITS_MAX (UINT64_C(1) << 31)

struct model_segment {
    uint64_t at, units, bytes; /* begins at unit `at`; the last unit may be short */
    char *base;                /* where it is mapped, or NULL */
};

struct model_block { /* handed out */
    raddr_t d;
    size_t size;
    uint64_t at, units;
    uint64_t age; /* rises with every allocation */
    unsigned segment;
    bool sent;
};

struct model_piece { /* of what is not handed out: as long as can be, within its segment */
    uint64_t at, units, bytes;
    unsigned segment;
    bool stuck; /* next-fit: behind an older block, or skipped */
};

struct model {
    rmalloc_fit_t algorithm;
    uint32_t unit, limit; /* bytes of a unit; blocks that may be handed out */
    struct model_segment segment[MODEL_SEGMENTS];
    unsigned segments;
    unsigned current; /* next-fit: the segment that a block was given out of last */
    struct model_block *block;
    unsigned blocks, block_room;
    struct model_piece *piece; /* model_look() fills it in */
    unsigned pieces, piece_room;
    unsigned *
        candidate; /* holes that a request may be put into, by address: model_candidates() fills it in */
    unsigned candidates;
    uint64_t age, peak, allocs, frees, failures;
};

/* ---- the model ---- */

void model_open(struct model *m, const struct heap_config *cfg);
void model_close(struct model *m);
uint64_t model_bytes(const struct model *m);
uint64_t model_used(const struct model *m);
uint64_t model_largest_segment(const struct model *m);
void model_look(struct model *m); /* finds the holes */
/* Which holes a request for so many bytes may be put into: one, but for random-fit. 0: none. */
unsigned model_candidates(struct model *m, size_t size);
uint64_t model_largest(struct model *m);
uint64_t model_unsent_room(const struct model *m);
/* 0, or what heap_alloc_error() must return for such a request. *either: -ENOBUFS, and success, are right as well. */
int model_error(struct model *m, size_t size, bool *either);
unsigned model_add(struct model *m, raddr_t d, size_t size, uint64_t at); /* its index */
void model_remove(struct model *m, unsigned index);
/* A block for this request at unit `at` is at the low end of the hole; segregated-fit may take any part. */
bool model_is_in(const struct model *m, uint64_t at, size_t size, const struct model_piece *p);
#define MODEL_PROBES 16
/*
 * Segregated-fit: whether a request for which there is a hole may be refused, since more holes are
 * in its class than are searched, and none is in a larger one.
 */
bool model_may_refuse(struct model *m, size_t size);
/* Next-fit: whether the block is the newest of its segment. */
bool model_is_newest(const struct model *m, unsigned index);
/* Sets the size of a block; the units behind it are free, but with next-fit only behind the newest block of a segment. */
void model_shrink(struct model *m, unsigned index, size_t size);
bool model_can_grow(const struct model *m, const void *base, uint64_t bytes);
void model_grow(struct model *m, void *base, uint64_t bytes);
bool model_can_carve(struct model *m, uint64_t offset, size_t size);
char *model_memory(const struct model *m, const struct model_block *b); /* or NULL */
uint64_t model_block_bytes(const struct model *m, const struct model_block *b);

/* The program ends if `is` differs from what it should be. */
void model_expect(const struct model *m, const char *what, uint64_t is, uint64_t should);
/* Every field, against the model. */
void model_compare_stats(struct model *m, const rvmem_stats_t *stats);
/* A walk: begin, model_visit() as the visitor with the walk as its argument, end. */
struct model_walk {
    const struct model *m;
    unsigned pieces, blocks; /* that have been seen */
    uint64_t at;             /* unit that the next one must begin at */
    unsigned segment;
    unsigned left; /* visits until it returns MODEL_STOP; 0: never */
};
#define MODEL_STOP 4711
void model_walk_begin(struct model_walk *w, struct model *m, unsigned stop_after);
int model_visit(const rvmem_block_t *block, void *walk);
void model_walk_end(const struct model_walk *w, int result);

/* Where a segment may pretend to be mapped: nothing can be there, so that a heap that touches its range is ended. */
static inline void *model_nowhere(unsigned segment)
{
    return (void *)((uintptr_t)(MODEL_SEGMENTS + 1 - segment) << 52); /* the later, the lower */
}

/* Prints what differs, the context, and the model as it is; aborts. */
void model_fail(const struct model *m, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
extern void (*model_context)(FILE *to); /* what led to it: seed, parameters, path; may be NULL */
extern uint64_t
    model_denials; /* how often a test has denied memory: -ENOMEM is right where it has, only there */

/* ---- a heap and its model ---- */

struct twins {
    struct heap *h;
    struct model m;
    unsigned candidates, rank; /* of the last twins_alloc(): how many, and which by address */
};

void twins_open(struct twins *t, const struct heap_config *cfg);
void twins_close(struct twins *t);
int twins_alloc(struct twins *t, size_t size); /* index of the block, or -1 */
void twins_free(struct twins *t, unsigned index);
void twins_send(struct twins *t, unsigned index);
void twins_shrink(struct twins *t, unsigned index, size_t size);
int twins_grow(struct twins *t, void *base, uint64_t bytes); /* result of heap_grow() */
int twins_carve(struct twins *t, uint64_t offset, size_t size);
void twins_compare(struct twins *t);

#endif
