/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c: see memory.h.
 *
 * What a provider may require (FI_MR_...): LOCAL: local memory has to be registered too, and its
 * descriptor given; otherwise local memory is not registered at all. VIRT_ADDR: the peer names
 * memory by its address here; otherwise by its offset in the registration. PROV_KEY: the provider
 * chooses the key; otherwise it is chosen here, at random, so that other processes cannot guess it.
 * ENDPOINT: a registration is valid after it is bound to the endpoint. ALLOCATED: pages must exist,
 * which they do. HMEM: local memory of devices has to be registered, which it is in any case.
 *
 * Memory of a device is registered with the kind and the number of the device (FI_HMEM), and every access of this process has its
 * descriptor. An endpoint with FI_HMEM has no streams with domains of their own, so it is registered in one domain.
 */
#include "btl/ofi/memory.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define KEY_TRIES 8

static uint64_t ofi_memory_access_flags(uint32_t access)
{
    uint64_t near = FI_READ | FI_WRITE;

    switch (access) {
    case BTL_PEER_READS:
        return near | FI_REMOTE_READ;
    case BTL_PEER_WRITES: /* reads too: a flush reads what was written */
    case BTL_PEER_ATOMICS:
        return near | FI_REMOTE_READ | FI_REMOTE_WRITE;
    default:
        return near;
    }
}

static uint64_t ofi_memory_random_key(uint64_t mask)
{
    uint64_t key = 0;

    if (getrandom(&key, sizeof(key), GRND_NONBLOCK) != (ssize_t)sizeof(key))
        key = (uint64_t)(uintptr_t)&key * UINT64_C(0x9e3779b97f4a7c15);
    return key & mask;
}

static int ofi_memory_enable(struct ofi_endpoint *e, struct fid_mr *mr)
{
    int rc;

    if ((e->info->domain_attr->mr_mode & FI_MR_ENDPOINT) == 0)
        return 0;
    rc = fi_mr_bind(mr, &e->ep->fid, 0);
    return rc != 0 ? rc : fi_mr_enable(mr);
}

static int ofi_memory_reg_device(struct ofi_endpoint *e, void *base, size_t bytes, uint32_t access,
                                 const struct btl_device *device, uint64_t key, struct fid_mr **mr)
{
    static const enum fi_hmem_iface iface[] = {[BTL_DEVICE_CUDA] = FI_HMEM_CUDA,
                                               [BTL_DEVICE_ROCM] = FI_HMEM_ROCR,
                                               [BTL_DEVICE_ZE] = FI_HMEM_ZE};
    const struct iovec range = {base, bytes};
    struct fi_mr_attr attr = {.mr_iov = &range,
                              .iov_count = 1,
                              .access = ofi_memory_access_flags(access),
                              .requested_key = key,
                              .iface = iface[device->kind]};

    if (device->kind == BTL_DEVICE_CUDA)
        attr.device.cuda = (int)device->number;
    else if (device->kind == BTL_DEVICE_ZE)
        attr.device.ze = (int)device->number;
    return fi_mr_regattr(e->domain, &attr, 0, mr);
}

/* `key`: where keys are chosen here. 0, or what the provider returned. */
static int ofi_memory_reg(struct ofi_endpoint *e, void *base, size_t bytes, uint32_t access,
                          const struct btl_device *device, uint64_t key, struct fid_mr **mr)
{
    int rc = device != NULL ? ofi_memory_reg_device(e, base, bytes, access, device, key, mr)
                            : fi_mr_reg(e->domain, base, bytes, ofi_memory_access_flags(access), 0,
                                        key, 0, mr, NULL);

    if (rc != 0)
        return rc;
    rc = ofi_memory_enable(e, *mr);
    if (rc != 0)
        fi_close(&(*mr)->fid);
    return rc;
}

static int ofi_memory_refused(const struct ofi_endpoint *e, size_t bytes, bool device, int rc,
                              struct error *err)
{
    error_note(err, "provider %s: %s of %zu bytes%s%s: %s%s", e->provider,
               device ? "fi_mr_regattr" : "fi_mr_reg", bytes, device ? " of a device" : "",
               e->stream != NULL ? " in the domain of a stream" : "", fi_strerror(-rc),
               rc == -FI_ENOMEM ? " (raise the limit of locked memory, ulimit -l)" : "");
    return rc == -FI_ENOKEY ? -ENOSPC : rc < -255 ? -EIO : rc;
}

int memory_register(struct ofi_endpoint *e, void *base, size_t bytes, uint32_t access,
                    const struct btl_device *device, struct ofi_registration *r, struct error *err)
{
    bool chosen = (e->info->domain_attr->mr_mode & FI_MR_PROV_KEY) == 0;
    struct fid_mr *mr = NULL;
    int rc = 0, tries;

    *r = (struct ofi_registration){.by_address =
                                       (e->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0};
    if (access == BTL_LOCAL && !e->needs_desc && device == NULL)
        return 0;
    for (tries = 0; tries < KEY_TRIES; tries++) {
        rc = ofi_memory_reg(e, base, bytes, access, device,
                            chosen ? ofi_memory_random_key(e->keys) : 0, &mr);
        if (rc != -FI_ENOKEY || !chosen)
            break;
    }
    if (rc != 0)
        return ofi_memory_refused(e, bytes, device != NULL, rc, err);
    r->mr = mr;
    r->desc = fi_mr_desc(mr);
    r->key = fi_mr_key(mr);
    return 0;
}

void memory_deregister(struct ofi_registration *r)
{
    if (r->mr != NULL)
        fi_close(&r->mr->fid);
    r->mr = NULL;
}

/* ---- copies in the domains of streams ---- */

/*
 * A range of a slab, or of the user's memory. What peers access is registered in the domain of the process and, with the same key, in that of each
 * stream that has one: the peer uses the key at whichever endpoint its connection has. btl.lock.
 */
struct memory_range {
    struct ofi_registration own; /* first: slab_registration() */
    const struct slab_range *range;
    struct link link;   /* btl.ranges */
    struct link copies; /* struct memory_copy */
};
static_assert(offsetof(struct memory_range, own) == 0, "slab_registration() is it");

struct memory_copy {
    struct link link;
    struct ofi_endpoint *endpoint;
    struct fid_mr *mr;
};

static int ofi_memory_copy(struct memory_range *m, struct ofi_endpoint *e, struct error *err)
{
    struct memory_copy *c = calloc(1, sizeof(*c));
    bool as_owner;
    int rc;

    if (c == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the metadata of a registration");
    as_owner = ofi_enter(e, BIASED_NEVER);
    rc = ofi_memory_reg(e, m->range->base, m->range->bytes, m->range->access, NULL, m->own.key,
                        &c->mr);
    ofi_leave(e, as_owner);
    if (rc != 0) {
        free(c);
        return ofi_memory_refused(e, m->range->bytes, false, rc, err);
    }
    c->endpoint = e;
    list_append(&m->copies, &c->link);
    return 0;
}

/* Those in the domain of an endpoint; NULL: all. */
static void ofi_memory_remove_copies(struct memory_range *m, const struct ofi_endpoint *of)
{
    struct link *at, *after;

    list_for_each (at, after, &m->copies) {
        struct memory_copy *c = container_of(at, struct memory_copy, link);
        bool as_owner;

        if (of != NULL && c->endpoint != of)
            continue;
        as_owner = ofi_enter(c->endpoint, BIASED_NEVER);
        fi_close(&c->mr->fid);
        ofi_leave(c->endpoint, as_owner);
        list_remove(&c->link);
        free(c);
    }
}

void memory_close_domain(struct ofi_endpoint *e)
{
    struct link *at, *after;

    list_for_each (at, after, &e->btl->ranges)
        ofi_memory_remove_copies(container_of(at, struct memory_range, link), e);
}

int memory_open_domain(struct ofi_endpoint *e, struct error *err)
{
    struct link *at, *after;
    int rc = 0;

    list_for_each (at, after, &e->btl->ranges) {
        rc = ofi_memory_copy(container_of(at, struct memory_range, link), e, err);
        if (rc != 0)
            break;
    }
    if (rc != 0)
        memory_close_domain(e);
    return rc;
}

/* In the domains of all streams. 0, or -errno and an error message. */
static int ofi_memory_copy_to_all(struct btl *btl, struct memory_range *m, struct error *err)
{
    struct link *at, *after;
    int rc = 0;

    list_for_each (at, after, &btl->streams) {
        struct ofi_endpoint *e = &container_of(at, struct btl_stream, link)->endpoint;

        rc = e->own_domain ? ofi_memory_copy(m, e, err) : 0;
        if (rc != 0)
            break;
    }
    if (rc != 0)
        ofi_memory_remove_copies(m, NULL);
    return rc;
}

/* ---- the source of slabs ---- */

/* btl.lock held. */
static int ofi_memory_register_everywhere(struct btl *btl, struct memory_range *m,
                                          struct error *err)
{
    const struct slab_range *range = m->range;
    int rc = memory_register(&btl->rma, range->base, range->bytes, range->access, range->device,
                             &m->own, err);

    if (rc != 0 || range->access == BTL_LOCAL)
        return rc;
    rc = ofi_memory_copy_to_all(btl, m, err);
    if (rc == 0)
        list_append(&btl->ranges, &m->link);
    else
        memory_deregister(&m->own);
    return rc;
}

/* The key of a registration is a secret of its peer, so it needs no other protection. */
static int ofi_memory_register_range(void *backend, struct slab_range *range, struct error *err)
{
    struct memory_range *m = calloc(1, sizeof(*m));
    struct btl *btl = backend;
    int rc;

    if (m == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the metadata of a registration");
    m->range = range;
    list_init(&m->link);
    list_init(&m->copies);
    ofi_lock(btl);
    rc = ofi_memory_register_everywhere(btl, m, err);
    ofi_unlock(btl);
    if (rc != 0) {
        free(m);
        return rc;
    }
    range->registration = m;
    return 0;
}

static void ofi_memory_deregister(void *backend, struct slab_range *range)
{
    struct memory_range *m = range->registration;
    struct btl *btl = backend;

    ofi_lock(btl);
    ofi_memory_remove_copies(m, NULL);
    list_remove(&m->link);
    memory_deregister(&m->own);
    ofi_unlock(btl);
    free(m);
}

static void ofi_memory_key(void *backend, const struct slab_range *range, size_t offset,
                           size_t bytes, struct btl_key *k)
{
    const struct ofi_registration *r = range->registration;

    (void)backend;
    *k = (struct btl_key){0};
    k->word[KEY_KEY] = r->key;
    k->word[KEY_ADDRESS] = r->by_address ? (uint64_t)(uintptr_t)range->base + offset : offset;
    k->word[KEY_BYTES] = bytes;
}

const struct slab_source memory_source = {
    .register_range = ofi_memory_register_range,
    .deregister = ofi_memory_deregister,
    .key = ofi_memory_key,
};
