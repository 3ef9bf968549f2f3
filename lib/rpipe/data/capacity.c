/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capacity.c: rroom: would a message of this size, once it has memory, be written without waiting?
 *
 * rmalloc_nb tells of memory; this tells of the ring and of sync_queue, and counts what the caller has allocated and not
 * written yet, each of which will want its slot too. What it finds stays true until this end allocates again: room only grows. (A
 * network's own queues may be full for a moment all the same: what is in them leaves without our doing.)
 */
#include "rpipe/data/path_remote.h"

#include "control/control.h"

#include <errno.h>

/* What is allocated may be of either kind: for an index all of it counts, which is too much rather than too little. */
static bool capacity_has_room(const struct rch *ch, size_t size)
{
    const struct writer *w = &ch->w;
    uint64_t sent = atomic_load_explicit(&w->sent, memory_order_relaxed);

    return w->limit - sent > w->allocated &&
           (size <= ch->inline_max || w->heap_limit - w->heap_sent > w->allocated);
}

/* However much the reader reads and frees. */
static bool capacity_is_in_vain(const struct rch *ch, size_t size)
{
    return ch->w.allocated > ch->mask ||
           (size > ch->inline_max && ch->cfg.mode != RPIPE_SYNC_BLOCKS &&
            ch->w.allocated >= ch->cfg.sync_queue);
}

static int capacity_room_attempt(struct rch *ch, void *arguments)
{
    const size_t *size = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    int rc = end_check_peer(ch, "rroom", state);

    if (rc == 0 && (state & STATE_JOINED) == 0)
        rc = end_join_complete(ch, DEADLINE_NOW);
    if (rc == 0 && ch->remote != NULL)
        rc = remote_progress(ch, "rroom");
    if (rc != 0 || capacity_has_room(ch, *size))
        return rc;
    if (capacity_is_in_vain(ch, *size))
        return end_error(
            ch, -ENOBUFS,
            "rroom: this end has allocated %llu messages and not written them, as many as %s",
            (unsigned long long)ch->w.allocated,
            ch->w.allocated > ch->mask ? "the ring has slots" : "sync_queue allows");
    rc = credit_fetch(ch, NEED_SLOT);
    if (rc == 0 && !capacity_has_room(ch, *size))
        rc = credit_fetch(ch, NEED_MEMORY);
    if (rc != 0 || capacity_has_room(ch, *size))
        return rc;
    return R_PENDING;
}

int rpipe_room(rch_t ch, size_t size)
{
    int rc;

    if (LIKELY(ch != NULL &&
               atomic_load_explicit(&ch->state, memory_order_acquire) == WRITER_READY &&
               capacity_has_room(ch, size)))
        return 0;
    rc = end_check_call(ch, "rroom", SIDE_WRITER);
    return rc != 0 ? rc : call_once(ch, capacity_room_attempt, &size);
}
