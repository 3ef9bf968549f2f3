/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_mapped.c: the path of an end whose backend maps the other end's memory (rpipe/end/path.h).
 *
 * The words of the reader are independent: none is ever checked against another. The slots read share a cache line with the prefix of
 * block mode and are read together with it. Tags and reverse slots are in lines of their own, and each read takes such a line away
 * from the reader: they are read when memory is needed and when the ring has advanced.
 */
#include "rpipe/data/path.h"

#include "rpipe/data/attempt.h"
#include "rpipe/data/credit.h"
#include "rpipe/data/publish.h"
#include "rpipe/data/take.h"
#include "rpipe/end/config.h"
#include "rpipe/end/debug_guard.h"
#include "rpipe/end/device.h"
#include "rpipe/end/feature.h"
#include "rpipe/end/state.h"
#include "rpipe/region/registration.h"

#include "observe/record/trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- opening and closing ---- */

static int mapped_open(struct rch *ch, struct error *err)
{
    (void)ch;
    (void)err;
    return 0;
}

static const struct btl_address *mapped_address(const struct rch *ch)
{
    (void)ch;
    return NULL;
}

static const struct btl_key *mapped_eager_key(const struct rch *ch, uint64_t *most)
{
    (void)ch;
    (void)most;
    return NULL;
}

static int mapped_eager_attach(struct rch *ch, const struct btl_key *key, uint64_t most,
                               struct error *err)
{
    (void)ch;
    (void)key;
    (void)most;
    (void)err;
    return 0;
}

static int mapped_connect(struct rch *ch, const struct btl_address *address, struct error *err)
{
    (void)ch;
    (void)address;
    (void)err;
    return 0;
}

/* Also of progress, check and placements_drain: nothing is in flight that this end would have to drive. */
static int mapped_nothing_to_do(struct rch *ch)
{
    (void)ch;
    return 0;
}

static int mapped_reach(struct rch *ch, const struct btl_remote *remote, size_t bytes,
                        struct btl_memory *mirror, void **base, struct error *err)
{
    (void)ch;
    (void)bytes;
    (void)mirror;
    (void)err;
    *base = remote->base;
    return 0;
}

static void mapped_attached(struct rch *ch, void **heap)
{
    *heap = ch->heap_remote.base;
    if (config_side(&ch->cfg) == SIDE_WRITER) {
        ch->ring = ch->ring_remote.base;
        ch->credit = ch->credit_remote.base;
    } else {
        ch->r.blocks.reverse = ch->reverse_remote.base;
    }
}

static void mapped_announce_final(struct rch *ch, uint64_t final)
{
    RPIPE_FAILPOINT("rclose: before the final number");
    /* release: every slot is visible to a reader that sees the final number. Pairs with mapped_at_end */
    atomic_store_explicit(&ch->ring->control.final, final + 1, memory_order_release);
    RPIPE_FAILPOINT("rclose: final number written");
    wake_reader(ch);
    if ((atomic_load_explicit(&ch->state, memory_order_acquire) & STATE_EVENT) != 0)
        end_signal(ch);
}

/* A store is in place when it is visible, and stores become visible in order: only cells may have operations in flight. */
static int mapped_drained(struct rch *ch)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */

    if ((state & STATE_JOINED) == 0 || (state & (STATE_PEER_DIED | STATE_PEER_LEFT)) != 0)
        return 0;
    return features_settled(ch);
}

static int mapped_drain(struct rch *ch, uint64_t *since)
{
    (void)since;
    return mapped_drained(ch);
}

static int mapped_failure(struct rch *ch, int code, struct error *err)
{
    (void)ch;
    (void)err;
    return code;
}

static void mapped_nothing_to_release(struct rch *ch) { (void)ch; }

/* ---- both sides ---- */

static void mapped_describe(struct rch *ch, char *text, size_t bytes)
{
    if (ch->cfg.memory != NULL)
        snprintf(text, bytes, "memory of a device (%s), notified in memory that both have mapped",
                 ch->cfg.memory->name);
    else
        snprintf(text, bytes, "memory that both processes have mapped");
}

static bool mapped_has_none(const struct rch *ch)
{
    (void)ch;
    return false;
}

/* ---- writer ---- */

static int mapped_publish(struct rch *ch, struct write_arguments *a, size_t bytes, uint64_t sent)
{
    if (ch->checked)
        debug_guard_seal(ch, end_slot(ch, sent), a->d, bytes);
    publish_message(ch, a->d, a->d->units != 0, bytes, sent);
    wake_reader(ch);
    RPIPE_FAILPOINT("rwrite: reader woken");
    return 0;
}

int mapped_fetch_credits(struct rch *ch, enum credit_need need)
{
    struct writer *w = &ch->w;
    uint64_t limit = w->slots.limit;
    bool prefix = !w->blocks.ops->bounded;
    uint32_t row = trace_begin(ch, TRACE_SYNC);
    int rc = 0;

    RPIPE_FAILPOINT("credit: before a refresh");
    ch->credit_fetches++;
    if (need != NEED_MEMORY || prefix)
        rc = credit_refresh_slots(ch);
    if (rc == 0 && prefix)
        rc = credit_refresh_blocks(ch, true);
    else if (rc == 0 && (need != NEED_SLOT || w->slots.limit != limit)) /* a full ring is polled */
        rc = credit_refresh_blocks(ch, need == NEED_MEMORY || w->blocks.watermark == 0);
    credit_schedule(ch);
    trace_end(row, w->blocks.returned, slot_credit_read(&w->slots), rc);
    return rc;
}

static void mapped_signal(struct rch *ch) { end_signal(ch); }

/* A message is visible when it has been published. */
static void mapped_hold(struct rch *ch, bool more)
{
    (void)ch;
    (void)more;
}

/* Between the window and memory of the host. */
static int mapped_move_bytes(struct rch *ch, const struct window_move *m, char *near, uint64_t at,
                             size_t bytes)
{
    char *window = m->remote->base;
    struct error err = {""};
    int rc = 0;

    if (window == NULL)
        rc = ch->ops->copy(ch->btl, m->remote, at, near, bytes, !m->fetch, &err);
    else if (m->fetch)
        memcpy(near, window + at, bytes);
    else
        memcpy(window + at, near, bytes);
    if (rc == -ESRCH) /* the control network reports the end of the peer soon */
        return R_PENDING;
    return rc == 0 ? 0 : call_error(ch, rc, "%s", err.text);
}

/* Between the window and memory of a device: by a buffer of the host, one part after the other. */
static int mapped_move_device(struct rch *ch, const struct window_move *m,
                              const rmemory_ops_t *memory)
{
    char *buffer = device_bounce_buffer(ch);
    int rc = buffer != NULL ? 0 : -ENOMEM;

    for (size_t moved = 0, some; rc == 0 && moved < m->bytes; moved += some) {
        some = m->bytes - moved < DEVICE_BOUNCE_BYTES ? m->bytes - moved : DEVICE_BOUNCE_BYTES;
        if (!m->fetch)
            rc = device_load(ch, memory, buffer, m->near + moved, some);
        if (rc == 0)
            rc = mapped_move_bytes(ch, m, buffer, m->at + moved, some);
        if (rc == 0 && m->fetch)
            rc = device_store(ch, memory, m->near + moved, buffer, some);
    }
    return rc;
}

/* The window is memory of a device, which is imported here. */
static int mapped_move_imported(struct rch *ch, const struct window_move *m,
                                const rmemory_ops_t *memory)
{
    char *at = (char *)m->remote->base + m->at;

    return m->fetch ? device_get(ch, m->there, at, memory, m->near, m->bytes)
                    : device_put(ch, m->there, at, memory, m->near, m->bytes);
}

/* The copy is complete, or has failed, before the call returns. */
static int mapped_move(struct rch *ch, const struct window_move *m)
{
    const rmemory_ops_t *memory = m->region != NULL ? m->region->memory : NULL;
    int rc = m->there != NULL ? mapped_move_imported(ch, m, memory)
             : memory != NULL ? mapped_move_device(ch, m, memory)
                              : mapped_move_bytes(ch, m, m->near, m->at, m->bytes);

    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("window: copied");
    region_notify_done(m->done, 1);
    return 0;
}

static void mapped_transfers_abort(struct rch *ch, int code)
{
    (void)ch;
    (void)code;
}

/* ---- reader ---- */

static const struct slot *mapped_next_slot(const struct rch *ch)
{
    return end_slot(ch, ch->r.nread);
}

static bool mapped_message_ready(struct rch *ch)
{
    return ring_slot_ready(mapped_next_slot(ch), ch->r.nread + 1);
}

static bool mapped_next_size(struct rch *ch, size_t *size)
{
    const struct slot *s = mapped_next_slot(ch);

    if (!ring_slot_ready(s, ch->r.nread + 1))
        return false;
    *size = __atomic_load_n(&s->kind, __ATOMIC_RELAXED) == SLOT_INLINE
                ? __atomic_load_n(&s->bytes, __ATOMIC_RELAXED)
                : __atomic_load_n(&s->heap.size, __ATOMIC_RELAXED);
    return true;
}

static int mapped_take(struct rch *ch, struct rdesc **d, size_t *size)
{
    struct slot copy;
    int rc;

    if (!mapped_message_ready(ch))
        return R_PENDING;
    if (!ch->checked)
        return take_message(ch, mapped_next_slot(ch), false, d, size);
    copy = *mapped_next_slot(ch);
    rc = take_message(ch, &copy, false, d, size);
    if (rc == 0)
        debug_guard_keep(&copy, *d);
    return rc;
}

static uint64_t mapped_delivered(const struct rch *ch) { return ch->r.nread; }

static int mapped_at_end(struct rch *ch, uint32_t state)
{
    uint64_t nread = ch->r.nread, final;

    /* acquire: a reader that sees the final number sees every slot up to it. Pairs with mapped_announce_final */
    final = atomic_load_explicit(&ch->ring->control.final, memory_order_acquire);
    if (final == 0 && (state & STATE_PEER_CLOSED) != 0)
        final = ch->peer_final + 1; /* it closed before it was joined and could not store it */
    if (final == 0 || mapped_message_ready(ch))
        return 0;
    if (final == nread + 1)
        return 1;
    return violation_of_message(ch, "is missing although the peer has closed", "read", nread,
                                "announced", final - 1);
}

static void mapped_release_block(struct rch *ch, uint32_t block)
{
    reverse_append(ch->r.blocks.reverse, &ch->r.blocks.next, ch->r.blocks.freed, block);
}

static void mapped_want(struct rch *ch, const struct placement *place)
{
    (void)ch;
    (void)place;
}

const struct path_ops path_mapped = {
    .state = 0,
    .wakes = true,
    .open = mapped_open,
    .address = mapped_address,
    .connect = mapped_connect,
    .connected = mapped_nothing_to_do,
    .eager_key = mapped_eager_key,
    .eager_attach = mapped_eager_attach,
    .reach = mapped_reach,
    .attached = mapped_attached,
    .announce_final = mapped_announce_final,
    .drain = mapped_drain,
    .drained = mapped_drained,
    .failure = mapped_failure,
    .close = mapped_nothing_to_release,
    .release = mapped_nothing_to_release,
    .progress = mapped_nothing_to_do,
    .check = mapped_nothing_to_do,
    .count = mapped_nothing_to_release,
    .describe = mapped_describe,
    .places = mapped_has_none,
    .publish = mapped_publish,
    .fetch_credits = mapped_fetch_credits,
    .signal = mapped_signal,
    .hold = mapped_hold,
    .transfers_pending = mapped_has_none,
    .transfers_drive = mapped_nothing_to_do,
    .transfers_abort = mapped_transfers_abort,
    .move = mapped_move,
    .message_ready = mapped_message_ready,
    .message_before_join = mapped_message_ready,
    .next_size = mapped_next_size,
    .take = mapped_take,
    .delivered = mapped_delivered,
    .at_end = mapped_at_end,
    .release_block = mapped_release_block,
    .want = mapped_want,
    .placed = mapped_has_none,
    .placements_drain = mapped_nothing_to_do,
};
