/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * grow.c: a heap that stays full grows by a segment (doc/protocol.md "Growth", model/grow.pml; thesis chapter 7).
 *
 * The writer requests a segment in rmalloc; the reader's service thread grants or refuses it; the writer takes it up in a later
 * call. Segment k (from 1; 0 is the heap that the pipe was opened with) is entry k - 1 of a table that each end has, of fixed
 * size: the total at least doubles, or reaches the limit.
 *
 * Invariants
 * 1. `state` goes NONE, REQUESTED (user's thread, before the request is posted), REPLIED (service thread, when the reply is
 *    complete), NONE (user's thread). The service thread writes the reply in REQUESTED only, so one growth is in flight at a time.
 * 2. The reader's table has an entry before the reply is posted, and an entry never changes. So a message in a segment follows
 *    the release of `count` that its reader acquires.
 * 3. What a table names, and what is requested and not replied to, lives until grow_release.
 * 4. A segment that was granted is not requested again: if it cannot be taken up now, that is tried again.
 */
#include "rpipe/grow/grow.h"

#include "rpipe/end/attach.h"
#include "rpipe/end/config.h"
#include "rpipe/end/connector.h"
#include "rpipe/end/debug_check.h"
#include "rpipe/end/device.h"
#include "rpipe/end/error.h"
#include "rpipe/end/message.h"
#include "rpipe/end/path.h"
#include "rpipe/end/state.h"

#include "control/control.h"
#include "observe/record/trace.h"
#include "util/failpoint.h"
#include "util/log.h"

#include <errno.h>
#include <rinfo.h>
#include <stdlib.h>
#include <string.h>

#define GROWTHS_MOST 33             /* 2^31 units are reached from one by doubling in 31 */
#define RETRY_NS (1000 * NS_PER_MS) /* after a refusal */
#define GROW_AFTER_DEFAULT_US 1000
/* failing calls that are further apart, with successful ones between them, are separate times of being full */
#define FORGET_NS (100 * NS_PER_MS)

enum grow_state { GROW_NONE, GROW_REQUESTED, GROW_REPLIED };

struct grown {
    uint64_t begin, end; /* offsets in the heap, bytes */
    char *base;
    struct btl_memory memory;     /* at the end whose memory it is */
    struct btl_remote remote;     /* at the other end */
    struct btl_memory mirror;     /* at the other end, over a network */
    struct device_segment device; /* the heap is memory of a device: base, at each end */
};

struct growth {
    uint64_t limit; /* bytes, whole units */
    /* where the next segment begins; used by the writer's user thread and the reader's service thread */
    uint64_t total;
    _Atomic uint32_t count; /* entries of the table */
    struct grown at[GROWTHS_MOST];

    /* writer */
    _Atomic uint32_t state;
    int reply; /* 0 or -errno */
    struct btl_key key;
    int64_t after_ns;
    int64_t full_since, last_failed; /* 0: not */
    int64_t not_before;              /* after a refusal */
    size_t full_size;
    uint64_t allocs;    /* of the heap, at full_since */
    size_t request;     /* bytes of the request that the growth in flight is for */
    uint64_t waited_us; /* how long the heap had been full then */
    uint64_t refused;
    /* reader's thread */
    uint32_t noted; /* entries that this thread has taken note of */
};

static uint64_t grow_whole_units(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

static bool grow_heap_is_readers(const struct rch *ch) { return ch->cfg.op == OP_PUT; }

static int grow_open(struct rch *ch, struct error *err)
{
    const struct pipe_config *a = &ch->cfg;
    uint32_t after = ch->cfg.grow_after_us;
    struct growth *g;

    if (a->max_heap_bytes <= a->heap_bytes)
        return 0;
    g = calloc(1, sizeof(*g));
    if (g == NULL)
        return error_set(err, -ENOMEM, "no memory for a heap that grows");
    g->limit = a->max_heap_bytes & ~((uint64_t)a->unit_bytes - 1);
    g->total = grow_whole_units(a->heap_bytes, a->unit_bytes);
    g->after_ns = (int64_t)(after != 0 ? after : GROW_AFTER_DEFAULT_US) * 1000;
    ch->growth = g;
    return 0;
}

/* Memory of this end that no message is in. */
static void grow_free(struct rch *ch, struct grown *s)
{
    if (s->mirror.slab != NULL)
        ch->ops->free(ch->btl, &s->mirror);
    if (s->memory.slab != NULL)
        ch->ops->free(ch->btl, &s->memory);
    if (device_has_heap(ch)) /* last: until here it is registered */
        device_release(ch, &s->device);
}

/* The same, and what is attached of the other end. */
static void grow_unreach(struct rch *ch, struct grown *s)
{
    if (s->remote.mapping != NULL)
        ch->ops->detach(ch->btl, &s->remote);
    grow_free(ch, s);
}

/* Both close messages are there, or the peer is gone: the memory is not used any more. */
static void grow_release(struct rch *ch)
{
    struct growth *g = ch->growth;
    int i;

    for (i = 0; g != NULL && i < GROWTHS_MOST; i++)
        grow_unreach(ch, &g->at[i]);
    free(g);
    ch->growth = NULL;
}

static size_t grow_chunk_bytes(const struct rch *ch, uint64_t bytes)
{
    return grow_whole_units(bytes,
                            ch->cfg.unit_bytes < CACHE_LINE ? CACHE_LINE : ch->cfg.unit_bytes);
}

static struct grow_message grow_message_of(const struct rch *ch, uint64_t k, uint64_t bytes)
{
    return (struct grow_message){.head = message_head(ch, sizeof(struct grow_message), k),
                                 .bytes = bytes};
}

/* A segment of this end. */
static int grow_make_segment(struct rch *ch, struct grown *s, uint64_t bytes, uint32_t access,
                             struct error *err)
{
    int rc;

    if (device_has_heap(ch))
        rc = device_allocate(ch, &s->device, grow_chunk_bytes(ch, bytes), access, &s->memory, err);
    else
        rc = ch->ops->alloc(ch->btl, ch->peer, grow_chunk_bytes(ch, bytes), access,
                            ch->cfg.huge_pages, &s->memory, err);
    s->base = device_has_heap(ch) ? s->device.base : s->memory.base;
    if (rc == 0 && (rc = end_key(ch, &s->memory, &s->memory.key, err)) != 0)
        grow_free(ch, s);
    return rc;
}

/* The other end's segment, or a mirror of it, is memory of a device too. */
static int grow_reach_device(struct rch *ch, struct grown *s, const struct btl_key *key,
                             uint64_t bytes, struct error *err)
{
    int rc = 0;

    if (s->device.base == NULL && device_is_shared(ch))
        rc = device_import(ch, &s->device, key, grow_chunk_bytes(ch, bytes), err);
    else if (s->device.base == NULL)
        rc = device_allocate(ch, &s->device, grow_chunk_bytes(ch, bytes), BTL_LOCAL, &s->mirror,
                             err);
    if (rc == 0)
        s->base = s->device.base;
    return rc;
}

/* The other end's segment becomes usable here. What has succeeded stays, if the rest fails, for the next attempt. */
static int grow_reach_segment(struct rch *ch, struct grown *s, const struct btl_key *key,
                              uint64_t bytes, struct error *err)
{
    uint32_t access = grow_heap_is_readers(ch) ? BTL_PEER_WRITES : BTL_PEER_READS;
    void *base = NULL;
    bool imports = device_has_heap(ch) && device_is_shared(ch);
    int rc = 0;

    if (s->remote.mapping == NULL && !imports)
        rc = end_attach(ch, key, grow_chunk_bytes(ch, bytes), access, &s->remote, err);
    if (rc == 0 && device_has_heap(ch))
        return grow_reach_device(ch, s, key, bytes, err);
    if (rc == 0)
        rc = ch->path->reach(ch, &s->remote, grow_chunk_bytes(ch, bytes), &s->mirror, &base, err);
    if (rc == 0)
        s->base = base;
    return rc;
}

/* ---- the writer's thread ---- */

/* How many bytes the next segment would have for a request of `size`; 0: the limit does not allow it. */
static uint64_t grow_next_bytes(const struct rch *ch, size_t size)
{
    const struct growth *g = ch->growth;
    uint64_t left = g->limit > g->total ? g->limit - g->total : 0, need, bytes;

    if (size > left || left == 0)
        return 0;
    need = grow_whole_units(size, ch->cfg.unit_bytes);
    bytes = need > g->total ? need : g->total;
    return bytes < left ? bytes : left;
}

bool grow_could(const struct rch *ch, size_t size)
{
    return ch->growth != NULL &&
           (grow_next_bytes(ch, size) != 0 || atomic_load(&ch->growth->state) != GROW_NONE);
}

uint64_t grow_left(const struct rch *ch)
{
    const struct growth *g = ch->growth;

    return g != NULL && g->limit > g->total ? g->limit - g->total : 0;
}

/* `end`: the one that has refused. */
static void grow_refused(struct rch *ch, const char *end, const char *reason)
{
    struct growth *g = ch->growth;

    g->refused++;
    ch->counts.grow_refused++;
    g->not_before = clock_now() + RETRY_NS;
    log_info("%s: the heap of %llu bytes cannot grow at %s: %s", end_name(ch),
             (unsigned long long)g->total, end, reason);
}

static enum grow_outlook grow_request(struct rch *ch, size_t size, int64_t now)
{
    struct growth *g = ch->growth;
    uint32_t count = atomic_load_explicit(&g->count, memory_order_relaxed);
    struct grown *s = &g->at[count];
    struct grow_message n = grow_message_of(ch, count + 1, grow_next_bytes(ch, size));
    struct error err = {""};
    int rc;

    s->begin = g->total;
    s->end = g->total + n.bytes;
    g->request = size;
    g->waited_us = (uint64_t)(now - g->full_since) / 1000;
    if (!grow_heap_is_readers(ch)) {
        rc = grow_make_segment(ch, s, n.bytes, BTL_PEER_READS, &err);
        if (rc != 0 && control_peer_state(ch->peer) != 0)
            return GROW_LATER; /* the peer is gone, which call_check_peer reports */
        if (rc != 0) {
            grow_refused(ch, "this end", err.text);
            return GROW_REFUSED;
        }
        n.key = s->memory.key;
    }
    RPIPE_FAILPOINT("grow: before the request");
    /* release: pairs with the acquire in grow_on_reply. Before the post, so that no reply can precede it */
    atomic_store_explicit(&g->state, GROW_REQUESTED, memory_order_release);
    if (message_post(ch->peer, MESSAGE_GROW, &n.head, NULL) == 0)
        return GROW_PENDING;
    atomic_store_explicit(&g->state, GROW_NONE, memory_order_relaxed);
    grow_free(ch, s);
    return GROW_LATER;
}

/* The reply is a grant. 0, or -errno and the segment is still to be taken up. */
static int grow_take_up(struct rch *ch)
{
    struct growth *g = ch->growth;
    uint32_t count = atomic_load_explicit(&g->count, memory_order_relaxed);
    struct grown *s = &g->at[count];
    uint64_t bytes = s->end - s->begin;
    struct error err = {"the heap cannot take up the segment"};
    int rc = 0;

    RPIPE_FAILPOINT("grow: granted");
    if (grow_heap_is_readers(ch))
        rc = grow_reach_segment(ch, s, &g->key, bytes, &err);
    if (rc == 0)
        rc = heap_grow(ch->w.blocks.heap, s->base, bytes);
    if (rc == 0 && device_has_heap(ch))
        device_append(ch, &s->device);
    if (rc != 0 && control_peer_state(ch->peer) != 0)
        return rc; /* a segment ends with its peer: no violation; call_check_peer reports it */
    if (rc == -EPROTO || rc == -EINVAL) /* the grant is invalid */
        return end_fail(ch, -EPROTO, "rank %d grants segment %u, which is unusable: %s", ch->peer,
                        count + 1, err.text);
    if (rc != 0) {
        grow_refused(ch, "this end", err.text);
        return rc;
    }
    log_info("%s: the heap grows from %llu to %llu bytes: it had no %zu bytes free for %llu us",
             end_name(ch), (unsigned long long)g->total, (unsigned long long)s->end, g->request,
             (unsigned long long)g->waited_us);
    RPIPE_FAILPOINT("grow: segment taken up");
    g->total = s->end;
    ch->counts.grows = count + 1;
    trace_moment(ch->trace, TRACE_GROW, 0, s->end, 0);
    g->full_since = 0;
    atomic_store_explicit(&g->count, count + 1, memory_order_relaxed);
    ch->units = g->total / ch->cfg.unit_bytes;
    reclaim_set_watermark(&ch->w.blocks, ch->cfg.watermark, ch->units, ch->cfg.unit_bytes);
    return 0;
}

void grow_apply(struct rch *ch)
{
    struct growth *g = ch->growth;

    /* first the bit: a later reply sets it again */
    atomic_fetch_and_explicit(&ch->state, ~(uint32_t)STATE_GROW_REPLY, memory_order_acquire);
    if (g == NULL || atomic_load_explicit(&g->state, memory_order_acquire) !=
                         GROW_REPLIED) /* pairs with grow_on_reply */
        return;
    if (g->reply != 0) {
        struct grown *s = &g->at[atomic_load_explicit(&g->count, memory_order_relaxed)];

        grow_free(ch, s);
        grow_refused(ch, "the other end", rinfo_strerror(g->reply));
    } else if (grow_take_up(ch) != 0) {
        return;
    }
    atomic_store_explicit(&g->state, GROW_NONE, memory_order_relaxed);
}

void grow_not_needed(struct rch *ch, size_t size)
{
    if (size >= ch->growth->full_size)
        ch->growth->full_since = 0;
}

enum grow_outlook grow_when_full(struct rch *ch, size_t size, bool urgent)
{
    struct growth *g = ch->growth;
    int64_t now = clock_now();
    uint32_t state;

    if (g->full_since == 0 ||
        (now - g->last_failed > FORGET_NS && heap_allocs(ch->w.blocks.heap) != g->allocs)) {
        g->full_since = now;
        g->full_size = size;
        g->allocs = heap_allocs(ch->w.blocks.heap);
    }
    g->last_failed = now;
    state = atomic_load_explicit(&g->state, memory_order_relaxed);
    if (state == GROW_REPLIED && now >= g->not_before) { /* granted, and not taken up yet */
        grow_apply(ch);
        state = atomic_load_explicit(&g->state, memory_order_relaxed);
        if (state != GROW_NONE && control_peer_state(ch->peer) != 0)
            return GROW_LATER;
        return state == GROW_NONE ? GROW_AGAIN : GROW_REFUSED;
    }
    if (state == GROW_REQUESTED)
        return GROW_PENDING;
    if (now < g->not_before)
        return GROW_REFUSED;
    if (grow_next_bytes(ch, size) == 0)
        return GROW_NEVER;
    return urgent || now - g->full_since >= g->after_ns ? grow_request(ch, size, now) : GROW_LATER;
}

int64_t grow_after(const struct rch *ch) { return ch->growth->after_ns; }

uint64_t grow_heap_bytes(struct rch *ch)
{
    if (ch->growth != NULL && config_side(&ch->cfg) == SIDE_READER)
        (void)grow_refresh(ch);
    return ch->units * ch->cfg.unit_bytes;
}

/* ---- the service threads: rendezvous lock held ---- */

/* A valid request is for the next segment and follows the rule that bounds their number. */
static bool grow_is_valid(const struct growth *g, const struct grow_message *n, uint64_t unit)
{
    uint32_t count = atomic_load_explicit(&g->count, memory_order_relaxed);

    return n->head.number == (uint64_t)count + 1 && n->head.number <= GROWTHS_MOST &&
           n->bytes != 0 && n->bytes % unit == 0 && g->total <= g->limit &&
           n->bytes <= g->limit - g->total &&
           (n->bytes >= g->total || n->bytes == g->limit - g->total);
}

static int grow_grant(struct rch *ch, const struct grow_message *n, struct error *err)
{
    struct growth *g = ch->growth;
    struct grown *s = &g->at[n->head.number - 1];
    int rc;

    /* it may take long: without the lock, so that no other end waits. The end stays: its users are counted */
    RPIPE_FAILPOINT("grow: request received");
    atomic_fetch_add_explicit(&ch->users, 1, memory_order_seq_cst);
    rendezvous_unlock();
    if (grow_heap_is_readers(ch)) {
        rc = grow_make_segment(ch, s, n->bytes, BTL_PEER_WRITES, err);
    } else {
        rc = grow_reach_segment(ch, s, &n->key, n->bytes, err);
    }
    RPIPE_FAILPOINT("grow: segment made");
    rendezvous_lock();
    atomic_fetch_sub_explicit(&ch->users, 1, memory_order_seq_cst);
    if (rc != 0) { /* the next request is for other memory */
        grow_unreach(ch, s);
        return rc;
    }
    s->begin = g->total;
    s->end = g->total + n->bytes;
    g->total = s->end;
    if (device_has_heap(ch))
        device_append(ch, &s->device);
    /* release: the entry is complete. Pairs with the acquire in grow_find */
    atomic_store_explicit(&g->count, (uint32_t)n->head.number, memory_order_release);
    RPIPE_FAILPOINT("grow: table extended");
    return 0;
}

static void grow_on_request(struct rch *ch, const struct message *m)
{
    const struct grow_message *n = (const struct grow_message *)(const void *)m->head;
    struct grow_message reply;
    struct error err = {""};
    uint32_t state;

    state = atomic_load_explicit(&ch->state, memory_order_relaxed);
    if ((state & (STATE_READER | STATE_JOINED | STATE_FAILED | STATE_CLOSED)) != READER_READY ||
        ch->growth == NULL)
        return; /* the close message, or the failure, is on its way to the writer */
    if (!grow_is_valid(ch->growth, n, ch->cfg.unit_bytes)) {
        end_fail_locked(ch, -EPROTO,
                        "rank %d requests segment %llu of %llu bytes; the heap has %llu, and at "
                        "most %llu",
                        ch->peer, (unsigned long long)n->head.number, (unsigned long long)n->bytes,
                        (unsigned long long)ch->growth->total,
                        (unsigned long long)ch->growth->limit);
        return;
    }
    reply = grow_message_of(ch, n->head.number, n->bytes);
    reply.head.code = grow_grant(ch, n, &err);
    if (reply.head.code == 0)
        reply.key = ch->growth->at[n->head.number - 1].memory.key;
    else
        log_info("%s: the heap does not grow by %llu bytes: %s", end_name(ch),
                 (unsigned long long)n->bytes, err.text);
    if (message_post(ch->peer, MESSAGE_GROWN, &reply.head, NULL) != 0 && reply.head.code == 0)
        end_fail_locked(ch, -ENOMEM, "no memory to send the reply that the heap has grown");
    RPIPE_FAILPOINT("grow: reply posted");
    end_connector->release_locked(ch); /* it may have been closed meanwhile */
}

static void grow_on_reply(struct rch *ch, const struct message *m)
{
    const struct grow_message *n = (const struct grow_message *)(const void *)m->head;
    struct growth *g = ch->growth;

    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & (STATE_WRITER | STATE_CLOSED)) !=
        STATE_WRITER)
        return;
    /* acquire: pairs with grow_request */
    if (g == NULL || atomic_load_explicit(&g->state, memory_order_acquire) != GROW_REQUESTED ||
        n->head.number != (uint64_t)atomic_load_explicit(&g->count, memory_order_relaxed) + 1) {
        end_fail_locked(ch, -EPROTO, "rank %d grants segment %llu, which was not requested",
                        ch->peer, (unsigned long long)n->head.number);
        return;
    }
    g->reply = n->head.code;
    g->key = n->key;
    /* release: the reply is complete. Pairs with grow_apply */
    atomic_store_explicit(&g->state, GROW_REPLIED, memory_order_release);
    RPIPE_FAILPOINT("grow: reply received");
    end_state_set(ch, STATE_GROW_REPLY);
}

/* ---- the reader's thread ---- */

uint32_t grow_refresh(struct rch *ch)
{
    struct growth *g = ch->growth;
    /* acquire: pairs with the release in grow_grant; a thread that has seen a message in a segment sees its entry */
    uint32_t count = atomic_load_explicit(&g->count, memory_order_acquire);

    for (; g->noted < count; g->noted++) {
        ch->units = g->at[g->noted].end / ch->cfg.unit_bytes;
        ch->counts.grows = g->noted + 1;
        if (ch->r.sync == RPIPE_SYNC_BLOCKS)
            ch->r.most = ch->units;
        debug_check_grow(ch, g->at[g->noted].end - g->at[g->noted].begin);
    }
    return count;
}

/* The segment that contains an offset; NULL: none of the first `count`. */
static struct grown *grow_segment_of(struct growth *g, uint32_t count, uint64_t offset)
{
    while (g != NULL && count-- > 0)
        if (offset >= g->at[count].begin && offset < g->at[count].end)
            return &g->at[count];
    return NULL;
}

bool grow_locate(struct rch *ch, uint64_t offset, struct btl_transfer *t)
{
    struct growth *g = ch->growth;
    struct grown *s =
        g != NULL /* acquire: the entries are complete. Pairs with the release in grow_grant */
            ? grow_segment_of(g, atomic_load_explicit(&g->count, memory_order_acquire), offset)
            : NULL;

    if (s == NULL)
        return false;
    t->remote = &s->remote;
    t->memory = &s->mirror;
    t->remote_offset = t->offset = offset - s->begin;
    return true;
}

void *grow_find(struct rch *ch, uint64_t offset, uint64_t size)
{
    struct growth *g = ch->growth;
    struct grown *s = g != NULL ? grow_segment_of(g, grow_refresh(ch), offset) : NULL;

    return s != NULL && size <= s->end - offset ? s->base + (offset - s->begin) : NULL;
}

/* ---- the feature ---- */

static const struct feature_message grow_messages[] = {
    {MESSAGE_GROW, {.known = sizeof(struct grow_message), .of_open = grow_on_request}},
    {MESSAGE_GROWN, {.known = sizeof(struct grow_message), .of_open = grow_on_reply}},
    {0},
};

const struct end_feature growth_feature = {
    .name = "growth", .messages = grow_messages, .open = grow_open, .release = grow_release};
