/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote.c: the line of an end, and its mirrors: opening, connecting, driving, failing, releasing (doc/network.md).
 *
 * Invariants
 * 1. ch->net is set before the end is registered, and is released with it: STATE_REMOTE is there exactly if it is.
 * 2. The line belongs to the end's user; the service thread only connects it (join), and releases it when the end is closed
 *    and nobody is inside a call.
 * 3. A piece is given back after the line has been closed: so nothing that was asked for can reach it any more.
 */
#include "rpipe/data/path_remote.h"

#include "rpipe/grow/grow.h"
#include "rpipe/end/area.h"
#include "rpipe/end/feature.h"

#include "control/control.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line that fails is often the first notice of a peer that has died or left; the control network says which, in this time. */
#define NEWS_NS (2000 * NS_PER_MS)

/* ---- opening ---- */

static int remote_mirror(struct rch *ch, size_t bytes, struct btl_memory *memory, struct error *err)
{
    int rc = ch->ops->alloc(ch->btl, ch->peer, bytes, BTL_LOCAL, false, memory, err);

    if (rc == 0)
        memset(memory->base, 0,
               bytes); /* tags of the past must not be taken for tags of the future */
    return rc;
}

static int remote_mirror_heap(struct rch *ch, struct error *err)
{
    return ch->ops->alloc(ch->btl, ch->peer, area_heap_bytes(&ch->cfg), BTL_LOCAL,
                          ch->cfg.huge_pages, &ch->remote->heap, err);
}

static int remote_open_writer(struct rch *ch, struct error *err)
{
    struct remote_path *n = ch->remote;
    int rc;

    if (ch->cfg.op == OP_CELLS) /* for what is fetched */
        return remote_mirror(ch, CACHE_LINE, &n->credit, err);
    rc = remote_mirror(ch, ring_area_bytes(ch->cfg.slots), &n->ring, err);

    if (rc == 0)
        rc = remote_mirror(ch, area_credit_bytes(&ch->cfg), &n->credit, err);
    if (rc == 0 && ch->cfg.op == OP_PUT)
        rc = remote_mirror_heap(ch, err);
    return rc;
}

static int remote_open_reader(struct rch *ch, struct error *err)
{
    struct remote_path *n = ch->remote;
    uint32_t ahead = ch->cfg.fetch_ahead;
    int rc = 0;

    if (ch->cfg.mode == RPIPE_SYNC_CHANNEL)
        rc = remote_mirror(ch, area_reverse_bytes(&ch->cfg), &n->reverse, err);
    if (rc != 0 || ch->cfg.op != OP_GET)
        return rc;
    n->fetch_most = ahead == 0                 ? FETCH_AHEAD_DEFAULT
                    : ahead < FETCH_AHEAD_MOST ? ahead
                                               : FETCH_AHEAD_MOST;
    n->fetch = calloc(n->fetch_most, sizeof(*n->fetch));
    if (n->fetch == NULL)
        return error_set(err, -ENOMEM, "no memory to fetch %u messages ahead", n->fetch_most);
    return remote_mirror_heap(ch, err);
}

static void remote_count(struct rch *ch)
{
    struct remote_path *n = ch->remote;

    if (n == NULL || n->connection == NULL)
        return;
    ch->ops->connection_counts(n->connection, &ch->counts.remote);
    ch->counts.credit_reads = n->credit_reads;
    ch->counts.direct = n->direct;
}

int remote_open(struct rch *ch, struct error *err)
{
    bool writer = config_side(&ch->cfg) == SIDE_WRITER;
    int rc;

    if ((ch->ops->attributes.capabilities & BTL_LOAD_STORE) != 0)
        return 0;
    ch->remote = calloc(1, sizeof(*ch->remote));
    if (ch->remote == NULL)
        return error_set(err, -ENOMEM, "no memory for another line");
    ch->count = remote_count;
    rc = writer ? remote_open_writer(ch, err) : remote_open_reader(ch, err);
    if (rc == 0)
        rc = ch->ops->connection_open(ch->btl, ch->peer, writer ? BTL_CONNECTS : BTL_ACCEPTS,
                                      ch->cfg.max_cqe, &ch->remote->connection,
                                      &ch->remote->address, err);
    return rc;
}

/* ---- releasing ---- */

void remote_close(struct rch *ch)
{
    struct remote_path *n = ch->remote;

    if (n == NULL)
        return;
    if (n->connection != NULL)
        ch->ops->connection_close(n->connection);
    n->connection = NULL;
}

void remote_free_mirrors(struct rch *ch)
{
    struct remote_path *n = ch->remote;
    size_t i;

    if (n == NULL)
        return;
    struct btl_memory *memory[] = {&n->ring, &n->credit, &n->heap, &n->reverse};
    for (i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        if (memory[i]->slab != NULL)
            ch->ops->free(ch->btl, memory[i]);
    free(n->fetch);
    free(n);
    ch->remote = NULL;
}

/* ---- the line ---- */

int remote_state(struct rch *ch)
{
    struct error err = {""};
    int rc;

    if (ch->remote == NULL)
        return 0;
    rc = ch->ops->connection_state(ch->remote->connection, &err);
    if (rc == -EAGAIN) {
        (void)ch->ops->progress(ch->remote->connection);
        rc = ch->ops->connection_state(ch->remote->connection, &err);
    }
    RPIPE_FAILPOINT("net: line looked at");
    return rc == -EAGAIN ? R_PENDING : rc != 0 ? remote_failed(ch, "join") : 0;
}

/* Also a connection that ends, and whatever a provider calls an error of the other side. */
static bool remote_peer_may_be_reason(int error)
{
    static const int of_connections[] = {EIO,          EPIPE,     ECONNRESET,   ECONNABORTED,
                                         ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH,
                                         ENETRESET,    ENETDOWN,  EHOSTDOWN,    ENOTCONN,
                                         ESHUTDOWN,    ECANCELED, EREMOTEIO};
    size_t i;

    for (i = 0; i < sizeof(of_connections) / sizeof(of_connections[0]); i++)
        if (error == -of_connections[i])
            return true;
    return false;
}

/* On this host the kernel says so before it closes what a process had open, and rexit before it closes its lines. */
static bool remote_peer_surely_lives(const struct rch *ch)
{
    uint32_t word;

    if (ch->peer == job_own_rank())
        return true;
    if (ch->liveness == NULL)
        return false;
    word = atomic_load_explicit(ch->liveness, memory_order_relaxed);
    return word != LIVENESS_LEFT && (word & LIVENESS_OWNER_DIED) == 0;
}

int64_t remote_grace_ns(struct rch *ch, int error)
{
    int64_t since = 0, now = clock_now();

    if (atomic_compare_exchange_strong_explicit(&ch->remote->failed_at, &since, now,
                                                memory_order_relaxed, memory_order_relaxed)) {
        since = now;
        control_monitor(ch->peer); /* a peer that is gone will be told of */
        control_check_liveness();
    }
    if (!remote_peer_may_be_reason(error) || remote_peer_surely_lives(ch))
        return 0;
    return since + NEWS_NS > now ? since + NEWS_NS - now : 0;
}

int remote_reason(struct rch *ch, struct error *err)
{
    struct error cause = {"it does not say why"};
    int rc = ch->ops->connection_state(ch->remote->connection, &cause);

    error_note(err, "the connection by %s to rank %d has failed: %.256s", ch->ops->name, ch->peer,
               cause.text);
    return rc == 0 || rc == -EAGAIN ? -EIO : rc;
}

/*
 * Bye explains to a writer why its line has failed. To a reader it promises messages: those that were written are here, but what has
 * to be fetched will not come any more (M_CLOSE_IS_NEWS in model/net.pml).
 */
static bool remote_close_explains(const struct rch *ch, uint32_t state)
{
    return (state & STATE_PEER_CLOSED) != 0 &&
           ((state & STATE_READER) == 0 || (state & STATE_CELLS) != 0 ||
            reader_delivered(ch) >= ch->peer_final);
}

int remote_failed(struct rch *ch, const char *call)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    struct error err = {""};
    int rc = remote_reason(ch, &err);
    int64_t news = remote_grace_ns(ch, rc);

    if ((state & (STATE_FAILED | STATE_PEER_DIED | STATE_PEER_LEFT)) != 0 ||
        remote_close_explains(ch, state) || news > 0)
        return R_PENDING;
    join_fail(ch, rc, err.text);
    return end_error(ch, rc, "%s: %s", call, err.text);
}

int remote_progress(struct rch *ch, const char *call)
{
    return ch->ops->progress(ch->remote->connection) == 0 ? 0 : remote_failed(ch, call);
}

bool remote_locate(struct rch *ch, uint64_t offset, uint64_t bytes, struct btl_transfer *t)
{
    *t = (struct btl_transfer){&ch->heap_remote, offset, &ch->remote->heap, offset, bytes};
    return offset < ch->cfg.heap_bytes || grow_locate(ch, offset, t);
}

/* ---- before bye ---- */

static bool remote_fetches_pending(const struct remote_path *n)
{
    uint32_t i;

    for (i = 0; i < n->fetch_count; i++) {
        const struct fetch *f = &n->fetch[(n->fetch_first + i) % n->fetch_most];

        if (atomic_load_explicit(&f->done.pending, memory_order_acquire) > 0)
            return true;
    }
    return atomic_load_explicit(&n->credit_done.pending, memory_order_acquire) > 0;
}

int remote_flush(struct rch *ch)
{
    struct remote_path *n = ch->remote;
    int rc;

    if (n->flush_begun == n->flush_ended) {
        n->flush_begun++;
        if (config_side(&ch->cfg) == SIDE_WRITER)
            n->flush_mark = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
    }
    rc = ch->ops->flush(n->connection);
    if (rc != -EAGAIN)
        n->flush_ended = n->flush_begun;
    if (rc == 0)
        n->flushed =
            n->flush_mark; /* who waits for words looks at it: this may be the service thread */
    return rc;
}

/*
 * By a flush that was begun within the call whose `since` it is: one that rdone, or an rflush whose deadline has passed, has left
 * under way, proves nothing of what came after it.
 */
static int remote_flush_since(struct rch *ch, uint64_t *since)
{
    struct remote_path *n = ch->remote;
    int rc;

    if (*since == 0)
        *since = n->flush_begun + 1;
    rc = remote_flush(ch);
    return rc == 0 && n->flush_ended < *since ? remote_flush(ch) : rc;
}

static int remote_check_drained(struct rch *ch, uint64_t *since)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    struct error err = {""};
    int rc;

    if ((state & STATE_JOINED) == 0 || (state & (STATE_PEER_DIED | STATE_PEER_LEFT)) != 0)
        return 0;
    rc = features_settled(ch);
    if (rc != 0 || ch->remote == NULL)
        return rc;
    /* never up, so nothing was ever asked for; and a writer that has closed before it was joined will not bring it up */
    if ((state & STATE_PEER_CLOSED) != 0 &&
        ch->ops->connection_state(ch->remote->connection, &err) == -EAGAIN)
        return 0;
    rc = ch->ops->progress(ch->remote->connection);
    if (rc == 0 && remote_fetches_pending(ch->remote))
        return R_PENDING;
    RPIPE_FAILPOINT("net: before the last flush");
    if (rc == 0)
        rc = remote_flush_since(ch, since);
    if (rc != 0 && rc != -EAGAIN && (state & (STATE_PEER_CLOSED | STATE_FAILED)) != 0)
        return 0; /* nobody is there to whom it matters, or it has been told */
    return rc;
}

int remote_drained(struct rch *ch)
{
    uint64_t none = 0;

    return remote_check_drained(ch, ch->remote != NULL ? &ch->remote->flush_last : &none);
}

int remote_drain(struct rch *ch, const char *call, uint64_t *since)
{
    int rc = remote_check_drained(ch, since);

    return rc == 0 || rc == R_PENDING ? rc : remote_failed(ch, call);
}
