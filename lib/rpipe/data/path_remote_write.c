/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote_write.c: the writer of a pipe over a network: one `write` a message, one `get` for many credits (doc/network.md).
 *
 * The slot is filled in the mirror of the ring, sealed, and posted with the payload before it. Until `write` has accepted it
 * nothing has happened: the slot of the mirror is filled anew by the next attempt.
 *
 * Credits: one look is under way at a time, into the mirror, which nobody reads meanwhile. When it is there it is applied at
 * once, by the rules of credit.c. Invariant: credit_under_way is true from the `get` until its result has been applied.
 *
 * How often to look. At the watermark, once: the answer is there before it is needed. When there is no room, at once, and then
 * not before the reader may have come half the way: each look is a READ, and a writer that is blocked has nothing to win by
 * more than one for many messages, as long as the reader still has some to read.
 */
#include "rpipe/data/path_remote.h"

#include "rpipe/grow/grow.h"
#include "rpipe/end/area.h"
#include "sync/seal.h"
#include "util/failpoint.h"

#include <errno.h>

#define WHOLE_AREA_MOST 4096 /* credit line and tags together: by one READ */
#define TAGS_MOST 512        /* of a longer queue, by one READ */
#define SLOTS_PER_SLACK                                                                            \
    16 /* looks so much behind the watermark: else, with what is under way, more than one in half a ring */
#define BACKOFF_FIRST_NS 1000
#define BACKOFF_MOST_NS (200 * 1000)
#define PACE_MOST_NS                                                                               \
    NS_PER_MS /* large messages: half of what is outstanding takes longer than any nap */

/* ---- credits come in ---- */

static struct btl_transfer remote_write_piece_of_area(const struct rch *ch, size_t from,
                                                      size_t bytes)
{
    return (struct btl_transfer){&ch->credit_remote, from, &ch->remote->credit, from, bytes};
}

/* The tags that can have come: as many as there are blocks out, from the next one on, as far as one READ goes. */
static int remote_write_get_tags(struct rch *ch)
{
    const struct ring_cursor *c = &ch->w.back;
    uint64_t out = ch->w.heap_sent - ch->w.heap_applied;
    uint32_t tags = c->size - c->at;
    struct btl_transfer t;

    if (out == 0)
        return 0;
    if (tags > out)
        tags = (uint32_t)out;
    if (tags > TAGS_MOST)
        tags = TAGS_MOST;
    t = remote_write_piece_of_area(
        ch, sizeof(struct credit_area) + (size_t)c->at * sizeof(uint64_t), tags * sizeof(uint64_t));
    return ch->ops->get(ch->remote->connection, &t, &ch->remote->credit_done);
}

static int remote_write_post_look(struct rch *ch, enum credit_need need)
{
    size_t area = area_credit_bytes(&ch->cfg);
    struct remote_path *n = ch->remote;
    struct btl_transfer t;
    bool whole = area <= WHOLE_AREA_MOST;
    int rc = 0;

    if (whole || need != NEED_MEMORY) {
        t = remote_write_piece_of_area(ch, 0, whole ? area : sizeof(struct credit_line));
        rc = ch->ops->get(n->connection, &t, &n->credit_done);
        n->credit_reads += rc == 0;
    }
    if (rc == 0 && !whole) {
        rc = remote_write_get_tags(ch);
        n->credit_reads += rc == 0;
        if (rc == -EAGAIN &&
            atomic_load_explicit(&n->credit_done.pending, memory_order_relaxed) > 0)
            rc = 0; /* the line alone is something */
    }
    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("net: credits asked for");
    n->credit_under_way = true;
    n->credit_at = clock_now();
    ch->credit_fetches++;
    if (need == NEED_SOON) { /* not again before this one has been applied */
        ch->w.look_at = UINT64_MAX;
        ch->w.units_look = UINT64_MAX;
    }
    return 0;
}

static uint64_t remote_write_seen(const struct rch *ch) { return ch->w.limit + ch->w.heap_applied; }

/* How long the reader takes for half of what is outstanding, as far as the last two looks tell. */
static void remote_write_pace(struct rch *ch, uint64_t moved)
{
    uint64_t sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed),
             out = sent - (ch->w.limit - ch->mask - 1) + (ch->w.heap_sent - ch->w.heap_applied);
    struct remote_path *n = ch->remote;
    int64_t backoff = 0, most = moved == 0 ? BACKOFF_MOST_NS : PACE_MOST_NS;

    if (moved == 0)
        backoff = n->credit_backoff == 0 ? BACKOFF_FIRST_NS : n->credit_backoff * 2;
    else if (n->credit_before != 0)
        backoff = (int64_t)((uint64_t)(n->credit_at - n->credit_before) / moved * (out / 2));
    n->credit_backoff = backoff < most ? backoff : most;
    n->credit_not_before = n->credit_at + n->credit_backoff;
    n->credit_before = n->credit_at;
}

static int remote_write_apply(struct rch *ch)
{
    struct remote_path *n = ch->remote;
    uint64_t before = remote_write_seen(ch);
    int rc;
    uint32_t row;

    n->credit_under_way = false;
    if (atomic_load_explicit(&n->credit_done.error, memory_order_relaxed) != 0)
        return remote_failed(ch, "rwrite");
    row = trace_begin(ch, TRACE_SYNC);
    RPIPE_FAILPOINT("net: credits here");
    rc = credit_apply(ch);
    if (ch->w.look_at != UINT64_MAX && ch->w.look_at != 0)
        ch->w.look_at += (ch->mask + 1) / SLOTS_PER_SLACK;
    if (rc == 0)
        region_transfers_complete(ch);
    trace_end(row, ch->w.heap_applied, ch->w.limit - ch->mask - 1, rc);
    remote_write_pace(ch, remote_write_seen(ch) - before);
    return rc;
}

static bool remote_write_look_is_here(const struct remote_path *n)
{
    /* acquire: pairs with the release of whoever completes the get */
    return n->credit_under_way &&
           atomic_load_explicit(&n->credit_done.pending, memory_order_acquire) == 0;
}

int remote_credit_fetch(struct rch *ch, enum credit_need need)
{
    struct remote_path *n = ch->remote;
    int rc;

    if (ch->ops->progress(n->connection) != 0)
        return remote_failed(ch, "rwrite");
    if (ch->w.reverse != NULL && need == NEED_MEMORY) {
        ch->credit_fetches++;
        return credit_take_named(
            ch); /* the reader has written them here; the mirror may be half fetched */
    }
    if (remote_write_look_is_here(n))
        return remote_write_apply(ch);
    if (n->credit_under_way || (need != NEED_SOON && clock_now() < n->credit_not_before))
        return 0;
    rc = remote_write_post_look(ch, need);
    if (rc != 0)
        return rc == -EAGAIN ? 0 : remote_failed(ch, "rwrite");
    if (ch->ops->progress(n->connection) == 0 && remote_write_look_is_here(n))
        return remote_write_apply(ch);
    return 0;
}

/* ---- a message goes out ---- */

static void remote_write_fill(struct rch *ch, struct slot *s, struct rdesc *d, size_t bytes,
                              const struct region_source *from)
{
    s->header = d->header;
    memset(s->zero, 0, sizeof(s->zero));
    s->block = 0;
    if (d->units == 0) {
        memcpy(s->payload, desc_payload(d), DESC_INLINE_MAX);
        s->kind = SLOT_INLINE;
        s->bytes = (uint8_t)bytes;
        return;
    }
    memset(s->payload, 0, sizeof(s->payload));
    s->heap.offset = d->offset;
    s->heap.size = bytes;
    s->kind = SLOT_HEAP;
    s->bytes = 0;
    if (from != NULL && ch->cfg.op == OP_GET) {
        s->kind = SLOT_REGION;
        s->heap.region = from->region->number;
        s->heap.at = from->offset;
        region_note_write(ch, d,
                          from); /* before the slot can be seen: the reader fetches it then */
    }
    if (ch->w.table.entry != NULL)
        s->block = block_table_put(&ch->w.table, d);
}

int remote_publish(struct rch *ch, const char *call, struct rdesc *d, size_t bytes, uint64_t sent,
                   const struct region_source *from)
{
    uint32_t at = (uint32_t)sent & ch->mask;
    uint64_t slot_offset = sizeof(struct ring_area) + at * sizeof(struct slot);
    struct slot *s = &ch->ring->slot[at];
    struct btl_transfer payload,
        slot = {&ch->ring_remote, slot_offset, &ch->remote->ring, slot_offset, sizeof(*s)};
    bool carries = d->units != 0 && bytes > 0 && ch->cfg.op == OP_PUT;
    struct writer *w = &ch->w;
    int rc;

    remote_write_fill(ch, s, d, bytes, from);
    seal_slot(s, sent + 1);
    if (carries && !remote_locate(ch, d->offset, bytes, &payload))
        return end_error(ch, -EFAULT, "%s: the message lies in no segment of the heap", call);
    if (carries && from != NULL) {
        payload.memory = from->memory;
        payload.offset = from->offset;
    }
    /* "begun": before the slot can be seen, for the event protocol */
    atomic_store_explicit(&w->sent, sent + 1, memory_order_seq_cst);
    RPIPE_FAILPOINT("net: before the write");
    rc = ch->ops->write(ch->remote->connection, carries ? &payload : NULL, &slot);
    if (rc != 0) {
        atomic_store_explicit(&w->sent, sent, memory_order_relaxed);
        if (d->units != 0 && w->table.entry != NULL)
            (void)block_table_take(&w->table, s->block);
        return rc == -EAGAIN ? R_PENDING : remote_failed(ch, call);
    }
    RPIPE_FAILPOINT("net: write accepted");
    if (d->units == 0)
        desc_put(&ch->pool, d);
    else
        writer_count_block(w, d);
    w->allocated--;
    ch->bytes += bytes;
    if (from != NULL)
        region_transfer_posted(ch, from, sent + 1);
    if (sent % COUNTER_EVERY == 0)
        counter_refresh(ch);
    if (remote_write_look_is_here(ch->remote))
        (void)remote_write_apply(ch); /* what is wrong with it, the next call will say */
    return 0;
}
