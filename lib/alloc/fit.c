/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fit.c: invariants of a block that do not depend on the heuristic, see fit.h.
 */
#include "alloc/fit.h"

#include "alloc/broken.h"

int fit_check_block(const struct heap *h, const struct segment *s, const struct rdesc *d,
                    struct error *err)
{
    const unsigned long long at = d->offset;

    if (desc_owner(d) != (h->owner & DESC_OWNER_MOST))
        return broken(err, "the block at %llu has owner %u, and the heap is owner %u", at,
                      (unsigned)desc_owner(d), (unsigned)(h->owner & DESC_OWNER_MOST));
    if (d->units == 0 || (d->offset & h->round_up) != 0 || d->offset < s->begin ||
        d->offset >= s->end || (uint64_t)d->units << h->shift > s->end - d->offset + h->round_up)
        return broken(err,
                      "the block at %llu of %u units is not aligned, empty, or outside its segment "
                      "from %llu to %llu",
                      at, d->units, (unsigned long long)s->begin, (unsigned long long)s->end);
    if ((desc_state(d) == DESC_OWNED || desc_state(d) == DESC_SENT) && d->size > block_bytes(h, d))
        return broken(err, "the block at %llu holds %zu bytes in %u units", at, d->size, d->units);
    if (desc_state(d) != DESC_FREED && desc_state(d) != DESC_GAP &&
        d->mem != address_of(h, s->zero, d->offset))
        return broken(err, "the memory of the block at %llu is at %p; it must be at %p", at, d->mem,
                      address_of(h, s->zero, d->offset));
    return 0;
}
