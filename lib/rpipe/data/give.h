/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * give.h: the last part of rmalloc, on every path: from a descriptor to a message that the program may fill.
 *
 * The payload is in the descriptor, for the slot (`units` is 0), or in a block of the heap. Invariant: a message that was given has been
 * counted in `w.allocated` once, and its descriptor belongs to the user until it is written or freed.
 */
#ifndef RPIPE_DATA_GIVE_H
#define RPIPE_DATA_GIVE_H

#include "rpipe/end/rch.h"
#include "util/failpoint.h"

/* `d` has just been taken, or is NULL. */
static FORCE_INLINE struct rdesc *write_give_inline(struct rch *ch, struct rdesc *d, size_t size)
{
    if (UNLIKELY(d == NULL))
        return NULL;
    d->mem = desc_payload(d);
    d->size = size;
    d->units = 0;
    d->header = 0;
    RPIPE_FAILPOINT("rmalloc: descriptor taken");
    ch->w.allocated++;
    return d;
}

static inline struct rdesc *write_give_block(struct rch *ch, size_t size)
{
    struct rdesc *d = heap_alloc(ch->w.blocks.heap, size);

    if (d == NULL)
        return NULL;
    RPIPE_FAILPOINT("rmalloc: block taken");
    d->header = 0;
    ch->w.allocated++;
    return d;
}

/* On the remote path: of the shadow alone, which write refreshes ahead. NULL: not so, or not at once, as write_alloc_attempt finds. */
static NOINLINE struct rdesc *write_alloc_remote(struct rch *ch, size_t size)
{
    if (ch == NULL || atomic_load_explicit(&ch->state, memory_order_acquire) != WRITER_READY_REMOTE)
        return NULL;
    if (size <= ch->inline_max)
        return write_give_inline(ch, desc_take_fast(&ch->pool), size);
    return ch->growth == NULL && ch->w.blocks.reverse == NULL ? write_give_block(ch, size) : NULL;
}

#endif
