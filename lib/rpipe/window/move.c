/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * move.c: rwindow_write and rwindow_fetch: bytes to and from a window of the peer, without a message (window.h).
 *
 * Where the window is mapped, the bytes are few enough for an uncounted copy (copy_small.h) and the end is in no other condition, a
 * write is one copy. Everything else is an attempt in a counted call, which the path of the end makes (path.h): one longer copy, one by
 * the kernel, or a post to the network.
 */
#include "rpipe/window/window.h"

#include "rpipe/data/copy_small.h"
#include "rpipe/end/call.h"
#include "rpipe/end/connector.h"
#include "rpipe/end/device.h"
#include "rpipe/end/path.h"

#include <errno.h>
#include <string.h>

struct move_arguments {
    struct rremote *remote;
    struct window_move move;
    struct awaited awaited;
};

static bool move_is_inside(const struct rremote *r, uint64_t at, size_t bytes)
{
    return at <= r->bytes && bytes <= r->bytes - at;
}

static inline bool region_contains(const struct rregion *r, const void *near, size_t bytes)
{
    return (uintptr_t)near >= (uintptr_t)r->base && bytes <= r->bytes &&
           (uintptr_t)near - (uintptr_t)r->base <= r->bytes - bytes;
}

/* The near memory is in the region, if one is given, and the region can be used on this way. */
static int move_check_region(struct rch *ch, const struct window_move *m, rwindow_way_t way)
{
    const struct rregion *r = m->region;

    if (r == NULL)
        return 0;
    if (atomic_load_explicit(&r->open, memory_order_relaxed) == 0)
        return call_error(ch, -EINVAL, "the region has been closed already (rregion_close)");
    if (r->own != NULL)
        return call_error(ch, -EINVAL, "the region is memory of a pipe, and this is no message");
    if (!region_contains(r, m->near, m->bytes))
        return call_error(ch, -EINVAL, "%zu bytes at %p are outside the region, %zu bytes at %p",
                          m->bytes, (void *)m->near, r->bytes, (void *)r->base);
    if (way == RWINDOW_REMOTE) /* copied by no call of a table (move_register) */
        return 0;
    return m->fetch ? device_check_store(ch, r->memory) : device_check_load(ch, r->memory);
}

/* The table that has imported the window, if one has, has the call that copies there. */
static int move_check_there(struct rch *ch, const struct rremote *r, bool fetch)
{
    return fetch ? device_check_load(ch, r->there) : device_check_store(ch, r->there);
}

static int move_check(struct rch *ch, const struct rremote *r, const struct window_move *m,
                      int flags)
{
    int rc = call_check_flags(ch, flags);

    if (rc != 0)
        return rc;
    if (m->near == NULL && m->bytes > 0)
        return call_error(ch, -EINVAL, "%s is NULL, bytes is %zu", m->fetch ? "into" : "from",
                          m->bytes);
    if (!move_is_inside(r, m->at, m->bytes))
        return call_error(ch, -EINVAL, "%zu bytes at %llu are outside window %u of %llu bytes",
                          m->bytes, (unsigned long long)m->at, r->number,
                          (unsigned long long)r->bytes);
    if ((r->access & (m->fetch ? RWINDOW_READ : RWINDOW_WRITE)) == 0)
        return call_error(ch, -EACCES, "window %u is not open for %s", r->number,
                          m->fetch ? "reading" : "writing");
    if (m->region == NULL && r->way == RWINDOW_REMOTE && m->bytes > 0)
        return call_error(
            ch, -EINVAL, "region is NULL, and the window is reached by a network, which needs one");
    rc = move_check_region(ch, m, r->way);
    return rc == 0 ? move_check_there(ch, r, m->fetch) : rc;
}

/*
 * Over a network: the registration of the region. Of a device, which the network has to reach: what it has stored there leaves it now, once,
 * since the bytes stay as they are until the call returns.
 */
static int move_register(struct rch *ch, struct window_move *m)
{
    const struct rregion *r = m->region;
    const struct btl_memory *memory;
    int rc = registration_local(ch, m->region, &memory);

    if (rc != 0)
        return rc;
    if (memory == NULL)
        return call_error(ch, -ENOTSUP,
                          "the region is memory of a device (%s), which backend %s does not reach; "
                          "use rwrite_from or rread_into",
                          r->memory->name, ch->ops->name);
    rc = m->fetch ? 0 : device_call_left(ch, r->memory, m->near, m->bytes);
    if (rc == 0)
        m->memory = memory;
    return rc;
}

static int move_attempt(struct rch *ch, void *arguments)
{
    struct move_arguments *a = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    int rc = remote_check(a->remote), driven;

    if (rc == 0)
        rc = call_check_peer(ch, state);
    if (rc == 0 && (state & STATE_JOINED) == 0)
        rc = end_join_complete(ch, DEADLINE_NOW);
    if (rc == 0)
        rc = ch->path->progress(ch);
    if (rc == 0 && a->move.memory == NULL && a->remote->way == RWINDOW_REMOTE)
        rc = move_register(ch, &a->move);
    if (rc == 0) {
        a->move.remote = &a->remote->memory;
        a->move.there = a->remote->there;
        rc = ch->path->move(ch, &a->move);
    }
    /* not before the end is joined: until then another thread may choose its path */
    if (rc == R_PENDING && (state & STATE_JOINED) != 0 &&
        (driven = ch->path->transfers_drive(ch)) != 0)
        rc = driven;
    return rc;
}

static int move_slow(const char *name, struct rremote *remote, const struct window_move *move,
                     int flags)
{
    struct move_arguments a = {remote, *move, {"free entry in the queues of the network", 0}};
    int *done = move->done, before = done != NULL ? *done : 0, rc;
    struct call call;

    rc = remote_begin(&call, name, remote);
    if (rc == 0)
        rc = move_check(remote->ch, remote, move, flags);
    if (rc != 0 || move->bytes == 0) {
        if (rc == 0)
            region_notify_done(done, 1);
        return call_end(&call, rc);
    }
    region_notify_done(done, 0);
    rc = (flags & R_NOWAIT) == 0 ? call_await(remote->ch, &a.awaited, move_attempt, &a)
                                 : call_once(remote->ch, move_attempt, &a);
    if (rc != 0)
        region_notify_done(done, before);
    return call_end(&call, rc);
}

/* What move_check_region accepts, and a processor can copy. */
static inline bool move_region_is_usable(const struct rregion *r, const void *near, size_t bytes)
{
    return r == NULL || (atomic_load_explicit(&r->open, memory_order_relaxed) != 0 &&
                         r->own == NULL && r->memory == NULL && region_contains(r, near, bytes));
}

int rwindow_write(rremote_t remote, uint64_t at, const void *from, size_t bytes, rregion_t region,
                  int *done, int flags)
{
    struct window_move m = {
        .at = at, .near = (char *)(uintptr_t)from, .bytes = bytes, .done = done, .region = region};

    if (LIKELY(remote != NULL && flags == 0 && from != NULL && bytes <= COPY_UNCOUNTED_MOST &&
               atomic_load_explicit(&remote->open, memory_order_acquire) != 0 &&
               remote->way == RWINDOW_MAPPED && (remote->access & RWINDOW_WRITE) != 0 &&
               move_is_inside(remote, at, bytes) && move_region_is_usable(region, from, bytes) &&
               atomic_load_explicit(&remote->ch->state, memory_order_acquire) == WRITER_READY)) {
        memcpy((char *)remote->memory.base + at, from, bytes);
        region_notify_done(done, 1);
        return 0;
    }
    return move_slow("rwindow_write", remote, &m, flags);
}

int rwindow_fetch(rremote_t remote, uint64_t at, void *into, size_t bytes, rregion_t region,
                  int *done, int flags)
{
    struct window_move m = {
        .at = at, .near = into, .bytes = bytes, .fetch = true, .done = done, .region = region};

    return move_slow("rwindow_fetch", remote, &m, flags);
}
