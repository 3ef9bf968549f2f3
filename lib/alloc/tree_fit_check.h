/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_fit_check.h: what first-, best-, worst- and random-fit report of a heap; entries of their
 * struct fit_ops.
 */
#ifndef ALLOC_TREE_FIT_CHECK_H
#define ALLOC_TREE_FIT_CHECK_H

#include "alloc/fit.h"

uint64_t tree_fit_unsent_room(const struct heap *h, const struct segment *s);
int tree_fit_walk(const struct heap *h, const struct segment *s, heap_visit visit, void *arg);
void tree_fit_stats(const struct heap *h, rvmem_stats_t *stats);
int tree_fit_check(const struct heap *h, struct error *err, uint32_t *descriptors,
                   uint32_t *handed_out);

#endif
