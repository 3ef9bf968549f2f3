/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reclaim_prefix.c: block mode: the credit line has the count of heap messages freed without a gap, in the order of their slots.
 *
 * The count is applied to the writer's own list of blocks in flight, oldest first: the reader never names a block.
 */
#include "sync/reclaim.h"

static FORCE_INLINE int prefix_fetch_of(struct reclaim *r, const struct credit_area *area,
                                        struct violation *v, bool parts)
{
    /* acquire: pairs with the release in release_prefix: the reader's last load of a block precedes the next store to it */
    uint64_t freed = atomic_load_explicit(&area->line.heap_freed, memory_order_acquire);

    if (freed - r->returned > r->sent - r->returned)
        return violation_set(v, "the count of heap messages freed", freed, r->returned, r->sent);
    while (r->returned != freed) {
        struct rdesc *d = r->oldest;

        r->oldest = d->link;
        if (r->oldest == NULL)
            r->newest = NULL;
        reclaim_take_back(r, d, parts);
    }
    return 0;
}

static NOINLINE int prefix_fetch_parts(struct reclaim *r, const struct credit_area *area,
                                       struct violation *v)
{
    return prefix_fetch_of(r, area, v, true);
}

static int prefix_fetch(struct reclaim *r, const struct credit_area *area, bool all,
                        struct violation *v)
{
    (void)all;
    return UNLIKELY(r->parts > 0) ? prefix_fetch_parts(r, area, v)
                                  : prefix_fetch_of(r, area, v, false);
}

const struct reclaim_ops reclaim_prefix = {"prefix", false, prefix_fetch};
