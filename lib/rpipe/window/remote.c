/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote.c: windows of the peer, attached to the pipe that this process writes: rwindow_attach, rwindow_attach_device, rwindow_detach
 * (window.h).
 *
 * The way is chosen here: by what the owner has lent where the backend maps memory, else by the network. An attach waits for one
 * thing, the announcement of memory, which travels by the control network while the handle travels in a pipe. A window of memory of a
 * device is imported by the table that the program passes: nothing of the handle chooses a table, and the descriptor is the table's to
 * check. A network is given the key of such a window as of any other, and no table is used.
 */
#include "rpipe/window/handle.h"
#include "rpipe/window/window.h"

#include "control/control.h"
#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "rpipe/end/device.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/path.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdlib.h>

static pthread_mutex_t remote_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rremote *remote_oldest_free, *remote_newest_free;

static struct rremote *remote_take(void)
{
    struct rremote *r;

    pthread_mutex_lock(&remote_lock);
    r = remote_oldest_free;
    if (r != NULL && (remote_oldest_free = r->next) == NULL)
        remote_newest_free = NULL;
    pthread_mutex_unlock(&remote_lock);
    if (r == NULL)
        r = malloc(sizeof(*r));
    if (r != NULL)
        *r = (struct rremote){0};
    return r;
}

static void remote_put(struct rremote *r)
{
    pthread_mutex_lock(&remote_lock);
    r->next = NULL;
    if (remote_newest_free != NULL)
        remote_newest_free->next = r;
    else
        remote_oldest_free = r;
    remote_newest_free = r;
    pthread_mutex_unlock(&remote_lock);
}

int remote_check(const struct rremote *remote)
{
    if (remote != NULL && atomic_load_explicit(&remote->open, memory_order_acquire) != 0)
        return 0;
    return call_error(NULL, -EINVAL, "the attached window %s",
                      remote == NULL ? "is NULL"
                                     : "has been detached, by rwindow_detach or rclose");
}

int remote_begin(struct call *call, const char *name, const struct rremote *remote)
{
    int rc;

    call_enter(call, name);
    rc = calls_ended() ? job_check() : remote_check(remote); /* rexit has closed it */
    if (rc != 0)
        return rc;
    call_leave(call);
    return call_begin(call, name, remote->ch, SIDE_WRITER);
}

/* ---- rwindow_attach ---- */

struct attach_arguments {
    const rwindow_handle_t *handle;
    const rmemory_ops_t *memory; /* of a device; NULL: of the host */
    struct rremote *remote;
    struct window_wire wire;
};

/* Memory of a device: the table checks what the peer has passed. */
static int remote_import(struct rch *ch, const struct window_wire *w, const rmemory_ops_t *memory,
                         struct rremote *r, struct error *err)
{
    char *base;
    int rc = device_import_memory(ch, memory, &w->key, (size_t)w->bytes, &base, err);

    if (rc != 0)
        return rc;
    r->way = RWINDOW_DEVICE;
    r->there = memory;
    r->memory.base = base;
    r->memory.bytes = (size_t)w->bytes;
    return 0;
}

static int remote_borrow(struct rch *ch, const struct window_wire *w, struct rremote *r,
                         struct error *err)
{
    const uint32_t access = handle_access(w->access & ~HANDLE_DEVICE);
    int rc;

    if ((ch->ops->attributes.capabilities & BTL_LOAD_STORE) == 0) {
        r->way = RWINDOW_REMOTE;
        return ch->ops->attach(ch->btl, ch->peer, &w->key, (size_t)w->bytes, access, &r->memory,
                               err);
    }
    rc = ch->ops->borrow(ch->btl, ch->peer, &w->key, (size_t)w->bytes, access, &r->memory, err);
    r->way = r->memory.base != NULL ? RWINDOW_MAPPED : RWINDOW_CROSS;
    return rc;
}

static int remote_attach_attempt(struct rch *ch, void *arguments)
{
    struct attach_arguments *a = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    const bool imports = a->memory != NULL && device_is_shared(ch);
    struct rremote *r = a->remote;
    struct error err = {""};
    int rc = call_check_peer(ch, state);

    if (rc != 0)
        return rc;
    rc = imports ? remote_import(ch, &a->wire, a->memory, r, &err)
                 : remote_borrow(ch, &a->wire, r, &err);
    if (rc == -EAGAIN || (rc == -ESRCH && !imports)) /* the end of the peer is reported soon */
        return R_PENDING;
    if (rc != 0)
        return call_error(ch, rc, "window %u of rank %d cannot be attached: %s", a->wire.number,
                          ch->peer, err.text);
    RPIPE_FAILPOINT("rwindow_attach: attached");
    r->ch = ch;
    r->access = a->wire.access & ~HANDLE_DEVICE;
    r->number = a->wire.number;
    r->bytes = a->wire.bytes;
    r->next = ch->remotes;
    ch->remotes = r;
    atomic_store_explicit(&r->open, 1, memory_order_release); /* pairs with remote_check */
    return 0;
}

/* The peer's window is of the kind of memory that the program expects, which over a network needs no table. */
static int remote_check_kind(const struct rch *ch, const struct attach_arguments *a,
                             struct error *err)
{
    const bool device = (a->wire.access & HANDLE_DEVICE) != 0;

    if (device == (a->memory != NULL) || (device && !device_is_shared(ch)))
        return 0;
    return error_set(err, -EPROTO, "window %u is memory of %s", a->wire.number,
                     device ? "a device; it is attached with rwindow_attach_device and the table "
                              "of that device"
                            : "the host; it is attached with rwindow_attach");
}

static int remote_attach(struct rch *ch, struct attach_arguments *a, bool wait)
{
    static const struct awaited awaited = {"memory of the window from its owner", 0};
    struct control_process peer;
    struct error err = {""};
    int rc = control_process(ch->peer, &peer, &err);

    if (rc == 0)
        rc = handle_check(a->handle, peer.id, job_own_rank(), ch->ops->name, &a->wire, &err);
    if (rc == 0)
        rc = remote_check_kind(ch, a, &err);
    if (rc != 0)
        return call_error(ch, rc, "%s", err.text);
    a->remote = remote_take();
    if (a->remote == NULL)
        return call_error(ch, -ENOMEM, "no memory for the metadata of a window");
    rc = wait ? call_await(ch, &awaited, remote_attach_attempt, a)
              : call_once(ch, remote_attach_attempt, a);
    if (rc != 0)
        remote_put(a->remote);
    return rc;
}

/* Inside the call. */
static int remote_attach_checked(rremote_t *remote, rch_t ch, struct attach_arguments *a, int flags)
{
    int rc = call_check_flags(ch, flags);

    if (rc == 0 && (remote == NULL || a->handle == NULL))
        rc = call_error(ch, -EINVAL, "%s is NULL", remote == NULL ? "remote" : "handle");
    if (rc == 0)
        rc = remote_attach(ch, a, (flags & R_NOWAIT) == 0);
    if (rc == 0)
        *remote = a->remote;
    return rc;
}

int rwindow_attach(rremote_t *remote, rch_t ch, const rwindow_handle_t *handle, int flags)
{
    struct attach_arguments a = {.handle = handle};
    struct call call;
    int rc = call_begin(&call, "rwindow_attach", ch, SIDE_WRITER);

    return call_end(&call, rc == 0 ? remote_attach_checked(remote, ch, &a, flags) : rc);
}

static int remote_check_table(struct rch *ch, const rmemory_ops_t *memory)
{
    struct error err = {""};
    int rc = config_check_device(memory, &err);

    if (rc != 0)
        return call_error(ch, rc, "%s", err.text);
    if (device_is_shared(ch) && (memory->import == NULL || memory->unimport == NULL))
        return call_error(ch, -EINVAL, "%s has no import or no unimport", memory->name);
    return 0;
}

int rwindow_attach_device(rremote_t *remote, rch_t ch, const rmemory_ops_t *memory,
                          const rwindow_handle_t *handle, int flags)
{
    struct attach_arguments a = {.handle = handle, .memory = memory};
    struct call call;
    int rc = call_begin(&call, "rwindow_attach_device", ch, SIDE_WRITER);

    if (rc == 0)
        rc = remote_check_table(ch, memory);
    return call_end(&call, rc == 0 ? remote_attach_checked(remote, ch, &a, flags) : rc);
}

int rwindow_way(rremote_t remote)
{
    int rc = remote_check(remote);

    return rc != 0 ? rc : (int)remote->way;
}

uint64_t rwindow_bytes(rremote_t remote) { return remote_check(remote) == 0 ? remote->bytes : 0; }

/* ---- rwindow_detach ---- */

static void remote_end(struct rch *ch, struct rremote *r)
{
    if (r->there != NULL)
        r->there->unimport(r->there->argument, r->memory.base, r->memory.bytes);
    else
        ch->ops->detach(ch->btl, &r->memory);
    remote_put(r);
}

static int remote_detach_attempt(struct rch *ch, void *arguments)
{
    const uint32_t lost = STATE_FAILED | STATE_PEER_DIED | STATE_PEER_LEFT | STATE_PEER_CLOSED;
    struct rremote *r = arguments, **at = &ch->remotes;

    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_JOINED) != 0 &&
        ch->path->transfers_pending(ch))
        return call_error(ch, -EBUSY,
                          "transfers of this pipe are in flight; wait for them with "
                          "rdone, or close the pipe if it is broken");
    if (atomic_exchange_explicit(&r->open, 0, memory_order_relaxed) == 0)
        return call_error(ch, -EINVAL, "another thread has detached the window");
    if (r->there == NULL && (atomic_load_explicit(&ch->state, memory_order_relaxed) & lost) != 0)
        return 0; /* a device may still use it: with the connection (window_release) */
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    remote_end(ch, r);
    return 0;
}

int rwindow_detach(rremote_t remote)
{
    struct call call;
    int rc = remote_begin(&call, "rwindow_detach", remote);

    if (rc == 0)
        rc = call_once(remote->ch, remote_detach_attempt, remote);
    return call_end(&call, rc);
}

/* ---- the feature ---- */

/*
 * rclose: the program's handles are invalid from here on. What a table has imported ends now: the table is the program's, which may end it
 * after rclose, and the release of the end may be later.
 */
static void window_close_end(struct rch *ch)
{
    struct rremote **at = &ch->remotes, *r;

    while ((r = *at) != NULL) {
        atomic_store_explicit(&r->open, 0, memory_order_relaxed);
        if (r->there == NULL) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        remote_end(ch, r);
    }
}

static void window_release(struct rch *ch)
{
    struct rremote *r, *next;

    for (r = ch->remotes; r != NULL; r = next) {
        next = r->next;
        atomic_store_explicit(&r->open, 0, memory_order_relaxed);
        remote_end(ch, r);
    }
    ch->remotes = NULL;
}

const struct end_feature window_feature = {
    .name = "windows", .close = window_close_end, .release = window_release};
