/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registration.c: see registration.h.
 *
 * Region structures are type-stable and reused in the order in which they were put back, so that a stale handle is recognized for a
 * while. A registration is made when a pipe first needs it, for one backend and one peer, and ends with the region: so it is known
 * which peers, and which broken connections, may access the memory.
 */
#include "rpipe/region/registration.h"

#include "rpipe/end/attach.h"
#include "rpipe/end/device.h"
#include "rpipe/end/config.h"
#include "rpipe/end/error.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/path.h"
#include "util/log.h"

#include <errno.h>
#include <stdlib.h>

static pthread_mutex_t registration_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rregion *registration_oldest_free, *registration_newest_free;
static uint64_t registration_last_number;

struct rregion *registration_take(void)
{
    struct rregion *r;

    pthread_mutex_lock(&registration_lock);
    r = registration_oldest_free;
    if (r != NULL && (registration_oldest_free = r->next) == NULL)
        registration_newest_free = NULL;
    if (r == NULL)
        r = malloc(sizeof(*r));
    if (r != NULL) {
        *r = (struct rregion){.number = ++registration_last_number, .fd = -1};
        atomic_store_explicit(&r->open, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&registration_lock);
    return r;
}

void registration_put(struct rregion *r)
{
    pthread_mutex_lock(&registration_lock);
    atomic_store_explicit(&r->open, 0, memory_order_relaxed);
    r->next = NULL;
    if (registration_newest_free != NULL)
        registration_newest_free->next = r;
    else
        registration_oldest_free = r;
    registration_newest_free = r;
    pthread_mutex_unlock(&registration_lock);
}

/* A transfer of this end reads the region (PUT) or writes it (rread_into), or the peer reads it (GET). */
static uint32_t registration_access(const struct rch *ch)
{
    bool writer = config_side(&ch->cfg) == SIDE_WRITER;

    return writer && ch->cfg.op == OP_GET ? BTL_PEER_READS : BTL_LOCAL;
}

static struct registration *registration_find(const struct rch *ch, struct rregion *r,
                                              uint32_t access)
{
    struct registration *g;

    /* acquire: pairs with the release in registration_add */
    for (g = atomic_load_explicit(&r->registrations, memory_order_acquire); g != NULL; g = g->next)
        if (g->btl == ch->btl && g->peer == ch->peer && g->access == access)
            return g;
    return NULL;
}

/* 0, also where the network refuses memory of a device; or the backend's error. */
static int registration_make(struct rch *ch, struct rregion *r, struct registration *g,
                             struct error *err)
{
    const struct iovec range = {r->base, r->bytes};

    if (r->memory == NULL)
        return ch->ops->register_memory(ch->btl, ch->peer, r->base, r->bytes, g->access, &g->memory,
                                        err);
    if (device_register_region(ch, r->memory, &range, r->fd, g->access, &g->memory, err) != 0) {
        log_info("a region of %zu bytes in memory of a device (%s) is copied, since rank %d's "
                 "network does not reach it: %s",
                 r->bytes, r->memory->name, ch->peer, err->text);
        g->refused = true;
    }
    return 0;
}

static int registration_add(struct rch *ch, struct rregion *r, uint32_t access,
                            struct registration **out, struct error *err)
{
    struct registration *g = calloc(1, sizeof(*g));
    int rc;

    if (g == NULL)
        return error_set(err, -ENOMEM, "no memory for its metadata");
    *g = (struct registration){.ops = ch->ops, .btl = ch->btl, .peer = ch->peer, .access = access};
    rc = registration_make(ch, r, g, err);
    if (rc != 0) {
        free(g);
        return rc;
    }
    g->next = atomic_load_explicit(&r->registrations, memory_order_relaxed);
    /* release: the registration is complete. Pairs with registration_find */
    atomic_store_explicit(&r->registrations, g, memory_order_release);
    *out = g;
    return 0;
}

static int registration_get(struct rch *ch, struct rregion *region, uint32_t access,
                            const struct btl_memory **memory)
{
    struct registration *g = registration_find(ch, region, access);
    struct error err = {""};
    struct btl_key key;
    int rc = 0;

    if (g == NULL) {
        pthread_mutex_lock(&registration_lock);
        /* another thread may have added it, for another pipe to the same peer */
        g = registration_find(ch, region, access);
        if (g == NULL)
            rc = registration_add(ch, region, access, &g, &err);
        pthread_mutex_unlock(&registration_lock);
    }
    if (rc == 0 && g->refused) {
        *memory = NULL;
        return 0;
    }
    if (rc == 0 && access != BTL_LOCAL) /* it fails here, and not where the key is sent */
        rc = end_key(ch, &g->memory, &key, &err);
    if (rc != 0)
        return call_error(ch, rc, "%s, the backend to rank %d, cannot register %zu bytes: %s",
                          ch->ops->name, ch->peer, region->bytes, err.text);
    *memory = &g->memory;
    return 0;
}

int registration_memory(struct rch *ch, struct rregion *region, const struct btl_memory **memory)
{
    return registration_get(ch, region, registration_access(ch), memory);
}

int registration_local(struct rch *ch, struct rregion *region, const struct btl_memory **memory)
{
    return registration_get(ch, region, BTL_LOCAL, memory);
}

void registration_end(struct rregion *r)
{
    struct registration *g, *next;

    for (g = atomic_load_explicit(&r->registrations, memory_order_acquire); g != NULL; g = next) {
        next = g->next;
        if (job_is_open() && !g->refused) /* rexit has ended all */
            g->ops->free(g->btl, &g->memory);
        free(g);
    }
    atomic_store_explicit(&r->registrations, NULL, memory_order_relaxed);
}

/* ---- checks ---- */

bool region_is_copied(const struct rch *ch, const struct rregion *region)
{
    const bool writer = config_side(&ch->cfg) == SIDE_WRITER;

    if (!ch->path->places(ch) || (region->memory != NULL && !writer))
        return true;
    return device_has_heap(ch) && (!writer || ch->cfg.op == OP_GET);
}

int region_check(struct rch *ch, rregion_t region, size_t offset, size_t bytes)
{
    if (region == NULL)
        return call_error(ch, -EINVAL, "the region is NULL");
    if (atomic_load_explicit(&region->open, memory_order_relaxed) == 0)
        return call_error(ch, -EINVAL, "the region has been closed already (rregion_close)");
    if (offset > region->bytes || bytes > region->bytes - offset)
        return call_error(ch, -EINVAL, "%zu bytes at %zu are outside a region of %zu bytes", bytes,
                          offset, region->bytes);
    if (region_is_orphan(region))
        return call_error(ch, -EINVAL, "the region is memory of a pipe that has been closed");
    if (region->own != NULL && (region->own != ch || config_side(&ch->cfg) != SIDE_WRITER))
        return call_error(ch, -EINVAL,
                          "the region is memory of another pipe and can be sent on that one only");
    return 0;
}
