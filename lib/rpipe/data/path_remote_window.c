/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote_window.c: the writer of a pipe over a network: bytes to and from windows of the peer (path_remote.h, doc/windows.md).
 *
 * A write is a `write` of the backend without a slot: the slot of any later message follows it. It is complete when a later message
 * has been read, when a flush that began after it has succeeded, or when the backend has copied it and keeps the order of all that is posted
 * (`position`, which sockets have: then no flush is needed). A fetch is a `get`, and complete when its btl_done is, and, into memory of a
 * device, when its table has been called: `arrived`.
 *
 * Invariants
 * 1. Transfers are completed in the order of the calls: the ring is emptied from its oldest entry.
 * 2. An entry stays where it is while its btl_done is in use, which is until the connection is closed if it fails.
 * 3. Transfers that were given up stay in the ring, and their regions busy, until the connection is closed.
 */
#include "rpipe/data/path_remote_window.h"

#include "rpipe/data/credit.h"
#include "rpipe/end/cork.h"
#include "rpipe/end/device.h"
#include "rpipe/end/error.h"

#include "util/failpoint.h"

#include <errno.h>
#include <stdlib.h>

#define MOVES 256u /* transfers in flight; a power of two */

struct window_transfer {
    struct rregion *region;
    int *done;
    bool fetch;
    char *near; /* a fetch: where its bytes are here */
    size_t bytes;
    uint64_t message;           /* a write: the first message behind it, */
    uint64_t flush;             /* and the first flush behind it; */
    uint64_t position;          /* or what the backend has accepted with it; 0: unknown */
    struct btl_done completion; /* a fetch */
};

static struct window_transfer *remote_move_at(const struct remote_moves *w, uint64_t i)
{
    return &w->entry[i & (MOVES - 1)];
}

bool remote_moves_need_flush(const struct rch *ch)
{
    const struct remote_moves *w = &ch->remote->moves;

    return remote_moves_pending(ch) && !remote_move_at(w, w->first)->fetch &&
           remote_move_at(w, w->first)->position == 0;
}

/* Messages that the reader has read, as far as is known; one that has closed has sent the number. */
static uint64_t remote_moves_read(const struct rch *ch)
{
    uint32_t state = atomic_load_explicit(
        &ch->state, memory_order_acquire); /* pairs with end_state_set: peer_final */
    uint64_t read = credit_slots_read(ch);

    return (state & STATE_PEER_CLOSED) != 0 && ch->peer_final > read ? ch->peer_final : read;
}

/* The backend does not access the memory of a write any more. */
static bool remote_move_is_released(const struct rch *ch, const struct window_transfer *t)
{
    uint64_t accepted, released;

    if (t->position == 0)
        return false;
    ch->ops->position(ch->remote->connection, &accepted, &released);
    return t->position <= released;
}

static bool remote_move_is_complete(const struct rch *ch, const struct window_transfer *t)
{
    if (!t->fetch)
        return t->message <= remote_moves_read(ch) || t->flush <= ch->remote->flushes.succeeded ||
               remote_move_is_released(ch, t);
    /* acquire: the bytes and the error; pairs with the release of the backend */
    return atomic_load_explicit(&t->completion.pending, memory_order_acquire) == 0 &&
           atomic_load_explicit(&t->completion.error, memory_order_relaxed) == 0;
}

/* The device sees what a fetch has brought: 1, or the error of its table, which is the program's only in the word. */
static int remote_move_arrived(struct rch *ch, const struct window_transfer *t)
{
    int rc = t->fetch ? device_call_arrived(ch, t->region->memory, t->near, t->bytes) : 0;

    if (rc == 0)
        return 1;
    ch->w.lost = true;
    return rc == R_PENDING ? -EIO : rc; /* it is not repeated */
}

void remote_moves_complete(struct rch *ch)
{
    struct remote_moves *w = &ch->remote->moves;

    for (; remote_moves_pending(ch); w->first++) {
        struct window_transfer *t = remote_move_at(w, w->first);
        int value;

        if (!remote_move_is_complete(ch, t))
            return;
        value = remote_move_arrived(ch, t);
        region_unhold(t->region); /* before the word: a thread that sees it may close the region */
        region_notify_done(t->done, value);
    }
}

void remote_moves_abort(struct rch *ch, int code)
{
    struct remote_moves *w = &ch->remote->moves;
    uint64_t i;

    remote_moves_complete(ch);
    if (!remote_moves_pending(ch))
        return;
    for (i = w->first; i != w->end; i++)
        region_notify_done(remote_move_at(w, i)->done, code);
    w->aborted = ch->w.lost = true;
}

void remote_moves_release(struct rch *ch)
{
    struct remote_moves *w = &ch->remote->moves;

    for (; w->first != w->end; w->first++)
        region_unhold(remote_move_at(w, w->first)->region);
    free(w->entry);
    w->entry = NULL;
}

/* One more can be recorded: 0, R_PENDING (transfers_drive completes others) or -ENOMEM. */
static int remote_moves_reserve(struct rch *ch)
{
    struct remote_moves *w = &ch->remote->moves;

    if (w->entry == NULL) { /* the first one */
        w->entry = calloc(MOVES, sizeof(*w->entry));
        if (w->entry == NULL)
            return call_error(ch, -ENOMEM, "no memory for the records of %u transfers", MOVES);
    }
    remote_moves_complete(ch);
    return w->end - w->first < MOVES ? 0 : R_PENDING;
}

static int remote_move_post(struct rch *ch, const struct window_move *m, struct window_transfer *t)
{
    const struct btl_transfer range = {m->remote, m->at, m->memory,
                                       (uint64_t)(m->near - (char *)m->memory->base), m->bytes};

    return m->fetch ? ch->ops->get(ch->remote->connection, &range, &t->completion)
                    : ch->ops->write(ch->remote->connection, &range, NULL);
}

/* The key of the window may be one for another pipe. 0, or -EINVAL with its message. */
static int remote_move_check_key(struct rch *ch, const struct window_move *m)
{
    struct error err = {""};

    if (ch->ops->connection_takes == NULL ||
        ch->ops->connection_takes(ch->remote->connection, m->remote, &err) == 0)
        return 0;
    return call_error(ch, -EINVAL,
                      "the window cannot be used by this pipe: %s; attach it by the pipe that it "
                      "was opened with, or by another one in the same stream",
                      err.text);
}

int remote_move(struct rch *ch, const struct window_move *m)
{
    struct remote_moves *w = &ch->remote->moves;
    struct window_transfer *t;
    uint64_t released = 0;
    int rc;

    if (ch->closing != CLOSING_NOT) /* rclose in another thread waits for the end of all */
        return R_PENDING;
    rc = remote_moves_reserve(ch);
    if (rc == 0)
        rc = remote_move_check_key(ch, m);
    if (rc != 0)
        return rc;
    t = remote_move_at(w, w->end);
    *t = (struct window_transfer){.region = m->region,
                                  .done = m->done,
                                  .fetch = m->fetch,
                                  .near = m->near,
                                  .bytes = m->bytes,
                                  .message =
                                      atomic_load_explicit(&ch->w.sent, memory_order_relaxed) + 1,
                                  .flush = ch->remote->flushes.begun + 1};
    RPIPE_FAILPOINT("net: before a transfer of a window");
    rc = remote_move_post(ch, m, t);
    if (rc != 0)
        return rc == -EAGAIN ? R_PENDING : remote_failed(ch);
    RPIPE_FAILPOINT("net: transfer of a window posted");
    if (!m->fetch && ch->ops->position != NULL)
        ch->ops->position(ch->remote->connection, &t->position, &released);
    w->end++;
    if (UNLIKELY(ch->corked) && !m->fetch) /* it may be held, like a message */
        cork_note(ch);
    ch->remote->direct++;
    region_hold(m->region);
    if (t->position != 0 && t->position <= released)
        remote_moves_complete(ch);
    return 0;
}
