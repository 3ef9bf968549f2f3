/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote_read.c: the reader of a pipe over a network (doc/network.md).
 *
 * PUT: payload and slot have been written here; a slot counts when its seal fits. GET: slots are taken a few ahead, so that payloads
 * are fetched while the program works on earlier ones; a message is there when its payload is. The memory that it is fetched
 * into is free, because the block of the same offset in the writer's heap is out until this end frees it.
 *
 * Invariants of the fetch queue: messages are in the order of their slots, and have been counted as read (r.nread, r.held); those
 * from the first one that is not posted on are not posted either.
 */
#include "rpipe/data/attempt.h"
#include "rpipe/data/path_remote.h"

#include "rpipe/grow/grow.h"
#include "sync/seal.h"
#include "util/failpoint.h"

#include <errno.h>

static bool remote_read_is_get(const struct rch *ch) { return ch->remote->fetch_most > 0; }

static const struct slot *remote_read_next_slot(const struct rch *ch)
{
    return &ch->ring->slot[ch->r.nread & ch->mask];
}

/* ---- GET: fetching ahead ---- */

static struct fetch *remote_read_fetch_at(struct remote_path *n, uint32_t i)
{
    return &n->fetch[(n->fetch_first + i) % n->fetch_most];
}

/* The payload is in a region of the writer's: 0, and t fetches from there; or not yet; or it cannot be. */
static int remote_read_find_region(struct rch *ch, struct fetch *f, struct btl_transfer *t)
{
    struct cached_key *k = key_cache_find(ch, f->region);
    int rc = 0;

    if (k == NULL && !f->asked) { /* what it is, the block says */
        if (f->d->size < REGION_NOTE_BYTES)
            return read_violation(ch, "is too small for one from a region (bytes, least)",
                                  f->d->size, REGION_NOTE_BYTES);
        t->bytes = REGION_NOTE_BYTES;
        rc = ch->ops->get(ch->remote->connection, t, &f->done);
        f->asked = rc == 0;
        return rc == 0 ? -EAGAIN : rc;
    }
    /* acquire: pairs with the release of whoever completes the get */
    if (f->asked && atomic_load_explicit(&f->done.pending, memory_order_acquire) > 0)
        return -EAGAIN;
    if (f->asked && atomic_load_explicit(&f->done.error, memory_order_relaxed) != 0)
        return -EIO;
    if (k == NULL)
        k = key_cache_add(ch, f->region, f->d->mem, &rc);
    if (k == NULL)
        return rc != 0 ? rc : -EAGAIN;
    if (f->at > k->remote.bytes || f->d->size > k->remote.bytes - f->at)
        return read_violation(ch, "lies outside the region that it names (at, bytes)", f->at,
                              f->d->size);
    t->remote = &k->remote;
    t->remote_offset = f->at;
    f->key_cache = k;
    return 0;
}

static int remote_read_fetch_post(struct rch *ch, struct fetch *f, bool first)
{
    const struct placement *want = &ch->remote->want;
    struct btl_transfer t;
    int rc;

    if (f->d->units == 0 || f->d->size == 0) {
        f->posted = true;
        return 0;
    }
    if (!remote_locate(ch, f->d->offset, f->d->size,
                       &t)) /* take_heap has looked at the same table */
        return -EFAULT;
    if (f->region != 0 && (rc = remote_read_find_region(ch, f, &t)) != 0)
        return rc;
    if (first && want->region != NULL && f->d->size <= want->room) {
        t.memory = want->memory;
        t.offset = want->offset;
    }
    rc = ch->ops->get(ch->remote->connection, &t, &f->done);
    if (rc != 0)
        return rc;
    f->posted = true;
    RPIPE_FAILPOINT("net: payload asked for");
    if (f->key_cache != NULL)
        f->key_cache->users++;
    if (t.memory == want->memory && want->region != NULL) {
        f->into = *want;
        region_hold(want->region);
    }
    return 0;
}

static bool remote_read_is_fetched(const struct fetch *f)
{
    /* acquire: pairs with the release of whoever completes the get: the payload is here */
    return f->posted && atomic_load_explicit(&f->done.pending, memory_order_acquire) == 0 &&
           atomic_load_explicit(&f->done.error, memory_order_relaxed) == 0;
}

/* So far nobody fetches from the writer's own memory any more. */
static void remote_read_publish_fetched(struct rch *ch)
{
    struct remote_path *n = ch->remote;
    uint64_t fetched = ch->r.nread - n->fetch_count;
    uint32_t i;

    for (i = 0; i < n->fetch_count && remote_read_is_fetched(remote_read_fetch_at(n, i)); i++)
        fetched++;
    /* release: the writer touches the payload after that */
    atomic_store_explicit(&ch->credit->line.fetched, fetched, memory_order_release);
}

/* Takes slots as far as there is room to fetch for them, and posts what is not posted. 0, or what is wrong with a slot. */
static int remote_read_fetch_ahead(struct rch *ch, const char *call)
{
    struct remote_path *n = ch->remote;
    struct slot copy;
    uint32_t i;
    int rc = 0;

    /* what comes behind a message that is wanted elsewhere is fetched when it is known where it is wanted */
    while (n->fetch_count < (n->want.region != NULL ? 1 : n->fetch_most) &&
           seal_open(remote_read_next_slot(ch), ch->r.nread + 1, &copy)) {
        struct fetch *f = remote_read_fetch_at(n, n->fetch_count);

        rc = read_take(ch, call, &copy, &f->d);
        if (rc != 0)
            break;
        atomic_store_explicit(&f->done.pending, 0, memory_order_relaxed);
        atomic_store_explicit(&f->done.error, 0, memory_order_relaxed);
        f->posted = f->asked = false;
        f->key_cache = NULL;
        f->into.region = NULL;
        f->region = f->d->units != 0 && copy.kind == SLOT_REGION ? copy.heap.region : 0;
        f->at = copy.heap.at;
        n->fetch_count++;
    }
    for (i = 0; i < n->fetch_count; i++) {
        struct fetch *f = remote_read_fetch_at(n, i);

        if (!f->posted && remote_read_fetch_post(ch, f, i == 0) != 0)
            break; /* queues are full, or the line has failed: remote_progress says which */
    }
    remote_read_publish_fetched(ch);
    return n->fetch_count > 0 ? 0 : rc; /* what came before what is wrong is still to be read */
}

static bool remote_read_first_is_fetched(struct rch *ch)
{
    struct remote_path *n = ch->remote;

    return n->fetch_count > 0 && remote_read_is_fetched(&n->fetch[n->fetch_first]);
}

/* ---- a message comes in ---- */

bool remote_message_ready(struct rch *ch)
{
    struct slot copy;

    (void)remote_progress(ch, "rread"); /* what is here is here, also where the line has failed */
    if (!remote_read_is_get(ch))
        return seal_open(remote_read_next_slot(ch), ch->r.nread + 1, &copy);
    /* a slot that cannot be is something to tell, too */
    return remote_read_fetch_ahead(ch, "rread") != 0 || remote_read_first_is_fetched(ch);
}

/* It has landed in the program's memory. Whoever wants it elsewhere, after a call that did not wait for it, gets a copy. */
static void remote_read_finish_placement(struct remote_path *n, struct fetch *f)
{
    const struct placement *into = &f->into;
    char *place = (char *)into->memory->base + into->offset;

    n->placed = n->want.region == into->region && n->want.offset == into->offset;
    n->direct += n->placed;
    if (!n->placed)
        memcpy(f->d->mem, place, f->d->size);
    region_unhold(into->region);
    f->into.region = NULL;
}

static int remote_read_take_fetched(struct rch *ch, const char *call, raddr_t *d)
{
    struct remote_path *n = ch->remote;
    int rc = remote_read_fetch_ahead(ch, call);
    struct fetch *f;

    if (rc != 0)
        return rc;
    if (!remote_read_first_is_fetched(ch))
        return R_PENDING;
    RPIPE_FAILPOINT("net: payload here");
    f = &n->fetch[n->fetch_first];
    n->placed = false;
    if (f->into.region != NULL)
        remote_read_finish_placement(n, f);
    if (f->key_cache != NULL)
        f->key_cache->users--;
    f->key_cache = NULL;
    *d = f->d;
    n->fetch_first = (n->fetch_first + 1) % n->fetch_most;
    n->fetch_count--;
    if (n->want.region == NULL)
        (void)remote_read_fetch_ahead(ch, call); /* there is room again */
    else
        remote_read_publish_fetched(
            ch); /* it may have come after the last look; the writer waits for word, and no call may follow */
    return 0;
}

bool remote_next_size(struct rch *ch, size_t *size)
{
    struct slot copy;

    (void)remote_progress(ch, "rread_into");
    if (remote_read_is_get(ch)) {
        (void)remote_read_fetch_ahead(ch, "rread_into");
        if (ch->remote->fetch_count == 0)
            return false;
        *size = ch->remote->fetch[ch->remote->fetch_first].d->size;
        return true;
    }
    if (!seal_open(remote_read_next_slot(ch), ch->r.nread + 1, &copy))
        return false;
    *size = copy.kind == SLOT_INLINE ? copy.bytes : copy.heap.size;
    return true;
}

int remote_take(struct rch *ch, const char *call, raddr_t *d, size_t *size)
{
    struct slot copy;
    int driven = remote_progress(ch, call), rc;

    if (remote_read_is_get(ch))
        rc = remote_read_take_fetched(ch, call, d);
    else if (seal_open(remote_read_next_slot(ch), ch->r.nread + 1, &copy))
        rc = read_take(ch, call, &copy, d);
    else
        rc = R_PENDING;
    if (rc == 0)
        *size = (*d)->size;
    if (rc == 0 && ch->r.nread % COUNTER_EVERY == 0)
        counter_refresh(ch);
    return rc == R_PENDING && driven != 0 ? driven : rc;
}

int remote_placements_drain(struct rch *ch)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    struct remote_path *n = ch->remote;
    bool broken = (state & (STATE_FAILED | STATE_PEER_DIED | STATE_PEER_LEFT)) != 0;
    uint32_t i;
    int rc = 0;

    if ((state & STATE_JOINED) == 0)
        return 0;
    broken = ch->ops->progress(n->connection) != 0 || broken;
    for (i = 0; i < n->fetch_count; i++) {
        struct fetch *f = remote_read_fetch_at(n, i);

        if (f->into.region == NULL)
            continue;
        if (remote_read_is_fetched(f))
            remote_read_finish_placement(
                n, f); /* should another thread still read it, it is a message like any other */
        else if (!broken && atomic_load_explicit(&f->done.pending, memory_order_acquire) > 0)
            rc = R_PENDING;
    }
    return rc;
}

/* ---- channel mode: a block is given back in the writer's memory ---- */

#define QUEUE_MOST_NS (1000 * NS_PER_MS)

void remote_release_block(struct rch *ch, uint32_t block)
{
    struct reader *r = &ch->r;
    uint64_t offset = r->back.at * sizeof(struct slot);
    struct slot *s = &r->reverse[r->back.at];
    struct btl_transfer t = {&ch->reverse_remote, offset, &ch->remote->reverse, offset, sizeof(*s)};
    int64_t until = 0;

    memset(s, 0, offsetof(struct slot, flag));
    s->kind = SLOT_FREED;
    s->block = block;
    seal_slot(s, r->heap_freed);
    ring_cursor_advance(&r->back);
    RPIPE_FAILPOINT("net: before a block is named");
    /* queues of a line that is up move by themselves: rfree does not wait for the writer */
    while (ch->ops->write(ch->remote->connection, NULL, &t) == -EAGAIN &&
           ch->ops->progress(ch->remote->connection) == 0) {
        int64_t now = clock_now();

        if (until == 0)
            until = now + QUEUE_MOST_NS;
        if (now > until) {
            join_fail(ch, -EIO,
                      "the queues of the network have not moved for a second: freed memory cannot "
                      "be told");
            return;
        }
        cpu_pause();
    }
}
