/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * free_set.c: the set of free blocks of best-fit, where the short paths do not suffice: see
 * free_set.h.
 */
#include "alloc/free_set.h"

bool free_set_insert_any(struct heap *h, struct rdesc *d)
{
    if (!free_set_is_apart(h, d, RMALLOC_BEST_FIT))
        return d->units <= LISTED_UNITS ? free_set_insert_listed(h, d)
                                        : free_set_insert_indexed(h, d, RMALLOC_BEST_FIT);
    h->free.indexed++;
    desc_set_state(d, DESC_FREE);
    return true;
}

void free_set_remove_any(struct heap *h, struct rdesc *d)
{
    if (d->units <= LISTED_UNITS && desc_state(d) == DESC_FREE &&
        !free_set_is_apart(h, d, RMALLOC_BEST_FIT))
        free_set_take_listed(h, d->units, d);
    else
        free_set_remove_unlisted(h, d, RMALLOC_BEST_FIT);
}
