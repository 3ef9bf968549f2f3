/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read.c: the reader: messages, and giving them back.
 *
 * The fast paths require an end whose state is exactly READER_READY, which is on the mapped path; rfree has a short one for the
 * remote path, too. All other calls make an attempt by call_once or call_await.
 */
#include "rpipe/data/attempt.h"
#include "rpipe/data/handle.h"
#include "rpipe/data/push.h"
#include "rpipe/end/cork.h"
#include "rpipe/end/path.h"
#include "rpipe/data/take.h"
#include "rpipe/end/debug_check.h"
#include "rpipe/end/debug_guard.h"
#include "rpipe/end/device.h"
#include "rpipe/end/state.h"
#include "rpipe/wait/event.h"

#include "control/control.h"
#include "observe/record/trace.h"

#include <errno.h>
#include <string.h>

/* ---- when there is no message ---- */

/* The peer has died. A message may still be there: the last store of the dead process. */
static int read_peer_died(struct rch *ch, uint32_t state)
{
    if ((state & STATE_JOINED) != 0 && ch->path->message_ready(ch))
        return R_PENDING;
    return call_error(ch, -ECONNRESET,
                      "rank %d died before it closed this pipe, after message %llu%s", ch->peer,
                      (unsigned long long)ch->path->delivered(ch), end_death_reason(ch));
}

/* The peer has called rexit and has not closed this pipe. */
static int read_peer_left(struct rch *ch)
{
    if (ch->path->message_ready(ch))
        return R_PENDING;
    /* GET over a network, and a rexit that did not wait for this end */
    return call_error(ch, -ECONNRESET,
                      "rank %d has left the job (rexit); messages after number %llu are lost",
                      ch->peer, (unsigned long long)ch->path->delivered(ch));
}

static int read_peer_closed(struct rch *ch, uint32_t state)
{
    int rc;

    if ((state & STATE_JOINED) == 0)
        return (state & STATE_PEER_CLOSED) == 0
                   ? 0
                   : call_error(ch, R_EOF, "rank %d has closed this pipe without a message",
                                ch->peer);
    rc = ch->path->at_end(ch, state);
    if (rc <= 0)
        return rc;
    return call_error(ch, R_EOF,
                      "rank %d has closed this pipe; all its %llu messages have been read",
                      ch->peer, (unsigned long long)ch->r.nread);
}

/* There is no message: R_PENDING, or the reason why there will be none. */
static int read_no_more(struct rch *ch, uint32_t state)
{
    int rc;

    if ((state & STATE_FAILED) != 0)
        return call_error(ch, ch->failure, "%s",
                          ch->reason != NULL ? ch->reason : "the two ends cannot be joined");
    rc = read_peer_closed(ch, state);
    if (rc != 0)
        return rc;
    if (end_never_joins(state))
        return call_never_joins(ch, state);
    if (end_peer_died(ch, state))
        return read_peer_died(ch, state);
    return (state & STATE_PEER_LEFT) != 0 ? read_peer_left(ch) : R_PENDING;
}

static int read_checked(struct rch *ch, struct rdesc *d)
{
    int rc = debug_check_read(ch, d);

    if (rc != 0)
        return violation_of_message(ch, "overlaps one that has not been freed", "offset", d->offset,
                                    "bytes", d->size);
    if (!ch->path->placed(ch)) /* else the payload is in memory of the program */
        debug_guard_arrived(ch, d, ch->path->delivered(ch), ch->path->wakes);
    return 0;
}

static int read_from_device(struct rch *ch, struct rdesc *d, bool extracts)
{
    int rc = 0;

    if (d->units == 0 && d->size > 0) /* the program would take its address for one of the device */
        return violation_of_message(ch, "is in its slot, and all messages are in the heap", "bytes",
                                    d->size, "limit", 0);
    if (!extracts || !device_is_staged(ch, d))
        rc = device_arrived(ch, d);
    if (rc != 0)
        read_release(ch, d);
    return rc;
}

/* The message that is there, or R_PENDING, or the error. */
static int read_take(struct rch *ch, struct read_arguments *a, uint32_t state)
{
    int rc;

    if ((state & (STATE_JOINED | STATE_FAILED)) != STATE_JOINED)
        return R_PENDING;
    if (a->peeked)
        return ch->path->take(ch, &a->d, &a->size);
    rc = ch->path->progress(ch);
    return rc == 0 ? R_PENDING : rc;
}

int read_attempt(struct rch *ch, void *arguments)
{
    struct read_arguments *a = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    bool joined, drained;
    int rc, ended;

    /* what rwrite or rflush has promised to be visible is worth a moment, once in the life of a pipe, also without waiting */
    if ((state & STATE_JOINED) == 0 && path_message_before_join(ch))
        state = end_await_handshake(ch, clock_now() + END_HANDSHAKE_NS);
    joined = (state & STATE_JOINED) != 0;
    if (ch->checked)
        debug_guard_check_poison(ch);
    rc = read_take(ch, a, state);
    if (rc == R_PENDING && (state & STATE_EVENT) != 0) {
        drained = event_drain(ch, joined);
        /* other events signal the descriptor too, and have been drained; pairs with end_state_set */
        state = atomic_load_explicit(&ch->state, memory_order_acquire);
        if (!joined && (state & STATE_JOINED) != 0)
            return read_attempt(ch, arguments);
        if (drained)
            rc = read_take(ch, a, state);
    }
    if (rc == 0 && ch->checked)
        rc = read_checked(ch, a->d);
    if (rc == 0 && device_has_heap(ch))
        rc = read_from_device(ch, a->d, a->extracts);
    a->number = ch->path->delivered(ch);
    if (rc != R_PENDING)
        return rc;
    ch->stalls_ring += !a->stalled;
    a->stalled = true;
    ended = read_no_more(ch, state);
    /* the end of the pipe stays readable, and so does what will be reported within milliseconds */
    if ((ended != R_PENDING || ch->died != 0) && (state & STATE_EVENT) != 0)
        end_signal(ch);
    return ended;
}

/*
 * rread: what the user gets is computed within the attempt. Behind it another thread may have closed the end, whose memory another
 * rpipe() may have then.
 */
struct rread_arguments {
    struct read_arguments read;
    raddr_t handle;
};

static int rread_attempt(struct rch *ch, void *arguments)
{
    struct rread_arguments *a = arguments;
    int rc = read_attempt(ch, &a->read);

    if (rc == 0)
        a->handle = desc_users_handle(a->read.d, ch->pool.key);
    return rc;
}

static NOINLINE int read_slow(struct rch *ch, const char *name, raddr_t *d, size_t *size, bool wait)
{
    static const struct awaited awaited = {"message", 0};
    struct rread_arguments a = {.read = {.peeked = true}};
    struct call call;
    int rc = call_begin(&call, name, ch, SIDE_READER);
    uint32_t row;

    if (rc == 0 && d == NULL)
        rc = call_error(ch, -EINVAL, "d is NULL");
    if (rc != 0)
        return call_end(&call, rc);
    row = trace_begin(ch, TRACE_READ);
    rc = wait ? call_await(ch, &awaited, rread_attempt, &a) : call_once(ch, rread_attempt, &a);
    trace_end(row, a.read.number, a.read.size, rc);
    if (rc == 0) {
        *d = a.handle;
        if (size != NULL)
            *size = a.read.size;
    }
    return call_end(&call, rc);
}

/* Fast check for "no message yet": the writer has neither closed nor died. read_no_more decides the other cases. */
static inline bool read_nothing_yet(const struct rch *ch)
{
    /* acquire: as in mapped_at_end */
    return atomic_load_explicit(&ch->ring->control.final, memory_order_acquire) == 0 &&
           !liveness_died(ch->liveness);
}

/* The message is there: of any kind, also with the first descriptor of a new chunk. */
static NOINLINE int read_any(struct rch *ch, raddr_t *handle, size_t *size)
{
    struct rdesc *d = NULL;
    int rc = take_message(ch, end_slot(ch, ch->r.nread), false, &d, size);

    if (LIKELY(rc == 0))
        *handle = desc_users_handle(d, ch->pool.key);
    return rc;
}

static NOINLINE int read_nothing(struct rch *ch, raddr_t *d, size_t *size, bool wait);

static NOINLINE int read_nothing_judged(struct rch *ch, raddr_t *d, size_t *size, bool wait)
{
    push_wait(ch);
    return read_nothing(ch, d, size, wait);
}

/* The slot is empty. A leaf: what is behind a poll that finds the message is as short as can be. */
static NOINLINE int read_nothing(struct rch *ch, raddr_t *d, size_t *size, bool wait)
{
    const struct slot *s = end_slot(ch, ch->r.nread);
    uint32_t polls =
        wait ? (uint32_t)atomic_load_explicit(&wait_first_polls, memory_order_relaxed) : 0;

    cork_before_wait();
    if (UNLIKELY(push_judges(ch)))
        return read_nothing_judged(ch, d, size, wait);
    if (!wait && LIKELY(read_nothing_yet(ch))) {
        ch->r.waits.polls++;
        ch->stalls_ring++;
        return R_PENDING;
    }
    for (uint32_t polled = 1; polled <= polls; polled++) {
        ch->r.waits.polls = polled;
        cpu_pause();
        if (ring_slot_ready(s, ch->r.nread + 1))
            return rpipe_read(ch, d, size);
    }
    ch->r.waits.polls = PUSH_WHOLE_WAIT;
    return read_slow(ch, wait ? "rread" : "rread_nb", d, size, wait);
}

/* The slot is given back, and the writer sleeps, or a fence is needed before that is seen. 0. */
int read_after(struct rch *ch)
{
    wake_writer(ch);
    RPIPE_FAILPOINT("rread: writer woken");
    return 0;
}

/*
 * A complete slot, taken into a descriptor. Each word is loaded once: the peer may change them at any time. NULL: the slot is not
 * valid, or there is no descriptor, and read_any decides.
 */
static FORCE_INLINE struct rdesc *read_take_small(struct rch *ch, const struct slot *s)
{
    size_t bytes = __atomic_load_n(&s->bytes, __ATOMIC_RELAXED);
    struct rdesc *d;

    if (UNLIKELY(bytes > DESC_INLINE_MAX || (d = desc_take_fast(&ch->pool)) == NULL))
        return NULL;
    take_small(d, s, bytes);
    return d;
}

static FORCE_INLINE struct rdesc *read_take_block(struct rch *ch, const struct slot *s)
{
    struct reader *r = &ch->r;
    uint64_t offset = __atomic_load_n(&s->heap.offset, __ATOMIC_RELAXED);
    uint64_t size = __atomic_load_n(&s->heap.size, __ATOMIC_RELAXED);
    struct rdesc *d;

    if (UNLIKELY(offset >= r->heap_bytes || size > r->heap_bytes - offset ||
                 r->blocks.taken - r->blocks.freed >= r->most ||
                 (d = desc_take_fast(&ch->pool)) == NULL))
        return NULL;
    d->offset = offset;
    d->size = size;
    take_block_at(r, d, r->heap_base + offset, __atomic_load_n(&s->block, __ATOMIC_RELAXED));
    return d;
}

static FORCE_INLINE struct rdesc *read_take_fast(struct rch *ch, const struct slot *s)
{
    uint32_t kind = __atomic_load_n(&s->kind, __ATOMIC_RELAXED);

    if (LIKELY(kind == SLOT_INLINE))
        return read_take_small(ch, s);
    return kind == SLOT_HEAP ? read_take_block(ch, s) : NULL;
}

/*
 * A leaf, as rpipe_send. No slot is requested in advance: where the reader follows the writer closely it would
 * take the line from the writer just before the store, and a stream would be three times as slow.
 */
static FORCE_INLINE int read_message(struct rch *ch, raddr_t *handle, size_t *size, bool wait)
{
    const struct slot *s;
    struct rdesc *d;
    uint64_t next;

    if (UNLIKELY(ch == NULL || handle == NULL ||
                 atomic_load_explicit(&ch->state, memory_order_acquire) != READER_READY))
        return read_slow(ch, wait ? "rread" : "rread_nb", handle, size, wait);
    next = ch->r.nread;
    s = end_slot(ch, next);
    if (UNLIKELY(!ring_slot_ready(s, next + 1)))
        return read_nothing(ch, handle, size, wait);
    d = read_take_fast(ch, s);
    if (UNLIKELY(d == NULL))
        return read_any(ch, handle, size);
    RPIPE_FAILPOINT("rread: message seen");
    d->header = s->header;
    *handle = desc_users_handle(d, ch->pool.key);
    if (size != NULL)
        *size = d->size;
    take_slot(ch, next + 1, d->size);
    compiler_store_before_wake_look(); /* or the fence of wake_writer, before which the load proves nothing */
    if (UNLIKELY((atomic_load_explicit(&ch->ring->control.writer_wake, memory_order_relaxed) |
                  ch->fences) != 0))
        return read_after(ch);
    return 0;
}

int rpipe_read(rch_t ch, raddr_t *d, size_t *size) { return read_message(ch, d, size, true); }

int rpipe_read_nb(rch_t ch, raddr_t *d, size_t *size) { return read_message(ch, d, size, false); }

int read_own(struct rch *ch, struct rdesc **d)
{
    return take_message(ch, end_slot(ch, ch->r.nread), false, d, NULL);
}

/* ---- freeing ---- */

/*
 * Tag and channel mode: the block is named. Both ways are releases: the user's last access of the block precedes the writer's next
 * store to it.
 */
static FORCE_INLINE void read_name_block(struct rch *ch, struct rdesc *d, bool mapped)
{
    uint32_t block = release_named(&ch->r.blocks, &ch->pool, d);

    if (ch->r.blocks.reverse == NULL)
        tag_append(ch->credit, &ch->r.blocks.next, block);
    else if (mapped)
        reverse_append(ch->r.blocks.reverse, &ch->r.blocks.next, ch->r.blocks.freed, block);
    else
        ch->path->release_block(ch, block);
    wake_writer(ch);
}

static FORCE_INLINE void read_free_block(struct rch *ch, struct rdesc *d, bool mapped)
{
    ch->r.units_held -= d->units;
    if (ch->r.sync != RPIPE_SYNC_BLOCKS)
        read_name_block(ch, d, mapped);
    else if (release_prefix(&ch->r.blocks, &ch->credit->line, &ch->pool, d))
        wake_writer(ch);
}

/* `mapped`: a constant: the fast path, which is on the mapped path. */
static FORCE_INLINE void read_free(struct rch *ch, struct rdesc *d, bool mapped)
{
    ch->r.held--;
    if (d->units == 0)
        desc_put(&ch->pool, d);
    else
        read_free_block(ch, d, mapped);
}

void read_release(struct rch *ch, struct rdesc *d)
{
    bool in_slot = d->units == 0;

    if (ch->checked)
        debug_check_freed(ch, d);
    read_free(ch, d, false);
    if (ch->checked && in_slot)
        debug_guard_poison(d);
}

void read_release_mapped(struct rch *ch, struct rdesc *d) { read_free(ch, d, true); }

static int read_free_attempt(struct rch *ch, void *arguments)
{
    const raddr_t *handle = arguments;
    struct rdesc *d;
    int rc = handle_find(ch, *handle, &d);

    if (rc == 0 && ch->checked)
        rc = debug_guard_check(ch, d);
    if (rc != 0)
        return rc;
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_WRITER) != 0)
        return write_unalloc_attempt(ch, d);
    read_release(ch, d);
    return 0;
}

static NOINLINE int read_free_slow(struct rch *ch, raddr_t handle)
{
    struct call call;
    int rc = call_begin(&call, "rfree", ch, 0);

    if (rc == 0)
        rc = call_once(ch, read_free_attempt, &handle);
    return call_end(&call, rc);
}

/* The end is not on the mapped path, or not ready. On the remote path a message is freed in memory of this end, too. */
static NOINLINE int read_free_elsewhere(struct rch *ch, raddr_t handle)
{
    struct rdesc *d = desc_of(handle);

    if (ch == NULL ||
        atomic_load_explicit(&ch->state, memory_order_acquire) != READER_READY_REMOTE ||
        !handle_is_users(ch, d, handle))
        return read_free_slow(ch, handle);
    read_free(ch, d, false);
    return 0;
}

/* It computes the handle again, which the fast path need not keep for this. */
static NOINLINE int read_free_refused(struct rch *ch, const struct rdesc *d, uint64_t word)
{
    return read_free_slow(ch, (raddr_t)((uintptr_t)d + word - ch->pool.key));
}

int rmalloc_free(rch_t ch, raddr_t handle)
{
    struct rdesc *d;
    uint64_t word;

    if (UNLIKELY(ch == NULL ||
                 atomic_load_explicit(&ch->state, memory_order_acquire) != READER_READY))
        return read_free_elsewhere(ch, handle);
    d = desc_of(handle);
    word = desc_users_word(d, handle, ch->pool.key);
    if (UNLIKELY(d == NULL || d->word != word))
        return read_free_refused(ch, d, word);
    read_free(ch, d, true);
    return 0;
}

/* ---- properties of a message, at either end ---- */

/* With RMALLOC_DEBUG=1 the handle may have any value: read_find_message. */
static inline bool read_is_message(rch_t ch, const struct rdesc *d, raddr_t handle)
{
    /* the state first: messages of a closed end are not valid any more */
    return LIKELY(ch != NULL &&
                  (atomic_load_explicit(&ch->state, memory_order_relaxed) &
                   (STATE_CLOSED | STATE_FORKED | STATE_DEBUG)) == 0 &&
                  handle_is_users(ch, d, handle));
}

struct find_arguments {
    raddr_t handle;
    struct rdesc *d;
};

static int read_find_attempt(struct rch *ch, void *arguments)
{
    struct find_arguments *a = arguments;

    return handle_find(ch, a->handle, &a->d);
}

/* The message, or NULL and errno. */
static NOINLINE struct rdesc *read_find_message(rch_t ch, const char *name, raddr_t handle)
{
    struct find_arguments a = {handle, NULL};
    struct call call;
    int rc;

    call_enter(&call, name);
    rc = call_check(ch, 0); /* no call_begin: with RMALLOC_DEBUG=1 other threads may ask, too */
    if (rc ==
        0) /* an attempt: with RMALLOC_DEBUG=1 it searches pools, which rclose of another thread frees */
        rc = call_once(ch, read_find_attempt, &a);
    rc = call_end(&call, rc);
    if (rc == 0)
        return a.d;
    errno = -rc;
    return NULL;
}

static FORCE_INLINE struct rdesc *read_message_of(rch_t ch, const char *name, raddr_t handle)
{
    struct rdesc *d = desc_of(handle);

    return LIKELY(read_is_message(ch, d, handle)) ? d : read_find_message(ch, name, handle);
}

void *rmalloc_ptr(rch_t ch, raddr_t handle)
{
    const struct rdesc *d = read_message_of(ch, "rmem", handle);

    return d != NULL ? d->mem : NULL;
}

size_t rmalloc_size(rch_t ch, raddr_t handle)
{
    const struct rdesc *d = read_message_of(ch, "rsize", handle);

    return d != NULL ? d->size : 0;
}

/* The header as one number: in the descriptor until rwrite, then in the slot. */
int rpipe_set_tag(rch_t ch, raddr_t handle, uint64_t tag)
{
    struct rdesc *d = read_message_of(ch, "rset_tag", handle);

    if (d == NULL)
        return -errno;
    d->header = tag;
    return 0;
}

uint64_t rpipe_tag(rch_t ch, raddr_t handle)
{
    const struct rdesc *d = read_message_of(ch, "rtag", handle);

    return d != NULL ? d->header : 0;
}
