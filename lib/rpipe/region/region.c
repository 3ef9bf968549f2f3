/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.c: rregion_open, rregion_open_device, rregion_close, and the end of regions with their pipe (region.h).
 */
#include "rpipe/region/region.h"

#include "rpipe/region/region_read.h"
#include "rpipe/region/region_write.h"
#include "rpipe/data/attempt.h"
#include "rpipe/end/device.h"
#include "rpipe/end/path.h"
#include "rpipe/end/config.h"
#include "rpipe/end/job_state.h"

#include "util/failpoint.h"

#include <errno.h>

/* ---- rregion_open ---- */

struct own_arguments {
    struct alloc_arguments alloc;
    struct rregion *region;
};

/* One attempt takes the block and adds the region to the list of rclose: another thread may close in between. */
static int region_own_attempt(struct rch *ch, void *arguments)
{
    struct own_arguments *a = arguments;
    struct rregion *r = a->region;
    int rc = write_alloc_attempt(ch, &a->alloc);

    if (rc != 0)
        return rc;
    r->base = a->alloc.d->mem;
    r->block = a->alloc.d;
    r->own = ch;
    r->next = ch->w.regions;
    ch->w.regions = r;
    RPIPE_FAILPOINT("rregion_open: memory of the pipe");
    return 0;
}

/* A block of the pipe's heap. Inside the call rregion_open. */
static int region_register_own(struct rch *ch, size_t bytes, struct rregion *r)
{
    struct own_arguments a = {{bytes, NULL, false, {"memory given back by the reader", 0}}, r};
    int rc;

    if (config_side(&ch->cfg) != SIDE_WRITER)
        return call_error(
            ch, -EBADF,
            "buf is NULL, which requests memory of the pipe, and this end is the reader; "
            "only the writer has it");
    if (a.alloc.size <= ch->inline_max)
        a.alloc.size = ch->inline_max + 1; /* a block, not a descriptor with its payload */
    rc = call_await(ch, &a.alloc.awaited, region_own_attempt, &a);
    return rc == -ETIMEDOUT ? write_explain_timeout(ch, &a.alloc) : rc;
}

/* What cannot be registered is reported here, where the program can still choose another way. */
static int region_register_attempt(struct rch *ch, void *arguments)
{
    struct rregion *r = arguments;
    const struct btl_memory *memory;

    return region_is_copied(ch, r) ? 0 : registration_memory(ch, r, &memory);
}

static int region_create(struct rch *ch, const rmemory_ops_t *memory, void *buf, size_t bytes,
                         rregion_t *region)
{
    struct rregion *r;
    int rc;

    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CELLS) != 0)
        return call_error(ch, -EBADF, "this end has cells and no messages");
    if (region == NULL || bytes == 0 || (uintptr_t)buf > UINTPTR_MAX - bytes)
        return call_error(ch, -EINVAL, "%s",
                          region == NULL ? "region is NULL"
                          : bytes == 0   ? "bytes is 0"
                                         : "the buffer exceeds the address space");
    r = registration_take();
    if (r == NULL)
        return call_error(ch, -ENOMEM, "no memory for the metadata of a region");
    r->base = buf;
    r->bytes = bytes;
    r->memory = buf != NULL ? memory : ch->cfg.memory;
    rc =
        buf == NULL ? region_register_own(ch, bytes, r) : call_once(ch, region_register_attempt, r);
    if (rc != 0)
        registration_put(r);
    else
        *region = r;
    return rc;
}

/* Memory of the library, or of its device where there is a table. */
static int region_create_memory(const rmemory_ops_t *memory, size_t bytes, rregion_t *region)
{
    struct error err = {""};
    struct rregion *r;
    int rc = job_check();

    if (rc != 0)
        return rc;
    if (region == NULL || bytes == 0)
        return call_error(NULL, -EINVAL, "%s", region == NULL ? "region is NULL" : "bytes is 0");
    r = registration_take();
    if (r == NULL)
        return call_error(NULL, -ENOMEM, "no memory for the metadata of a region");
    r->memory = memory;
    rc = region_memory_make(r, bytes, &err);
    if (rc != 0) {
        registration_put(r);
        return call_error(NULL, rc, "%s", err.text);
    }
    *region = r;
    return 0;
}

int rregion_open(rregion_t *region, rch_t ch, void *buf, size_t bytes)
{
    struct call call;
    int rc;

    if (ch == NULL && buf == NULL) {
        call_enter(&call, "rregion_open");
        return call_end(&call, region_create_memory(NULL, bytes, region));
    }
    rc = call_begin(&call, "rregion_open", ch, 0);
    if (rc == 0)
        rc = region_create(ch, NULL, buf, bytes, region);
    return call_end(&call, rc);
}

static int region_check_device(struct rch *ch, const rmemory_ops_t *memory, const void *buf)
{
    struct error err = {""};
    int rc = config_check_device(memory, &err);

    if (rc != 0)
        return call_error(ch, rc, "%s", err.text);
    if (config_device_kind(memory) != RMEMORY_OTHER)
        btl_devices_used();
    if (ch == NULL && (memory->alloc == NULL || memory->free == NULL))
        return call_error(NULL, -EINVAL,
                          "buf is NULL, which requests memory of the device, and %s has no alloc "
                          "or no free",
                          memory->name);
    if (ch != NULL && buf == NULL)
        return call_error(ch, -EINVAL,
                          "buf is NULL; a region of the heap of a pipe is opened by rregion_open, "
                          "also where that is memory of a device; for memory that %s allocates, "
                          "ch must be NULL too",
                          memory->name);
    return 0;
}

int rregion_open_device(rregion_t *region, rch_t ch, const rmemory_ops_t *memory, void *buf,
                        size_t bytes)
{
    struct call call;
    int rc;

    if (ch == NULL && buf == NULL) {
        call_enter(&call, "rregion_open_device");
        rc = region_check_device(NULL, memory, NULL);
        return call_end(&call, rc == 0 ? region_create_memory(memory, bytes, region) : rc);
    }
    rc = call_begin(&call, "rregion_open_device", ch, 0);
    if (rc == 0)
        rc = region_check_device(ch, memory, buf);
    if (rc == 0)
        rc = region_create(ch, memory, buf, bytes, region);
    return call_end(&call, rc);
}

void *rregion_mem(rregion_t region)
{
    if (region == NULL || atomic_load_explicit(&region->open, memory_order_relaxed) == 0 ||
        region_is_orphan(region)) {
        last_error_set("rregion_mem: %s",
                       region == NULL ? "the region is NULL"
                       : region_is_orphan(region)
                           ? "the region is memory of a pipe that has been closed"
                           : "the region has been closed already (rregion_close)");
        errno = EINVAL;
        return NULL;
    }
    return region->base;
}

/* ---- rregion_close ---- */

static int region_check_busy(const struct rregion *r)
{
    /* acquire: pairs with region_unhold: the last access of a transfer precedes any use by the program */
    uint32_t busy = atomic_load_explicit(&r->busy, memory_order_acquire),
             windows = atomic_load_explicit(&r->windows, memory_order_relaxed);

    if (windows > 0)
        return call_error(NULL, -EBUSY, "%u windows of this region are open; close them first",
                          windows);
    if (busy == 0)
        return 0;
    return call_error(
        NULL, -EBUSY,
        "%u transfers from or to this region are in flight; wait for them with rdone or "
        "rread_into, or close the pipe if it is broken",
        busy);
}

static void region_unlink_own(struct rch *ch, struct rregion *r)
{
    struct rregion **at = &ch->w.regions;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
}

/* A region of a pipe's own memory: between the other calls of that pipe, which use the list of its regions. */
static int region_close_own_attempt(struct rch *ch, void *arguments)
{
    struct rregion *r = arguments;
    int rc = region_check_busy(r);

    if (rc != 0 || region_is_orphan(r)) /* the pipe has been closed in between */
        return rc;
    rc = write_unalloc_attempt(ch, r->block);
    if (rc == 0)
        region_unlink_own(ch, r);
    return rc;
}

static int region_close_own(struct rregion *region)
{
    struct call call;
    int rc = call_begin(&call, "rregion_close", region->own, 0);

    if (rc == 0)
        rc = call_once(region->own, region_close_own_attempt, region);
    return call_end(&call, rc);
}

static int region_close(struct rregion *region)
{
    int rc;

    if (job_is_open() &&
        calls_ended()) /* nothing waits for this call; it can be made after rexit */
        return job_check();
    if (region == NULL || atomic_load_explicit(&region->open, memory_order_relaxed) == 0)
        return call_error(NULL, -EINVAL, "the region %s",
                          region == NULL ? "is NULL" : "has been closed already");
    if (region->own != NULL && !region_is_orphan(region)) {
        rc = region_close_own(region);
        if (rc != 0 && !region_is_orphan(region)) /* else its pipe, and its memory, are closed */
            return rc;
    }
    rc = region_check_busy(region);
    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("rregion_close: before it ends");
    registration_end(region);
    region_memory_release(region);
    registration_put(region);
    return 0;
}

int rregion_close(rregion_t region)
{
    struct call call;

    call_enter(&call, "rregion_close");
    return call_end(&call, region_close(region));
}

/* ---- the feature ---- */

static int region_quiesce(struct rch *ch, struct awaited *awaited)
{
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CELLS) != 0)
        return 0;
    return config_side(&ch->cfg) == SIDE_WRITER ? region_settle_transfers(ch, awaited)
                                                : region_settle_placements(ch, awaited);
}

/* The blocks end with the heap. */
static void region_detach(struct rch *ch)
{
    struct rregion *r, *next;

    if (config_side(&ch->cfg) != SIDE_WRITER)
        return;
    region_abort(ch, -ENOTCONN);
    for (r = ch->w.regions; r != NULL; r = next) {
        next = r->next;
        r->parts = NULL;
        /* what the reader has belongs to the library from now on */
        atomic_store_explicit(&r->busy, 0, memory_order_relaxed);
        /* release, and last: another thread may close the region at once. Pairs with region_is_orphan */
        atomic_store_explicit(&r->orphan, true, memory_order_release);
    }
    ch->w.regions = NULL;
}

const struct end_feature region_feature = {.name = "regions",
                                           .quiesce = region_quiesce,
                                           .peer_lost = region_abort,
                                           .close = region_detach};
