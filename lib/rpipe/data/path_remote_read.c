/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote_read.c: the reader of a pipe over a network (path_remote.h).
 *
 * PUT: payload and slot are written here; a slot is valid when its seal is. GET: slots are taken a few ahead and their payloads are
 * fetched (path_remote_fetch.c); a message is there when its payload is.
 *
 * Channel mode: a freed block is named in the mirror of the reverse ring, which has a slot for every message in flight, and posted to the
 * writer in order. What the queues of the network do not accept at once is posted by the next call on this end, or by the service
 * thread if the program makes none: rfree never waits. For that such an end has a lock, as with RPIPE_THREADS.
 */
#include "rpipe/data/path_remote_read.h"

#include "rpipe/data/path_remote_eager.h"
#include "rpipe/data/path_remote_fetch.h"
#include "rpipe/data/take.h"
#include "rpipe/end/debug_guard.h"

#include "control/control.h"
#include "sync/seal.h"
#include "util/failpoint.h"

#include <errno.h>

#define RELEASES_AGAIN_US 1000

static bool remote_read_is_get(const struct rch *ch) { return ch->remote->fetches.most > 0; }

static const struct slot *remote_read_next_slot(const struct rch *ch)
{
    return end_slot(ch, ch->r.nread);
}

static bool remote_read_open_slot(const struct rch *ch, struct slot *copy)
{
    return seal_open(remote_read_next_slot(ch), ch->r.nread + 1, copy);
}

bool remote_message_ready(struct rch *ch)
{
    struct slot copy;

    (void)remote_progress(
        ch); /* what has arrived can be read, also where the connection has failed */
    if (!remote_read_is_get(ch))
        return remote_read_open_slot(ch, &copy);
    /* an invalid slot has to be reported too */
    return remote_fetch_ahead(ch) != 0 || remote_first_is_fetched(ch);
}

bool remote_message_before_join(struct rch *ch)
{
    (void)ch->ops->progress(ch->remote->connection);
    return seal_promises(remote_read_next_slot(ch), ch->r.nread + 1);
}

/* The size of the next message, if it is here. */
static bool remote_read_size(struct rch *ch, size_t *size)
{
    struct slot copy;

    if (remote_read_is_get(ch)) {
        (void)remote_fetch_ahead(ch);
        return remote_first_size(ch, size);
    }
    if (!remote_read_open_slot(ch, &copy))
        return false;
    *size = copy.kind == SLOT_INLINE ? copy.bytes : copy.heap.size;
    return true;
}

/* Without a call of the backend if it is here: the caller takes it next, which is progress enough for a message. */
bool remote_next_size(struct rch *ch, size_t *size)
{
    if (remote_read_size(ch, size))
        return true;
    (void)remote_progress(ch);
    return remote_read_size(ch, size);
}

static int remote_read_take_get(struct rch *ch, struct rdesc **d)
{
    int rc = remote_fetch_ahead(ch);

    if (rc != 0)
        return rc;
    if (!remote_first_is_fetched(ch))
        return R_PENDING;
    RPIPE_FAILPOINT("net: payload here");
    *d = remote_take_fetched(ch);
    return 0;
}

static int remote_read_take_put(struct rch *ch, const struct slot *copy, struct rdesc **d)
{
    int rc = remote_eager_check(ch, copy);

    return rc == 0 ? take_message(ch, copy, false, d, NULL) : rc;
}

int remote_take(struct rch *ch, struct rdesc **d, size_t *size)
{
    struct slot copy;
    int progressed = remote_progress(ch), rc;

    if (remote_read_is_get(ch))
        rc = remote_read_take_get(ch, d);
    else if (remote_read_open_slot(ch, &copy))
        rc = remote_read_take_put(ch, &copy, d);
    else
        rc = R_PENDING;
    if (rc == 0 && ch->checked && !remote_read_is_get(ch))
        debug_guard_keep(&copy, *d);
    if (rc == 0)
        *size = (*d)->size;
    if (rc == 0 && ch->r.nread % COUNTER_EVERY == 0)
        ch->path->count(ch);
    return rc == R_PENDING && progressed != 0 ? progressed : rc;
}

/* The number comes with the close message, and messages up to it may still be in flight. */
int remote_at_end(struct rch *ch, uint32_t state)
{
    if ((state & STATE_PEER_CLOSED) == 0 || remote_delivered(ch) < ch->peer_final)
        return 0;
    if (remote_delivered(ch) == ch->peer_final)
        return 1;
    return violation_of_message(ch, "follows more messages than the peer announced when it closed",
                                "read", ch->r.nread, "announced", ch->peer_final);
}

/* ---- channel mode: blocks are given back ---- */

void remote_releases_open(struct rch *ch)
{
    ring_cursor_init(&ch->remote->releases.next, ch->cfg.sync_queue, 1);
    if (!ch->cfg.threads) { /* released with the end, as that of RPIPE_THREADS */
        pthread_mutex_init(&ch->mutex, NULL);
        ch->cfg.threads = true;
    }
}

/* Service thread. A call that has the lock drives the connection itself. */
static void remote_releases_watch(void *end)
{
    struct rch *ch = end;
    bool again = true;

    if (pthread_mutex_trylock(&ch->mutex) == 0) {
        again = ch->ops->progress(ch->remote->connection) == 0 && !remote_releases_post(ch);
        ch->remote->releases.watched = again;
        pthread_mutex_unlock(&ch->mutex);
    }
    if (again)
        (void)control_watch(-1, RELEASES_AGAIN_US, remote_releases_watch, ch);
}

void remote_release_block(struct rch *ch, uint32_t block)
{
    struct remote_releases *p = &ch->remote->releases;
    struct release *r = &ch->r.blocks;
    struct slot *s = &r->reverse[r->next.at];

    memset(s, 0, offsetof(struct slot, flag));
    s->kind = SLOT_FREED;
    s->block = block;
    seal_slot(s, r->freed);
    ring_cursor_advance(&r->next);
    p->pending++;
    RPIPE_FAILPOINT("net: before a block is named");
    if (remote_releases_post(ch))
        return;
    if (ch->ops->progress(ch->remote->connection) != 0 || remote_releases_post(ch) || p->watched)
        return;
    p->watched = control_watch(-1, RELEASES_AGAIN_US, remote_releases_watch, ch) == 0;
}

void remote_releases_close(struct rch *ch)
{
    if (ch->remote->releases.next.size == 0)
        return;
    control_unwatch(remote_releases_watch, ch);
    ch->remote->releases.pending = 0;
}
