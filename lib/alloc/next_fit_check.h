/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * next_fit_check.h: what next-fit reports of a heap; entries of its struct fit_ops.
 */
#ifndef ALLOC_NEXT_FIT_CHECK_H
#define ALLOC_NEXT_FIT_CHECK_H

#include "alloc/fit.h"

int next_fit_walk(const struct heap *h, const struct segment *s, heap_visit visit, void *arg);
void next_fit_stats(const struct heap *h, rvmem_stats_t *stats);
int next_fit_check(const struct heap *h, struct error *err, uint32_t *descriptors,
                   uint32_t *handed_out);

#endif
