/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_fit_cut.h: blocks that are cut out at a given position.
 */
#ifndef ALLOC_TREE_FIT_CUT_H
#define ALLOC_TREE_FIT_CUT_H

#include "alloc/fit.h"

/* As heap_carve(), for a heap with FIRST_FIT. */
struct rdesc *tree_fit_carve(struct heap *h, uint64_t offset, size_t size);

/* Makes descriptors for one more block available: 0, -ENOBUFS at the limit, or -ENOMEM. */
int tree_fit_more_descriptors(struct heap *h) NOINLINE;

#endif
