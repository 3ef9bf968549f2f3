/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote_fetch.c: the reader of a GET pipe over a network: payloads are fetched ahead of rread (path_remote.h).
 *
 * Slots are taken a few ahead, so that payloads travel while the program works on earlier ones. The memory into which a payload is
 * fetched is free, because the block of the same offset in the writer's heap is in flight until this end frees it. A payload that has come
 * with its slot (path_remote_eager.c) is there already.
 *
 * Invariants: messages are in the order of their slots and have been counted as read (r.nread, r.held); from the first one that is not
 * posted on, none is posted.
 */
#include "rpipe/data/path_remote_fetch.h"

#include "rpipe/data/path_remote_eager.h"
#include "rpipe/data/take.h"
#include "rpipe/end/debug_guard.h"
#include "rpipe/end/device.h"

#include "sync/seal.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdlib.h>

#define FETCH_AHEAD_DEFAULT 8
#define FETCH_AHEAD_MOST 256

/* A message that has been taken from its slot. Its payload is here when it is posted and nothing is pending. */
struct fetch {
    struct rdesc *d;
    struct btl_done done;
    bool posted;            /* or there is nothing to fetch */
    bool eager;             /* the payload has come with the slot */
    bool note_requested;    /* the note about the writer's region has been posted */
    uint64_t region, at;    /* number of the writer's region, or 0; where in it the payload is */
    struct cached_key *key; /* posted: the region that is read; NULL: the heap */
    struct placement into;  /* posted: where it is placed, if not in the mirror */
};

static struct fetch *remote_fetch_at(const struct remote_fetches *q, uint32_t i)
{
    return &q->entry[(q->first + i) % q->most];
}

int remote_fetches_open(struct rch *ch, struct error *err)
{
    struct remote_fetches *q = &ch->remote->fetches;
    uint32_t ahead = ch->cfg.fetch_ahead;

    q->most = ahead == 0                 ? FETCH_AHEAD_DEFAULT
              : ahead < FETCH_AHEAD_MOST ? ahead
                                         : FETCH_AHEAD_MOST;
    q->entry = calloc(q->most, sizeof(*q->entry));
    if (q->entry == NULL)
        return error_set(err, -ENOMEM, "no memory to fetch %u messages ahead", q->most);
    return 0;
}

void remote_fetches_release(struct rch *ch)
{
    struct remote_fetches *q = &ch->remote->fetches;
    uint32_t i;

    for (i = 0; i < q->count; i++)
        if (remote_fetch_at(q, i)->into.region != NULL)
            region_unhold(remote_fetch_at(q, i)->into.region);
    q->count = 0;
    key_cache_release(ch, q->keys);
    q->keys = NULL;
    free(q->entry);
    q->entry = NULL;
}

/* ---- requesting payloads ---- */

static bool remote_fetch_is_pending(const struct fetch *f)
{
    /* acquire: pairs with the release at the completion of the get: the payload is here */
    return atomic_load_explicit(&f->done.pending, memory_order_acquire) > 0;
}

static bool remote_fetch_is_complete(const struct fetch *f)
{
    return f->posted && !remote_fetch_is_pending(f) &&
           atomic_load_explicit(&f->done.error, memory_order_relaxed) == 0;
}

/* The key of the writer's region is in the block of the message: fetches it. -EAGAIN: requested. */
static int remote_fetch_note(struct rch *ch, struct fetch *f, struct btl_transfer *t)
{
    int rc;

    if (f->d->size < REGION_NOTE_BYTES)
        return violation_of_message(ch, "is too small for one from a region", "bytes", f->d->size,
                                    "least", REGION_NOTE_BYTES);
    t->bytes = REGION_NOTE_BYTES;
    rc = ch->ops->get(ch->remote->connection, t, &f->done);
    f->note_requested = rc == 0;
    return rc == 0 ? -EAGAIN : rc;
}

/* The payload is in a region of the writer: `t` fetches from there. 0, -EAGAIN: not yet; or the error. */
static int remote_fetch_from_region(struct rch *ch, struct fetch *f, struct btl_transfer *t)
{
    struct cached_key *k = key_cache_find(ch->remote->fetches.keys, f->region);
    int rc = 0;

    if (k == NULL && !f->note_requested)
        return remote_fetch_note(ch, f, t);
    if (f->note_requested && remote_fetch_is_pending(f))
        return -EAGAIN;
    if (f->note_requested && atomic_load_explicit(&f->done.error, memory_order_relaxed) != 0)
        return -EIO;
    if (k == NULL)
        k = key_cache_add(ch, &ch->remote->fetches.keys, f->region, f->d->mem, &rc);
    if (k == NULL)
        return rc != 0 ? rc : -EAGAIN;
    if (f->at > k->remote.bytes || f->d->size > k->remote.bytes - f->at)
        return violation_of_message(ch, "is outside the region that it names", "offset", f->at,
                                    "bytes", f->d->size);
    t->remote = &k->remote;
    t->remote_offset = f->at;
    f->key = k;
    return 0;
}

static int remote_fetch_post(struct rch *ch, struct fetch *f, bool first)
{
    const struct placement *want = &ch->remote->fetches.want;
    struct btl_transfer t;
    int rc;

    if (f->d->units == 0 || f->d->size == 0 || f->eager) {
        f->posted = true;
        return 0;
    }
    if (!remote_locate(ch, f->d->offset, f->d->size, &t))
        return -EFAULT; /* not reached: take_block has checked the same table */
    if (f->region != 0 && (rc = remote_fetch_from_region(ch, f, &t)) != 0)
        return rc;
    if (first && want->region != NULL && f->d->size <= want->room) {
        t.memory = want->memory;
        t.offset = want->offset;
    }
    rc = ch->ops->get(ch->remote->connection, &t, &f->done);
    if (rc != 0)
        return rc;
    f->posted = true;
    RPIPE_FAILPOINT("net: payload requested");
    if (f->key != NULL)
        f->key->users++;
    if (t.memory == want->memory && want->region != NULL) {
        f->into = *want;
        region_hold(want->region);
    }
    return 0;
}

/* Messages whose payload is not needed in the writer's memory any more. */
static void remote_fetch_publish(struct rch *ch)
{
    const struct remote_fetches *q = &ch->remote->fetches;
    uint64_t fetched = ch->r.nread - q->count;
    uint32_t i;

    for (i = 0; i < q->count && remote_fetch_is_complete(remote_fetch_at(q, i)); i++)
        fetched++;
    /* release: the fetches precede the writer's next store to the payloads. Pairs with fetch_credit_refresh */
    atomic_store_explicit(&ch->credit->line.fetched, fetched, memory_order_release);
}

static int remote_fetch_take_slot(struct rch *ch, const struct slot *copy)
{
    struct remote_fetches *q = &ch->remote->fetches;
    struct fetch *f = remote_fetch_at(q, q->count);
    int rc = remote_eager_check(ch, copy);

    if (rc == 0)
        rc = take_message(ch, copy, !device_has_heap(ch), &f->d, NULL);
    if (rc != 0)
        return rc;
    if (ch->checked)
        debug_guard_keep(copy, f->d);
    atomic_store_explicit(&f->done.pending, 0, memory_order_relaxed);
    atomic_store_explicit(&f->done.error, 0, memory_order_relaxed);
    f->posted = f->note_requested = false;
    f->eager = copy->eager != 0;
    f->key = NULL;
    f->into.region = NULL;
    f->region = f->d->units != 0 && copy->kind == SLOT_REGION ? copy->heap.region : 0;
    f->at = copy->heap.at;
    q->count++;
    return 0;
}

int remote_fetch_ahead(struct rch *ch)
{
    struct remote_fetches *q = &ch->remote->fetches;
    /* what follows a message with a requested placement is fetched when its own placement is known */
    uint32_t most = q->want.region != NULL ? 1 : q->most, i;
    struct slot copy;
    int rc = 0;

    while (rc == 0 && q->count < most &&
           seal_open(end_slot(ch, ch->r.nread), ch->r.nread + 1, &copy))
        rc = remote_fetch_take_slot(ch, &copy);
    for (i = 0; i < q->count; i++) {
        struct fetch *f = remote_fetch_at(q, i);

        if (!f->posted && remote_fetch_post(ch, f, i == 0) != 0)
            break; /* the queues are full, or the connection has failed, which progress reports */
    }
    remote_fetch_publish(ch);
    return q->count > 0 ? 0 : rc; /* messages before the invalid one are read first */
}

/* ---- the oldest message ---- */

bool remote_first_is_fetched(const struct rch *ch)
{
    const struct remote_fetches *q = &ch->remote->fetches;

    return q->count > 0 && remote_fetch_is_complete(&q->entry[q->first]);
}

bool remote_first_size(const struct rch *ch, size_t *size)
{
    const struct remote_fetches *q = &ch->remote->fetches;

    if (q->count > 0)
        *size = q->entry[q->first].d->size;
    return q->count > 0;
}

/* The payload is in registered memory. A call that requests it elsewhere gets a copy. */
static void remote_fetch_finish_placement(struct rch *ch, struct fetch *f)
{
    struct remote_fetches *q = &ch->remote->fetches;
    const struct placement *into = &f->into;
    char *at = (char *)into->memory->base + into->offset;

    q->placed = q->want.region == into->region && q->want.offset == into->offset;
    ch->remote->direct += q->placed;
    if (!q->placed)
        memcpy(f->d->mem, at, f->d->size);
    region_unhold(into->region);
    f->into.region = NULL;
}

struct rdesc *remote_take_fetched(struct rch *ch)
{
    struct remote_fetches *q = &ch->remote->fetches;
    struct fetch *f = &q->entry[q->first];
    struct rdesc *d = f->d;

    q->placed = false;
    if (f->into.region != NULL)
        remote_fetch_finish_placement(ch, f);
    if (f->key != NULL)
        f->key->users--;
    f->key = NULL;
    q->first = (q->first + 1) % q->most;
    q->count--;
    if (q->want.region == NULL)
        (void)remote_fetch_ahead(ch); /* an entry has become free */
    else
        remote_fetch_publish(ch); /* the writer waits for this number, and no call may follow */
    return d;
}

bool remote_fetches_pending(const struct remote_path *n)
{
    uint32_t i;

    for (i = 0; i < n->fetches.count; i++)
        if (remote_fetch_is_pending(remote_fetch_at(&n->fetches, i)))
            return true;
    return false;
}

/* ---- placement ---- */

void remote_want(struct rch *ch, const struct placement *place)
{
    struct remote_fetches *q = &ch->remote->fetches;

    q->placed = false;
    /* while rclose in another thread waits for the end of all placements the message is copied */
    if (place != NULL && place->memory != NULL && ch->closing == CLOSING_NOT)
        q->want = *place;
    else
        q->want.region = NULL;
}

bool remote_placed(const struct rch *ch) { return ch->remote->fetches.placed; }

int remote_placements_drain(struct rch *ch)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    const struct remote_fetches *q = &ch->remote->fetches;
    bool broken = (state & (STATE_FAILED | STATE_PEER_DIED | STATE_PEER_LEFT)) != 0;
    uint32_t i;
    int rc = 0;

    if ((state & STATE_JOINED) == 0)
        return 0;
    broken = ch->ops->progress(ch->remote->connection) != 0 || broken;
    for (i = 0; i < q->count; i++) {
        struct fetch *f = remote_fetch_at(q, i);

        if (f->into.region == NULL)
            continue;
        if (remote_fetch_is_complete(f))
            remote_fetch_finish_placement(ch, f); /* another thread may still read the message */
        else if (!broken && remote_fetch_is_pending(f))
            rc = R_PENDING; /* on a broken connection the region stays busy */
    }
    return rc;
}
