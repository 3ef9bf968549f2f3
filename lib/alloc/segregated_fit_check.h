/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segregated_fit_check.h: what segregated-fit reports of a heap; entries of its struct fit_ops.
 */
#ifndef ALLOC_SEGREGATED_FIT_CHECK_H
#define ALLOC_SEGREGATED_FIT_CHECK_H

#include "alloc/fit.h"

/* Walks all blocks if some of them wait. */
uint64_t segregated_fit_largest(const struct heap *h);
void segregated_fit_stats(const struct heap *h, rvmem_stats_t *stats);
int segregated_fit_check(const struct heap *h, struct error *err, uint32_t *descriptors,
                         uint32_t *handed_out);

#endif
