/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.c: the owner of a window: rwindow_open, rwindow_sync, rwindow_revoke and rwindow_close (window.h).
 *
 * A window is one registration of its region, with one backend, for one peer: a segment that is passed or a record of private memory
 * where the backend maps memory, a registration of the device elsewhere; of memory of a device its descriptor, which is passed. Over a network
 * memory of a device is registered as it is, or its staging memory is, which rwindow_sync copies. Nothing else is sent: the program sends the
 * handle.
 */
#include "rpipe/window/handle.h"
#include "rpipe/window/window.h"

#include "control/control.h"
#include "rpipe/end/attach.h"
#include "rpipe/end/call.h"
#include "rpipe/end/device.h"
#include "rpipe/end/job_state.h"
#include "util/failpoint.h"
#include "util/log.h"

#include <rinfo.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t window_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rwindow *window_oldest_free, *window_newest_free;
static _Atomic uint32_t window_numbers;

static struct rwindow *window_take(void)
{
    struct rwindow *w;

    pthread_mutex_lock(&window_lock);
    w = window_oldest_free;
    if (w != NULL && (window_oldest_free = w->next_free) == NULL)
        window_newest_free = NULL;
    pthread_mutex_unlock(&window_lock);
    if (w == NULL)
        w = malloc(sizeof(*w));
    if (w != NULL)
        *w = (struct rwindow){0};
    return w;
}

static void window_put(struct rwindow *w)
{
    pthread_mutex_lock(&window_lock);
    w->next_free = NULL;
    if (window_newest_free != NULL)
        window_newest_free->next_free = w;
    else
        window_oldest_free = w;
    window_newest_free = w;
    pthread_mutex_unlock(&window_lock);
}

/* ---- rwindow_open ---- */

/* Within a host: whether memory of a device has a way to the peer. */
static int window_check_device(struct rch *ch, const struct rregion *r)
{
    const char *name = r->memory->name;

    if (!r->made)
        return call_error(ch, -ENOTSUP,
                          "the region is memory of a device (%s) that the program has allocated, "
                          "and has no descriptor for rank %d; use memory that the table allocates "
                          "(rregion_open_device with ch and buf NULL)",
                          name, ch->peer);
    if (ch->ops->lend_descriptor == NULL)
        return call_error(ch, -ENOTSUP, "backend %s does not pass memory of a device (%s)",
                          ch->ops->name, name);
    if (r->fd < 0)
        return call_error(ch, -ENOTSUP,
                          "%s: alloc has made no descriptor, by which rank %d could import the "
                          "memory",
                          name, ch->peer);
    return 0;
}

static int window_check(struct rch *ch, const rwindow_t *window, rregion_t region, int flags,
                        const rwindow_handle_t *handle)
{
    if (window == NULL || handle == NULL)
        return call_error(ch, -EINVAL, "%s is NULL", window == NULL ? "window" : "handle");
    if (flags == 0 || (flags & ~(RWINDOW_READ | RWINDOW_WRITE)) != 0)
        return call_error(ch, -EINVAL,
                          "flags is 0x%x; it must be RWINDOW_READ, RWINDOW_WRITE, or both",
                          (unsigned)flags);
    if (region == NULL || atomic_load_explicit(&region->open, memory_order_relaxed) == 0)
        return call_error(ch, -EINVAL, "the region %s",
                          region == NULL ? "is NULL" : "has been closed already (rregion_close)");
    if (region->own != NULL)
        return call_error(ch, -EINVAL,
                          "the region is memory of a pipe, which its reader can access already");
    return region->memory != NULL && device_is_shared(ch) ? window_check_device(ch, region) : 0;
}

/* The copy without which rwindow_sync cannot serve this access. */
static const char *window_missing_copy(const rmemory_ops_t *m, uint32_t access)
{
    return access != BTL_PEER_READS && m->copy_in == NULL     ? "copy_in"
           : access != BTL_PEER_WRITES && m->copy_out == NULL ? "copy_out"
                                                              : NULL;
}

/* The network does not reach the device: memory of the host in its place. */
static int window_stage(const struct rch *ch, struct rwindow *w, uint32_t access,
                        const struct error *why, struct error *err)
{
    struct rregion *r = w->region;
    const char *missing = window_missing_copy(r->memory, access);
    int rc;

    if (missing != NULL)
        return error_set(err, -ENOTSUP,
                         "%s has no %s, without which memory of a device is not reached over a "
                         "network: %.256s",
                         r->memory->name, missing, why->text);
    rc = region_memory_stage(r, &w->staging, err);
    if (rc == 0)
        log_info("a window of %zu bytes in memory of a device (%s) is copied by rwindow_sync, "
                 "since rank %d's network does not reach it: %s",
                 r->bytes, r->memory->name, ch->peer, why->text);
    return rc;
}

/* By a network: the memory itself, or of a device what is staged. */
static int window_register_remote(struct rch *ch, struct rwindow *w, uint32_t access,
                                  struct error *err)
{
    const struct rregion *r = w->region;
    const struct iovec range = {r->base, r->bytes};
    struct error why = {""};
    int rc;

    if (r->memory != NULL) {
        if (device_register_region(ch, r->memory, &range, r->fd, access, &w->memory, &why) == 0)
            return 0;
        rc = window_stage(ch, w, access, &why, err);
        if (rc != 0)
            return rc;
    }
    return ch->ops->register_memory(ch->btl, ch->peer, w->staging != NULL ? w->staging : r->base,
                                    r->bytes, access, &w->memory, err);
}

/* Makes the region accessible to the peer. */
static int window_register(struct rch *ch, struct rwindow *w, struct rregion *r, uint32_t access,
                           struct error *err)
{
    int rc;

    w->region = r;
    w->writes_only = access == BTL_PEER_WRITES;
    w->ops = ch->ops;
    w->btl = ch->btl;
    if (device_is_shared(ch))
        return r->memory != NULL
                   ? ch->ops->lend_descriptor(ch->btl, ch->peer, r->fd, r->bytes, &w->memory, err)
                   : ch->ops->lend(ch->btl, ch->peer, r->base, r->bytes, r->fd, access, &w->memory,
                                   err);
    rc = window_register_remote(ch, w, access, err);
    if (rc == 0 && (rc = end_key(ch, &w->memory, &w->memory.key, err)) != 0)
        ch->ops->free(ch->btl, &w->memory);
    return rc;
}

static struct window_wire window_wire_of(const struct rch *ch, const struct rwindow *w, int flags,
                                         uint64_t process)
{
    struct window_wire wire = {
        .access = (uint8_t)(flags | (w->region->memory != NULL ? HANDLE_DEVICE : 0)),
        .user = (uint32_t)ch->peer,
        .backend = handle_backend(ch->ops->name),
        .number = (uint16_t)atomic_fetch_add_explicit(&window_numbers, 1, memory_order_relaxed),
        .process = process,
        .bytes = w->region->bytes,
        .key = w->memory.key};

    handle_seal(&wire);
    return wire;
}

static int window_create(struct rch *ch, rregion_t region, int flags, rwindow_t *window,
                         rwindow_handle_t *handle)
{
    struct control_process own;
    struct error err = {""};
    struct window_wire wire;
    struct rwindow *w;
    int rc = control_process(job_own_rank(), &own, &err);

    if (rc != 0)
        return call_error(ch, rc, "%s", err.text);
    w = window_take();
    if (w == NULL)
        return call_error(ch, -ENOMEM, "no memory for the metadata of a window");
    rc = window_register(ch, w, region, handle_access(flags), &err);
    if (rc != 0) {
        window_put(w);
        return call_error(ch, rc, "%s, the backend to rank %d, cannot open %zu bytes to it: %s",
                          ch->ops->name, ch->peer, region->bytes, err.text);
    }
    RPIPE_FAILPOINT("rwindow_open: memory accessible");
    atomic_fetch_add_explicit(&region->windows, 1, memory_order_relaxed);
    atomic_store_explicit(&w->open, 1, memory_order_relaxed);
    wire = window_wire_of(ch, w, flags, own.id);
    memcpy(handle, &wire, sizeof(*handle));
    *window = w;
    return 0;
}

int rwindow_open(rwindow_t *window, rch_t ch, rregion_t region, int flags, rwindow_handle_t *handle)
{
    struct call call;
    int rc = call_begin(&call, "rwindow_open", ch, 0);

    if (rc == 0)
        rc = window_check(ch, window, region, flags, handle);
    if (rc == 0)
        rc = window_create(ch, region, flags, window, handle);
    return call_end(&call, rc);
}

/* ---- rwindow_sync ---- */

static int window_check_open(const struct rwindow *w)
{
    if (w != NULL && atomic_load_explicit(&w->open, memory_order_relaxed) != 0)
        return 0;
    return call_error(NULL, -EINVAL, "the window %s",
                      w == NULL ? "is NULL" : "has been closed already");
}

/* Between the device and the memory that the network moves in its place. */
static int window_copy(const struct rwindow *w, uint64_t at, size_t bytes, int flags)
{
    const struct rregion *r = w->region;
    int rc = flags == RWINDOW_READ ? device_check_load(NULL, r->memory)
                                   : device_check_store(NULL, r->memory);

    if (rc != 0)
        return rc;
    return flags == RWINDOW_READ
               ? device_load(NULL, r->memory, w->staging + at, r->base + at, bytes)
               : device_store(NULL, r->memory, r->base + at, w->staging + at, bytes);
}

static int window_sync(const struct rwindow *w, uint64_t at, size_t bytes, int flags)
{
    const struct rregion *r;
    int rc = job_check();

    if (rc == 0)
        rc = window_check_open(w);
    if (rc != 0)
        return rc;
    r = w->region;
    if (flags != RWINDOW_READ && flags != RWINDOW_WRITE)
        return call_error(NULL, -EINVAL,
                          "flags is 0x%x; it must be RWINDOW_READ, before a message after which "
                          "the peer fetches, or RWINDOW_WRITE, after one that announces its bytes",
                          (unsigned)flags);
    if (at > r->bytes || bytes > r->bytes - at)
        return call_error(NULL, -EINVAL, "%zu bytes at %llu are outside the window of %zu bytes",
                          bytes, (unsigned long long)at, r->bytes);
    if (bytes == 0)
        return 0;
    if (w->staging != NULL)
        return window_copy(w, at, bytes, flags);
    return flags == RWINDOW_READ ? device_call_left(NULL, r->memory, r->base + at, bytes)
                                 : device_call_arrived(NULL, r->memory, r->base + at, bytes);
}

int rwindow_sync(rwindow_t window, uint64_t at, size_t bytes, int flags)
{
    struct call call;

    call_enter(&call, "rwindow_sync");
    return call_end(&call, window_sync(window, at, bytes, flags));
}

/* ---- rwindow_revoke ---- */

static int window_revoke(const struct rwindow *w)
{
    int rc;

    if (job_is_open() && calls_ended())
        return job_check();
    rc = window_check_open(w);
    if (rc != 0)
        return rc;
    if (!w->writes_only)
        return call_error(NULL, -EINVAL,
                          "the peer may fetch from the window; only one that is "
                          "open for RWINDOW_WRITE alone can be taken back");
    if (!job_is_open()) /* rexit has ended all */
        return 0;
    if (w->ops->revoke == NULL)
        return call_error(
            NULL, -ENOTSUP,
            "%s does not place the bytes of a peer by this process, and cannot stop it",
            w->ops->name);
    rc = w->ops->revoke(w->btl, &w->memory);
    if (rc != 0)
        return call_error(NULL, rc, "%zu bytes could not be taken back: %s", w->region->bytes,
                          rinfo_strerror(rc));
    return 0;
}

int rwindow_revoke(rwindow_t window)
{
    struct call call;

    call_enter(&call, "rwindow_revoke");
    return call_end(&call, window_revoke(window));
}

/* ---- rwindow_close ---- */

static int window_close(struct rwindow *w)
{
    if (job_is_open() &&
        calls_ended()) /* nothing waits for this call; it can be made after rexit */
        return job_check();
    if (w == NULL || atomic_exchange_explicit(&w->open, 0, memory_order_relaxed) == 0)
        return call_error(NULL, -EINVAL, "the window %s",
                          w == NULL ? "is NULL" : "has been closed already");
    if (job_is_open()) /* rexit has ended all */
        w->ops->free(w->btl, &w->memory);
    RPIPE_FAILPOINT("rwindow_close: memory not accessible any more");
    atomic_fetch_sub_explicit(&w->region->windows, 1, memory_order_relaxed);
    window_put(w);
    return 0;
}

int rwindow_close(rwindow_t window)
{
    struct call call;

    call_enter(&call, "rwindow_close");
    return call_end(&call, window_close(window));
}
