/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * credit.h: the writer of a pipe takes up what the reader has given back: slots and blocks (doc/protocol.md "How memory returns").
 *
 * The rules are in lib/sync (slot_credit.h, reclaim.h); here they are applied to the memory of an end. Each function returns 0, or
 * -EPROTO where the reader's words cannot be valid: then the pipe has failed.
 */
#ifndef RPIPE_DATA_CREDIT_H
#define RPIPE_DATA_CREDIT_H

#include "rpipe/data/violation.h"
#include "rpipe/end/rch.h"

int credit_open(struct rch *ch); /* the table of blocks in flight; 0 or -ENOMEM */
void credit_close(struct rch *ch);
void credit_rescale(struct rch *ch); /* the heap has grown */

static inline int credit_refresh_slots(struct rch *ch)
{
    uint64_t sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
    struct violation v;

    if (slot_credit_refresh(&ch->w.slots, &ch->credit->line, sent, &v) != 0)
        return violation_of_credits(ch, &v);
    return 0;
}

/* Payloads that the reader has fetched (GET over a network): *fetched is the last known count. */
static inline int credit_refresh_fetched(struct rch *ch, uint64_t *fetched)
{
    uint64_t sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
    struct violation v;

    if (fetch_credit_refresh(fetched, &ch->credit->line, sent, &v) != 0)
        return violation_of_credits(ch, &v);
    return 0;
}

/* `all`: also blocks that are expensive to find now. */
static inline int credit_refresh_blocks(struct rch *ch, bool all)
{
    struct violation v;

    if (reclaim_fetch(&ch->w.blocks, ch->credit, all, &v) != 0)
        return violation_of_credits(ch, &v);
    return 0;
}

/* Sets when credits are refreshed next (watermarks). */
static inline void credit_schedule(struct rch *ch)
{
    slot_credit_schedule(&ch->w.slots, atomic_load_explicit(&ch->w.sent, memory_order_relaxed));
    reclaim_schedule(&ch->w.blocks);
}

/* Every slot up to this message has been read, as far as is known. */
static inline uint64_t credit_slots_read(const struct rch *ch)
{
    return slot_credit_read(&ch->w.slots);
}

#endif
