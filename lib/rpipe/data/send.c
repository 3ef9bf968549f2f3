/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c: rsend and rpost, a message without a descriptor; and rshrink.
 *
 * The fast path stores a small payload into its slot. All other messages are rmalloc, a copy and rwrite, as one attempt under one
 * deadline. rsend has the tag 0, and rpost never waits; nothing else differs.
 */
#include "rpipe/data/attempt.h"
#include "rpipe/data/copy_small.h"
#include "rpipe/data/credit.h"
#include "rpipe/data/handle.h"
#include "rpipe/end/path.h"
#include "rpipe/data/publish.h"
#include "rpipe/end/debug_check.h"
#include "rpipe/end/debug_guard.h"
#include "rpipe/end/device.h"

#include "observe/record/trace.h"
#include "util/failpoint.h"

#include <errno.h>
#include <string.h>

/* ---- rsend ---- */

struct send_arguments {
    const void *payload;
    uint64_t tag;
    struct alloc_arguments alloc;
    struct write_arguments write;
    struct awaited awaited;
};

static int send_fill(struct rch *ch, const struct rdesc *d, struct send_arguments *a)
{
    if (a->alloc.size == 0)
        return 0;
    if (device_has_heap(ch)) {
        a->write.left = device_is_staged(ch, d);
        return device_fill(ch, d, NULL, a->payload, a->alloc.size);
    }
    memcpy(d->mem, a->payload, a->alloc.size);
    return 0;
}

static int send_attempt(struct rch *ch, void *arguments)
{
    struct send_arguments *a = arguments;
    int rc;

    if (device_has_heap(ch) &&
        (rc = device_check_fill(ch, NULL)) != 0) /* before memory is awaited */
        return rc;
    if (a->write.d == NULL) {
        rc = write_alloc_attempt(ch, &a->alloc);
        a->awaited = a->alloc.awaited;
        if (rc != 0)
            return rc;
        a->write.d = a->alloc.d;
        a->write.d->header = a->tag;
        rc = send_fill(ch, a->write.d, a);
        if (rc != 0)
            return rc;
    }
    rc = write_attempt(ch, &a->write);
    a->awaited = a->write.awaited;
    return rc;
}

static int send_message(struct rch *ch, struct send_arguments *a, bool wait)
{
    uint32_t row = trace_begin(ch, TRACE_WRITE);
    int rc = wait ? call_await(ch, &a->awaited, send_attempt, a) : call_once(ch, send_attempt, a);

    trace_end(row, a->write.number, a->write.written, rc);
    if (rc != 0 && a->write.d != NULL)
        (void)write_unalloc(ch, a->write.d);
    else if (rc == -ETIMEDOUT)
        rc = write_explain_timeout(ch, &a->alloc);
    return rc;
}

static NOINLINE int send_slow(struct rch *ch, const void *buf, size_t bytes, int flags,
                              const char *name, uint64_t tag)
{
    bool wait = (flags & R_NOWAIT) == 0;
    struct send_arguments a = {
        .payload = buf,
        .tag = tag,
        .alloc = {bytes, NULL, false, {"memory given back by the reader", 0}},
        .write = {.bytes = bytes, .wait = wait, .awaited = {"free slot in the ring", 0}},
        .awaited = {"memory given back by the reader", 0}};
    struct call call;
    int rc = call_begin(&call, name, ch, SIDE_WRITER);

    if (rc == 0)
        rc = call_check_flags(ch, flags);
    if (rc == 0 && buf == NULL && bytes > 0)
        rc = call_error(ch, -EINVAL, "buf is NULL, bytes is %zu", bytes);
    if (rc == 0)
        rc = send_message(ch, &a, wait);
    return call_end(&call, rc);
}

/*
 * A message of the heap: the calls that it consists of, as long as none of them has to wait. What they cannot do now is done, or
 * reported, by send_slow.
 */
static NOINLINE int send_block(struct rch *ch, const void *buf, size_t bytes, int flags,
                               const char *name, uint64_t tag)
{
    struct rdesc *d;

    if (ch == NULL || atomic_load_explicit(&ch->state, memory_order_acquire) != WRITER_READY ||
        bytes <= ch->inline_max || bytes > COPY_UNCOUNTED_MOST || (flags & ~R_NOWAIT) != 0 ||
        buf == NULL || (d = write_own_alloc(ch, bytes)) == NULL)
        return send_slow(ch, buf, bytes, flags, name, tag);
    memcpy(d->mem, buf, bytes);
    d->header = tag;
    if (write_own(ch, d) == 0)
        return 0;
    (void)write_unalloc(ch, d);
    return send_slow(ch, buf, bytes, flags, name, tag);
}

/* There is a free slot, and the payload fits into it. */
static FORCE_INLINE int send_publish(struct rch *ch, const void *buf, size_t bytes, uint64_t tag,
                                     uint64_t sent)
{
    uint32_t offset = end_slot_offset(ch, sent);
    struct slot *s = ring_slot_at(ch->ring, offset);

    publish_prefetch(ch, offset);
    /* visible before the slot, by the release of its flag */
    atomic_store_explicit(&ch->w.sent, sent + 1, memory_order_relaxed);
    RPIPE_FAILPOINT("rsend: before the slot");
    copy_small(s->payload, buf, bytes);
    s->header = tag;
    s->word = slot_word_inline(bytes);
    RPIPE_FAILPOINT("rsend: before the flag");
    ring_slot_publish(s, sent + 1);
    RPIPE_FAILPOINT("rsend: after the flag");
    ch->bytes += bytes;
    return LIKELY(!publish_leaves_more(ch)) ? 0 : write_after(ch);
}

/*
 * At the watermark, or without a free slot: reads the credit line first. Memory of the heap is not needed here; rwrite and rmalloc
 * refresh both.
 */
static NOINLINE int send_with_credits(struct rch *ch, const void *buf, size_t bytes, int flags,
                                      const char *name, uint64_t tag)
{
    uint64_t sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);

    ch->credit_fetches++;
    if (credit_refresh_slots(ch) != 0 || sent == ch->w.slots.limit)
        return send_slow(ch, buf, bytes, flags, name, tag);
    slot_credit_schedule(&ch->w.slots, sent);
    return send_publish(ch, buf, bytes, tag, sent);
}

/*
 * A leaf without a stack frame: everything that is not always done is a call at the end, with the parameters where rsend has got them.
 */
static FORCE_INLINE int send_small(struct rch *ch, const void *buf, size_t bytes, int flags,
                                   const char *name, uint64_t tag)
{
    uint64_t sent;

    if (UNLIKELY(ch == NULL ||
                 atomic_load_explicit(&ch->state, memory_order_acquire) != WRITER_READY ||
                 bytes > ch->inline_max || (flags & ~R_NOWAIT) != 0 || buf == NULL))
        return send_block(ch, buf, bytes, flags, name, tag);
    sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
    if (UNLIKELY(sent >= ch->w.slots.look_at))
        return send_with_credits(ch, buf, bytes, flags, name, tag);
    return send_publish(ch, buf, bytes, tag, sent);
}

int rpipe_send(rch_t ch, const void *buf, size_t bytes, int flags)
{
    return send_small(ch, buf, bytes, flags, "rsend", 0);
}

int rpipe_post(rch_t ch, const void *buf, size_t bytes, uint64_t tag)
{
    return send_small(ch, buf, bytes, R_NOWAIT, "rpost", tag);
}

/* ---- rshrink ---- */

struct shrink_arguments {
    raddr_t handle;
    size_t bytes;
};

static int shrink_attempt(struct rch *ch, void *arguments)
{
    const struct shrink_arguments *a = arguments;

    struct rdesc *d;
    int rc = handle_find(ch, a->handle, &d);

    if (rc != 0)
        return rc;
    if (a->bytes > d->size)
        return call_error(ch, -EINVAL,
                          "bytes is %zu; it must be at most %zu, the size of the message", a->bytes,
                          d->size);
    if (ch->checked && (rc = debug_guard_check(ch, d)) != 0)
        return rc;
    write_shrink(ch, d, a->bytes);
    if (ch->checked) {
        debug_guard_fill(ch, d);
        debug_check_heap(ch);
    }
    return 0;
}

int rmalloc_shrink(rch_t ch, raddr_t d, size_t bytes)
{
    struct shrink_arguments a = {d, bytes};
    struct call call;
    int rc = call_begin(&call, "rshrink", ch, SIDE_WRITER);

    if (rc == 0)
        rc = call_once(ch, shrink_attempt, &a);
    return call_end(&call, rc);
}
