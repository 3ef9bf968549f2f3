/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.c: regions: the program's own memory, and blocks of a pipe's heap that are sent in parts, again and again (region.h).
 *
 * Books of regions are type-stable, and given out in the order in which they came back, so that a region that was given back is
 * recognized for a while. A registration belongs to one network and one peer: what was shown to one peer is not shown to another, and
 * what a broken connection may still reach for is told apart. It is made when a pipe first needs it, and ends with the region.
 */
#include "rpipe/region/region.h"

#include "rpipe/data/attempt.h"
#include "rpipe/data/path_remote.h"

#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t region_lock = PTHREAD_MUTEX_INITIALIZER; /* books, and new registrations */
static struct rregion *region_oldest_free, *region_newest_free;
static uint64_t region_last_number;

static struct rregion *region_books_take(void)
{
    struct rregion *r;

    pthread_mutex_lock(&region_lock);
    r = region_oldest_free;
    if (r != NULL && (region_oldest_free = r->next) == NULL)
        region_newest_free = NULL;
    if (r == NULL)
        r = malloc(sizeof(*r));
    if (r != NULL) {
        *r = (struct rregion){.number = ++region_last_number};
        atomic_store_explicit(&r->open, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&region_lock);
    return r;
}

static void region_books_put(struct rregion *r)
{
    pthread_mutex_lock(&region_lock);
    atomic_store_explicit(&r->open, 0, memory_order_relaxed);
    r->next = NULL;
    if (region_newest_free != NULL)
        region_newest_free->next = r;
    else
        region_oldest_free = r;
    region_newest_free = r;
    pthread_mutex_unlock(&region_lock);
}

/* ---- registrations ---- */

/* What a transfer of this end needs: it reads (PUT) or lands there (rread_into), or the peer reads it (GET). */
static uint32_t region_access_of(const struct rch *ch)
{
    bool writer = config_side(&ch->cfg) == SIDE_WRITER;

    return writer && ch->cfg.op == OP_GET ? BTL_PEER_READS : BTL_LOCAL;
}

static struct registration *region_find(const struct rch *ch, struct rregion *r, uint32_t access)
{
    struct registration *g;

    /* acquire: pairs with the release in enroll */
    for (g = atomic_load_explicit(&r->registrations, memory_order_acquire); g != NULL; g = g->next)
        if (g->btl == ch->btl && g->peer == ch->peer && g->access == access)
            return g;
    return NULL;
}

static int region_register_range(struct rch *ch, struct rregion *r, uint32_t access,
                                 struct registration **out, struct error *err)
{
    struct registration *g = calloc(1, sizeof(*g));
    int rc;

    if (g == NULL)
        return error_set(err, -ENOMEM, "no memory for the books of a region");
    *g = (struct registration){.ops = ch->ops, .btl = ch->btl, .peer = ch->peer, .access = access};
    rc = ch->ops->register_memory(ch->btl, ch->peer, r->base, r->bytes, access, &g->memory, err);
    if (rc != 0) {
        free(g);
        return rc;
    }
    g->next = atomic_load_explicit(&r->registrations, memory_order_relaxed);
    atomic_store_explicit(&r->registrations, g, memory_order_release); /* pairs with find */
    *out = g;
    return 0;
}

int region_memory(struct rch *ch, const char *call, struct rregion *region,
                  const struct btl_memory **memory)
{
    uint32_t access = region_access_of(ch);
    struct registration *g = region_find(ch, region, access);
    struct error err = {""};
    int rc = 0;

    if (g == NULL) {
        pthread_mutex_lock(&region_lock);
        g = region_find(ch, region,
                        access); /* another thread, with another pipe to the same peer */
        if (g == NULL)
            rc = region_register_range(ch, region, access, &g, &err);
        pthread_mutex_unlock(&region_lock);
    }
    if (rc != 0)
        return end_error(ch, rc,
                         "%s: a region of %zu bytes cannot be registered with %s, by which rank %d "
                         "is reached: %s",
                         call, region->bytes, ch->ops->name, ch->peer, err.text);
    *memory = &g->memory;
    return 0;
}

static void region_deregister(struct rregion *r)
{
    struct registration *g, *next;

    for (g = atomic_load_explicit(&r->registrations, memory_order_acquire); g != NULL; g = next) {
        next = g->next;
        if (job_is_open()) /* rexit has withdrawn all */
            g->ops->free(g->btl, &g->memory);
        free(g);
    }
    atomic_store_explicit(&r->registrations, NULL, memory_order_relaxed);
}

/* ---- what every call with a region looks at ---- */

static bool region_is_orphan(const struct rregion *r)
{
    return atomic_load_explicit(&r->orphan, memory_order_acquire); /* pairs with region_detach */
}

int region_check(struct rch *ch, const char *call, rregion_t region, size_t offset, size_t bytes)
{
    if (region == NULL)
        return end_error(ch, -EINVAL, "%s: the region is NULL", call);
    if (atomic_load_explicit(&region->open, memory_order_relaxed) == 0)
        return end_error(ch, -EINVAL, "%s: the region was closed already (rregion_close)", call);
    if (offset > region->bytes || bytes > region->bytes - offset)
        return end_error(ch, -EINVAL, "%s: %zu bytes at %zu lie outside a region of %zu", call,
                         bytes, offset, region->bytes);
    if (region_is_orphan(region))
        return end_error(ch, -EINVAL, "%s: the region is memory of a pipe that has been closed",
                         call);
    if (region->own != NULL && (region->own != ch || config_side(&ch->cfg) != SIDE_WRITER))
        return end_error(
            ch, -EINVAL,
            "%s: the region is memory of another pipe: it can be sent on that one alone", call);
    return 0;
}

/* ---- rregion_open ---- */

struct own_arguments {
    struct alloc_arguments alloc;
    struct rregion *region;
};

/* The block, and the region in the list that rclose goes through, in one: another thread may close in between. */
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

/* A block of the pipe's heap. */
static int region_register_own(struct rch *ch, size_t bytes, struct rregion *r)
{
    struct own_arguments a = {
        {"rregion_open", bytes, NULL, false, {"memory given back by the reader", 0}}, r};
    int rc = end_check_call(ch, "rregion_open", SIDE_WRITER);

    if (a.alloc.size <= ch->inline_max)
        a.alloc.size = ch->inline_max + 1; /* a block, and not a descriptor with room */
    if (rc == 0)
        rc = call_wait(ch, "rregion_open", &a.alloc.awaited, region_own_attempt, &a);
    return rc == -ETIMEDOUT ? write_explain_timeout(ch, &a.alloc) : rc;
}

/* So that what cannot be registered is told here, where the program can still do something else. */
static int region_register_attempt(struct rch *ch, void *arguments)
{
    struct rregion *r = arguments;
    const struct btl_memory *memory;

    if (ch->remote == NULL || (config_side(&ch->cfg) == SIDE_READER && ch->cfg.op != OP_GET))
        return 0;
    return region_memory(ch, "rregion_open", r, &memory);
}

int rregion_open(rregion_t *region, rch_t ch, void *buf, size_t bytes)
{
    int rc = end_check_call(ch, "rregion_open", 0);
    struct rregion *r;

    if (rc != 0)
        return rc;
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CELLS) != 0)
        return end_error(ch, -EBADF, "rregion_open: this end has cells and carries no messages");
    if (region == NULL || bytes == 0 || (uintptr_t)buf > UINTPTR_MAX - bytes)
        return end_error(ch, -EINVAL, "rregion_open: %s",
                         region == NULL ? "region is NULL"
                         : bytes == 0   ? "a region of no bytes"
                                        : "the buffer leads beyond the address space");
    r = region_books_take();
    if (r == NULL)
        return end_error(ch, -ENOMEM, "rregion_open: no memory for the books of a region");
    r->base = buf;
    r->bytes = bytes;
    rc =
        buf == NULL ? region_register_own(ch, bytes, r) : call_once(ch, region_register_attempt, r);
    if (rc != 0) {
        region_books_put(r);
        return rc;
    }
    *region = r;
    return 0;
}

void *rregion_mem(rregion_t region)
{
    if (region == NULL || atomic_load_explicit(&region->open, memory_order_relaxed) == 0 ||
        region_is_orphan(region)) {
        last_error_set("rregion_mem: %s",
                       region == NULL ? "the region is NULL"
                       : region_is_orphan(region)
                           ? "the region is memory of a pipe that has been closed"
                           : "the region was closed already (rregion_close)");
        errno = EINVAL;
        return NULL;
    }
    return region->base;
}

/* ---- rregion_close ---- */

static int region_refuses_busy(const struct rregion *r)
{
    /* acquire: pairs with region_unhold: the last touch of a transfer comes before whatever the program does with the memory */
    uint32_t busy = atomic_load_explicit(&r->busy, memory_order_acquire);

    if (busy == 0)
        return 0;
    last_error_set(
        "rregion_close: %u transfers from or to this region are under way: wait for them "
        "with rdone or rread_into; "
        "where the pipe is broken, close it",
        busy);
    return -EBUSY;
}

static void region_unlink_own(struct rch *ch, struct rregion *r)
{
    struct rregion **at = &ch->w.regions;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
}

/* Of a pipe's own memory: between its other calls, which go through its regions. */
static int region_deregister_attempt(struct rch *ch, void *arguments)
{
    struct rregion *r = arguments;
    int rc = region_refuses_busy(r);

    if (rc != 0 || region_is_orphan(r)) /* closed in between, and opened anew */
        return rc;
    rc = write_unalloc_attempt(ch, r->block);
    if (rc == 0)
        region_unlink_own(ch, r);
    return rc;
}

int rregion_close(rregion_t region)
{
    int rc = 0;

    if (region == NULL || atomic_load_explicit(&region->open, memory_order_relaxed) == 0) {
        last_error_set("rregion_close: the region %s",
                       region == NULL ? "is NULL" : "is closed already");
        return -EINVAL;
    }
    if (region->own != NULL && !region_is_orphan(region)) {
        rc = end_check_call(region->own, "rregion_close", 0);
        if (rc == 0)
            rc = call_once(region->own, region_deregister_attempt, region);
        if (rc != 0 &&
            !region_is_orphan(
                region)) /* else another thread has closed the pipe: its memory is gone */
            return rc;
    }
    rc = region_refuses_busy(region);
    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("rregion_close: before it ends");
    region_deregister(region);
    region_books_put(region);
    return 0;
}

/* ---- rclose ---- */

int region_wait(struct rch *ch, const char *call)
{
    return config_side(&ch->cfg) == SIDE_WRITER ? region_wait_transfers(ch, call)
                                                : region_wait_placements(ch, call);
}

static void region_detach(struct rch *ch)
{
    struct rregion *r, *next;

    if (config_side(&ch->cfg) != SIDE_WRITER)
        return;
    region_abort(ch, -ENOTCONN);
    for (r = ch->w.regions; r != NULL; r = next) {
        next = r->next;
        r->parts = NULL;
        atomic_store_explicit(
            &r->busy, 0,
            memory_order_relaxed); /* what the reader has is the library's from now on */
        /* release, and last: another thread may give it back at once. Pairs with is_orphan */
        atomic_store_explicit(&r->orphan, true, memory_order_release);
    }
    ch->w.regions = NULL;
}

/* ---- the feature ---- */

static int region_quiesce(struct rch *ch)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_relaxed);

    return (state & (STATE_REMOTE | STATE_CELLS)) == STATE_REMOTE ? region_wait(ch, call_name())
                                                                  : 0;
}

static void region_feature_release(struct rch *ch)
{
    if (ch->remote == NULL)
        return;
    region_release(ch);
    key_cache_release(ch);
}

const struct end_feature region_feature = {.name = "regions",
                                           .quiesce = region_quiesce,
                                           .peer_lost = region_abort,
                                           .close = region_detach,
                                           .release = region_feature_release};
