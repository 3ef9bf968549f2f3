/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c: registration of memory, and the keys by which peers access it.
 *
 * Memory comes from slabs (slab.h), which are registered here. Relaxed ordering is never used: a
 * flag must not become visible before the data that it announces. What a peer may write it may also
 * read, because a flush is a READ of the last write.
 *
 * All memory is registered in the context of the process when it is made. A connection in a context of its stream needs it there, too:
 *   - what its transfers read from or write to here, which the first of them registers (transfer.c),
 *   - what its peer accesses, registered when the key for this peer is made (verbs_connection_key): a device compares the domain of a key with that
 *     of the queue pair through which the request comes, so it is the context of the end that owns the memory that counts.
 * A copy is such a registration. Invariants, under btl.copies: a copy is in the list of its context and in the table of its region; it ends
 * with the first of the two.
 */
#include "btl/verbs/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

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
static struct ibv_mr *verbs_memory_register_device(const struct device_context *context,
                                                   const void *base, size_t bytes, int fd,
                                                   unsigned rights, struct error *err)
{
#ifdef HAVE_REG_DMABUF
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(context->pd, 0, bytes, (uintptr_t)base, fd, (int)rights);

    if (mr == NULL) {
        errno = errno > 0 ? errno : EOPNOTSUPP;
        error_note(err, "ibv_reg_dmabuf_mr of %zu bytes on %s: %s", bytes, context->btl->device,
                   strerror(errno));
    }
    return mr;
#else
    (void)base, (void)bytes, (void)fd, (void)rights;
    errno = EOPNOTSUPP;
    error_note(err,
               "the backend verbs for %s was compiled without ibv_reg_dmabuf_mr (rdma-core 34)",
               context->btl->device);
    return NULL;
#endif
}

/* fd -1: memory of the host. 0, or -errno and an error message. */
static int verbs_memory_register_in(const struct device_context *context, void *base, size_t bytes,
                                    int fd, uint32_t access, struct ibv_mr **mr, struct error *err)
{
    const unsigned rights = verbs_memory_rights(context->btl, access);
    int error;

    if (fd >= 0) {
        *mr = verbs_memory_register_device(context, base, bytes, fd, rights, err);
        return *mr != NULL ? 0 : -errno;
    }
    *mr = ibv_reg_mr(context->pd, base, bytes, rights);
    if (*mr != NULL)
        return 0;
    error = errno;
    verbs_memory_explain(error, bytes, err);
    return error > 0 ? -error : -ENOMEM;
}

static int verbs_memory_register_range(void *backend, struct slab_range *range, struct error *err)
{
    struct btl *btl = backend;
    struct verbs_region *region;
    int rc, fd = -1;

    if (verbs_check_fork(btl, err) != 0)
        return -ENOTCONN;
    region = calloc(1, sizeof(*region));
    if (region == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the metadata of registered memory");
    if (range->device != NULL)
        fd = range->device->fd;
    rc = verbs_memory_register_in(&btl->process, range->base, range->bytes, fd, range->access,
                                  &region->mr, err);
    if (rc != 0) {
        free(region);
        return rc;
    }
    region->lkey = region->mr->lkey;
    region->access = range->access;
    region->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    range->registration = region;
    return 0;
}

static void verbs_memory_make_key(void *backend, const struct slab_range *range, size_t offset,
                                  size_t bytes, struct btl_key *key)
{
    const struct verbs_region *region = range->registration;

    (void)backend;
    key->word[KEY_ADDRESS] = (uintptr_t)range->base + offset;
    key->word[KEY_RKEY] = region->mr->rkey;
    key->word[KEY_BYTES] = bytes;
    key->word[KEY_CONTEXT] = 0;
}

/* ---- copies: memory in the contexts of streams ---- */

/* btl.copies held. */
static void verbs_memory_drop_copy(struct device_context *context, struct verbs_copy *copy)
{
    struct verbs_copies *copies = atomic_load_explicit(&copy->region->copies, memory_order_relaxed);

    /* relaxed: no connection uses the memory, or none the context, any more */
    atomic_store_explicit(&copies->in[context->index], NULL, memory_order_relaxed);
    list_remove(&copy->link);
    if (!context->btl->forked)
        (void)ibv_dereg_mr(copy->mr);
    free(copy);
}

static void verbs_memory_deregister(void *backend, struct slab_range *range)
{
    struct btl *btl = backend;
    struct verbs_region *region = range->registration;
    struct verbs_copies *copies = atomic_load_explicit(&region->copies, memory_order_relaxed);
    uint32_t i;

    pthread_mutex_lock(&btl->copies);
    for (i = 1; copies != NULL && i < VERBS_CONTEXTS; i++) {
        struct verbs_copy *copy = atomic_load_explicit(&copies->in[i], memory_order_relaxed);

        if (copy != NULL)
            verbs_memory_drop_copy(btl->context[i], copy);
    }
    pthread_mutex_unlock(&btl->copies);
    if (!btl->forked)
        (void)ibv_dereg_mr(region->mr);
    if (region->fd >= 0)
        close(region->fd);
    free(copies);
    free(region);
}

/* btl.copies held. NULL and an error message: there is no memory. */
static struct verbs_copies *verbs_memory_copies(struct verbs_region *region, struct error *err)
{
    struct verbs_copies *copies = atomic_load_explicit(&region->copies, memory_order_relaxed);

    if (copies != NULL)
        return copies;
    copies = calloc(1, sizeof(*copies));
    if (copies == NULL)
        error_note(err, "there is no memory for the metadata of registered memory");
    else /* release: pairs with the acquire in verbs_memory_in */
        atomic_store_explicit(&region->copies, copies, memory_order_release);
    return copies;
}

/* btl.copies held. */
static int verbs_memory_add_copy(struct device_context *context, const struct btl_memory *memory,
                                 struct error *err)
{
    const struct slab_range *range = slab_range_of(memory);
    struct verbs_region *region = range->registration;
    struct verbs_copies *copies = verbs_memory_copies(region, err);
    struct verbs_copy *copy = copies != NULL ? calloc(1, sizeof(*copy)) : NULL;
    int rc;

    if (copy == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the metadata of registered memory");
    copy->region = region;
    rc = memory->device && region->fd < 0
             ? error_set(err, -EMFILE, "memory of a device has no descriptor for it")
             : verbs_memory_register_in(context, range->base, range->bytes, region->fd,
                                        region->access, &copy->mr, err);
    if (rc != 0) {
        free(copy);
        return rc;
    }
    list_append(&context->copies, &copy->link);
    /* release: the copy; pairs with the acquire in verbs_memory_in */
    atomic_store_explicit(&copies->in[context->index], copy, memory_order_release);
    return 0;
}

int verbs_memory_copy(struct device_context *context, const struct btl_memory *memory,
                      struct error *err)
{
    struct btl *btl = context->btl;
    int rc = 0;

    if (verbs_check_fork(btl, err) != 0)
        return -ENOTCONN;
    pthread_mutex_lock(&btl->copies);
    if (verbs_memory_in(context, memory) == NULL) /* else another thread has added it */
        rc = verbs_memory_add_copy(context, memory, err);
    pthread_mutex_unlock(&btl->copies);
    return rc;
}

void verbs_memory_leave(struct device_context *context)
{
    pthread_mutex_lock(&context->btl->copies);
    while (!list_empty(&context->copies))
        verbs_memory_drop_copy(context,
                               container_of(context->copies.next, struct verbs_copy, link));
    pthread_mutex_unlock(&context->btl->copies);
}

int verbs_connection_key(struct btl_connection *connection, const struct btl_memory *memory,
                         struct btl_key *key, struct error *err)
{
    struct device_context *context = connection->context;
    int rc = 0;

    *key = memory->key;
    if (context->index == 0)
        return 0;
    if (verbs_memory_in(context, memory) == NULL)
        rc = verbs_memory_copy(context, memory, err);
    if (rc != 0)
        return rc;
    key->word[KEY_RKEY] = verbs_memory_in(context, memory)->mr->rkey;
    key->word[KEY_CONTEXT] = context->index;
    return 0;
}

int verbs_connection_takes(struct btl_connection *connection, const struct btl_remote *remote,
                           struct error *err)
{
    if (remote->key.word[KEY_CONTEXT] == verbs_token_context(connection->peer_token))
        return 0;
    return error_set(err, -EXDEV,
                     "it was opened by a pipe in %s of rank %d's device, and this pipe ends in %s "
                     "there",
                     remote->key.word[KEY_CONTEXT] != 0 ? "another context" : "the context",
                     connection->peer,
                     verbs_token_context(connection->peer_token) != 0 ? "that of a stream"
                                                                      : "that of the process");
}

/* ---- opening and closing ---- */

int verbs_memory_open_context(struct device_context *context, struct error *err)
{
    struct btl *btl = context->btl;
    int rc;

    list_init(&context->copies);
    context->pd = ibv_alloc_pd(context->ibv);
    if (context->pd == NULL) {
        rc = -errno;
        return error_set(err, rc, "ibv_alloc_pd on %s: %s", btl->device, strerror(-rc));
    }
    return verbs_memory_register_in(context, btl->scratch, CACHE_LINE, -1, BTL_LOCAL,
                                    &context->scratch_mr, err);
}

void verbs_memory_close_context(struct device_context *context)
{
    if (context->btl->forked)
        return;
    if (context->scratch_mr != NULL)
        (void)ibv_dereg_mr(context->scratch_mr);
    if (context->pd != NULL)
        (void)ibv_dealloc_pd(context->pd);
}

int verbs_memory_open(struct btl *btl, struct error *err)
{
    static const struct slab_source source = {.register_range = verbs_memory_register_range,
                                              .deregister = verbs_memory_deregister,
                                              .key = verbs_memory_make_key};
    int rc;

    /* a page of its own: with ibv_fork_init a child has none of the registered pages */
    btl->scratch =
        mmap(NULL, CACHE_LINE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (btl->scratch == MAP_FAILED) {
        btl->scratch = NULL;
        return error_set(err, -ENOMEM, "there is no memory for a page");
    }
    rc = verbs_memory_open_context(&btl->process, err);
    if (rc != 0)
        return rc;
    rc = slab_pool_create(&source, btl, &btl->slabs);
    if (rc != 0)
        error_note(err, "there is no memory for the metadata of registered memory");
    return rc;
}

void verbs_memory_close(struct btl *btl)
{
    slab_pool_destroy(btl->slabs);
    verbs_memory_close_context(&btl->process);
    if (btl->scratch != NULL)
        (void)munmap(btl->scratch, CACHE_LINE);
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

int verbs_register_device(struct btl *btl, int peer, void *base, size_t bytes,
                          const struct btl_device *device, uint32_t access,
                          struct btl_memory *memory, struct error *err)
{
    if (device->fd < 0)
        return error_set(err, -ENOTSUP, "%s", device->no_fd);
    return slab_register_device(btl->slabs, peer, base, bytes, device, access, memory, err);
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
