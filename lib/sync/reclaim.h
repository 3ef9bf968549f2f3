/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reclaim.h: how the blocks of sent messages come back to the writer (doc/protocol.md "How memory returns").
 *
 *   reclaim_prefix.c   block mode: the reader counts freed heap messages in the order of their slots (thesis 4.4.1)
 *   reclaim_tags.c     tag mode: the reader names freed blocks in a queue in its own memory (thesis 4.4.2)
 *   reclaim_channel.c  channel mode: the reader names freed blocks in a ring of slots in the writer's memory
 *
 * The writer side; the reader side is release.h. This code works on memory that it is given and trusts none of the reader's words:
 * a count may only grow, up to what was sent; a block may only come back while it is in flight.
 *
 * Invariants
 * 1. returned <= sent <= limit, modulo 2^64.
 * 2. The blocks in flight are those sent and not returned: in the list from `oldest` (prefix), or in `table`.
 * 3. Tag and channel mode: an index is free while fewer than `queue` messages are in flight, so neither queue nor ring overflows.
 */
#ifndef SYNC_RECLAIM_H
#define SYNC_RECLAIM_H

#include "alloc/heap.h"
#include "sync/block_table.h"
#include "sync/tag.h"
#include "sync/violation.h"
#include "util/failpoint.h"

struct reclaim;

struct reclaim_ops {
    const char *name;
    bool bounded; /* by `queue` messages in flight, each with an index in its slot */
    /* Takes back what the reader has freed. `all`: also what is expensive to read now. 0, or -EPROTO and the violation. */
    int (*fetch)(struct reclaim *r, const struct credit_area *area, bool all, struct violation *v);
};

struct reclaim {
    struct heap *heap;             /* receives the blocks */
    struct rdesc *oldest, *newest; /* prefix: blocks in flight, in slot order, by .link */
    uint64_t sent, returned;       /* heap messages: sent; of which the block has come back */
    uint64_t limit;                /* highest allowed value of `sent` */
    uint64_t units;                /* of the heap, in the blocks in flight */
    uint64_t refresh_units;        /* refresh credits when `units` reaches this */
    uint64_t watermark;            /* units at which credits are refreshed; 0: always */
    uint64_t step;                 /* units to send after such a fetch before the next one */
    uint64_t
        ahead; /* `units` at which memory is fetched before an allocation; less with each block that comes back; modulo 2^64 */
    uint32_t unit_bytes;
    struct block_table table; /* tag and channel mode: blocks in flight, by index */
    struct ring_cursor next;  /* tag and channel mode: where the next block is named */
    struct slot *reverse;     /* channel mode: the ring, in the writer's memory */
    bool sealed;              /* channel mode: a network writes that ring (seal.h) */
    uint32_t parts;           /* messages in flight that are parts of a block (mem NULL) */
    void (*part_returned)(struct reclaim *r, struct rdesc *d); /* for those, instead of the heap */
    const struct reclaim_ops *ops;
};

extern const struct reclaim_ops reclaim_prefix, reclaim_tags, reclaim_channel;

/* `queue`: entries of the tag queue or reverse ring; first_lap: see ring_cursor_init. 0 or -ENOMEM. */
int reclaim_open(struct reclaim *r, const struct reclaim_ops *ops, uint32_t queue,
                 uint32_t first_lap);
void reclaim_close(struct reclaim *r);
/*
 * The heap has `units` units of `unit_bytes` now: sets the watermark to this share of them. A large heap is used like a small one:
 * RECLAIM_STEP bytes after each refresh what has come back is fetched before more is allocated, so that memory that both caches have
 * is used again; but not before three messages of the size at hand, because lines that the reader has just read are slow to store
 * to. Channel mode: before every allocation.
 */
#define RECLAIM_STEP (1u << 20)
#define RECLAIM_MESSAGES 3
void reclaim_set_watermark(struct reclaim *r, double share, uint64_t units, uint32_t unit_bytes);

static inline bool reclaim_is_full(const struct reclaim *r) { return r->sent == r->limit; }

/* A block has been sent. True: the watermark is reached, refresh credits after this message. */
static FORCE_INLINE bool reclaim_sent(struct reclaim *r, struct rdesc *d)
{
    desc_change_state(d, DESC_OWNED, DESC_SENT);
    if (r->table.entry == NULL) {
        d->link = NULL;
        if (r->newest != NULL)
            r->newest->link = d;
        else
            r->oldest = d;
        r->newest = d;
    }
    r->sent++;
    r->units += d->units;
    return UNLIKELY(r->units >= r->refresh_units);
}

/* Memory is fetched before an allocation when so much more has been sent. */
static inline void reclaim_schedule_ahead(struct reclaim *r) { r->ahead = r->units + r->step; }

/*
 * The next refresh is at the watermark; once that is passed, when memory is needed (slot_credit_schedule has the reason). A refresh
 * behind a message, for slots, finds that message in flight, and next-fit goes on behind it: only one that leaves the heap empty
 * counts as a fetch before an allocation.
 */
static inline void reclaim_schedule(struct reclaim *r)
{
    r->refresh_units = r->units < r->watermark || r->watermark == 0 ? r->watermark : UINT64_MAX;
    if (r->units == 0)
        reclaim_schedule_ahead(r);
}

/* Before an allocation: so much has been sent that something has probably come back. */
static inline bool reclaim_is_due(const struct reclaim *r)
{
    return (int64_t)(r->units - r->ahead) >= 0;
}

/* It is due, but a message of so many bytes is better placed in memory that was not used just now. Not in channel mode. */
static inline bool reclaim_can_wait(const struct reclaim *r, uint64_t bytes)
{
    uint64_t since = r->units - (r->ahead - r->step);

    return r->step != 0 && since * r->unit_bytes < RECLAIM_MESSAGES * bytes;
}

static inline int reclaim_fetch(struct reclaim *r, const struct credit_area *area, bool all,
                                struct violation *v)
{
    return r->ops->fetch(r, area, all, v);
}

/* One block has come back. `parts`: a constant, so that pipes without parts do not test for them. */
static FORCE_INLINE void reclaim_take_back(struct reclaim *r, struct rdesc *d, bool parts)
{
    RPIPE_FAILPOINT("credit: block comes back");
    r->units -= d->units;
    r->ahead -= d->units;
    r->returned++;
    if (parts && d->mem == NULL)
        r->part_returned(r, d);
    else
        heap_free(r->heap, d);
}

/*
 * Takes back the block of an index that the reader has named: the step of tag and channel mode. The index is free from then on.
 */
static FORCE_INLINE int reclaim_take_back_named(struct reclaim *r, uint32_t block, bool parts,
                                                struct violation *v)
{
    struct rdesc *d = block_table_take(&r->table, block);

    if (UNLIKELY(d == NULL))
        return violation_set(v, "the index of a freed block, which is not in flight,", block, 0,
                             r->table.size - 1);
    reclaim_take_back(r, d, parts);
    return 0;
}

#endif
