/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reclaim_tags.c: tag mode: the reader names freed blocks in a queue behind its credit line (tag.h).
 *
 * Each step takes back one block that is in flight, so that the loop ends after as many steps, whatever the reader writes
 * meanwhile.
 */
#include "sync/reclaim.h"

static FORCE_INLINE int tags_fetch_of(struct reclaim *r, const struct credit_area *area, bool all,
                                      struct violation *v, bool parts)
{
    uint32_t queue = r->next.size, block;
    int rc = 0;

    while (rc == 0 && (all || tag_line_is_full(area, &r->next)) && tag_next(area, &r->next, &block))
        rc = reclaim_take_back_named(r, block, parts, v);
    RPIPE_FAILPOINT("credit: named blocks taken");
    if (rc == 0)
        r->limit = r->returned + queue;
    return rc;
}

static NOINLINE int tags_fetch_parts(struct reclaim *r, const struct credit_area *area, bool all,
                                     struct violation *v)
{
    return tags_fetch_of(r, area, all, v, true);
}

static int tags_fetch(struct reclaim *r, const struct credit_area *area, bool all,
                      struct violation *v)
{
    return UNLIKELY(r->parts > 0) ? tags_fetch_parts(r, area, all, v)
                                  : tags_fetch_of(r, area, all, v, false);
}

const struct reclaim_ops reclaim_tags = {"tags", true, tags_fetch};
