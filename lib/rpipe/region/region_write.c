/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region_write.c: rwrite_from: messages from regions, and when those may be changed again (region.h, doc/regions.md).
 *
 * There are three ways. Copied, into a block or a slot: on mapped memory, small messages, and where the network does not reach memory of a device;
 * the word is 1 at once. Transferred, over a network: a block is allocated, because the message is placed there, but the payload travels from the region; its transfer is
 * recorded by the path (path_remote_transfer.c). Lent: a part of a block of the heap itself; it is complete when the reader has freed
 * it. A descriptor of the pool, whose mem is NULL, represents it among the blocks in flight.
 */
#include "rpipe/region/region_write.h"

#include "rpipe/data/attempt.h"
#include "rpipe/end/device.h"
#include "rpipe/end/path.h"

#include "observe/record/trace.h"
#include "util/failpoint.h"
#include "util/list.h"

#include <errno.h>
#include <rinfo.h>
#include <string.h>

/* A reader that has closed has got the messages that it had read: up to this one. */
static uint64_t region_write_read_before_close(const struct rch *ch)
{
    uint32_t state = atomic_load_explicit(
        &ch->state, memory_order_acquire); /* pairs with end_state_set: peer_final */

    return (state & STATE_PEER_CLOSED) != 0 ? ch->peer_final : 0;
}

/* ---- parts of an own block ---- */

struct part {               /* in the payload of its descriptor */
    struct rregion *region; /* NULL: the peer has been lost */
    int *done;
    uint64_t sequence; /* of the message, once it is sent */
};
static_assert(sizeof(struct part) <= DESC_INLINE_MAX, "in a descriptor");

static struct part *region_write_part_of(struct rdesc *d)
{
    return (struct part *)(void *)desc_payload(d);
}

static void region_write_part_unlink(struct rregion *r, struct rdesc *d)
{
    struct rdesc **at = &r->parts;

    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
}

/* The reader has freed it. */
static void region_write_part_returned(struct reclaim *blocks, struct rdesc *d)
{
    struct rch *ch = container_of(blocks, struct rch, w.blocks);
    struct part *p = region_write_part_of(d);

    RPIPE_FAILPOINT("rdone: part comes back");
    if (p->region != NULL) {
        region_write_part_unlink(p->region, d);
        region_unhold(p->region);
        region_notify_done(p->done, 1);
    }
    blocks->parts--;
    desc_put(&ch->pool, d);
}

static void region_write_parts_abort(struct rch *ch, int code)
{
    uint64_t read = region_write_read_before_close(ch);
    struct rregion *r;
    struct rdesc *d;

    for (r = ch->w.regions; r != NULL; r = r->next)
        while ((d = r->parts) != NULL) {
            struct part *p = region_write_part_of(d);
            bool lost = p->sequence > read;

            r->parts = d->next;
            p->region = NULL;
            region_unhold(r);
            if (desc_state(d) != DESC_SENT) /* its call is still being made and returns the error */
                continue;
            ch->w.lost = ch->w.lost || lost;
            region_notify_done(p->done, lost ? code : 1);
        }
}

void region_abort(struct rch *ch, int code)
{
    ch->path->transfers_abort(ch, code);
    region_write_parts_abort(ch, code);
}

static bool region_write_in_flight(const struct rch *ch)
{
    const struct rregion *r;

    if (ch->path->transfers_pending(ch))
        return true;
    for (r = ch->w.regions; r != NULL; r = r->next)
        if (r->parts != NULL)
            return true;
    return false;
}

/* ---- rwrite_from ---- */

enum from_way { FROM_COPY, FROM_TRANSFER, FROM_PART };

struct from_arguments {
    enum from_way way;
    struct alloc_arguments alloc;
    struct write_arguments write;
    struct region_source source;
    size_t bytes;
    uint64_t tag;
    struct awaited awaited;
};

static int region_write_check_part(struct rch *ch, const struct from_arguments *a)
{
    struct rregion *r = a->source.region;
    uint64_t unit = ch->cfg.unit_bytes, begin = r->block->offset + a->source.offset,
             end = begin + a->bytes;
    struct rdesc *d;

    if (begin % unit != 0)
        return call_error(
            ch, -EINVAL,
            "offset is %zu; in memory of the pipe it must be a multiple of unit_bytes (%llu)",
            a->source.offset, (unsigned long long)unit);
    for (d = r->parts; d != NULL; d = d->next)
        if (begin < d->offset + (uint64_t)d->units * unit && d->offset < end)
            return call_error(
                ch, -EBUSY,
                "the reader still has a message of %zu bytes at %zu, which %zu bytes at %zu "
                "overlap; wait for it with rdone",
                d->size, (size_t)(d->offset - r->block->offset), a->bytes, a->source.offset);
    return 0;
}

/* A descriptor that represents the part. */
static int region_write_make_part(struct rch *ch, struct from_arguments *a)
{
    struct rregion *r = a->source.region;
    uint64_t unit = ch->cfg.unit_bytes;
    struct rdesc *d;
    int rc = region_write_check_part(ch, a);

    if (rc != 0)
        return rc;
    d = desc_take(&ch->pool);
    if (d == NULL)
        return call_no_descriptor(ch, ch->w.allocated);
    d->mem = NULL;
    d->size = a->bytes;
    d->offset = r->block->offset + a->source.offset;
    d->units = (uint32_t)((a->bytes + unit - 1) / unit);
    d->header = a->tag;
    *region_write_part_of(d) = (struct part){r, a->source.done, UINT64_MAX};
    /* before it can be read and come back */
    d->next = r->parts;
    r->parts = d;
    ch->w.blocks.part_returned = region_write_part_returned;
    ch->w.blocks.parts++;
    region_hold(r);
    ch->w.allocated++;
    a->write.d = d;
    a->write.part = r->base + a->source.offset;
    RPIPE_FAILPOINT("rwrite_from: part recorded");
    return 0;
}

static int region_write_unmake_part(struct rch *ch, void *arguments)
{
    struct rdesc *d = arguments;
    struct part *p = region_write_part_of(d);

    if (p->region != NULL) {
        region_write_part_unlink(p->region, d);
        region_unhold(p->region);
    }
    ch->w.blocks.parts--;
    ch->w.allocated--;
    desc_put(&ch->pool, d);
    return 0;
}

static int region_write_copy(struct rch *ch, struct from_arguments *a)
{
    const struct rregion *r = a->source.region;

    a->write.left = device_has_heap(ch) && device_is_staged(ch, a->write.d);
    return device_fill(ch, a->write.d, r->memory, r->base + a->source.offset, a->bytes);
}

/* The payload stays where it is: what a device has stored there is visible to the network. */
static int region_write_left(struct rch *ch, struct from_arguments *a)
{
    const struct rregion *r = a->source.region;

    a->write.left = true;
    return a->bytes > 0 ? device_call_left(ch, r->memory, r->base + a->source.offset, a->bytes) : 0;
}

/* Memory for the message, with the payload in it unless that is transferred. */
static int region_write_make_block(struct rch *ch, struct from_arguments *a)
{
    int rc = write_alloc_attempt(ch, &a->alloc);

    a->awaited = a->alloc.awaited;
    if (rc != 0)
        return rc;
    a->write.d = a->alloc.d;
    a->write.d->header = a->tag;
    rc = a->way == FROM_TRANSFER ? region_write_left(ch, a) : region_write_copy(ch, a);
    RPIPE_FAILPOINT("rwrite_from: block made");
    return rc;
}

static int region_write_from_attempt(struct rch *ch, void *arguments)
{
    struct from_arguments *a = arguments;
    int rc = 0;

    if (a->write.d == NULL)
        rc = a->way == FROM_PART ? region_write_make_part(ch, a) : region_write_make_block(ch, a);
    if (rc != 0)
        return rc;
    if (a->way == FROM_PART)
        region_write_part_of(a->write.d)->sequence =
            atomic_load_explicit(&ch->w.sent, memory_order_relaxed) + 1;
    rc = write_attempt(ch, &a->write);
    a->awaited = a->write.awaited;
    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("rwrite_from: sent");
    if (a->way == FROM_COPY)
        region_notify_done(a->source.done, 1);
    return 0;
}

/* Chooses the way, and registers the region if the path needs that. */
static int region_write_begin_attempt(struct rch *ch, void *arguments)
{
    struct from_arguments *a = arguments;
    struct rregion *r = a->source.region;
    int rc;

    if (a->bytes > ch->inline_max && r->own != NULL) {
        a->way = FROM_PART;
        return 0;
    }
    if (a->bytes <= ch->inline_max || region_is_copied(ch, r) ||
        (ch->cfg.op == OP_GET && a->bytes < REGION_NOTE_BYTES))
        return device_check_fill(ch, r->memory); /* before memory is awaited */
    rc = registration_memory(ch, r, &a->source.memory);
    if (rc != 0)
        return rc;
    if (a->source.memory == NULL)
        return device_check_fill(ch, r->memory);
    a->way = FROM_TRANSFER;
    a->write.from = &a->source;
    return 0;
}

/* The message was not sent. */
static int region_write_undo(struct rch *ch, struct from_arguments *a, int rc)
{
    if (a->write.d != NULL && a->way == FROM_PART)
        (void)call_once(ch, region_write_unmake_part, a->write.d);
    else if (a->write.d != NULL)
        (void)write_unalloc(ch, a->write.d);
    else if (rc == -ETIMEDOUT && a->way != FROM_PART)
        return write_explain_timeout(ch, &a->alloc);
    return rc;
}

static int region_write_message(struct rch *ch, struct from_arguments *a, bool wait)
{
    int *done = a->source.done, before = done != NULL ? *done : 0, rc;
    uint32_t row;

    rc = call_once(ch, region_write_begin_attempt, a);
    if (rc != 0)
        return rc;
    region_notify_done(done, 0);
    row = trace_begin(ch, TRACE_WRITE);
    rc = wait ? call_await(ch, &a->awaited, region_write_from_attempt, a)
              : call_once(ch, region_write_from_attempt, a);
    trace_end(row, a->write.number, a->write.written, rc);
    if (rc == 0)
        return 0;
    region_notify_done(done, before);
    return region_write_undo(ch, a, rc);
}

int rpipe_write_from(rch_t ch, rregion_t region, size_t offset, size_t bytes, uint64_t tag,
                     int *done, int flags)
{
    struct from_arguments a = {
        .alloc = {bytes, NULL, false, {"memory given back by the reader", 0}},
        .write = {.bytes = WHOLE, .awaited = {"free slot in the ring", 0}},
        .source = {region, NULL, offset, done},
        .bytes = bytes,
        .tag = tag,
        .awaited = {"memory given back by the reader", 0}};
    bool wait = (flags & R_NOWAIT) == 0;
    struct call call;
    int rc = call_begin(&call, "rwrite_from", ch, SIDE_WRITER);

    a.write.wait = wait;
    if (rc == 0)
        rc = call_check_flags(ch, flags);
    if (rc == 0)
        rc = region_check(ch, region, offset, bytes);
    if (rc == 0)
        rc = region_write_message(ch, &a, wait);
    return call_end(&call, rc);
}

/* ---- rdone ---- */

struct done_arguments {
    const int *done; /* NULL: all */
    bool transfers;  /* rclose: parts do not matter */
};

/* Complete: 0; R_PENDING; or the code and its message. */
static int region_write_check_done(struct rch *ch, const struct done_arguments *a)
{
    int value;

    if (a->done == NULL &&
        (a->transfers ? ch->path->transfers_pending(ch) : region_write_in_flight(ch)))
        return R_PENDING;
    value = a->done != NULL               ? __atomic_load_n(a->done, __ATOMIC_ACQUIRE)
            : ch->w.lost && !a->transfers ? -EPIPE
                                          : 1;
    if (value > 0)
        return 0;
    if (value < 0)
        return call_error(ch, value, "%s did not reach rank %d: %s",
                          a->done != NULL ? "this message" : "a message from registered memory",
                          ch->peer, rinfo_strerror(value));
    if (!region_write_in_flight(ch))
        return call_error(ch, -EINVAL,
                          "*done is 0, and no message from registered memory is in flight");
    return R_PENDING;
}

static int region_write_drive(struct rch *ch)
{
    int rc = ch->path->transfers_drive(ch);

    if (rc == 0 && ch->w.blocks.parts > 0)
        rc = ch->path->fetch_credits(ch, NEED_MEMORY);
    return rc;
}

static int region_write_done_attempt(struct rch *ch, void *arguments)
{
    struct done_arguments *a = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    int rc = region_write_check_done(ch, a);

    if (rc != R_PENDING)
        return rc;
    rc = call_check_peer(ch, state);
    if (rc != 0) { /* every word has been written */
        int checked = region_write_check_done(ch, a);

        /* the state of the peer is the more precise message */
        return checked == 0 || checked == -EINVAL ? checked : call_check_peer(ch, state);
    }
    RPIPE_FAILPOINT("rdone: before credits are fetched");
    rc = region_write_drive(ch);
    return rc != 0 ? rc : region_write_check_done(ch, a);
}

int rpipe_done(rch_t ch, const int *done, int flags)
{
    static const struct awaited awaited = {
        "notice that the reader has taken what was sent from this memory", 0};
    struct done_arguments a = {done, false};
    struct call call;
    int rc = call_begin(&call, "rdone", ch, SIDE_WRITER);

    if (rc == 0)
        rc = call_check_flags(ch, flags);
    if (rc == 0)
        rc = (flags & R_NOWAIT) == 0 ? call_await(ch, &awaited, region_write_done_attempt, &a)
                                     : call_once(ch, region_write_done_attempt, &a);
    return call_end(&call, rc);
}

int region_settle_transfers(struct rch *ch, struct awaited *awaited)
{
    struct done_arguments a = {NULL, true};

    awaited->what = "end of the transfers from the program's memory (the pipe is still open)";
    /* an error means that the words have been written */
    return region_write_done_attempt(ch, &a) == R_PENDING ? R_PENDING : 0;
}
