/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capacity.c: rroom: would a message of this size, once it has memory, be written without waiting?
 *
 * rmalloc_nb answers for memory; this answers for the ring and sync_queue, and counts what the caller has allocated and not written,
 * each of which needs its slot too. A positive answer stays true until this end allocates again: free capacity only grows. (The
 * queues of a network may be full for a moment; they empty by themselves.)
 */
#include "rpipe/end/path.h"
#include "rpipe/end/call.h"
#include "rpipe/end/connector.h"

#include "control/control.h"

#include <errno.h>

/* What is allocated may be of either kind: for an index all of it is counted, too much rather than too little. */
static bool capacity_suffices(const struct rch *ch, size_t size)
{
    const struct writer *w = &ch->w;
    uint64_t sent = atomic_load_explicit(&w->sent, memory_order_relaxed);

    return w->slots.limit - sent > w->allocated &&
           (size <= ch->inline_max || w->blocks.limit - w->blocks.sent > w->allocated);
}

/* It would not suffice if the reader had read and freed everything. */
static bool capacity_is_too_small(const struct rch *ch, size_t size)
{
    return ch->w.allocated >= ch->cfg.slots ||
           (size > ch->inline_max && ch->w.blocks.ops->bounded &&
            ch->w.allocated >= ch->cfg.sync_queue);
}

static int capacity_attempt(struct rch *ch, void *arguments)
{
    const size_t *size = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    int rc = call_check_peer(ch, state);

    if (rc == 0 && (state & STATE_JOINED) == 0)
        rc = end_join_complete(ch, DEADLINE_NOW);
    if (rc == 0)
        rc = ch->path->progress(ch);
    if (rc != 0 || capacity_suffices(ch, *size))
        return rc;
    if (capacity_is_too_small(ch, *size))
        return call_error(
            ch, -ENOBUFS,
            "this end has allocated %llu messages and not written them, and %s is %u; "
            "write or free some",
            (unsigned long long)ch->w.allocated,
            ch->w.allocated >= ch->cfg.slots ? "slots" : "sync_queue",
            ch->w.allocated >= ch->cfg.slots ? ch->cfg.slots : ch->cfg.sync_queue);
    rc = ch->path->fetch_credits(ch, NEED_SLOT);
    if (rc == 0 && !capacity_suffices(ch, *size))
        rc = ch->path->fetch_credits(ch, NEED_MEMORY);
    if (rc != 0 || capacity_suffices(ch, *size))
        return rc;
    return R_PENDING;
}

int rpipe_room(rch_t ch, size_t size)
{
    struct call call;
    int rc;

    if (LIKELY(ch != NULL &&
               atomic_load_explicit(&ch->state, memory_order_acquire) == WRITER_READY &&
               capacity_suffices(ch, size)))
        return 0;
    rc = call_begin(&call, "rroom", ch, SIDE_WRITER);
    if (rc == 0)
        rc = call_once(ch, capacity_attempt, &size);
    return call_end(&call, rc);
}
