/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote_transfer.c: the writer of a pipe over a network: transfers from registered memory, and flushes (path_remote.h).
 *
 * A transfer is complete when the reader has the slot or a flush has proved that the payload is placed (PUT), or when the reader has
 * fetched the payload (GET). All three are numbers of messages up to which everything has arrived, so that the ring of transfers is
 * emptied from its oldest entry, in whatever order a network completes operations.
 *
 * Invariant: transfers that were given up stay in the ring, and their regions busy, until the connection is closed: the device may
 * access the memory until then.
 */
#include "rpipe/data/path_remote_transfer.h"

#include "rpipe/data/credit.h"
#include "rpipe/data/path_remote_window.h"
#include "rpipe/end/error.h"
#include "rpipe/end/config.h"

#include <errno.h>
#include <stdlib.h>

#define TRANSFERS_BEYOND_RING 64 /* GET: messages that the reader has taken and not fetched */

struct region_transfer {
    struct rregion *region;
    int *done;
    uint64_t sequence; /* of the message */
};

static struct region_transfer *remote_transfer_at(const struct remote_transfers *t, uint64_t i)
{
    return &t->entry[i & (t->capacity - 1)];
}

bool remote_transfers_pending(const struct rch *ch)
{
    return remote_transfers_any(ch) || remote_moves_pending(ch);
}

int remote_transfers_reserve(struct rch *ch)
{
    struct remote_transfers *t = &ch->remote->transfers;
    uint32_t capacity = 1;

    if (t->capacity == 0) { /* the first one */
        while (capacity < ch->cfg.slots + TRANSFERS_BEYOND_RING)
            capacity *= 2;
        t->entry = calloc(capacity, sizeof(*t->entry));
        if (t->entry == NULL)
            return call_error(ch, -ENOMEM, "no memory for the records of %u transfers", capacity);
        t->capacity = capacity;
    }
    return t->end - t->first < t->capacity ? 0 : R_PENDING;
}

void remote_transfer_posted(struct rch *ch, const struct region_source *from, uint64_t sequence)
{
    struct remote_transfers *t = &ch->remote->transfers;

    *remote_transfer_at(t, t->end++) = (struct region_transfer){from->region, from->done, sequence};
    ch->remote->direct++;
    region_hold(from->region);
}

/* The reader has the payloads of all messages up to this one. */
static void remote_transfer_complete_to(struct remote_transfers *t, uint64_t upto)
{
    for (; t->first != t->end; t->first++) {
        struct region_transfer *one = remote_transfer_at(t, t->first);

        if (one->sequence > upto)
            return;
        region_unhold(one->region); /* before the word: a thread that sees it may end the region */
        if (!t->aborted)
            region_notify_done(one->done, 1);
    }
}

void remote_transfers_complete(struct rch *ch)
{
    const struct remote_path *n = ch->remote;
    uint64_t read = credit_slots_read(ch);

    if (ch->cfg.op == OP_GET)
        remote_transfer_complete_to(&ch->remote->transfers, n->credits.fetched);
    else
        remote_transfer_complete_to(&ch->remote->transfers,
                                    n->flushes.placed > read ? n->flushes.placed : read);
    remote_moves_complete(ch);
}

void remote_transfers_abort(struct rch *ch, int code)
{
    uint32_t state = atomic_load_explicit(
        &ch->state, memory_order_acquire); /* pairs with end_state_set: peer_final */
    struct remote_transfers *t = &ch->remote->transfers;
    uint64_t i;

    remote_moves_abort(ch, code);
    if (!remote_transfers_any(ch))
        return;
    /* a reader that has closed has got what it had read until then */
    remote_transfer_complete_to(t, (state & STATE_PEER_CLOSED) != 0 ? ch->peer_final : 0);
    for (i = t->first; i != t->end; i++) {
        region_notify_done(remote_transfer_at(t, i)->done, code);
        t->aborted = ch->w.lost = true;
    }
}

void remote_transfers_release(struct rch *ch)
{
    struct remote_transfers *t = &ch->remote->transfers;

    for (; t->first != t->end; t->first++)
        region_unhold(remote_transfer_at(t, t->first)->region);
    free(t->entry);
    t->entry = NULL;
    t->capacity = 0;
    remote_moves_release(ch);
}

/* ---- flushes ---- */

int remote_flush(struct rch *ch)
{
    struct remote_flushes *f = &ch->remote->flushes;
    int rc;

    if (f->begun == f->ended) {
        f->begun++;
        if (config_side(&ch->cfg) == SIDE_WRITER)
            f->mark = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
    }
    rc = ch->ops->flush(ch->remote->connection);
    if (rc != -EAGAIN)
        f->ended = f->begun;
    if (rc == 0) { /* applied by the next call: this may be the service thread */
        f->placed = f->mark;
        f->succeeded = f->begun;
    }
    return rc;
}

int remote_flush_since(struct rch *ch, uint64_t *since)
{
    struct remote_flushes *f = &ch->remote->flushes;
    int rc;

    if (*since == 0)
        *since = f->begun + 1;
    rc = remote_flush(ch);
    return rc == 0 && f->ended < *since ? remote_flush(ch) : rc;
}
