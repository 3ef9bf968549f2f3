/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region_write.c: rwrite_from: messages from regions, and when those may be touched again (region.h, doc/regions.md).
 *
 * Three ways. Copied, into a block or a slot: over shm, and what is small: the word is 1 at once. Flown, over a network: a block is
 * allocated, because the message lands there, but the payload travels from the region; its flight is over when the reader has the
 * slot, or a flush has proved that it is placed (PUT), or the reader has fetched it (GET). Shown: a part of a block of the heap
 * itself: it is over when the reader has freed it; a descriptor of the pool, whose mem is NULL, stands for it in the books.
 */
#include "rpipe/data/attempt.h"
#include "rpipe/data/path_remote.h"

#include "util/failpoint.h"

#include <errno.h>
#include <rinfo.h>
#include <stdlib.h>
#include <string.h>

#define FLIGHTS_BEYOND_RING 64 /* GET: messages that the reader has taken and not fetched */

static void region_write_notify_done(int *done, int value)
{
    /* release: another thread of the program that sees the word (acquire) may touch the memory */
    if (done != NULL)
        __atomic_store_n(done, value, __ATOMIC_RELEASE);
}

/* ---- flights ---- */

bool region_in_flight(const struct rch *ch)
{
    return ch->remote != NULL && ch->remote->transfer_first != ch->remote->transfer_end &&
           !ch->remote->aborted;
}

bool region_transfers_reserve(struct rch *ch)
{
    struct remote_path *n = ch->remote;
    uint32_t room = 1;

    if (n->transfer_capacity == 0) { /* the first one */
        while (room < ch->cfg.slots + FLIGHTS_BEYOND_RING)
            room *= 2;
        n->region_transfer = calloc(room, sizeof(*n->region_transfer));
        if (n->region_transfer == NULL)
            return false;
        n->transfer_capacity = room;
    }
    return n->transfer_end - n->transfer_first < n->transfer_capacity;
}

void region_transfer_posted(struct rch *ch, const struct region_source *from, uint64_t sequence)
{
    struct remote_path *n = ch->remote;

    n->region_transfer[n->transfer_end & (n->transfer_capacity - 1)] =
        (struct region_transfer){from->region, from->done, sequence};
    n->transfer_end++;
    n->direct++;
    region_hold(from->region);
}

/* Messages up to this one are with the reader. */
static void region_write_transfers_complete(struct rch *ch, uint64_t upto)
{
    struct remote_path *n = ch->remote;

    while (n->transfer_first != n->transfer_end) {
        struct region_transfer *f =
            &n->region_transfer[n->transfer_first & (n->transfer_capacity - 1)];

        if (f->sequence > upto)
            return;
        region_unhold(f->region); /* first: whoever sees the word may give the region back */
        if (!n->aborted)
            region_write_notify_done(f->done, 1);
        n->transfer_first++;
    }
}

void region_transfers_complete(struct rch *ch)
{
    const struct remote_path *n = ch->remote;
    uint64_t read = ch->w.limit - ch->mask - 1;

    if (ch->cfg.op == OP_GET)
        region_write_transfers_complete(ch, n->fetched);
    else
        region_write_transfers_complete(ch, n->flushed > read ? n->flushed : read);
}

/* What a reader that has closed in order had read, it has got: up to this message. */
static uint64_t region_write_read_before_close(const struct rch *ch)
{
    uint32_t state = atomic_load_explicit(
        &ch->state, memory_order_acquire); /* pairs with end_state_set: peer_final */

    return (state & STATE_PEER_CLOSED) != 0 ? ch->peer_final : 0;
}

static void region_write_transfers_abort(struct rch *ch, int code)
{
    struct remote_path *n = ch->remote;
    uint64_t i;

    if (!region_in_flight(ch))
        return;
    region_write_transfers_complete(ch, region_write_read_before_close(ch));
    for (i = n->transfer_first; i != n->transfer_end; i++) {
        region_write_notify_done(n->region_transfer[i & (n->transfer_capacity - 1)].done, code);
        n->aborted = ch->w.lost = true;
    }
}

void region_release(struct rch *ch)
{
    struct remote_path *n = ch->remote;
    uint32_t i;

    for (; n->transfer_first != n->transfer_end; n->transfer_first++)
        region_unhold(n->region_transfer[n->transfer_first & (n->transfer_capacity - 1)].region);
    free(n->region_transfer);
    n->region_transfer = NULL;
    n->transfer_capacity = 0;
    for (i = 0; i < n->fetch_count; i++) {
        struct fetch *f = &n->fetch[(n->fetch_first + i) % n->fetch_most];

        if (f->into.region != NULL)
            region_unhold(f->into.region);
    }
    n->fetch_count = 0;
}

/* GET: how the reader reaches it, for one that does not know the region's number. */
void region_note_write(struct rch *ch, struct rdesc *d, const struct region_source *from)
{
    struct region_note note = {.magic = REGION_MAGIC,
                               .region = from->region->number,
                               .bytes = from->region->bytes,
                               .key = from->memory->key};

    (void)ch;
    memcpy(d->mem, &note, sizeof(note));
}

/* ---- parts of an own block ---- */

struct part {               /* in the payload of its descriptor */
    struct rregion *region; /* NULL: the pipe has been given up */
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

void region_part_returned(struct rch *ch, struct rdesc *d)
{
    struct part *p = region_write_part_of(d);

    RPIPE_FAILPOINT("rdone: part comes back");
    if (p->region != NULL) {
        region_write_part_unlink(p->region, d);
        region_unhold(p->region);
        region_write_notify_done(p->done, 1);
    }
    ch->w.parts_out--;
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
            if (d->state != DESC_SENT) /* of a call that is just made: it says so itself */
                continue;
            ch->w.lost = ch->w.lost || lost;
            region_write_notify_done(p->done, lost ? code : 1);
        }
}

void region_abort(struct rch *ch, int code)
{
    if (ch->remote != NULL)
        region_write_transfers_abort(ch, code);
    region_write_parts_abort(ch, code);
}

static bool region_write_anything_out(const struct rch *ch)
{
    const struct rregion *r;

    if (region_in_flight(ch))
        return true;
    for (r = ch->w.regions; r != NULL; r = r->next)
        if (r->parts != NULL)
            return true;
    return false;
}

/* ---- rwrite_from ---- */

struct from_arguments {
    const char *call;
    struct alloc_arguments alloc;
    struct write_arguments write;
    struct region_source source;
    size_t bytes;
    uint64_t tag;
    bool in_flight;
    struct awaited awaited;
};

static int region_write_part_refuses(struct rch *ch, const struct from_arguments *a)
{
    struct rregion *r = a->source.region;
    uint64_t unit = ch->cfg.unit_bytes, begin = r->block->offset + a->source.offset,
             end = begin + a->bytes;
    struct rdesc *d;

    if (begin % unit != 0)
        return end_error(ch, -EINVAL,
                         "%s: a part at %zu; in the heap's own memory it begins at a multiple of "
                         "unit_size (%llu)",
                         a->call, a->source.offset, (unsigned long long)unit);
    for (d = r->parts; d != NULL; d = d->next)
        if (begin < d->offset + (uint64_t)d->units * unit && d->offset < end)
            return end_error(
                ch, -EBUSY,
                "%s: of %zu bytes at %zu some are with the reader still, in a message from here",
                a->call, a->bytes, a->source.offset);
    return 0;
}

/* A descriptor that stands for the part. */
static int region_write_make_part(struct rch *ch, struct from_arguments *a)
{
    struct rregion *r = a->source.region;
    uint64_t unit = ch->cfg.unit_bytes;
    struct rdesc *d;
    int rc = region_write_part_refuses(ch, a);

    if (rc != 0)
        return rc;
    d = desc_take(&ch->pool);
    if (d == NULL)
        return end_no_descriptor(ch, a->call, ch->w.allocated);
    d->mem = NULL;
    d->size = a->bytes;
    d->offset = r->block->offset + a->source.offset;
    d->units = (uint32_t)((a->bytes + unit - 1) / unit);
    d->header = a->tag;
    d->whose = ch->whose;
    *region_write_part_of(d) = (struct part){r, a->source.done, UINT64_MAX};
    /* before it can be read, and come back */
    d->next = r->parts;
    r->parts = d;
    ch->w.parts_out++;
    region_hold(r);
    ch->w.allocated++;
    a->write.d = d;
    RPIPE_FAILPOINT("rwrite_from: part noted");
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
    ch->w.parts_out--;
    ch->w.allocated--;
    desc_put(&ch->pool, d);
    return 0;
}

/* Memory for the message, with the payload in it unless that flies. */
static int region_write_make_block(struct rch *ch, struct from_arguments *a)
{
    int rc = write_alloc_attempt(ch, &a->alloc);

    a->awaited = a->alloc.awaited;
    if (rc != 0)
        return rc;
    a->write.d = a->alloc.d;
    a->write.d->header = a->tag;
    if (!a->in_flight)
        memcpy(a->write.d->mem, a->source.region->base + a->source.offset, a->bytes);
    RPIPE_FAILPOINT("rwrite_from: block made");
    return 0;
}

static bool region_write_is_part(const struct from_arguments *a)
{
    return a->source.region->own != NULL && a->alloc.call == NULL;
}

static int region_write_from_attempt(struct rch *ch, void *arguments)
{
    struct from_arguments *a = arguments;
    int rc = 0;

    if (a->write.d == NULL)
        rc = region_write_is_part(a) ? region_write_make_part(ch, a)
                                     : region_write_make_block(ch, a);
    if (rc == 0 && a->in_flight && !region_transfers_reserve(ch)) {
        uint32_t state =
            atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */

        if (ch->remote->transfer_capacity == 0)
            return end_error(ch, -ENOMEM, "%s: no memory for the books of transfers", a->call);
        a->awaited.what = "end of the transfers before this one";
        rc = end_check_peer(ch, a->call, state);
        return rc != 0 ? rc : (rc = credit_fetch(ch, NEED_SLOT)) != 0 ? rc : R_PENDING;
    }
    if (rc != 0)
        return rc;
    if (region_write_is_part(a))
        region_write_part_of(a->write.d)->sequence =
            atomic_load_explicit(&ch->w.sent, memory_order_relaxed) + 1;
    rc = write_attempt(ch, &a->write);
    a->awaited = a->write.awaited;
    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("rwrite_from: sent");
    if (!region_write_is_part(a) && !a->in_flight)
        region_write_notify_done(a->source.done, 1);
    return 0;
}

/* Which of the three ways; and what it needs of the network. */
static int region_write_begin_attempt(struct rch *ch, void *arguments)
{
    struct from_arguments *a = arguments;
    struct rregion *r = a->source.region;

    if (a->bytes <= ch->inline_max)
        return 0;
    if (r->own != NULL) {
        a->alloc.call = NULL; /* no block is wanted */
        return 0;
    }
    if (ch->remote == NULL || (ch->cfg.op == OP_GET && a->bytes < REGION_NOTE_BYTES))
        return 0;
    a->in_flight = true;
    a->write.from = &a->source;
    return region_memory(ch, a->call, r, &a->source.memory);
}

static int region_write_write_from(rch_t ch, const char *call, rregion_t region, size_t offset,
                                   size_t bytes, uint64_t tag, int *done, bool wait)
{
    struct from_arguments a = {
        .call = call,
        .alloc = {call, bytes, NULL, false, {"memory given back by the reader", 0}},
        .write = {call, NULL, WHOLE, wait, false, {"free slot in the ring", 0}, NULL, 0, 0},
        .source = {region, NULL, offset, done},
        .bytes = bytes,
        .tag = tag,
        .awaited = {"memory given back by the reader", 0}};
    int rc = end_check_call(ch, call, SIDE_WRITER), before = done != NULL ? *done : 0;
    uint32_t row;

    if (rc == 0)
        rc = region_check(ch, call, region, offset, bytes);
    if (rc == 0)
        rc = call_once(ch, region_write_begin_attempt, &a);
    if (rc != 0)
        return rc;
    region_write_notify_done(done, 0);
    row = trace_begin(ch, TRACE_WRITE);
    rc = wait ? call_wait(ch, call, &a.awaited, region_write_from_attempt, &a)
              : call_once(ch, region_write_from_attempt, &a);
    trace_end(row, a.write.number, a.write.written, rc);
    if (rc == 0)
        return 0;
    region_write_notify_done(done, before);
    if (a.write.d != NULL && region_write_is_part(&a)) {
        (void)call_once(ch, region_write_unmake_part, a.write.d);
    } else if (a.write.d != NULL) {
        (void)write_unalloc(ch, a.write.d);
    } else if (rc == -ETIMEDOUT && a.alloc.call != NULL) {
        rc = write_explain_timeout(ch, &a.alloc);
    }
    return rc;
}

int rpipe_write_from(rch_t ch, rregion_t region, size_t offset, size_t bytes, uint64_t tag,
                     int *done, int flags)
{
    struct call call;
    int rc = call_begin(&call, "rwrite_from", ch, SIDE_WRITER);

    if (rc == 0)
        rc = call_check_flags(ch, flags);
    if (rc == 0)
        rc = region_write_write_from(ch, "rwrite_from", region, offset, bytes, tag, done,
                                     (flags & R_NOWAIT) == 0);
    return call_end(&call, rc);
}

/* ---- rdone ---- */

struct done_arguments {
    const char *call;
    const int *done; /* NULL: all */
    bool flights;    /* rclose: parts do not matter */
};

/* 0: it is over; R_PENDING; or the code, with a sentence */
static int region_write_poll(struct rch *ch, const struct done_arguments *a)
{
    int value;

    if (a->done == NULL && (a->flights ? region_in_flight(ch) : region_write_anything_out(ch)))
        return R_PENDING;
    value = a->done != NULL             ? __atomic_load_n(a->done, __ATOMIC_ACQUIRE)
            : ch->w.lost && !a->flights ? -EPIPE
                                        : 1;
    if (value > 0)
        return 0;
    if (value < 0)
        return end_error(
            ch, value, "%s: rank %d has not got %s, and will not: %s", a->call, ch->peer,
            a->done != NULL ? "this message" : "every message from the program's memory",
            rinfo_strerror(value));
    if (!region_write_anything_out(ch))
        return end_error(ch, -EINVAL, "%s: no transfer with this word is under way", a->call);
    return R_PENDING;
}

static int region_write_drive(struct rch *ch, const char *call)
{
    int rc = 0;

    if (region_in_flight(ch)) {
        rc = remote_progress(ch, call);
        if (rc == 0 && ch->cfg.op == OP_PUT) {
            rc = remote_flush(ch);
            if (rc != 0)
                return rc == -EAGAIN ? R_PENDING : remote_failed(ch, call);
            region_transfers_complete(ch);
        } else if (rc == 0) {
            rc = credit_fetch(ch, NEED_SLOT);
        }
    }
    if (rc == 0 && ch->w.parts_out > 0)
        rc = credit_fetch(ch, NEED_MEMORY);
    return rc;
}

static int region_write_done_attempt(struct rch *ch, void *arguments)
{
    struct done_arguments *a = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    int rc = region_write_poll(ch, a);

    if (rc != R_PENDING)
        return rc;
    rc = end_check_peer(ch, a->call, state);
    if (rc != 0) { /* every word has been written */
        int warned = region_write_poll(ch, a);

        return warned == 0 || warned == -EINVAL
                   ? warned
                   : end_check_peer(ch, a->call, state); /* which says more */
    }
    RPIPE_FAILPOINT("rdone: before a look");
    rc = region_write_drive(ch, a->call);
    return rc != 0 ? rc : region_write_poll(ch, a);
}

static int region_write_wait_done(rch_t ch, const char *call, const int *done, bool wait)
{
    static const struct awaited awaited = {
        "word that the reader has taken what was sent from this memory", 0};
    struct done_arguments a = {call, done, false};
    int rc = end_check_call(ch, call, SIDE_WRITER);

    if (rc != 0)
        return rc;
    return wait ? call_wait(ch, call, &awaited, region_write_done_attempt, &a)
                : call_once(ch, region_write_done_attempt, &a);
}

int rpipe_done(rch_t ch, const int *done, int flags)
{
    struct call call;
    int rc = call_begin(&call, "rdone", ch, SIDE_WRITER);

    if (rc == 0)
        rc = call_check_flags(ch, flags);
    if (rc == 0)
        rc = region_write_wait_done(ch, "rdone", done, (flags & R_NOWAIT) == 0);
    return call_end(&call, rc);
}

int region_wait_transfers(struct rch *ch, const char *call)
{
    static const struct awaited awaited = {
        "end of the transfers from the program's memory (the channel is still open)", 0};
    struct done_arguments a = {call, NULL, true};

    return call_wait(ch, call, &awaited, region_write_done_attempt, &a);
}
