/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c: see memory.h.
 *
 * What a provider may require (FI_MR_...): LOCAL: local memory has to be registered too, and its
 * descriptor given; otherwise local memory is not registered at all. VIRT_ADDR: the peer names
 * memory by its address here; otherwise by its offset in the registration. PROV_KEY: the provider
 * chooses the key; otherwise it is chosen here, at random, so that other processes cannot guess it.
 * ENDPOINT: a registration is valid after it is bound to the endpoint. ALLOCATED: pages must exist,
 * which they do.
 */
#include "btl/ofi/memory.h"

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

int memory_register(struct ofi_endpoint *e, void *base, size_t bytes, uint32_t access,
                    struct ofi_registration *r, struct error *err)
{
    bool chosen = (e->info->domain_attr->mr_mode & FI_MR_PROV_KEY) == 0;
    struct fid_mr *mr = NULL;
    int rc, tries;

    *r = (struct ofi_registration){.by_address =
                                       (e->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0};
    if (access == BTL_LOCAL && !e->needs_desc)
        return 0;
    for (tries = 0; tries < KEY_TRIES; tries++) {
        rc = fi_mr_reg(e->domain, base, bytes, ofi_memory_access_flags(access), 0,
                       chosen ? ofi_memory_random_key(e->keys) : 0, 0, &mr, NULL);
        if (rc != -FI_ENOKEY || !chosen)
            break;
    }
    if (rc == 0) {
        rc = ofi_memory_enable(e, mr);
        if (rc != 0)
            fi_close(&mr->fid);
    }
    if (rc != 0) {
        error_note(err, "provider %s: fi_mr_reg of %zu bytes: %s%s", e->provider, bytes,
                   fi_strerror(-rc),
                   rc == -FI_ENOMEM ? " (raise the limit of locked memory, ulimit -l)" : "");
        return rc == -FI_ENOKEY ? -ENOSPC : rc < -255 ? -EIO : rc;
    }
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

/* ---- the source of slabs ---- */

/* The key of a registration is a secret of its peer, so it needs no other protection. */
static int ofi_memory_register_range(void *backend, struct slab_range *range, struct error *err)
{
    struct ofi_registration *r = malloc(sizeof(*r));
    struct btl *btl = backend;
    int rc;

    if (r == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the metadata of a registration");
    ofi_lock(btl);
    rc = memory_register(&btl->rma, range->base, range->bytes, range->access, r, err);
    ofi_unlock(btl);
    if (rc != 0) {
        free(r);
        return rc;
    }
    range->registration = r;
    return 0;
}

static void ofi_memory_deregister(void *backend, struct slab_range *range)
{
    struct ofi_registration *r = range->registration;
    struct btl *btl = backend;

    ofi_lock(btl);
    memory_deregister(r);
    ofi_unlock(btl);
    free(r);
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
