/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_fit_cut.h: blocks that are cut at a given position: heap_carve() and heap_shrink() for
 * first-, best-, worst- and random-fit. Neither is on a fast path, so there is one function for all
 * heuristics.
 */
#ifndef ALLOC_TREE_FIT_CUT_H
#define ALLOC_TREE_FIT_CUT_H

#include "alloc/fit.h"

/* As heap_carve(), for a heap with RMALLOC_FIRST_FIT. */
struct rdesc *tree_fit_carve(struct heap *h, uint64_t offset, size_t size);

/* As struct fit_ops. */
void tree_fit_shrink(struct heap *h, struct rdesc *d, uint32_t units);

/* Makes descriptors for one more block available: 0, -ENOBUFS at the limit, or -ENOMEM. */
int tree_fit_more_descriptors(struct heap *h) NOINLINE;

#endif
