/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_fit.h: first-, best-, worst- and random-fit; the idea is in tree_fit.c.
 */
#ifndef ALLOC_TREE_FIT_H
#define ALLOC_TREE_FIT_H

#include "alloc/fit.h"

extern const struct fit_ops first_fit_ops, best_fit_ops, worst_fit_ops, random_fit_ops;

/* As heap_carve(), of a heap with FIRST_FIT. */
struct rdesc *tree_fit_carve(struct heap *h, uint64_t offset, size_t size);

#endif
