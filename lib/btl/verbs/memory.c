/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c: registration of memory, and the keys by which peers access it.
 *
 * Memory comes from slabs (slab.h), which are registered here. Relaxed ordering is never used: a
 * flag must not become visible before the data that it announces. What a peer may write it may also
 * read, because a flush is a READ of the last write.
 */
#include "btl/verbs/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/*
 * Error message of ibv_reg_mr, which fails with ENOMEM, EPERM or EAGAIN if the limit of locked
 * memory is too low.
 */
static void verbs_memory_explain(int error, size_t bytes, struct error *err)
{
    struct rlimit limit;
    size_t n;

    error_note(err, "ibv_reg_mr of %zu bytes: %s", bytes, strerror(error));
    n = strlen(err->text);
    if (error != ENOMEM && error != EPERM && error != EAGAIN)
        return;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(err->text + n, sizeof(err->text) - n,
                 "; this process may lock %llu KiB (ulimit -l): raise memlock in "
                 "/etc/security/limits.conf, or by "
                 "ulimit -l unlimited",
                 (unsigned long long)limit.rlim_cur / 1024);
}

static unsigned verbs_memory_rights(const struct btl *btl, uint32_t access)
{
    unsigned flags = IBV_ACCESS_LOCAL_WRITE;

    switch (access) {
    case BTL_PEER_READS:
        flags |= IBV_ACCESS_REMOTE_READ;
        break;
    case BTL_PEER_WRITES:
        flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        break;
    case BTL_PEER_ATOMICS:
        flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        if (btl->limits.atomics != 0)
            flags |= IBV_ACCESS_REMOTE_ATOMIC;
        break;
    default:
        break;
    }
    /*
     * On iWARP the answer to a READ is a tagged message like a WRITE, so its target must be
     * remotely writable.
     */
    if (btl->limits.iwarp)
        flags |= IBV_ACCESS_REMOTE_WRITE;
    return flags;
}

/*
 * Memory of a device, by its dma-buf: the device of the network reaches it without the host, if both, their drivers and the way between
 * them can. The numbers of addresses are those that the program uses.
 */
static int verbs_memory_register_device(const struct btl *btl, struct slab_range *range,
                                        struct error *err)
{
#ifdef HAVE_REG_DMABUF
    struct ibv_mr *mr;
    int error;

    mr = ibv_reg_dmabuf_mr(btl->pd, 0, range->bytes, (uintptr_t)range->base, range->fd,
                           (int)verbs_memory_rights(btl, range->access));
    if (mr != NULL) {
        range->registration = mr;
        return 0;
    }
    error = errno > 0 ? errno : EOPNOTSUPP;
    return error_set(err, -error, "ibv_reg_dmabuf_mr of %zu bytes on %s: %s", range->bytes,
                     btl->device, strerror(error));
#else
    (void)range;
    return error_set(err, -EOPNOTSUPP,
                     "the backend verbs for %s was compiled without ibv_reg_dmabuf_mr (rdma-core "
                     "34)",
                     btl->device);
#endif
}

static int verbs_memory_register_range(void *backend, struct slab_range *range, struct error *err)
{
    struct btl *btl = backend;
    struct ibv_mr *mr;

    if (verbs_check_fork(btl, err) != 0)
        return -ENOTCONN;
    if (range->fd >= 0)
        return verbs_memory_register_device(btl, range, err);
    mr = ibv_reg_mr(btl->pd, range->base, range->bytes, verbs_memory_rights(btl, range->access));
    if (mr == NULL) {
        int error = errno;

        verbs_memory_explain(error, range->bytes, err);
        return error > 0 ? -error : -ENOMEM;
    }
    range->registration = mr;
    return 0;
}

static void verbs_memory_deregister(void *backend, struct slab_range *range)
{
    struct btl *btl = backend;

    if (!btl->forked)
        (void)ibv_dereg_mr(range->registration);
}

static void verbs_memory_make_key(void *backend, const struct slab_range *range, size_t offset,
                                  size_t bytes, struct btl_key *key)
{
    const struct ibv_mr *mr = range->registration;

    (void)backend;
    key->word[KEY_ADDRESS] = (uintptr_t)range->base + offset;
    key->word[KEY_RKEY] = mr->rkey;
    key->word[KEY_BYTES] = bytes;
    key->word[3] = 0;
}

int verbs_memory_open(struct btl *btl, struct error *err)
{
    static const struct slab_source source = {.register_range = verbs_memory_register_range,
                                              .deregister = verbs_memory_deregister,
                                              .key = verbs_memory_make_key};
    int rc;

    btl->pd = ibv_alloc_pd(btl->context);
    if (btl->pd == NULL) {
        rc = -errno;
        error_note(err, "ibv_alloc_pd on %s: %s", btl->device, strerror(-rc));
        return rc;
    }
    /* a page of its own: with ibv_fork_init a child has none of the registered pages */
    btl->scratch =
        mmap(NULL, CACHE_LINE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (btl->scratch == MAP_FAILED) {
        btl->scratch = NULL;
        return error_set(err, -ENOMEM, "there is no memory for a page");
    }
    btl->scratch_mr =
        ibv_reg_mr(btl->pd, btl->scratch, CACHE_LINE, verbs_memory_rights(btl, BTL_LOCAL));
    if (btl->scratch_mr == NULL) {
        rc = -errno;
        verbs_memory_explain(-rc, CACHE_LINE, err);
        return rc;
    }
    rc = slab_pool_create(&source, btl, &btl->slabs);
    if (rc != 0)
        error_note(err, "there is no memory for the metadata of registered memory");
    return rc;
}

void verbs_memory_close(struct btl *btl)
{
    slab_pool_destroy(btl->slabs);
    if (btl->scratch_mr != NULL && !btl->forked)
        (void)ibv_dereg_mr(btl->scratch_mr);
    if (btl->scratch != NULL)
        (void)munmap(btl->scratch, CACHE_LINE);
    if (btl->pd != NULL && !btl->forked)
        (void)ibv_dealloc_pd(btl->pd);
}

int verbs_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
                struct btl_memory *memory, struct error *err)
{
    return slab_alloc(btl->slabs, peer, bytes, access, huge, memory, err);
}

void verbs_free(struct btl *btl, struct btl_memory *memory) { slab_free(btl->slabs, memory); }

/*
 * Any process that has the key can access the memory. The program decides which peers share cells.
 */
int verbs_share(struct btl *btl, int peer, const struct btl_memory *memory, struct btl_key *key,
                struct error *err)
{
    (void)btl;
    (void)peer;
    (void)err;
    *key = memory->key;
    return 0;
}

int verbs_register(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access,
                   struct btl_memory *memory, struct error *err)
{
    return slab_register(btl->slabs, peer, base, bytes, access, memory, err);
}

int verbs_register_device(struct btl *btl, int peer, void *base, size_t bytes, int fd,
                          uint32_t access, struct btl_memory *memory, struct error *err)
{
    return slab_register_device(btl->slabs, peer, base, bytes, fd, access, memory, err);
}

/*
 * The peer has sent the key. A wrong one affects only that peer, whose device checks address,
 * length and rights.
 */
int verbs_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                 uint32_t access, struct btl_remote *remote, struct error *err)
{
    (void)access;
    if (key->word[KEY_BYTES] < bytes || key->word[KEY_RKEY] > UINT32_MAX ||
        key->word[KEY_ADDRESS] > UINT64_MAX - key->word[KEY_BYTES])
        return error_set(err, -EPROTO, "rank %d offers %llu bytes at %llx; %zu are needed", peer,
                         (unsigned long long)key->word[KEY_BYTES],
                         (unsigned long long)key->word[KEY_ADDRESS], bytes);
    remote->base = NULL;
    remote->bytes = bytes;
    remote->mapping = btl;
    remote->key = *key;
    return 0;
}

void verbs_detach(struct btl *btl, struct btl_remote *remote)
{
    (void)btl;
    remote->mapping = NULL;
}
