/* SPDX-License-Identifier: BSD-3-Clause */
/* buffer.c: see buffer.h. */
#include "msg/buffer.h"

#include <errno.h>
#include <rinfo.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_CLOSE_MS 100 /* for payloads that are written when the link ends */

/* ---- the link ---- */

void msg_buffer_begin(struct msg_link *l)
{
    static const char *const networks[] = {"tcp", "ofi", "verbs", "sim"};
    rinfo_pipe_t info;
    size_t i = 0;

    if ((l->features & MSG_WIRE_WINDOWS) == 0 || rinfo_describe(l->out, &info) != 0)
        i = sizeof(networks) / sizeof(networks[0]);
    while (i < sizeof(networks) / sizeof(networks[0]) && strcmp(info.backend, networks[i]) != 0)
        i++;
    if (i < sizeof(networks) / sizeof(networks[0])) {
        l->direct->by_address = i == 0;
        return;
    }
    free(l->direct);
    l->direct = NULL;
}

void msg_buffer_close_window(struct msg_buffer *b)
{
    if (b->access != 0)
        (void)rwindow_close(b->window);
    b->access = 0;
}

/* False: the network still accesses it, as it does until its pipe is closed if that has failed. */
static bool buffer_release(struct msg_buffer *b)
{
    msg_buffer_close_window(b);
    if (b->base != NULL && rregion_close(b->region) != 0)
        return false;
    b->base = NULL;
    b->persistent = b->revoked = false;
    return true;
}

void msg_buffer_close_windows(struct msg_link *l)
{
    for (uint32_t i = 0; l->direct != NULL && i < MSG_WIRE_WINDOWS_MOST; i++)
        msg_buffer_close_window(&l->direct->buffer[i]);
}

void msg_buffer_stop(struct msg_link *l)
{
    struct link *at, *after;
    bool writes = false, fetches = false;

    if (l->direct == NULL)
        return;
    list_for_each (at, after, &l->msg->sharing) {
        const struct msg_request *r = container_of(at, struct msg_request, queue);

        writes = writes || (r->link == l && r->send && r->moved > 0);
        fetches = fetches || (r->link == l && !r->send && r->moved > 0);
    }
    if (l->out == NULL || (!writes && !fetches))
        return;
    if (!fetches) /* else bytes would be placed in a buffer that is the program's again */
        (void)rpipe_set_timeout(l->out, BUFFER_CLOSE_MS);
    msg_buffer_close_pipe(l);
}

void msg_buffer_close_pipe(struct msg_link *l)
{
    if (l->out != NULL && rpipe_close(l->out) == -ETIMEDOUT && l->direct != NULL)
        l->direct->kept = l->out;
    l->out = NULL;
}

/* False: transfers are in flight, and will write their words. */
static bool buffer_close_kept(struct msg_direct *d)
{
    if (d->kept == NULL)
        return true;
    (void)rpipe_set_timeout(d->kept, R_AT_ONCE);
    return rpipe_close(d->kept) != -ETIMEDOUT;
}

/* It stays until the process ends, where a search for leaks finds it. Threads close contexts of their own. */
static void buffer_keep(struct msg_direct *d)
{
    static _Atomic(struct msg_direct *) all;

    d->next_kept = atomic_load_explicit(&all, memory_order_relaxed);
    /* relaxed: nothing reads the list */
    while (!atomic_compare_exchange_weak_explicit(&all, &d->next_kept, d, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

void msg_buffer_end(struct msg_link *l)
{
    const bool unused = l->direct == NULL || buffer_close_kept(l->direct);

    for (uint32_t i = 0; l->direct != NULL && i < MSG_WIRE_WINDOWS_MOST; i++)
        (void)buffer_release(&l->direct->buffer[i]);
    if (unused)
        free(l->direct);
    else
        buffer_keep(l->direct);
    l->direct = NULL;
}

/* ---- own buffers ---- */

static bool buffer_contains(const struct msg_buffer *b, const char *buf, size_t bytes)
{
    const uintptr_t base = (uintptr_t)b->base, at = (uintptr_t)buf;

    return base != 0 && at >= base && bytes <= b->bytes && at - base <= b->bytes - bytes;
}

/*
 * An entry for these bytes whose window, if it has one and the peer needs one, permits this access. A persistent request, which keeps the
 * pages of its entry registered, does not share that of another request: of that buffer it may be a part, whose rest need not stay mapped.
 * alone: no other request uses it.
 */
static struct msg_buffer *buffer_find(struct msg_direct *d, const struct msg_request *r,
                                      size_t bytes, int access, bool alone)
{
    for (uint32_t i = 0; i < MSG_WIRE_WINDOWS_MOST; i++) {
        struct msg_buffer *b = &d->buffer[i];

        if (buffer_contains(b, r->buf, bytes) && !b->alone && !b->revoked &&
            !(alone && b->users > 0) && (d->by_address || b->persistent || !r->persistent) &&
            (access == 0 || b->access == 0 || b->access == access))
            return b;
    }
    return NULL;
}

/* A free entry, or the one that has not been used for the longest time. NULL: all have users. */
static struct msg_buffer *buffer_replace(struct msg_direct *d)
{
    struct msg_buffer *oldest = NULL;

    for (uint32_t i = 0; i < MSG_WIRE_WINDOWS_MOST; i++) {
        struct msg_buffer *b = &d->buffer[i];

        if (b->base == NULL)
            return b;
        if (b->users == 0 && (oldest == NULL || b->used < oldest->used))
            oldest = b;
    }
    return oldest != NULL && buffer_release(oldest) ? oldest : NULL;
}

static struct msg_buffer *buffer_register(struct msg_link *l, char *buf, size_t bytes)
{
    struct msg_buffer *b = buffer_replace(l->direct);
    rregion_t region;

    if (b == NULL || rregion_open(&region, l->out, buf, bytes) != 0)
        return NULL;
    *b = (struct msg_buffer){.link = l, .base = buf, .bytes = bytes, .region = region};
    l->msg->counts.registered++;
    return b;
}

struct msg_buffer *msg_buffer_take(struct msg_link *l, const struct msg_request *r, size_t bytes,
                                   int access, rwindow_handle_t *handle, bool *opened)
{
    struct msg_direct *d = l->direct;
    const bool alone = access == RWINDOW_WRITE && msg_request_may_end(l->msg, r);
    struct msg_buffer *b = buffer_find(d, r, bytes, access, alone);

    *opened = false;
    if (b == NULL)
        b = buffer_register(l, r->buf, bytes);
    if (b == NULL)
        return NULL;
    b->users++;
    b->used = ++d->uses;
    b->alone = alone;
    b->persistent = b->persistent || r->persistent;
    if (access == 0 || b->access != 0)
        return b;
    if (rwindow_open(&b->window, l->out, b->region, access, handle) == 0) {
        b->access = access;
        *opened = true;
        return b;
    }
    msg_buffer_put(b);
    return NULL;
}

void msg_buffer_put(struct msg_buffer *b)
{
    const struct msg_link *l = b->link;

    if (--b->users > 0)
        return;
    b->alone = false;
    if (b->revoked || l->state == LINK_ENDED || (!b->persistent && !l->direct->by_address))
        (void)buffer_release(b);
}

bool msg_buffer_revoke(struct msg_buffer *b)
{
    if (b->alone && b->access != 0 && rwindow_revoke(b->window) == 0)
        b->revoked = true;
    return b->revoked;
}

/* A request has completed, and asks for this group, or has. */
static void buffer_forget(struct msg_direct *d, const struct msg_request *r, uint64_t group)
{
    struct msg_transfer *t = &d->transfer[(group - 1) % BUFFER_TRANSFERS];

    if (t->r == r)
        t->r = NULL;
}

bool msg_buffer_is_moved(const struct msg_request *r)
{
    const struct msg_direct *d;
    const struct msg_transfer *t;

    if (r->transfer == 0 || r->moved != r->total)
        return false;
    d = r->lent->link->direct;
    t = &d->transfer[(r->transfer - 1) % BUFFER_TRANSFERS];
    return r->transfer - 1 < d->first || (t->r == r && t->done == 1); /* in the order of posting */
}

void msg_buffer_leave(struct msg_request *r)
{
    struct msg_direct *d = r->lent->link->direct;

    if (r->window != 0)
        list_remove(&r->queue);
    buffer_forget(d, r, r->earlier);
    buffer_forget(d, r, r->transfer);
    r->window = 0;
    r->transfer = r->earlier = 0;
    msg_buffer_put(r->lent);
    r->lent = NULL;
}

void msg_buffer_forget(struct rmsg *msg, const char *buf)
{
    for (int i = 0; i < msg->readers; i++) {
        struct msg_direct *d = msg->reader[i]->direct;

        for (uint32_t k = 0; d != NULL && k < MSG_WIRE_WINDOWS_MOST; k++) {
            struct msg_buffer *b = &d->buffer[k];

            if (!b->persistent || !buffer_contains(b, buf, 1))
                continue;
            b->persistent = false;
            if (b->users == 0 && !d->by_address)
                (void)buffer_release(b);
        }
    }
}

/* ---- windows of the peer ---- */

/* A window that has lost its number. Transfers that are in flight, to any window, keep it for a while. */
static void buffer_detach(struct msg_direct *d, rremote_t remote)
{
    uint32_t kept = 0;

    d->replaced[d->replaced_count++] = remote;
    for (uint32_t i = 0; i < d->replaced_count; i++)
        if (rwindow_detach(d->replaced[i]) == -EBUSY)
            d->replaced[kept++] = d->replaced[i];
    d->replaced_count = kept;
}

const char *msg_buffer_attach(struct msg_link *l, uint32_t number, const void *mem, size_t bytes)
{
    struct msg_direct *d = l->direct;
    struct msg_wire_window w;
    rwindow_handle_t handle;
    rremote_t *remote;

    if (d == NULL || number == 0 || number > MSG_WIRE_WINDOWS_MOST || bytes != sizeof(w))
        return "a window with a number or a length that is not valid";
    memcpy(&w, mem, sizeof(w));
    memcpy(&handle, w.handle, sizeof(handle));
    if (w.probe != 0)
        return "a window of a buffer with an address";
    remote = &d->remote[number - 1];
    if (*remote != NULL)
        buffer_detach(d, *remote);
    *remote = NULL;
    if (l->out_code != 0 || d->replaced_count >= MSG_WIRE_WINDOWS_MOST)
        return NULL; /* not used: so no more than those that are attached now are replaced */
    if (rwindow_attach(remote, l->out, &handle, R_NOWAIT) != 0)
        *remote =
            NULL; /* it is not open to this process; or not any more: its request has completed meanwhile */
    return NULL;
}

bool msg_buffer_valid(const struct msg_link *l, uint32_t number, uint64_t where, uint64_t bytes)
{
    const struct msg_direct *d = l->direct;
    uint64_t room;

    if (number == 0)
        return where == 0;
    if (d == NULL || number > MSG_WIRE_WINDOWS_MOST || where == 0)
        return false;
    if (d->remote[number - 1] == NULL)
        return true; /* it could not be attached, and is not used */
    room = rwindow_bytes(d->remote[number - 1]);
    return where - 1 <= room && bytes <= room - (where - 1);
}

bool msg_buffer_suits(const struct msg_link *l, uint32_t number, uint64_t where, size_t bytes)
{
    return l->direct != NULL && number != 0 && bytes >= BUFFER_LEAST && l->out_code == 0 &&
           msg_buffer_valid(l, number, where, bytes) && l->direct->remote[number - 1] != NULL;
}

bool msg_buffer_aim(struct msg_link *l, struct msg_request *r, uint32_t number, uint64_t where)
{
    bool opened;

    if (r->abandoned || !msg_buffer_suits(l, number, where, r->total))
        return false;
    if (r->lent == NULL)
        r->lent = msg_buffer_take(l, r, r->total, 0, NULL, &opened);
    if (r->lent == NULL)
        return false;
    r->window = number;
    r->where = where - 1;
    list_append(&l->msg->sharing, &r->queue);
    return true;
}
