/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * write.c: the writer: memory, messages, flush.
 *
 * The fast paths need an end whose notice is exactly WRITER_READY. Everything else makes an attempt under call_once or
 * call_wait. A descriptor is the user's (DESC_OWNED, owner == the end) until its slot is published.
 *
 * Order of the stores of a message (doc/protocol.md): payload, by the user or by us; `sent`, for the event protocol; slot;
 * flag (release); looks at the wake word and at STATE_EVENT; and at the credit line when the watermark is reached.
 */
#include "rpipe/data/attempt.h"
#include "rpipe/grow/grow.h"
#include "rpipe/data/path_remote.h"

#include "control/control.h"
#include "util/failpoint.h"

#include <errno.h>
#include <string.h>

/* ---- memory ---- */

static inline struct rdesc *write_give_inline(struct rch *ch, size_t size)
{
    struct rdesc *d = desc_take(&ch->pool);

    if (UNLIKELY(d == NULL))
        return NULL;
    d->mem = desc_payload(d);
    d->size = size;
    d->units = 0;
    d->whose = ch->whose;
    d->header = 0;
    RPIPE_FAILPOINT("rmalloc: descriptor taken");
    ch->w.allocated++;
    return d;
}

static inline struct rdesc *write_give_block(struct rch *ch, size_t size)
{
    struct rdesc *d = heap_alloc(ch->w.heap, size);

    if (d == NULL)
        return NULL;
    RPIPE_FAILPOINT("rmalloc: block taken");
    d->header = 0;
    ch->w.allocated++;
    return d;
}

/* A message lies in one segment. */
static uint64_t write_largest_segment(const struct rch *ch)
{
    const struct heap *heap =
        writer_heap(ch, atomic_load_explicit(&ch->state, memory_order_acquire));

    return heap != NULL ? heap_largest_segment(heap) : ch->cfg.heap_bytes;
}

/*
 * Only this end's own unsent memory stands in the way: the reader has nothing to give back. Where several threads share this
 * end (thread_sync) nobody can say: another one may send, or free.
 */
static bool write_only_unsent_stands_in_the_way(const struct rch *ch, uint32_t state)
{
    return ch->w.heap_sent == ch->w.heap_applied && (state & STATE_LOCKED) == 0;
}

/* There is no room, also after a look at what has come back. 0: try again. */
static int write_starved(struct rch *ch, struct alloc_arguments *a, uint32_t state)
{
    unsigned long long size = a->size, bytes = heap_bytes(ch->w.heap);
    bool too_large = a->size > heap_largest_segment(ch->w.heap);
    bool in_vain = too_large || write_only_unsent_stands_in_the_way(ch, state);
    enum grow_outlook outlook = GROW_NEVER;

    if (ch->growth != NULL && (state & STATE_JOINED) == 0) {
        if (grow_could(ch, a->size)) /* it is the other end that has to agree */
            return end_join_complete(ch, DEADLINE_NOW) == 0 ? 0 : R_PENDING;
    } else if (ch->growth != NULL) {
        outlook = grow_when_full(ch, a->size, in_vain);
        a->awaited.slice = outlook == GROW_LATER ? grow_after(ch) : 0;
        if (outlook == GROW_AGAIN)
            return 0;
        if (outlook == GROW_PENDING || outlook == GROW_LATER)
            return R_PENDING;
    }
    if (too_large && outlook == GROW_REFUSED)
        return end_error(ch, -ENOMEM,
                         "%s: %llu bytes need a larger segment than the heap of %llu has, and "
                         "there was no memory to grow it at "
                         "one of its ends (see RPIPE_LOG=info)",
                         a->call, size, bytes);
    if (in_vain)
        return end_error(ch, -ENOBUFS,
                         "%s: no %llu bytes in a heap of %llu, and this end's own unsent memory "
                         "stands in the way: send it, free "
                         "it, or make heap_bytes larger",
                         a->call, size, bytes);
    return R_PENDING;
}

/* What is missing is not room, so no growth helps. */
static int write_no_block_descriptor(struct rch *ch, const struct alloc_arguments *a,
                                     uint32_t state)
{
    if (heap_alloc_error(ch->w.heap) == -ENOMEM)
        return end_error(ch, -ENOMEM, "%s: no memory for another descriptor", a->call);
    if (!write_only_unsent_stands_in_the_way(ch, state))
        return R_PENDING;
    return end_error(
        ch, -ENOBUFS,
        "%s: this end holds %llu messages: give some back, or make max_messages (%u) larger",
        a->call, (unsigned long long)ch->w.allocated, ch->cfg.max_messages);
}

static int write_too_large(struct rch *ch, const struct alloc_arguments *a)
{
    const struct pipe_config *c = &ch->cfg;

    if (c->max_heap_bytes > c->heap_bytes)
        return end_error(ch, -EMSGSIZE,
                         "%s: %zu bytes can never fit: the largest segment of the heap has %llu, "
                         "and to max_heap_bytes (%llu) "
                         "there are %llu left",
                         a->call, a->size, (unsigned long long)write_largest_segment(ch),
                         (unsigned long long)c->max_heap_bytes, (unsigned long long)grow_left(ch));
    return end_error(ch, -EMSGSIZE, "%s: %zu bytes can never fit into a heap of %llu (heap_bytes)",
                     a->call, a->size, (unsigned long long)c->heap_bytes);
}

int write_alloc_attempt(struct rch *ch, void *arguments)
{
    struct alloc_arguments *a = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    int rc = 0;

    if ((state & STATE_FAILED) != 0)
        return end_check_peer(ch, a->call, state);
    if ((state & STATE_GROW_REPLY) != 0)
        grow_apply(ch);
    if (a->size > write_largest_segment(ch) && !grow_could(ch, a->size))
        return write_too_large(ch, a);
    if (a->size <= ch->inline_max) {
        a->d = write_give_inline(ch, a->size);
        return a->d != NULL ? 0 : end_no_descriptor(ch, a->call, ch->w.allocated);
    }
    if (writer_heap(ch, state) ==
        NULL) { /* PUT: the heap is the reader's, and he is not there yet */
        rc = end_check_peer(ch, a->call, state);
        return rc != 0 ? rc : R_PENDING;
    }
    a->d = ch->w.reverse != NULL
               ? NULL
               : write_give_block(ch, a->size); /* channel mode: first what has come back */
    if (a->d == NULL && (state & STATE_JOINED) != 0 && (rc = credit_fetch(ch, NEED_MEMORY)) != 0)
        return rc;
    while (a->d == NULL && (a->d = write_give_block(ch, a->size)) == NULL) {
        state = atomic_load_explicit(&ch->state,
                                     memory_order_acquire); /* it may have been joined in here */
        /* memory that is there is given also when the reader has closed: only waiting is in vain */
        rc = end_check_peer(ch, a->call, state);
        if (rc != 0)
            return rc;
        RPIPE_FAILPOINT("rmalloc: waits for memory");
        ch->stalls_heap += !a->stalled;
        a->stalled = true;
        rc = heap_alloc_error(ch->w.heap);
        rc = rc == -ENOMEM || rc == -ENOBUFS ? write_no_block_descriptor(ch, a, state)
                                             : write_starved(ch, a, state);
        if (rc != 0)
            return rc;
    }
    if (ch->growth != NULL)
        grow_not_needed(ch, a->size);
    if ((state & STATE_DEBUG) != 0)
        debug_check_heap(ch);
    return 0;
}

/* The deadline has passed: would it ever have been of use to wait? */
int write_explain_timeout(struct rch *ch, const struct alloc_arguments *a)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    struct heap *heap = writer_heap(ch, state);
    uint64_t room =
        heap != NULL && (state & STATE_LOCKED) == 0 ? heap_unsent_room(heap) : UINT64_MAX;

    if (a->size <= room)
        return -ETIMEDOUT; /* there is a sentence */
    return end_error(ch, -ETIMEDOUT,
                     "%s: no %zu bytes within %d ms, and the reader cannot help: if it gave "
                     "everything back, what this end has "
                     "allocated and not sent would leave %llu at most: send it, or free it",
                     a->call, a->size, ch->timeout_ms, (unsigned long long)room);
}

static NOINLINE int write_alloc_slow(struct rch *ch, const char *call, size_t size, raddr_t *d,
                                     bool wait)
{
    struct alloc_arguments a = {call, size, NULL, false, {"memory given back by the reader", 0}};
    int rc = end_check_call(ch, call, SIDE_WRITER);
    uint32_t row = rc == 0 ? trace_begin(ch, TRACE_ALLOC) : 0;

    if (rc == 0)
        rc = wait ? call_wait(ch, call, &a.awaited, write_alloc_attempt, &a)
                  : call_once(ch, write_alloc_attempt, &a);
    if (rc == -ETIMEDOUT)
        rc = write_explain_timeout(ch, &a);
    trace_end(row, 0, size, rc);
    if (rc == 0)
        *d = a.d;
    return rc;
}

static inline struct rdesc *write_alloc_fast(struct rch *ch, size_t size)
{
    if (UNLIKELY(ch == NULL ||
                 atomic_load_explicit(&ch->state, memory_order_acquire) != WRITER_READY))
        return NULL;
    if (size <= ch->inline_max)
        return write_give_inline(ch, size);
    if (UNLIKELY(ch->w.reverse != NULL) &&
        credit_fetch(ch, NEED_MEMORY) != 0) /* channel mode: what has been freed is back at once */
        return NULL;
    return write_give_block(ch, size);
}

raddr_t rmalloc_alloc(rch_t ch, size_t size)
{
    struct rdesc *d = write_alloc_fast(ch, size);
    int rc;

    if (LIKELY(d != NULL))
        return d;
    rc = write_alloc_slow(ch, "rmalloc", size, &d, true);
    if (rc != 0) {
        errno = -rc;
        return ADDR_NULL;
    }
    return d;
}

int rmalloc_nb(rch_t ch, size_t size, raddr_t *d)
{
    struct rdesc *fast;

    if (UNLIKELY(d == NULL)) {
        last_error_set("rmalloc_nb: d is NULL");
        return -EINVAL;
    }
    fast = write_alloc_fast(ch, size);
    if (LIKELY(fast != NULL)) {
        *d = fast;
        return 0;
    }
    return write_alloc_slow(ch, "rmalloc_nb", size, d, false);
}

/* ---- messages ---- */

static NOINLINE void write_signal_if_event(struct rch *ch)
{
    if (ch->remote != NULL)
        (void)message_post_head(ch, MESSAGE_SIGNAL,
                                atomic_load_explicit(&ch->w.sent, memory_order_relaxed));
    else
        end_signal(ch);
    ch->wakes++;
    RPIPE_FAILPOINT("rwrite: reader kicked");
}

/* A slot so far ahead is fetched for writing: the reader had it a lap ago, and taking it back takes as long as several messages. */
#define SLOTS_AHEAD 8

/* A heap message needs a free index too, where blocks have one. */
static inline bool write_queue_is_full(const struct writer *w, const struct rdesc *d)
{
    return d->units != 0 && w->heap_sent == w->heap_limit;
}

/* A block is handed over. Inline: in a stream the writer must stay ahead of the reader, or each slot is fought for. */
static FORCE_INLINE void write_publish_block(struct writer *w, struct slot *s, struct rdesc *d,
                                             size_t bytes, uint64_t sent)
{
    RPIPE_FAILPOINT("rwrite: before the slot of a block");
    s->heap.offset = d->offset;
    s->heap.size = bytes;
    s->kind = SLOT_HEAP;
    if (w->table.entry != NULL)
        s->block = block_table_put(&w->table, d);
    RPIPE_FAILPOINT("rwrite: before the flag of a block");
    ring_slot_publish(s, sent + 1);
    writer_count_block(w, d);
    RPIPE_FAILPOINT("rwrite: after the flag of a block");
}

/* There is a free slot, an index where one is needed, and d is the user's: hands it over. */
static FORCE_INLINE void write_publish(struct rch *ch, struct rdesc *d, size_t bytes, uint64_t sent)
{
    struct slot *s = &ch->ring->slot[sent & ch->mask];
    struct writer *w = &ch->w;

    atomic_store_explicit(
        &w->sent, sent + 1,
        memory_order_relaxed); /* "begun": before the slot, by the release below */
    s->header = d->header;
    if (d->units == 0) {
        const uint8_t *payload = desc_payload(d);

        RPIPE_FAILPOINT("rwrite: before the slot of a small message");
        /* a word that the user has just stored is read as a word: a wider load would have to wait for the store to drain */
        if (bytes <= sizeof(uint64_t))
            memcpy(s->payload, payload, sizeof(uint64_t));
        else
            memcpy(s->payload, payload, DESC_INLINE_MAX);
        s->kind = SLOT_INLINE;
        s->bytes = (uint8_t)bytes;
        RPIPE_FAILPOINT("rwrite: before the flag of a small message");
        ring_slot_publish(s, sent + 1);
        desc_put(&ch->pool, d);
        RPIPE_FAILPOINT("rwrite: after the flag of a small message");
    } else {
        write_publish_block(w, s, d, bytes, sent);
    }
    wake_reader(ch);
    RPIPE_FAILPOINT("rwrite: reader woken");
    cpu_prefetch_write(&ch->ring->slot[(sent + SLOTS_AHEAD) & ch->mask]);
    w->allocated--;
    ch->bytes += bytes;
}

static inline bool write_is_users(const struct rch *ch, const struct rdesc *d)
{
    return LIKELY(d != NULL && d->whose == ch->whose);
}

static NOINLINE int write_not_users(struct rch *ch, const char *call, const struct rdesc *d)
{
    static const char *const state[] = {"was given back, or handed over, already",
                                        "belongs to another channel", "was handed over already",
                                        "was given back already", "is not a message"};

    if (d == NULL)
        return end_error(ch, -EINVAL, "%s: the descriptor is ADDR_NULL", call);
    return end_error(ch, -EINVAL, "%s: the descriptor %s", call,
                     d->state <= DESC_GAP ? state[d->state] : "is no descriptor");
}

int write_attempt(struct rch *ch, void *arguments)
{
    struct write_arguments *a = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    size_t bytes;
    uint64_t sent;
    int rc;

    if ((state & STATE_GROW_REPLY) != 0)
        grow_apply(ch);
    if (!write_is_users(ch, a->d))
        return write_not_users(ch, a->call, a->d);
    bytes = a->bytes == WHOLE ? a->d->size : a->bytes;
    if (bytes > a->d->size)
        return end_error(ch, -EINVAL, "%s: %zu bytes of a message of %zu", a->call, bytes,
                         a->d->size);
    rc = end_check_peer(ch, a->call, state);
    if (rc != 0)
        return rc;
    if ((state & STATE_JOINED) == 0 &&
        (rc = end_join_complete(ch, a->wait ? deadline_in_ms(ch->timeout_ms) : DEADLINE_NOW)) != 0)
        return rc;
    if (ch->remote != NULL && (rc = remote_progress(ch, a->call)) != 0)
        return rc;
    sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
    if (sent == ch->w.limit && (rc = credit_fetch(ch, NEED_SLOT)) != 0)
        return rc;
    if (write_queue_is_full(&ch->w, a->d) && (rc = credit_fetch(ch, NEED_MEMORY)) != 0)
        return rc;
    if (sent == ch->w.limit || write_queue_is_full(&ch->w, a->d)) {
        bool ring = sent == ch->w.limit;

        RPIPE_FAILPOINT("rwrite: waits for room");
        ch->stalls_ring += !a->stalled && ring;
        ch->stalls_queue += !a->stalled && !ring;
        a->stalled = true;
        a->awaited.what =
            ring ? "free slot in the ring"
                 : "message given back by the reader, who holds as many as sync_queue allows,";
        return R_PENDING;
    }
    if (ch->remote == NULL)
        write_publish(ch, a->d, bytes, sent);
    else if ((rc = remote_publish(ch, a->call, a->d, bytes, sent, a->from)) != 0) {
        a->awaited.what = "room in the queues of the network";
        return rc;
    }
    a->number = sent + 1;
    a->written = bytes;
    if ((atomic_load_explicit(&ch->state, memory_order_acquire) & STATE_EVENT) !=
        0) /* pairs with events_on */
        write_signal_if_event(ch);
    if (sent + 1 >= ch->w.look_at)
        (void)credit_fetch(ch, NEED_SOON); /* what is wrong with the line, the next call will say */
    if ((state & STATE_DEBUG) != 0)
        debug_check_heap(ch);
    return 0;
}

static NOINLINE int write_slow(struct rch *ch, const char *call, struct rdesc *d, size_t bytes,
                               bool wait)
{
    struct write_arguments a = {call, d, bytes, wait, false, {"free slot in the ring", 0},
                                NULL, 0, 0};
    int rc = end_check_call(ch, call, SIDE_WRITER);
    uint32_t row;

    if (rc != 0)
        return rc;
    row = trace_begin(ch, TRACE_WRITE);
    rc = wait ? call_wait(ch, call, &a.awaited, write_attempt, &a)
              : call_once(ch, write_attempt, &a);
    trace_end(row, a.number, a.written, rc);
    return rc;
}

static NOINLINE void write_behind(struct rch *ch, uint64_t sent)
{
    if ((atomic_load_explicit(&ch->state, memory_order_acquire) & STATE_EVENT) != 0)
        write_signal_if_event(ch);
    if (sent + 1 >= ch->w.look_at)
        (void)credit_fetch(ch, NEED_SOON);
}

static FORCE_INLINE int write_message(struct rch *ch, const char *call, struct rdesc *d,
                                      size_t bytes, bool wait)
{
    uint64_t sent;

    if (UNLIKELY(ch == NULL ||
                 atomic_load_explicit(&ch->state, memory_order_acquire) != WRITER_READY))
        return write_slow(ch, call, d, bytes, wait);
    sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
    if (UNLIKELY(sent == ch->w.limit || !write_is_users(ch, d) || write_queue_is_full(&ch->w, d) ||
                 (bytes != WHOLE && bytes > d->size)))
        return write_slow(ch, call, d, bytes, wait);
    write_publish(ch, d, bytes == WHOLE ? d->size : bytes, sent);
    /* the look at STATE_EVENT comes after the slot; the service thread's membarrier orders the two for us */
    if (UNLIKELY(atomic_load_explicit(&ch->state, memory_order_relaxed) != WRITER_READY ||
                 sent + 1 >= ch->w.look_at))
        write_behind(ch, sent);
    return 0;
}

int rpipe_write(rch_t ch, raddr_t d) { return write_message(ch, "rwrite", d, WHOLE, true); }

int rpipe_write_n(rch_t ch, raddr_t d, size_t bytes)
{
    if (UNLIKELY(bytes == WHOLE))
        bytes--; /* no message is that long: refused as any other length beyond it */
    return write_message(ch, "rwrite_n", d, bytes, true);
}

int rpipe_write_nb(rch_t ch, raddr_t d) { return write_message(ch, "rwrite_nb", d, WHOLE, false); }

/* ---- giving back what was not sent ---- */

int write_unalloc_attempt(struct rch *ch, void *arguments)
{
    struct rdesc *d = arguments;

    if (!write_is_users(ch, d))
        return write_not_users(ch, "rfree", d);
    ch->w.allocated--;
    if (d->units == 0)
        desc_put(&ch->pool, d);
    else
        heap_free(ch->w.heap, d);
    if (ch->checked)
        debug_check_heap(ch);
    if (ch->cfg.threads) /* another thread of this end may wait in rmalloc */
        wake_if_waiting(end_wake_word(ch, atomic_load_explicit(&ch->state, memory_order_relaxed)),
                        true);
    return 0;
}

int write_unalloc(struct rch *ch, struct rdesc *d)
{
    return call_once(ch, write_unalloc_attempt, d);
}

/* ---- flush ---- */

struct flush_arguments {
    const char *call;
    uint64_t since; /* of remote_drain */
};

static int write_flush_attempt(struct rch *ch, void *arguments)
{
    struct flush_arguments *a = arguments;
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    int rc = end_check_peer(ch, a->call, state);

    if (rc != 0 || (state & STATE_JOINED) == 0)
        return rc; /* not joined: nothing has been written */
    if ((state & (STATE_REMOTE | STATE_CELLS)) != 0)
        return remote_drain(ch, a->call, &a->since);
    return 0; /* a store is placed when it is visible, and visible in order */
}

int end_flush(struct rch *ch, const char *call, enum side side)
{
    static const struct awaited awaited = {"completion", 0};
    int rc = end_check_call(ch, call, side);
    struct flush_arguments a = {call, 0};
    uint32_t row;

    if (rc != 0)
        return rc;
    row = trace_begin(ch, TRACE_FLUSH);
    rc = call_wait(ch, call, &awaited, write_flush_attempt, &a);
    trace_end(row, 0, 0, rc);
    return rc;
}

int rpipe_flush(rch_t ch) { return end_flush(ch, "rflush", SIDE_WRITER); }
