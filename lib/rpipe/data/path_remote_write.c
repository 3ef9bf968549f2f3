/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote_write.c: the writer of a pipe over a network: one `write` for each message (path_remote.h).
 *
 * The slot is filled in the mirror of the ring, sealed, and posted with the payload before it. Until `write` has accepted it nothing
 * has happened: the next attempt fills the slot of the mirror again.
 */
#include "rpipe/data/path_remote_write.h"

#include "rpipe/data/attempt.h"
#include "rpipe/data/path_remote_credit.h"
#include "rpipe/data/path_remote_eager.h"
#include "rpipe/data/path_remote_transfer.h"
#include "rpipe/data/path_remote_window.h"
#include "rpipe/data/publish.h"
#include "rpipe/end/attach.h"
#include "rpipe/end/call.h"
#include "rpipe/end/cork.h"
#include "rpipe/end/debug_guard.h"

#include "sync/seal.h"
#include "util/failpoint.h"

#include <errno.h>

/* GET: the block of the message has the key of the region, for a reader that does not have it yet. */
static void remote_write_note(const struct rch *ch, struct rdesc *d,
                              const struct region_source *from)
{
    struct region_note note = {
        .magic = REGION_MAGIC, .region = from->region->number, .bytes = from->region->bytes};
    struct error none = {""};

    (void)end_key(ch, from->memory, &note.key, &none); /* it exists: registration.c */
    memcpy(d->mem, &note, sizeof(note));
}

static void remote_write_fill(struct rch *ch, struct slot *s, struct rdesc *d, size_t bytes,
                              const struct region_source *from)
{
    s->header = d->header;
    s->checked = s->eager = 0;
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
    if (ch->checked && from == NULL)
        debug_guard_seal(ch, s, d, bytes);
    if (from != NULL && ch->cfg.op == OP_GET) {
        s->kind = SLOT_REGION;
        s->heap.region = from->region->number;
        s->heap.at = from->offset;
        remote_write_note(ch, d, from); /* before the slot is visible: the reader fetches it then */
    }
    if (ch->w.blocks.table.entry != NULL)
        s->block = block_table_put(&ch->w.blocks.table, d);
}

void remote_hold(struct rch *ch, bool more)
{
    struct remote_path *n = ch->remote;

    if (n == NULL || n->connection == NULL || (!n->holding && !more) || ch->ops->hold == NULL)
        return;
    n->holding = more;
    (void)ch->ops->hold(n->connection, more ? CORK_MOST : 0);
}

/* Posts payload and slot. R_PENDING, or an error: nothing has been sent. */
static int remote_write_post(struct rch *ch, struct rdesc *d, const struct btl_transfer *payload,
                             struct slot *s, uint64_t sent)
{
    uint64_t offset = (uint64_t)((char *)s - (char *)ch->ring);
    struct btl_transfer slot = {&ch->ring_remote, offset, &ch->remote->ring, offset, sizeof(*s)};
    struct writer *w = &ch->w;
    int rc;

    /* before the slot can be visible, for the event protocol */
    atomic_store_explicit(&w->sent, sent + 1, memory_order_seq_cst);
    RPIPE_FAILPOINT("net: before the write");
    if (UNLIKELY(ch->corked && !ch->remote->holding))
        remote_hold(ch, true);
    rc = ch->ops->write(ch->remote->connection, payload, &slot);
    if (rc == 0)
        return 0;
    atomic_store_explicit(&w->sent, sent, memory_order_relaxed);
    if (d->units != 0 && w->blocks.table.entry != NULL)
        (void)block_table_take(&w->blocks.table, s->block);
    return rc == -EAGAIN ? R_PENDING : remote_failed(ch);
}

static void remote_write_posted(struct rch *ch, struct write_arguments *a, size_t bytes,
                                uint64_t sent)
{
    struct rdesc *d = a->d;

    RPIPE_FAILPOINT("net: write accepted");
    if (UNLIKELY(ch->corked))
        cork_note(ch);
    if (d->units == 0)
        desc_put(&ch->pool, d);
    else
        publish_count_block(&ch->w, d);
    ch->w.allocated--;
    ch->bytes += bytes;
    if (a->from != NULL)
        remote_transfer_posted(ch, a->from, sent + 1);
    if (sent % COUNTER_EVERY == 0)
        ch->path->count(ch);
    remote_credits_arrived(ch);
}

/* A transfer can be recorded. What completes older ones arrives with credits. */
static int remote_write_reserve_transfer(struct rch *ch, struct write_arguments *a)
{
    int rc, fetched;

    if (ch->closing != CLOSING_NOT) { /* rclose in another thread waits for the end of all */
        a->awaited.what = "end of rclose in another thread, which waits for transfers,";
        return R_PENDING;
    }
    rc = remote_transfers_reserve(ch);
    a->awaited.what = "transfer from this memory that has completed";
    if (rc != R_PENDING)
        return rc;
    fetched = remote_fetch_credits(ch, NEED_SLOT);
    return fetched != 0 ? fetched : R_PENDING;
}

int remote_publish(struct rch *ch, struct write_arguments *a, size_t bytes, uint64_t sent)
{
    struct slot *s = end_slot(ch, sent);
    struct rdesc *d = a->d;
    bool block = d->units != 0 && bytes > 0;
    bool eager = block && a->from == NULL && remote_eager_carries(ch, d, bytes);
    bool carries = (block && ch->cfg.op == OP_PUT) || eager;
    struct btl_transfer payload;
    int rc;

    if (a->from != NULL && (rc = remote_write_reserve_transfer(ch, a)) != 0)
        return rc;
    remote_write_fill(ch, s, d, bytes, a->from);
    s->eager = eager;
    seal_slot(s, sent + 1);
    if (eager)
        payload = remote_eager_payload(ch, d, bytes);
    else if (carries && !remote_locate(ch, d->offset, bytes, &payload))
        return call_error(ch, -EFAULT, "the message at %llu of %zu bytes is in no segment",
                          (unsigned long long)d->offset, bytes);
    if (carries && a->from != NULL) {
        payload.memory = a->from->memory;
        payload.offset = a->from->offset;
    }
    rc = remote_write_post(ch, d, carries ? &payload : NULL, s, sent);
    if (rc == 0)
        remote_write_posted(ch, a, bytes, sent);
    else
        a->awaited.what = "free entry in the queues of the network";
    return rc;
}

/* ---- transfers from registered memory ---- */

static bool remote_transfers_wait_for_flush(const struct rch *ch)
{
    return (remote_transfers_any(ch) && ch->cfg.op == OP_PUT) || remote_moves_need_flush(ch);
}

int remote_transfers_drive(struct rch *ch)
{
    int rc;

    if (!remote_transfers_pending(ch))
        return 0;
    rc = remote_progress(ch);
    if (rc != 0)
        return rc;
    remote_moves_complete(ch);
    if (remote_transfers_any(ch) && ch->cfg.op == OP_GET)
        rc = remote_fetch_credits(ch, NEED_SLOT);
    if (rc != 0 || !remote_transfers_wait_for_flush(ch))
        return rc;
    rc = remote_flush(ch);
    if (rc != 0)
        return rc == -EAGAIN ? R_PENDING : remote_failed(ch);
    remote_transfers_complete(ch);
    return 0;
}
