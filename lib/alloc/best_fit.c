/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * best_fit.c: see best_fit.h.
 */
#include "alloc/best_fit.h"

void best_fit_change_loose_any(struct heap *h, struct rdesc *d)
{
    free_set_index_loose(h, RMALLOC_BEST_FIT);
    free_set_make_loose(h, d, RMALLOC_BEST_FIT);
}
