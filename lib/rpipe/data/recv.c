/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recv.c: rrecv, the next message into memory of the program; and rtake, the next message with all that is known about it.
 *
 * The fast path copies a small payload out of its slot. All other messages of rrecv are rread, a copy and rfree, as one attempt. A
 * message that is larger than the memory stays the next one: its size is read before it is taken. rtake takes every message: a
 * payload that was in its slot is copied, one in the heap stays there, and has a descriptor.
 */
#include "rpipe/data/attempt.h"
#include "rpipe/data/copy_small.h"
#include "rpipe/data/handle.h"
#include "rpipe/data/push.h"
#include "rpipe/end/cork.h"
#include "rpipe/end/device.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/path.h"
#include "rpipe/data/violation.h"

#include "control/liveness.h"
#include "observe/record/trace.h"
#include "util/failpoint.h"

#include <errno.h>
#include <string.h>

struct recv_arguments {
    struct read_arguments read;
    void *buf;
    size_t room;
    size_t size; /* of the message, also where it does not fit */
};

static int recv_take(struct rch *ch, struct recv_arguments *a)
{
    struct rdesc *d = a->read.d;
    int rc = 0;

    a->size = d->size;
    if (d->size > a->room) { /* it had another size when it was peeked at */
        read_release(ch, d);
        return violation_of_message(ch, "has changed its size while it was received", "bytes",
                                    a->size, "limit", a->room);
    }
    if (d->size > 0 && device_has_heap(ch))
        rc = device_extract(ch, d, NULL, a->buf);
    else if (d->size > 0)
        memcpy(a->buf, d->mem, d->size);
    RPIPE_FAILPOINT("rrecv: before the message is freed");
    read_release(ch, d);
    return rc;
}

static bool recv_is_joined(const struct rch *ch)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */

    return (state & (STATE_JOINED | STATE_FAILED)) == STATE_JOINED;
}

static int recv_attempt(struct rch *ch, void *arguments)
{
    struct recv_arguments *a = arguments;
    bool was_joined = recv_is_joined(ch);
    int rc;

    if (device_has_heap(ch) && (rc = device_check_extract(ch, NULL)) != 0) /* before one is taken */
        return rc;
    a->read.extracts = true;
    a->read.peeked = was_joined && ch->path->next_size(ch, &a->size);
    if (a->read.peeked && a->size > a->room)
        return call_error(
            ch, -EMSGSIZE,
            "the next message has %zu bytes and room is %zu; it is still the next one", a->size,
            a->room);
    rc = read_attempt(ch, &a->read);
    if (rc == 0)
        return recv_take(ch, a);
    if (rc == R_PENDING && !was_joined && recv_is_joined(ch))
        return recv_attempt(ch, arguments); /* a message has waited for the join */
    return rc;
}

static NOINLINE int recv_slow(struct rch *ch, void *buf, size_t room, size_t *bytes, int flags)
{
    static const struct awaited awaited = {"message", 0};
    struct recv_arguments a = {.buf = buf, .room = room};
    struct call call;
    int rc = call_begin(&call, "rrecv", ch, SIDE_READER);
    uint32_t row;

    if (rc == 0)
        rc = call_check_flags(ch, flags);
    if (rc == 0 && buf == NULL && room > 0)
        rc = call_error(ch, -EINVAL, "buf is NULL, room is %zu", room);
    if (rc != 0)
        return call_end(&call, rc);
    row = trace_begin(ch, TRACE_READ);
    rc = (flags & R_NOWAIT) == 0 ? call_await(ch, &awaited, recv_attempt, &a)
                                 : call_once(ch, recv_attempt, &a);
    trace_end(row, a.read.number, a.size, rc);
    if ((rc == 0 || rc == -EMSGSIZE) && bytes != NULL)
        *bytes = a.size;
    return call_end(&call, rc);
}

/*
 * A message of the heap that has arrived and fits: rread, a copy and rfree, none of which waits. Everything else is done, or
 * reported, by recv_slow.
 */
static NOINLINE int recv_block(struct rch *ch, void *buf, size_t room, size_t *bytes, int flags)
{
    struct recv_arguments a = {.buf = buf, .room = room};
    const struct slot *s = end_slot(ch, ch->r.nread);
    size_t size = __atomic_load_n(&s->heap.size, __ATOMIC_RELAXED);
    struct call call;
    int rc;

    if (__atomic_load_n(&s->kind, __ATOMIC_RELAXED) != SLOT_HEAP || size > room ||
        size > COPY_UNCOUNTED_MOST || read_own(ch, &a.read.d) != 0)
        return recv_slow(ch, buf, room, bytes, flags);
    if (LIKELY(a.read.d->size == size &&
               atomic_load_explicit(&ch->state, memory_order_relaxed) == READER_READY)) {
        memcpy(buf, a.read.d->mem, size);
        a.size = size;
        rc = 0;
        read_release_mapped(ch, a.read.d);
    } else { /* the peer has changed it in between, or the end has another state */
        call_enter(&call, "rrecv");
        rc = call_end(&call, calls_ended() ? job_check() : recv_take(ch, &a));
    }
    if (rc == 0 && bytes != NULL)
        *bytes = a.size;
    return rc;
}

static NOINLINE int recv_nothing(struct rch *ch, void *buf, size_t room, size_t *bytes, int flags);

static NOINLINE int recv_nothing_judged(struct rch *ch, void *buf, size_t room, size_t *bytes,
                                        int flags)
{
    push_wait(ch);
    return recv_nothing(ch, buf, room, bytes, flags);
}

/* The slot is empty. Most calls that may not wait end here: the writer has neither closed nor died. A leaf, as read_nothing. */
static NOINLINE int recv_nothing(struct rch *ch, void *buf, size_t room, size_t *bytes, int flags)
{
    const struct slot *s = end_slot(ch, ch->r.nread);
    uint32_t polls = (flags & R_NOWAIT) != 0
                         ? 0
                         : (uint32_t)atomic_load_explicit(&wait_first_polls, memory_order_relaxed);

    cork_before_wait();
    if (UNLIKELY(push_judges(ch)))
        return recv_nothing_judged(ch, buf, room, bytes, flags);
    for (uint32_t polled = 1; polled <= polls; polled++) {
        ch->r.waits.polls = polled;
        cpu_pause();
        if (ring_slot_ready(s, ch->r.nread + 1))
            return rpipe_recv(ch, buf, room, bytes, flags);
    }
    if ((flags & R_NOWAIT) == 0 || liveness_died(ch->liveness) ||
        /* acquire: as in mapped_at_end */
        atomic_load_explicit(&ch->ring->control.final, memory_order_acquire) != 0) {
        ch->r.waits.polls = PUSH_WHOLE_WAIT;
        return recv_slow(ch, buf, room, bytes, flags);
    }
    ch->r.waits.polls++;
    ch->stalls_ring++;
    return R_PENDING;
}

/* A leaf without a stack frame, as rpipe_send. */
int rpipe_recv(rch_t ch, void *buf, size_t room, size_t *bytes, int flags)
{
    const struct slot *s;
    uint64_t next;
    size_t n;

    if (UNLIKELY(ch == NULL || buf == NULL || (flags & ~R_NOWAIT) != 0 ||
                 atomic_load_explicit(&ch->state, memory_order_acquire) != READER_READY))
        return recv_slow(ch, buf, room, bytes, flags);
    next = ch->r.nread;
    s = end_slot(ch, next);
    if (UNLIKELY(!ring_slot_ready(s, next + 1)))
        return recv_nothing(ch, buf, room, bytes, flags);
    /* each is loaded once: the peer may change them at any time */
    if (UNLIKELY(s->kind != SLOT_INLINE))
        return recv_block(ch, buf, room, bytes, flags);
    n = __atomic_load_n(&s->bytes, __ATOMIC_RELAXED);
    if (UNLIKELY(n > room))
        return recv_slow(ch, buf, room, bytes, flags);
    if (n > 16 && UNLIKELY(n > DESC_INLINE_MAX)) /* copy_small makes this distinction too */
        return recv_slow(ch, buf, room, bytes, flags);
    RPIPE_FAILPOINT("rrecv: message seen");
    copy_small(buf, s->payload, n);
    RPIPE_FAILPOINT("rrecv: slot copied");
    ch->r.nread = next + 1;
    ch->bytes += n;
    /* release: the slot is copied before the writer overwrites it. Pairs with slot_credit_refresh */
    atomic_store_explicit(&ch->credit->line.slots_read, next + 1, memory_order_release);
    RPIPE_FAILPOINT("rrecv: slot given back");
    if (bytes != NULL)
        *bytes = n;
    compiler_store_before_wake_look(); /* or the fence of wake_writer, before which the load proves nothing */
    if (UNLIKELY((atomic_load_explicit(&ch->ring->control.writer_wake, memory_order_relaxed) |
                  ch->fences) != 0))
        return read_after(ch);
    return 0;
}

/* ---- rtake ---- */

static_assert(sizeof(((rtaken_t *)NULL)->slot) == DESC_INLINE_MAX, "what travels in a slot fits");

/* The message `d` is the caller's: its payload, and no descriptor, if it was in its slot. */
static void recv_hand_over(struct rch *ch, struct rdesc *d, rtaken_t *m)
{
    m->bytes = d->size;
    m->tag = d->header;
    if (d->units != 0) {
        m->d = desc_users_handle(d, ch->pool.key);
        m->mem = d->mem;
        return;
    }
    m->d = ADDR_NULL;
    m->mem = m->slot;
    memcpy(m->slot, d->mem, d->size);
    read_release(ch, d);
}

struct taken_arguments {
    struct read_arguments read;
    rtaken_t *m;
};

/* Within the attempt: behind it another thread may have closed the end. */
static int recv_taken_attempt(struct rch *ch, void *arguments)
{
    struct taken_arguments *a = arguments;
    int rc = read_attempt(ch, &a->read);

    if (rc == 0)
        recv_hand_over(ch, a->read.d, a->m);
    return rc;
}

static NOINLINE int recv_taken_slow(struct rch *ch, rtaken_t *m)
{
    struct taken_arguments a = {.read = {.peeked = true}, .m = m};
    struct call call;
    int rc = call_begin(&call, "rtake", ch, SIDE_READER);
    uint32_t row;

    if (rc == 0 && m == NULL)
        rc = call_error(ch, -EINVAL, "m is NULL");
    if (rc != 0)
        return call_end(&call, rc);
    row = trace_begin(ch, TRACE_READ);
    rc = call_once(ch, recv_taken_attempt, &a);
    trace_end(row, a.read.number, a.read.size, rc);
    return call_end(&call, rc);
}

/* The slot is complete, and not that of a small message, or was not when it was tested. */
static NOINLINE int recv_taken_any(struct rch *ch, rtaken_t *m)
{
    struct rdesc *d;
    int rc = read_own(ch, &d);

    if (LIKELY(rc == 0))
        recv_hand_over(ch, d, m);
    return rc;
}

static NOINLINE int recv_taken_nothing(struct rch *ch, rtaken_t *m);

static NOINLINE int recv_taken_judged(struct rch *ch, rtaken_t *m)
{
    push_wait(ch);
    return recv_taken_nothing(ch, m);
}

/* The writer has closed, or is dead: there may be a last message. */
static NOINLINE int recv_taken_ended(struct rch *ch, rtaken_t *m)
{
    ch->r.waits.polls = PUSH_WHOLE_WAIT;
    return recv_taken_slow(ch, m);
}

/* The slot is empty: as recv_nothing without waiting. */
static NOINLINE int recv_taken_nothing(struct rch *ch, rtaken_t *m)
{
    cork_before_wait();
    if (UNLIKELY(push_judges(ch)))
        return recv_taken_judged(ch, m);
    if (UNLIKELY(liveness_died(ch->liveness) ||
                 /* acquire: as in mapped_at_end */
                 atomic_load_explicit(&ch->ring->control.final, memory_order_acquire) != 0))
        return recv_taken_ended(ch, m);
    ch->r.waits.polls++;
    ch->stalls_ring++;
    return R_PENDING;
}

/* A leaf without a stack frame, as rpipe_recv. */
int rpipe_take(rch_t ch, rtaken_t *m)
{
    const struct slot *s;
    uint64_t next;
    size_t n;

    if (UNLIKELY(ch == NULL || m == NULL ||
                 atomic_load_explicit(&ch->state, memory_order_acquire) != READER_READY))
        return recv_taken_slow(ch, m);
    next = ch->r.nread;
    s = end_slot(ch, next);
    if (UNLIKELY(!ring_slot_ready(s, next + 1)))
        return recv_taken_nothing(ch, m);
    /* each is loaded once: the peer may change them at any time */
    n = __atomic_load_n(&s->bytes, __ATOMIC_RELAXED);
    if (UNLIKELY(__atomic_load_n(&s->kind, __ATOMIC_RELAXED) != SLOT_INLINE || n > DESC_INLINE_MAX))
        return recv_taken_any(ch, m);
    RPIPE_FAILPOINT("rtake: message seen");
    if (LIKELY(n <= sizeof(uint64_t)))
        memcpy(m->slot, s->payload, sizeof(uint64_t));
    else
        memcpy(m->slot, s->payload, DESC_INLINE_MAX);
    m->tag = s->header;
    m->d = ADDR_NULL;
    m->mem = m->slot;
    m->bytes = n;
    RPIPE_FAILPOINT("rtake: slot copied");
    ch->r.nread = next + 1;
    ch->bytes += n;
    /* release: the slot is copied before the writer overwrites it. Pairs with slot_credit_refresh */
    atomic_store_explicit(&ch->credit->line.slots_read, next + 1, memory_order_release);
    RPIPE_FAILPOINT("rtake: slot given back");
    compiler_store_before_wake_look(); /* or the fence of wake_writer, before which the load proves nothing */
    if (UNLIKELY((atomic_load_explicit(&ch->ring->control.writer_wake, memory_order_relaxed) |
                  ch->fences) != 0))
        return read_after(ch);
    return 0;
}
