/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * credit.c: the writer picks up what the reader has given back: slots, and memory (doc/protocol.md "How memory comes back").
 *
 * The words of the reader are independent: none is ever checked against another. Counts may only grow, up to what has been
 * sent; a block may only come back if it is out.
 * The slots read are in one line with the prefix of block mode, so those are looked at together; tags and reverse slots are
 * in lines of their own, and each look takes a line away from the reader: they are looked at when memory is needed, and
 * when the ring has moved.
 *   block: a prefix of the heap messages, applied to the writer's own FIFO of blocks, oldest slot first (thesis §4.4.1);
 *   tag, channel: indexes of blocks, in the order in which the reader has freed them (thesis §4.4.2).
 */
#include "rpipe/data/path_remote.h"

#include "sync/seal.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>

void credit_rescale(struct rch *ch)
{
    ch->w.look_units = (uint64_t)(ch->cfg.watermark * (double)ch->units);
    ch->w.units_look = ch->w.look_units;
}

int credit_open(struct rch *ch)
{
    struct writer *w = &ch->w;
    uint32_t queue = ch->cfg.sync_queue;

    atomic_store_explicit(&w->sent, job_first(), memory_order_relaxed);
    w->limit = job_first() + ch->cfg.slots;
    w->look_slots = (uint64_t)(ch->cfg.watermark * ch->cfg.slots);
    w->look_at = job_first() + w->look_slots;
    credit_rescale(ch);
    w->heap_limit = UINT64_MAX;
    if (ch->cfg.mode == RPIPE_SYNC_BLOCKS)
        return 0;
    w->heap_limit = queue;
    ring_cursor_init(&w->back, queue, (uint32_t)job_first() + 1);
    return block_table_create(&w->table, queue);
}

void credit_close(struct rch *ch) { block_table_destroy(&ch->w.table); }

static int credit_violation(struct rch *ch, const char *what, uint64_t there, uint64_t least,
                            uint64_t most)
{
    char reason[192];

    snprintf(reason, sizeof(reason), "rank %d says that %llu %s; it can only be %llu to %llu",
             ch->peer, (unsigned long long)there, what, (unsigned long long)least,
             (unsigned long long)most);
    join_fail(ch, -EPROTO, reason);
    return end_error(ch, -EPROTO, "%s", reason);
}

static inline void credit_take_back(struct writer *w, struct rdesc *d)
{
    RPIPE_FAILPOINT("credit: block comes back");
    w->units_out -= d->units;
    w->heap_applied++;
    heap_free(w->heap, d);
}

/* `parts`: there may be parts of regions among the blocks; a constant, so that nobody else looks for them. */
static FORCE_INLINE void credit_take_back_one(struct rch *ch, struct rdesc *d, bool parts)
{
    if (parts && d->mem == NULL) {
        ch->w.units_out -= d->units;
        ch->w.heap_applied++;
        region_part_returned(ch, d);
    } else {
        credit_take_back(&ch->w, d);
    }
}

static FORCE_INLINE int credit_fetch_prefix_of(struct rch *ch, bool parts)
{
    struct writer *w = &ch->w;
    /* acquire: pairs with the release in the reader's rfree: its last look at a block comes before our next store there */
    uint64_t freed = atomic_load_explicit(&ch->credit->line.heap_freed, memory_order_acquire);

    if (freed - w->heap_applied > w->heap_sent - w->heap_applied)
        return credit_violation(ch, "heap messages are freed", freed, w->heap_applied,
                                w->heap_sent);
    while (w->heap_applied != freed) {
        struct rdesc *d = w->oldest;

        w->oldest = d->link;
        if (w->oldest == NULL)
            w->newest = NULL;
        credit_take_back_one(ch, d, parts);
    }
    return 0;
}

static NOINLINE int credit_fetch_prefix_parts(struct rch *ch)
{
    return credit_fetch_prefix_of(ch, true);
}

static int credit_fetch_prefix(struct rch *ch)
{
    return UNLIKELY(ch->w.parts_out > 0) ? credit_fetch_prefix_parts(ch)
                                         : credit_fetch_prefix_of(ch, false);
}

static bool credit_next_reverse(struct rch *ch, uint32_t *block)
{
    struct writer *w = &ch->w;
    struct slot copy;

    if (ch->remote == NULL)
        return reverse_next(w->reverse, &w->back, w->heap_applied + 1, block);
    if (!seal_open(&w->reverse[w->back.at], w->heap_applied + 1, &copy))
        return false;
    *block = copy.block;
    ring_cursor_advance(&w->back);
    return true;
}

/*
 * Takes blocks back that are named by tags or slots. Each step takes one that is out: so it ends after as many, whatever the
 * reader does meanwhile. `all`: also those in a line that the reader is still writing.
 */
static FORCE_INLINE int credit_fetch_named_of(struct rch *ch, bool all, bool parts)
{
    struct writer *w = &ch->w;
    uint32_t block;

    while (w->reverse != NULL ? credit_next_reverse(ch, &block)
                              : (all || tag_line_is_full(ch->credit, &w->back)) &&
                                    tag_next(ch->credit, &w->back, &block)) {
        struct rdesc *d = block_table_take(&w->table, block);

        if (d == NULL)
            return credit_violation(ch, "is a block that it has freed, which is not out", block, 0,
                                    ch->cfg.sync_queue - 1);
        credit_take_back_one(ch, d, parts);
    }
    RPIPE_FAILPOINT("credit: named blocks taken");
    w->heap_limit = w->heap_applied + ch->cfg.sync_queue;
    return 0;
}

static NOINLINE int credit_fetch_named_parts(struct rch *ch, bool all)
{
    return credit_fetch_named_of(ch, all, true);
}

static int credit_fetch_named(struct rch *ch, bool all)
{
    return UNLIKELY(ch->w.parts_out > 0) ? credit_fetch_named_parts(ch, all)
                                         : credit_fetch_named_of(ch, all, false);
}

/*
 * When to look next: at the watermark, of the ring and of the heap; once one is passed, not before there is no room, because
 * each look takes a line away from the reader. A watermark of 0 looks always.
 */
static void credit_schedule(struct writer *w, uint64_t sent, uint64_t read)
{
    if (w->look_slots == 0)
        w->look_at = 0;
    else
        w->look_at = sent - read < w->look_slots ? read + w->look_slots : UINT64_MAX;
    w->units_look = w->units_out < w->look_units || w->look_units == 0 ? w->look_units : UINT64_MAX;
}

static int credit_fetch_slots(struct rch *ch)
{
    struct writer *w = &ch->w;
    uint64_t sent = atomic_load_explicit(&w->sent, memory_order_relaxed),
             slots = (uint64_t)ch->mask + 1, key_cache = w->limit - slots;
    /* acquire: pairs with the release in read_take, so that a slot is copied out before it is overwritten */
    uint64_t read = atomic_load_explicit(&ch->credit->line.slots_read, memory_order_acquire);

    if (read - key_cache > sent - key_cache)
        return credit_violation(ch, "slots are read", read, key_cache, sent);
    RPIPE_FAILPOINT("credit: slots read looked at");
    w->limit = read + slots;
    return 0;
}

/* GET: the reader has fetched so many payloads: nobody reaches for those of them that lie in the program's memory. */
static int credit_fetch_fetched(struct rch *ch)
{
    uint64_t sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed),
             key_cache = ch->remote->fetched;
    uint64_t fetched = atomic_load_explicit(&ch->credit->line.fetched, memory_order_acquire);

    if (fetched - key_cache > sent - key_cache)
        return credit_violation(ch, "messages are fetched", fetched, key_cache, sent);
    ch->remote->fetched = fetched;
    return 0;
}

int credit_apply(struct rch *ch)
{
    struct writer *w = &ch->w;
    int rc = credit_fetch_slots(ch);

    if (rc == 0 && ch->cfg.op == OP_GET)
        rc = credit_fetch_fetched(ch);
    if (rc == 0)
        rc = ch->cfg.mode == RPIPE_SYNC_BLOCKS ? credit_fetch_prefix(ch)
                                               : credit_fetch_named(ch, true);
    credit_schedule(w, atomic_load_explicit(&w->sent, memory_order_relaxed),
                    w->limit - ch->mask - 1);
    return rc;
}

int credit_take_named(struct rch *ch)
{
    struct writer *w = &ch->w;
    int rc = credit_fetch_named(ch, true);

    credit_schedule(w, atomic_load_explicit(&w->sent, memory_order_relaxed),
                    w->limit - ch->mask - 1);
    return rc;
}

int credit_fetch(struct rch *ch, enum credit_need need)
{
    struct writer *w = &ch->w;
    uint64_t limit = w->limit;
    uint32_t row;
    int rc = 0;

    if (ch->remote != NULL)
        return remote_credit_fetch(ch, need);
    row = trace_begin(ch, TRACE_SYNC);
    RPIPE_FAILPOINT("credit: before a look");
    ch->credit_fetches++;
    if (need != NEED_MEMORY || ch->cfg.mode == RPIPE_SYNC_BLOCKS)
        rc = credit_fetch_slots(ch);
    if (rc == 0 && ch->cfg.mode == RPIPE_SYNC_BLOCKS)
        rc = credit_fetch_prefix(ch);
    else if (rc == 0 &&
             (need != NEED_SLOT ||
              w->limit != limit)) /* who waits for the ring looks there again and again */
        rc = credit_fetch_named(ch, need == NEED_MEMORY || w->look_units == 0);
    credit_schedule(w, atomic_load_explicit(&w->sent, memory_order_relaxed),
                    w->limit - ch->mask - 1);
    trace_end(row, w->heap_applied, w->limit - ch->mask - 1, rc);
    return rc;
}
