/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read.c: the reader: messages, and giving them back.
 *
 * A slot is copied into the descriptor, checked there (what the peer wrote is read once), and only then told read.
 * Heap messages wait in a list, in the order of their slots, until every older one is freed too: the credit line carries
 * a prefix, never a count.
 */
#include "rpipe/data/attempt.h"
#include "rpipe/grow/grow.h"
#include "rpipe/data/path_remote.h"
#include "rpipe/wait/event.h"

#include "control/control.h"
#include "sync/seal.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HANDSHAKE_MOST_NS (100 * NS_PER_MS)

NOINLINE int read_violation(struct rch *ch, const char *what, uint64_t a, uint64_t b)
{
    char reason[192];

    snprintf(reason, sizeof(reason), "message %llu of rank %d %s (%llu, %llu)",
             (unsigned long long)ch->r.nread + 1, ch->peer, what, (unsigned long long)a,
             (unsigned long long)b);
    join_fail(ch, -EPROTO, reason);
    return end_error(ch, -EPROTO, "%s", reason);
}

/* A heap message: what the slot says is copied once, and not believed. */
static FORCE_INLINE int read_take_heap(struct rch *ch, struct rdesc *d, const struct slot *s)
{
    struct reader *r = &ch->r;

    d->offset = __atomic_load_n(&s->heap.offset, __ATOMIC_RELAXED);
    d->size = __atomic_load_n(&s->heap.size, __ATOMIC_RELAXED);
    d->block = __atomic_load_n(&s->block, __ATOMIC_RELAXED);

    if (LIKELY(d->offset < r->heap_bytes && d->size <= r->heap_bytes - d->offset))
        d->mem = r->heap_base + d->offset;
    else
        d->mem = grow_find(ch, d->offset, d->size);
    if (UNLIKELY(d->mem == NULL)) {
        desc_put(&ch->pool, d);
        return read_violation(ch, "lies outside the heap (offset, size)", d->offset, d->size);
    }
    if (UNLIKELY(r->heap_read - r->heap_freed >= r->most)) {
        desc_put(&ch->pool, d);
        return read_violation(ch, "is one more than can be outstanding (outstanding, limit)",
                              r->heap_read - r->heap_freed, r->most);
    }
    d->units = d->size != 0 ? (uint32_t)((d->size - 1) >> r->shift) + 1 : 1;
    if (r->sync == RPIPE_SYNC_BLOCKS) {
        d->next = NULL;
        if (r->newest != NULL)
            r->newest->next = d;
        else
            r->oldest = d;
        r->newest = d;
    }
    r->heap_read++;
    r->units_held += d->units;
    return 0;
}

/* The next slot is full (acquire): takes its message. */
static FORCE_INLINE int read_take_message(struct rch *ch, const char *call, const struct slot *s,
                                          raddr_t *out, size_t *size)
{
    struct reader *r = &ch->r;
    struct rdesc *d = desc_take(&ch->pool);
    uint32_t kind, bytes;
    int rc;

    if (UNLIKELY(d == NULL))
        return end_no_descriptor(ch, call, ch->r.held);
    RPIPE_FAILPOINT("rread: message seen");
    kind = __atomic_load_n(&s->kind,
                           __ATOMIC_RELAXED); /* once: the peer may change it under our feet */
    d->header = s->header;
    if (LIKELY(kind == SLOT_INLINE)) {
        bytes = __atomic_load_n(&s->bytes, __ATOMIC_RELAXED);
        if (UNLIKELY(bytes > DESC_INLINE_MAX)) {
            desc_put(&ch->pool, d);
            return read_violation(ch, "is longer than a slot (bytes, limit)", bytes,
                                  DESC_INLINE_MAX);
        }
        memcpy(desc_payload(d), s->payload, DESC_INLINE_MAX);
        d->mem = desc_payload(d);
        d->size = bytes;
        d->units = 0;
    } else {
        if (UNLIKELY(kind != SLOT_HEAP) &&
            !(kind == SLOT_REGION && ch->remote != NULL && ch->cfg.op == OP_GET)) {
            desc_put(&ch->pool, d);
            return read_violation(ch, "is of no known kind (kind, -)", kind, 0);
        }
        rc = read_take_heap(ch, d, s);
        if (UNLIKELY(rc != 0))
            return rc;
    }
    RPIPE_FAILPOINT("rread: slot copied");
    d->whose = ch->whose;
    r->nread++;
    r->held++;
    ch->bytes += d->size;
    /* release: the slot is copied before the writer may overwrite it. Pairs with credit_fetch */
    atomic_store_explicit(&ch->credit->line.slots_read, r->nread, memory_order_release);
    RPIPE_FAILPOINT("rread: slot given back");
    wake_writer(ch);
    *out = d;
    RPIPE_FAILPOINT("rread: writer woken");
    if (size != NULL)
        *size = d->size;
    return 0;
}

int read_take(struct rch *ch, const char *call, const struct slot *s, raddr_t *d)
{
    return read_take_message(ch, call, s, d, NULL);
}

bool reader_message_ready(struct rch *ch)
{
    if (ch->remote != NULL)
        return remote_message_ready(ch);
    return ring_slot_ready(&ch->ring->slot[ch->r.nread & ch->mask], ch->r.nread + 1);
}

bool read_next_size(struct rch *ch, size_t *size)
{
    const struct slot *s = &ch->ring->slot[ch->r.nread & ch->mask];

    if (ch->remote != NULL)
        return remote_next_size(ch, size);
    if (!ring_slot_ready(s, ch->r.nread + 1))
        return false;
    *size = __atomic_load_n(&s->kind, __ATOMIC_RELAXED) == SLOT_INLINE
                ? __atomic_load_n(&s->bytes, __ATOMIC_RELAXED)
                : __atomic_load_n(&s->heap.size, __ATOMIC_RELAXED);
    return true;
}

uint64_t reader_delivered(const struct rch *ch)
{
    return ch->r.nread - (ch->remote != NULL ? ch->remote->fetch_count : 0);
}

/* ---- when there is no message ---- */

/* Over a network: the number comes with the bye, and what it counts may still be on its way. */
static int read_at_end_of_line(struct rch *ch, uint32_t state)
{
    if ((state & STATE_PEER_CLOSED) == 0 || reader_delivered(ch) < ch->peer_final)
        return 0;
    if (reader_delivered(ch) == ch->peer_final)
        return 1;
    return read_violation(ch, "has been read, though the peer has written fewer (read, announced)",
                          ch->r.nread, ch->peer_final);
}

/* 0: still open; 1: closed, and everything has been read; or an error */
static int read_at_end(struct rch *ch, uint32_t state)
{
    uint64_t nread = ch->r.nread, final;

    if (ch->remote != NULL)
        return read_at_end_of_line(ch, state);
    /* acquire: whoever sees the final number sees every slot up to it. Pairs with the release in rpipe_close */
    final = atomic_load_explicit(&ch->ring->control.final, memory_order_acquire);
    if (final == 0 && (state & STATE_PEER_CLOSED) != 0)
        final =
            ch->peer_final + 1; /* it closed before it was joined: the line was out of its reach */
    if (final == 0 || ring_slot_ready(&ch->ring->slot[nread & ch->mask], nread + 1))
        return 0;
    if (final == nread + 1)
        return 1;
    return read_violation(ch, "is missing, though the peer has closed (read, announced)", nread,
                          final - 1);
}

static int read_no_more(struct rch *ch, const char *call, uint32_t state)
{
    int rc;

    if ((state & STATE_FAILED) != 0)
        return end_error(ch, ch->failure, "%s: %s", call,
                         ch->reason != NULL ? ch->reason : "the two ends cannot be joined");
    if ((state & STATE_JOINED) != 0) {
        rc = read_at_end(ch, state);
        if (rc < 0)
            return rc;
        if (rc > 0)
            return end_error(
                ch, R_EOF,
                "%s: rank %d has closed this channel, and all its %llu messages have been read",
                call, ch->peer, (unsigned long long)ch->r.nread);
    } else if ((state & STATE_PEER_CLOSED) != 0) {
        return end_error(ch, R_EOF, "%s: rank %d has closed this channel without a message", call,
                         ch->peer);
    }
    if (end_peer_died(ch, state)) {
        if ((state & STATE_JOINED) != 0 && reader_message_ready(ch))
            return R_PENDING; /* look again: the last thing that it did */
        return end_error(
            ch, -ECONNRESET, "%s: rank %d died before it closed this channel, after message %llu%s",
            call, ch->peer, (unsigned long long)reader_delivered(ch), end_death_reason(ch));
    }
    if ((state & (STATE_PEER_LEFT | STATE_JOINED)) == (STATE_PEER_LEFT | STATE_JOINED)) {
        if (reader_message_ready(ch))
            return R_PENDING;
        /* GET over a network, and a rexit that did not wait for us */
        return end_error(
            ch, -ECONNRESET,
            "%s: rank %d has left the job (rexit), and with it what follows message %llu", call,
            ch->peer, (unsigned long long)reader_delivered(ch));
    }
    if ((state & STATE_PEER_LEFT) != 0)
        return end_error(ch, R_EOF,
                         "%s: rank %d has left the job (rexit) without opening this channel", call,
                         ch->peer);
    return R_PENDING;
}

static int read_checked(struct rch *ch, struct rdesc *d)
{
    int rc = debug_check_read(ch, d);

    return rc == 0 ? 0
                   : read_violation(ch, "overlaps one that has not been freed (offset, size)",
                                    d->offset, d->size);
}

/* This end is not joined. An end that was opened to a peer that is gone has no ring. */
bool reader_message_before_join(struct rch *ch)
{
    if (ch->late || ch->ring == NULL)
        return false;
    if (ch->remote == NULL)
        return ring_slot_ready(&ch->ring->slot[ch->r.nread & ch->mask], ch->r.nread + 1);
    (void)ch->ops->progress(ch->remote->connection);
    return seal_promises(&ch->ring->slot[ch->r.nread & ch->mask], ch->r.nread + 1);
}

/*
 * There is a message, but this end is not joined: so the writer is, its half is with the kernel, and our service thread is
 * about to hear it. What rwrite or rflush has promised to be visible is worth that moment, once in the life of a channel,
 * also to a call that does not wait.
 */
static NOINLINE uint32_t read_await_handshake(struct rch *ch, uint32_t state)
{
    struct waiter w;

    wait_begin(&w, &ch->own_wake, clock_now() + HANDSHAKE_MOST_NS, true);
    while ((state & (STATE_JOINED | STATE_FAILED | STATE_PEER_DIED)) == 0 && wait_step(&w) == 0)
        state =
            atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    wait_end(&w);
    return state;
}

static int read_take_next(struct rch *ch, const char *call, raddr_t *d, size_t *size)
{
    if (ch->remote != NULL)
        return remote_take(ch, call, d, size);
    return read_take_message(ch, call, &ch->ring->slot[ch->r.nread & ch->mask], d, size);
}

int read_attempt(struct rch *ch, void *arguments)
{
    struct read_arguments *a = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    bool joined, there;
    int rc = R_PENDING, ended;

    if ((state & STATE_JOINED) == 0 && reader_message_before_join(ch))
        state = read_await_handshake(ch, state);
    joined = (state & STATE_JOINED) != 0;
    there = joined && ch->remote == NULL && reader_message_ready(ch);
    if (joined && ch->remote != NULL && (state & STATE_FAILED) == 0)
        rc = a->unseen ? remote_progress(ch, a->call) : remote_take(ch, a->call, &a->d, &a->size);
    if (rc == 0 && a->unseen)
        rc = R_PENDING;
    if (!there && rc == R_PENDING && (state & STATE_EVENT) != 0) {
        there = event_drain(ch, joined);
        state = atomic_load_explicit(
            &ch->state, memory_order_acquire); /* what else kicked, and has been drained */
        if (!joined && (state & STATE_JOINED) != 0)
            return read_attempt(ch, arguments);
    }
    if (there && (state & STATE_FAILED) == 0 && !a->unseen)
        rc = read_take_next(ch, a->call, &a->d, &a->size);
    if (rc == 0 && (state & STATE_DEBUG) != 0)
        rc = read_checked(ch, a->d);
    a->number = reader_delivered(ch);
    if (rc != R_PENDING)
        return rc;
    ch->stalls_ring += !a->stalled;
    a->stalled = true;
    ended = read_no_more(ch, a->call, state);
    if ((ended != R_PENDING || ch->died != 0) && (state & STATE_EVENT) != 0)
        end_signal(
            ch); /* the end stays readable, and so does what will be the end in a few milliseconds */
    return ended;
}

static NOINLINE int read_slow(struct rch *ch, const char *call, raddr_t *d, size_t *size, bool wait)
{
    static const struct awaited awaited = {"message", 0};
    struct read_arguments a = {call, NULL, 0, false, false, 0};
    int rc = end_check_call(ch, call, SIDE_READER);
    uint32_t row;

    if (rc == 0 && d == NULL)
        rc = end_error(ch, -EINVAL, "%s: no place for the descriptor (NULL)", call);
    if (rc != 0)
        return rc;
    row = trace_begin(ch, TRACE_READ);
    rc = wait ? call_wait(ch, call, &awaited, read_attempt, &a) : call_once(ch, read_attempt, &a);
    trace_end(row, a.number, a.size, rc);
    if (rc != 0)
        return rc;
    *d = a.d;
    if (size != NULL)
        *size = a.size;
    return 0;
}

/*
 * In a stream messages come faster than a cache line travels, and what counts is how many lines travel at once: the reader
 * asks for one some slots on. Much further, and it would take lines away from a writer that has not written them yet.
 */
#define READ_AHEAD 4

/*
 * The slot is empty, and that is all there is to say: neither closed nor dead. Who polls many channels comes here most of
 * the time. (no_more() says the same, and more.)
 */
static inline bool read_nothing_yet(const struct rch *ch)
{
    /* acquire: as in at_end */
    return atomic_load_explicit(&ch->ring->control.final, memory_order_acquire) == 0 &&
           !liveness_died(ch->liveness);
}

static FORCE_INLINE int read_message(struct rch *ch, const char *call, raddr_t *d, size_t *size,
                                     bool wait)
{
    struct slot *s;
    uint64_t next;
    int looks;

    if (UNLIKELY(ch == NULL || d == NULL ||
                 atomic_load_explicit(&ch->state, memory_order_acquire) != READER_READY))
        return read_slow(ch, call, d, size, wait);
    next = ch->r.nread;
    s = &ch->ring->slot[next & ch->mask];
    if (LIKELY(ring_slot_ready(s, next + 1))) {
        __builtin_prefetch(&ch->ring->slot[(next + READ_AHEAD) & ch->mask]);
        return read_take_message(ch, call, s, d, size);
    }
    if (!wait) {
        if (LIKELY(read_nothing_yet(ch))) {
            ch->stalls_ring++;
            return R_PENDING;
        }
        return read_slow(ch, call, d, size, wait);
    }
    looks = atomic_load_explicit(&wait_first_polls, memory_order_relaxed);
    do {
        if (LIKELY(ring_slot_ready(s, next + 1)))
            return read_take_message(ch, call, s, d, size);
        cpu_pause();
    } while (--looks > 0);
    return read_slow(ch, call, d, size, wait);
}

int rpipe_read(rch_t ch, raddr_t *d, size_t *size)
{
    return read_message(ch, "rread", d, size, true);
}

int rpipe_read_nb(rch_t ch, raddr_t *d, size_t *size)
{
    return read_message(ch, "rread_nb", d, size, false);
}

/* ---- giving back ---- */

/* The oldest message is freed: publishes how far there is no gap. */
static inline void read_publish_prefix(struct rch *ch)
{
    struct reader *r = &ch->r;
    struct rdesc *d = r->oldest, *next;

    do {
        next = d->next;
        desc_put(&ch->pool, d);
        r->heap_freed++;
        d = next;
    } while (d != NULL && d->state == DESC_FREED);
    r->oldest = d;
    if (d == NULL)
        r->newest = NULL;
    RPIPE_FAILPOINT("rfree: before the credit line");
    /* release: the user's last look at the memory comes before the writer's next store there. Pairs with credit_fetch */
    atomic_store_explicit(&ch->credit->line.heap_freed, r->heap_freed, memory_order_release);
    RPIPE_FAILPOINT("rfree: credit line written");
    wake_writer(ch);
}

/* Tag and channel mode: in any order, and the writer has left room. The descriptor first: the index may be out again at once. */
static inline void read_publish_block(struct rch *ch, struct rdesc *d)
{
    struct reader *r = &ch->r;
    uint32_t block = d->block;

    desc_put(&ch->pool, d);
    r->heap_freed++;
    RPIPE_FAILPOINT("rfree: before the block is named");
    /* both are releases: the user's last look at the memory comes before the writer's next store there */
    if (UNLIKELY(ch->remote != NULL && r->reverse != NULL))
        remote_release_block(ch, block);
    else if (r->reverse != NULL)
        reverse_append(r->reverse, &r->back, r->heap_freed, block);
    else
        tag_append(ch->credit, &r->back, block);
    wake_writer(ch);
}

static FORCE_INLINE void read_free_block(struct rch *ch, struct rdesc *d)
{
    ch->r.units_held -= d->units;
    if (ch->r.sync != RPIPE_SYNC_BLOCKS) {
        read_publish_block(ch, d);
        return;
    }
    d->state = DESC_FREED;
    if (d == ch->r.oldest)
        read_publish_prefix(ch);
}

static FORCE_INLINE void read_free(struct rch *ch, struct rdesc *d)
{
    ch->r.held--;
    if (d->units == 0)
        desc_put(&ch->pool, d);
    else
        read_free_block(ch, d);
}

void read_release(struct rch *ch, struct rdesc *d)
{
    if (ch->checked)
        debug_check_freed(ch, d);
    read_free(ch, d);
}

static int read_free_attempt(struct rch *ch, void *arguments)
{
    struct rdesc *d = arguments;

    if (d == NULL)
        return end_error(ch, -EINVAL, "rfree: the descriptor is ADDR_NULL");
    if (d->whose != ch->whose)
        return end_error(ch, -EINVAL, "rfree: the descriptor %s",
                         d->owner != ch->id ? "belongs to another channel"
                                            : "was given back already");
    read_release(ch, d);
    return 0;
}

static NOINLINE int read_free_slow(struct rch *ch, struct rdesc *d)
{
    int rc = end_check_call(ch, "rfree", 0);

    if (rc != 0)
        return rc;
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_WRITER) != 0)
        return write_unalloc(ch, d);
    return call_once(ch, read_free_attempt, d);
}

int rmalloc_free(rch_t ch, raddr_t d)
{
    if (UNLIKELY(ch == NULL ||
                 atomic_load_explicit(&ch->state, memory_order_acquire) != READER_READY ||
                 d == NULL || d->whose != ch->whose))
        return read_free_slow(ch, d);
    read_free(ch, d);
    return 0;
}

/* ---- looking at a message, at either end ---- */

static inline bool read_is_message(rch_t ch, raddr_t d)
{
    /* the notice first: the descriptors of a closed end are gone */
    return LIKELY(ch != NULL && d != NULL &&
                  (atomic_load_explicit(&ch->state, memory_order_relaxed) &
                   (STATE_CLOSED | STATE_FORKED)) == 0 &&
                  d->whose == ch->whose);
}

static NOINLINE void read_not_message(rch_t ch, const char *call, raddr_t d)
{
    int rc = end_check_call(ch, call, 0);

    if (rc == 0)
        rc = end_error(ch, -EINVAL, "%s: %s", call,
                       d == NULL ? "the descriptor is ADDR_NULL"
                                 : "the descriptor is not yours (any more)");
    errno = -rc;
}

void *rmalloc_ptr(rch_t ch, raddr_t d)
{
    if (read_is_message(ch, d))
        return d->mem;
    read_not_message(ch, "rmem", d);
    return NULL;
}

size_t rmalloc_size(rch_t ch, raddr_t d)
{
    if (read_is_message(ch, d))
        return d->size;
    read_not_message(ch, "rsize", d);
    return 0;
}

/* The header as one number. It lies in the descriptor until rwrite, and behind it in the slot: nothing travels for it. */
int rpipe_set_tag(rch_t ch, raddr_t d, uint64_t tag)
{
    if (read_is_message(ch, d)) {
        d->header = tag;
        return 0;
    }
    read_not_message(ch, "rset_tag", d);
    return -errno;
}

uint64_t rpipe_tag(rch_t ch, raddr_t d)
{
    if (read_is_message(ch, d))
        return d->header;
    read_not_message(ch, "rtag", d);
    return 0;
}
