/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reclaim_channel.c: channel mode: the reader names freed blocks in a ring of slots in the writer's own memory.
 *
 * The ring is local to the writer, so that it is read in every rmalloc. A network does not write a slot at once: there the slots
 * are sealed (seal.h).
 */
#include "sync/reclaim.h"

#include "sync/seal.h"

static inline bool channel_next(struct reclaim *r, uint32_t *block)
{
    struct slot copy;

    if (LIKELY(!r->sealed))
        return reverse_next(r->reverse, &r->next, r->returned + 1, block);
    if (!seal_open(&r->reverse[r->next.at], r->returned + 1, &copy))
        return false;
    *block = copy.block;
    ring_cursor_advance(&r->next);
    return true;
}

static FORCE_INLINE int channel_fetch_of(struct reclaim *r, struct violation *v, bool parts)
{
    uint32_t queue = r->next.size, block;
    int rc = 0;

    while (rc == 0 && channel_next(r, &block))
        rc = reclaim_take_back_named(r, block, parts, v);
    RPIPE_FAILPOINT("credit: named blocks taken");
    if (rc == 0)
        r->limit = r->returned + queue;
    return rc;
}

static NOINLINE int channel_fetch_parts(struct reclaim *r, struct violation *v)
{
    return channel_fetch_of(r, v, true);
}

static int channel_fetch(struct reclaim *r, const struct credit_area *area, bool all,
                         struct violation *v)
{
    (void)area;
    (void)all;
    return UNLIKELY(r->parts > 0) ? channel_fetch_parts(r, v) : channel_fetch_of(r, v, false);
}

const struct reclaim_ops reclaim_channel = {"channel", true, channel_fetch};
