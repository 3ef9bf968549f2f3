/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * write.c: the writer: memory, messages, flush.
 *
 * The fast paths require an end whose state is exactly WRITER_READY, which is on the mapped path; rmalloc has a short one for the
 * remote path, too. All other calls make an attempt by call_once or call_await. A descriptor belongs to the user (DESC_OWNED, owner == the end) until its slot is published.
 */
#include "rpipe/data/attempt.h"
#include "rpipe/data/give.h"
#include "rpipe/data/handle.h"
#include "rpipe/data/holding.h"
#include "rpipe/data/path.h"
#include "rpipe/data/publish.h"
#include "rpipe/data/push.h"
#include "rpipe/end/connector.h"
#include "rpipe/end/cork.h"
#include "rpipe/end/debug_check.h"
#include "rpipe/end/debug_guard.h"
#include "rpipe/end/device.h"
#include "rpipe/grow/grow.h"

#include "control/control.h"
#include "observe/record/trace.h"
#include "util/failpoint.h"

#include <errno.h>
#include <string.h>

/* ---- memory ---- */

/* A message is in one segment. */
static uint64_t write_largest_segment(const struct rch *ch)
{
    const struct heap *heap =
        writer_heap(ch, atomic_load_explicit(&ch->state, memory_order_acquire));

    return heap != NULL ? heap_largest_segment(heap) : ch->cfg.heap_bytes;
}

/*
 * Only this end's own unsent memory fills the heap: the reader has nothing to give back. With RPIPE_THREADS the answer is unknown,
 * because another thread may send or free.
 */
static bool write_is_full_of_unsent(const struct rch *ch, uint32_t state)
{
    return ch->w.blocks.sent == ch->w.blocks.returned && (state & STATE_LOCKED) == 0;
}

/* The heap has no free block, also after taking up credits. 0: try again. */
static int write_starved(struct rch *ch, struct alloc_arguments *a, uint32_t state)
{
    unsigned long long size = a->size, bytes = heap_bytes(ch->w.blocks.heap);
    bool too_large = a->size > heap_largest_segment(ch->w.blocks.heap);
    bool hopeless = too_large || write_is_full_of_unsent(ch, state);
    enum grow_outlook outlook = GROW_NEVER;

    if (ch->growth != NULL && (state & STATE_JOINED) == 0) {
        if (grow_could(ch, a->size)) /* the other end has to agree */
            return end_join_complete(ch, DEADLINE_NOW) == 0 ? 0 : R_PENDING;
    } else if (ch->growth != NULL) {
        outlook = grow_when_full(ch, a->size, hopeless);
        a->awaited.slice = outlook == GROW_LATER ? grow_after(ch) : 0;
        if (outlook == GROW_AGAIN)
            return 0;
        if (outlook == GROW_PENDING || outlook == GROW_LATER)
            return R_PENDING;
    }
    if (too_large && outlook == GROW_REFUSED)
        return call_error(
            ch, -ENOMEM,
            "%llu bytes need a larger segment than any of the heap of %llu bytes, and one "
            "end has no memory for it; RPIPE_LOG=info prints the reason",
            size, bytes);
    if (hopeless)
        return call_error(
            ch, -ENOBUFS,
            "no %llu bytes are free in a heap of %llu, which is full of this end's unsent "
            "messages; send or free them, or increase heap_bytes",
            size, bytes);
    return R_PENDING;
}

/* A descriptor is missing, not memory of the heap, so that growth does not help. */
static int write_no_block_descriptor(struct rch *ch, uint32_t state)
{
    if (heap_alloc_error(ch->w.blocks.heap) == -ENOBUFS && !write_is_full_of_unsent(ch, state))
        return R_PENDING;
    if (heap_alloc_error(ch->w.blocks.heap) == -ENOMEM)
        return call_error(ch, -ENOMEM, "no memory for another descriptor");
    return call_error(
        ch, -ENOBUFS,
        "this end holds %llu messages; send or free some, or increase max_messages (%u)",
        (unsigned long long)ch->w.allocated, ch->cfg.max_messages);
}

static int write_too_large(struct rch *ch, size_t size)
{
    const struct pipe_config *c = &ch->cfg;

    if (c->max_heap_bytes > c->heap_bytes)
        return call_error(
            ch, -EMSGSIZE,
            "%zu bytes can never fit: the largest segment of the heap has %llu bytes, and "
            "%llu are left up to max_heap_bytes (%llu)",
            size, (unsigned long long)write_largest_segment(ch), (unsigned long long)grow_left(ch),
            (unsigned long long)c->max_heap_bytes);
    return call_error(ch, -EMSGSIZE,
                      "%zu bytes can never fit into a heap of %llu; increase heap_bytes", size,
                      (unsigned long long)c->heap_bytes);
}

/* There is no block at once: waits for the reader, or grows the heap. 0 with a block, R_PENDING, or the error. */
static int write_alloc_again(struct rch *ch, struct alloc_arguments *a, uint32_t state)
{
    int rc = (state & STATE_JOINED) != 0 ? ch->path->fetch_credits(ch, NEED_MEMORY) : 0;

    while (rc == 0 && (a->d = write_give_block(ch, a->size)) == NULL) {
        /* it may have been joined in this loop; pairs with end_state_set */
        state = atomic_load_explicit(&ch->state, memory_order_acquire);
        /* free memory is given also when the reader has closed: only waiting is useless then */
        rc = call_check_peer(ch, state);
        if (rc != 0)
            return rc;
        RPIPE_FAILPOINT("rmalloc: waits for memory");
        ch->stalls_heap += !a->stalled;
        a->stalled = true;
        rc = heap_alloc_error(ch->w.blocks.heap);
        rc = rc == -ENOMEM || rc == -ENOBUFS ? write_no_block_descriptor(ch, state)
                                             : write_starved(ch, a, state);
    }
    return rc;
}

int write_alloc_attempt(struct rch *ch, void *arguments)
{
    struct alloc_arguments *a = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    int rc = 0;

    if ((state & STATE_FAILED) != 0)
        return call_check_peer(ch, state);
    if (ch->adopts && (state & (STATE_ATTACHED | STATE_JOINED)) == 0) { /* the heap is unknown */
        rc = call_check_peer(ch, state);
        return rc != 0 ? rc : R_PENDING;
    }
    if ((state & STATE_GROW_REPLY) != 0)
        grow_apply(ch);
    if (a->size > write_largest_segment(ch) && !grow_could(ch, a->size))
        return write_too_large(ch, a->size);
    if (a->size <= ch->inline_max) {
        if (ch->checked)
            debug_guard_check_poison(ch);
        a->d = write_give_inline(ch, desc_take(&ch->pool), a->size);
        if (a->d != NULL && ch->checked)
            debug_guard_fill(ch, a->d);
        return a->d != NULL ? 0 : call_no_descriptor(ch, ch->w.allocated);
    }
    if (writer_heap(ch, state) == NULL) { /* PUT: the heap is the reader's, which has not joined */
        rc = call_check_peer(ch, state);
        return rc != 0 ? rc : R_PENDING;
    }
    /* channel mode: blocks that have come back are taken up before each allocation */
    a->d = ch->w.blocks.reverse != NULL ? NULL : write_give_block(ch, a->size);
    if (a->d == NULL)
        rc = write_alloc_again(ch, a, state);
    if (rc != 0)
        return rc;
    if (ch->growth != NULL)
        grow_not_needed(ch, a->size);
    if (ch->checked) {
        debug_guard_fill(ch, a->d);
        debug_check_heap(ch);
    }
    return 0;
}

/* After the deadline: could waiting have helped? */
int write_explain_timeout(struct rch *ch, const struct alloc_arguments *a)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    struct heap *heap = writer_heap(ch, state);
    uint64_t room =
        heap != NULL && (state & STATE_LOCKED) == 0 ? heap_unsent_room(heap) : UINT64_MAX;

    if (a->size <= room)
        return holding_explain(ch, a->size);
    return call_error(
        ch, -ETIMEDOUT,
        "no %zu bytes within %d ms; with everything that the reader can give back, this end's "
        "unsent messages leave %llu bytes at most; send or free them",
        a->size, ch->timeout_ms, (unsigned long long)room);
}

/* rmalloc: what the user gets is computed within the attempt, as in read.c. */
struct rmalloc_arguments {
    struct alloc_arguments alloc;
    raddr_t handle;
};

static int rmalloc_attempt(struct rch *ch, void *arguments)
{
    struct rmalloc_arguments *a = arguments;
    int rc = write_alloc_attempt(ch, &a->alloc);

    if (rc == 0)
        a->handle = desc_users_handle(a->alloc.d, ch->pool.key);
    return rc;
}

static NOINLINE int write_alloc_slow(struct rch *ch, const char *name, size_t size, raddr_t *handle,
                                     bool wait)
{
    struct rmalloc_arguments a = {
        .alloc = {size, NULL, false, {"memory given back by the reader", 0}}};
    struct call call;
    int rc = call_begin(&call, name, ch, SIDE_WRITER);
    uint32_t row;

    if (rc != 0)
        return call_end(&call, rc);
    row = trace_begin(ch, TRACE_ALLOC);
    rc = wait ? call_await(ch, &a.alloc.awaited, rmalloc_attempt, &a)
              : call_once(ch, rmalloc_attempt, &a);
    if (rc == -ETIMEDOUT)
        rc = write_explain_timeout(ch, &a.alloc);
    trace_end(row, 0, size, rc);
    if (rc == 0)
        *handle = a.handle;
    return call_end(&call, rc);
}

static NOINLINE int write_fetch_due(struct rch *ch, size_t size)
{
    int rc;

    if (reclaim_can_wait(&ch->w.blocks, size))
        return 0;
    rc = mapped_fetch_credits(ch, NEED_MEMORY);
    reclaim_schedule_ahead(&ch->w.blocks);
    return rc;
}

/*
 * The heap has no free block: one fetch, without the frame of a call, is enough where the reader keeps up. NULL: not at once; or the heap can
 * grow, and a block that is found has to end the time for which it has been full (write_alloc_attempt).
 */
static NOINLINE struct rdesc *write_fetch_block(struct rch *ch, size_t size)
{
    if (ch->growth != NULL || mapped_fetch_credits(ch, NEED_MEMORY) != 0)
        return NULL;
    return write_give_block(ch, size);
}

/* NULL: not at once. */
static FORCE_INLINE struct rdesc *write_alloc_block(struct rch *ch, size_t size)
{
    struct rdesc *d;

    /* channel mode: always, as in write_alloc_attempt */
    if (UNLIKELY(reclaim_is_due(&ch->w.blocks)) && write_fetch_due(ch, size) != 0)
        return NULL;
    d = write_give_block(ch, size);
    return LIKELY(d != NULL) ? d : write_fetch_block(ch, size);
}

/* Everything that is not done at once. */
static NOINLINE raddr_t write_alloc_wait(rch_t ch, size_t size)
{
    struct rdesc *d = write_alloc_remote(ch, size);
    raddr_t handle;
    int rc;

    if (LIKELY(d != NULL))
        return desc_users_handle(d, ch->pool.key);
    rc = write_alloc_slow(ch, "rmalloc", size, &handle, true);
    if (LIKELY(rc == 0))
        return handle;
    errno = -rc;
    return ADDR_NULL;
}

/* The end is ready, and the message is too large for a slot. */
static NOINLINE raddr_t write_alloc_block_wait(rch_t ch, size_t size)
{
    struct rdesc *d = write_alloc_block(ch, size);

    return LIKELY(d != NULL) ? desc_users_handle(d, ch->pool.key) : write_alloc_wait(ch, size);
}

static FORCE_INLINE bool write_alloc_ready(const struct rch *ch)
{
    return ch != NULL && atomic_load_explicit(&ch->state, memory_order_acquire) == WRITER_READY;
}

/* A leaf without a stack frame for small messages. */
raddr_t rmalloc_alloc(rch_t ch, size_t size)
{
    struct rdesc *d;

    if (UNLIKELY(!write_alloc_ready(ch)))
        return write_alloc_wait(ch, size);
    if (size > ch->inline_max)
        return write_alloc_block_wait(ch, size);
    d = write_give_inline(ch, desc_take_fast(&ch->pool), size);
    return LIKELY(d != NULL) ? desc_users_handle(d, ch->pool.key) : write_alloc_wait(ch, size);
}

int rmalloc_nb(rch_t ch, size_t size, raddr_t *d)
{
    struct rdesc *fast;

    if (UNLIKELY(d == NULL)) {
        last_error_set("rmalloc_nb: d is NULL");
        return -EINVAL;
    }
    if (UNLIKELY(!write_alloc_ready(ch)))
        fast = write_alloc_remote(ch, size);
    else if (size <= ch->inline_max)
        fast = write_give_inline(ch, desc_take_fast(&ch->pool), size);
    else
        fast = write_alloc_block(ch, size);
    if (UNLIKELY(fast == NULL))
        return write_alloc_slow(ch, "rmalloc_nb", size, d, false);
    *d = desc_users_handle(fast, ch->pool.key);
    return 0;
}

struct rdesc *write_own_alloc(struct rch *ch, size_t size)
{
    struct rdesc *d = write_alloc_block(ch, size);
    raddr_t late;

    if (LIKELY(d != NULL))
        return d;
    return write_alloc_slow(ch, "rsend", size, &late, false) == 0 ? desc_of(late) : NULL;
}

/* ---- messages ---- */

static NOINLINE void write_signal(struct rch *ch)
{
    ch->path->signal(ch);
    ch->wakes++;
    RPIPE_FAILPOINT("rwrite: reader signaled");
}

/* A heap message needs a free index too, in the modes that have one. */
static inline bool write_queue_is_full(const struct writer *w, const struct rdesc *d)
{
    return d->units != 0 && reclaim_is_full(&w->blocks);
}

/* The peer can be reached and `a` is a message of the user's: 0, R_PENDING, or the error. */
static int write_prepare(struct rch *ch, struct write_arguments *a, uint32_t state)
{
    int rc;

    if ((state & STATE_GROW_REPLY) != 0)
        grow_apply(ch);
    if (a->users && (rc = handle_find(ch, a->handle, &a->d)) != 0)
        return rc;
    if (a->bytes != WHOLE && a->bytes > a->d->size)
        return call_error(ch, -EINVAL,
                          "bytes is %zu; it must be at most %zu, the size of the message", a->bytes,
                          a->d->size);
    rc = call_check_peer(ch, state);
    if (rc == 0 && ch->checked && a->users)
        rc = debug_guard_check(ch, a->d);
    if (rc == 0 && (state & STATE_JOINED) == 0)
        rc = end_join_complete(ch, a->wait ? deadline_in_ms(ch->timeout_ms) : DEADLINE_NOW);
    return rc == 0 ? ch->path->progress(ch) : rc;
}

static const char write_awaits_index[] =
    "message given back by the reader, which holds sync_queue messages,";

/* There is a free slot, and an index where one is needed: 0, R_PENDING, or the error. */
static int write_take_slot(struct rch *ch, struct write_arguments *a, uint64_t sent)
{
    int rc = 0;
    bool ring;

    if (sent == ch->w.slots.limit)
        rc = ch->path->fetch_credits(ch, NEED_SLOT);
    if (rc == 0 && write_queue_is_full(&ch->w, a->d))
        rc = ch->path->fetch_credits(ch, NEED_MEMORY);
    ring = sent == ch->w.slots.limit;
    if (rc != 0 || (!ring && !write_queue_is_full(&ch->w, a->d)))
        return rc;
    RPIPE_FAILPOINT("rwrite: waits for a slot");
    ch->stalls_ring += !a->stalled && ring;
    ch->stalls_queue += !a->stalled && !ring;
    a->stalled = true;
    a->awaited.what = ring ? "free slot in the ring" : write_awaits_index;
    return R_PENDING;
}

int write_attempt(struct rch *ch, void *arguments)
{
    struct write_arguments *a = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    uint64_t sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
    int rc = write_prepare(ch, a, state);
    bool in_slot;

    if (rc == 0)
        rc = write_take_slot(ch, a, sent);
    if (rc != 0)
        return rc;
    a->written = a->bytes == WHOLE ? a->d->size : a->bytes;
    if (a->bytes != WHOLE && ch->path->wakes) { /* on mapped memory publish does not fail */
        write_shrink(ch, a->d, a->bytes);
        if (ch->checked)
            debug_guard_fill(ch, a->d);
    }
    if (device_has_heap(ch) && !a->left) {
        rc = device_left(ch, a->d, a->part != NULL ? a->part : a->d->mem, a->written);
        if (rc < 0)
            return rc;
        a->staged = rc > 0;
    }
    a->left = true; /* the message stays as it is until the call returns */
    in_slot = a->d->units == 0;
    rc = ch->path->publish(ch, a, a->written, sent);
    if (rc != 0)
        return rc;
    ch->counts.staged += a->staged;
    a->number = sent + 1;
    /* acquire: pairs with event_request */
    if ((atomic_load_explicit(&ch->state, memory_order_acquire) & STATE_EVENT) != 0)
        write_signal(ch);
    if (sent + 1 >= ch->w.slots.refresh_at)
        (void)ch->path->fetch_credits(ch, NEED_SOON); /* an error is reported by the next call */
    if (ch->checked) {
        if (in_slot)
            debug_guard_poison(a->d);
        debug_check_heap(ch);
    }
    return 0;
}

/* `own`: a message that the user does not have, instead of a handle; or NULL. */
static NOINLINE int write_slow(struct rch *ch, const char *name, struct rdesc *own, raddr_t handle,
                               size_t bytes, bool wait)
{
    struct write_arguments a = {.d = own,
                                .handle = handle,
                                .users = own == NULL,
                                .bytes = bytes,
                                .wait = wait,
                                .awaited = {"free slot in the ring", 0}};
    struct call call;
    int rc = call_begin(&call, name, ch, SIDE_WRITER);
    uint32_t row;

    if (rc != 0)
        return call_end(&call, rc);
    row = trace_begin(ch, TRACE_WRITE);
    rc = wait ? call_await(ch, &a.awaited, write_attempt, &a) : call_once(ch, write_attempt, &a);
    if (rc == -ETIMEDOUT && a.awaited.what == write_awaits_index)
        rc = holding_explain(ch, 0);
    trace_end(row, a.number, a.written, rc);
    return call_end(&call, rc);
}

/* After a message of the fast path: the reader sleeps, or is in event mode; a fence is needed; or a watermark. 0. */
NOINLINE int write_after(struct rch *ch)
{
    wake_reader(ch);
    RPIPE_FAILPOINT("rwrite: reader woken");
    /* acquire: pairs with event_request */
    if ((atomic_load_explicit(&ch->state, memory_order_acquire) & STATE_EVENT) != 0)
        write_signal(ch);
    if (atomic_load_explicit(&ch->w.sent, memory_order_relaxed) >= ch->w.slots.refresh_at)
        (void)mapped_fetch_credits(ch, NEED_SOON);
    return 0;
}

/* After a message of the fast path whose payload is pushed. 0. */
static NOINLINE int write_push(struct rch *ch, const struct rdesc *d)
{
    push_lines(d->mem, d->size);
    return write_after(ch);
}

/* `own`: as in write_slow, a constant NULL for a message of the user. */
static FORCE_INLINE int write_message(struct rch *ch, const char *name, struct rdesc *own,
                                      raddr_t handle, size_t bytes, bool wait)
{
    struct rdesc *d;
    uint64_t sent;

    if (UNLIKELY(ch == NULL ||
                 atomic_load_explicit(&ch->state, memory_order_acquire) != WRITER_READY))
        return write_slow(ch, name, own, handle, bytes, wait);
    sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
    d = own != NULL ? own : desc_of(handle);
    if (UNLIKELY(sent == ch->w.slots.limit || (own == NULL && !handle_is_users(ch, d, handle)) ||
                 (bytes != WHOLE && bytes > d->size)))
        return write_slow(ch, name, own, handle, bytes, wait);
    if (d->units != 0 && UNLIKELY(reclaim_is_full(&ch->w.blocks)))
        return write_slow(ch, name, own, handle, bytes, wait);
    if (bytes != WHOLE)
        write_shrink(ch, d, bytes);
    if (d->units != 0) {
        publish_message(ch, d, true, d->size, sent);
        if (UNLIKELY(push_is_due(ch, d)))
            return write_push(ch, d);
    } else {
        publish_message(ch, d, false, d->size, sent);
    }
    if (UNLIKELY(publish_leaves_more(ch) || sent + 1 >= ch->w.slots.refresh_at))
        return write_after(ch);
    return 0;
}

int rpipe_write(rch_t ch, raddr_t d) { return write_message(ch, "rwrite", NULL, d, WHOLE, true); }

int rpipe_write_n(rch_t ch, raddr_t d, size_t bytes)
{
    if (UNLIKELY(bytes == WHOLE))
        bytes--; /* no message is that long: an error, as any length beyond the message */
    return write_message(ch, "rwrite_n", NULL, d, bytes, true);
}

int rpipe_write_nb(rch_t ch, raddr_t d)
{
    return write_message(ch, "rwrite_nb", NULL, d, WHOLE, false);
}

__attribute__((nonnull(2))) int write_own(struct rch *ch, struct rdesc *d)
{
    return write_message(ch, "rsend", d, ADDR_NULL, WHOLE, false);
}

/* ---- freeing what was not sent ---- */

int write_unalloc_attempt(struct rch *ch, void *arguments)
{
    struct rdesc *d = arguments;
    bool in_slot = d->units == 0;

    ch->w.allocated--;
    if (in_slot)
        desc_put(&ch->pool, d);
    else
        heap_free(ch->w.blocks.heap, d);
    if (ch->checked) {
        if (in_slot)
            debug_guard_poison(d);
        debug_check_heap(ch);
    }
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

static int write_flush_attempt(struct rch *ch, void *arguments)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    int rc = call_check_peer(ch, state);

    if (rc != 0 || (state & STATE_JOINED) == 0)
        return rc; /* not joined: nothing has been written */
    return ch->path->drain(ch, arguments);
}

int end_flush(struct rch *ch, const char *name, enum side side)
{
    static const struct awaited awaited = {"completion", 0};
    uint64_t since = 0;
    struct call call;
    int rc = call_begin(&call, name, ch, side);
    uint32_t row;

    if (rc != 0)
        return call_end(&call, rc);
    row = trace_begin(ch, TRACE_FLUSH);
    rc = call_await(ch, &awaited, write_flush_attempt, &since);
    if (rc == 0 && side == SIDE_WRITER)
        cork_forget(ch); /* nothing is held: another thread may have the end now */
    trace_end(row, 0, 0, rc);
    return call_end(&call, rc);
}

int rpipe_flush(rch_t ch) { return end_flush(ch, "rflush", SIDE_WRITER); }
