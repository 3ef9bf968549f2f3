/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backend.c: the libfabric backend as struct btl_ops: memory, opening, closing, fork. Connections
 * are in connection.c.
 */
#include "btl/remote.h"
#include "btl/ofi/connection.h"
#include "btl/ofi/deferred.h"
#include "btl/ofi/address.h"
#include "btl/ofi/fabric.h"
#include "btl/ofi/memory.h"
#include "btl/ofi/ofi.h"
#include "btl/ofi/operation.h"
#include "btl/ofi/post.h"
#include "btl/ofi/progress.h"
#include "btl/ofi/stream.h"

#include "util/cpu.h"
#include "util/failpoint.h"
#include "util/log.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static int ofi_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
                     struct btl_memory *memory, struct error *err)
{
    int rc = ofi_check_fork(btl, err);

    return rc != 0 ? rc : slab_alloc(btl->slabs, peer, bytes, access, huge, memory, err);
}

/*
 * Any process that has the key can access the memory. The program decides which peers share cells.
 */
static int ofi_share(struct btl *btl, int peer, const struct btl_memory *memory,
                     struct btl_key *key, struct error *err)
{
    (void)btl;
    (void)peer;
    (void)err;
    *key = memory->key;
    return 0;
}

static int ofi_register(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access,
                        struct btl_memory *memory, struct error *err)
{
    int rc = ofi_check_fork(btl, err);

    return rc != 0 ? rc : slab_register(btl->slabs, peer, base, bytes, access, memory, err);
}

static int ofi_register_device(struct btl *btl, int peer, void *base, size_t bytes,
                               const struct btl_device *device, uint32_t access,
                               struct btl_memory *memory, struct error *err)
{
    int rc = ofi_check_fork(btl, err);

    if (rc != 0)
        return rc;
    if (device->kind == BTL_DEVICE_OTHER)
        return error_set(err, -ENOTSUP,
                         "its table names no kind of device, by which libfabric registers memory");
    if (!btl->rma.hmem)
        return error_set(err, -ENOTSUP, "provider %s without FI_HMEM: %s", btl->rma.provider,
                         btl->rma.no_hmem);
    if (device->number > INT_MAX)
        return error_set(err, -ENOTSUP, "libfabric has no number %llu of a device; %d is the last",
                         (unsigned long long)device->number, INT_MAX);
    return slab_register_device(btl->slabs, peer, base, bytes, device, access, memory, err);
}

/* The registration at the peer enforces the access. */
static int ofi_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                      uint32_t access, struct btl_remote *remote, struct error *err)
{
    (void)access;
    return btl_key_attach(btl, peer, key, key->word[KEY_ADDRESS], key->word[KEY_BYTES], bytes,
                          remote, err);
}

static void ofi_detach(struct btl *btl, struct btl_remote *remote)
{
    (void)btl;
    remote->mapping = NULL;
}

/* ---- opening and closing ---- */

static int ofi_open(const struct btl_host *host, struct btl **out, struct error *err)
{
    struct btl *btl = calloc(1, sizeof(*btl));
    int rc;

    if (btl == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the backend");
    btl->host = *host;
    log_set_level((enum log_level)host->log_level);
    log_set_rank(host->rank);
    pthread_mutex_init(&btl->lock, NULL);
    ofi_endpoint_init(&btl->rma, btl, NULL);
    list_init(&btl->streams);
    list_init(&btl->ranges);
    list_init(&btl->deferred);
    rc = fabric_open(host, &btl->rma, err);
    if (rc != 0)
        goto no_endpoint;
    RPIPE_FAILPOINT("ofi: endpoint open");
    btl->rma.atomics = post_atomics(&btl->rma);
    rc = slab_pool_create(&memory_source, btl, &btl->slabs);
    if (rc == 0)
        rc = progress_start(&btl->rma);
    if (rc != 0) {
        error_note(err, "no memory, or the service thread cannot watch the endpoint: %s",
                   strerror(-rc));
        goto no_watch;
    }
    *out = btl;
    return 0;
no_watch:
    fabric_close(&btl->rma);
    slab_pool_destroy(btl->slabs);
    fabric_close_domain(&btl->rma);
no_endpoint:
    pthread_mutex_destroy(&btl->lock);
    free(btl);
    return rc;
}

static void ofi_close_connections(struct ofi_endpoint *e)
{
    progress_stop(e);
    atomic_store_explicit(&e->asleep, false, memory_order_relaxed); /* so it is not watched again */
    while (!list_empty(&e->connections))
        ofi_connection_close(container_of(e->connections.next, struct btl_connection, link));
}

static void ofi_close(struct btl *btl)
{
    struct link *at, *after;

    if (btl->forked)
        return; /* peers would take it for the parent's close */
    ofi_close_connections(&btl->rma);
    list_for_each (at, after, &btl->streams)
        ofi_close_connections(&container_of(at, struct btl_stream, link)->endpoint);
    deferred_release_all(btl);
    streams_close_endpoints(btl);
    fabric_close(&btl->rma);
    operation_release_all(&btl->rma);
    slab_pool_destroy(btl->slabs);
    streams_free(btl);
    fabric_close_domain(&btl->rma);
    pthread_mutex_destroy(&btl->lock);
    free(btl);
}

static void ofi_forked(struct btl *btl)
{
    struct link *at, *after;

    pthread_mutex_init(&btl->lock, NULL);
    list_for_each (at, after, &btl->streams) /* a thread that was inside is not in this process */
        biased_init(&container_of(at, struct btl_stream, link)->lock);
    slab_pool_forked(btl->slabs);
    btl->forked = true;
}

/* Whether the peer answers is found out by a connection. */
static int ofi_reach(struct btl *btl, int peer, struct error *err)
{
    (void)peer;
    return ofi_check_fork(btl, err);
}

/* Inside. */
static void ofi_endpoint_peer_gone(struct ofi_endpoint *e, int peer)
{
    deferred_peer_gone(e, peer);
    address_rank_gone(e, peer);
}

static void ofi_peer_gone(struct btl *btl, int peer)
{
    struct link *at, *after;

    if (btl->forked)
        return;
    ofi_lock(btl);
    ofi_endpoint_peer_gone(&btl->rma, peer);
    list_for_each (at, after, &btl->streams) {
        struct ofi_endpoint *e = &container_of(at, struct btl_stream, link)->endpoint;
        const bool as_owner = ofi_enter(e, BIASED_NEVER);

        ofi_endpoint_peer_gone(e, peer);
        ofi_leave(e, as_owner);
    }
    ofi_unlock(btl);
}

static int ofi_progress_all(struct btl *btl)
{
    if (!btl->forked)
        progress_all(btl);
    return 0;
}

static void ofi_progress_round(struct btl *btl)
{
    if (!btl->forked)
        progress_round(btl);
}

static void ofi_free(struct btl *btl, struct btl_memory *memory)
{
    if (!btl->forked)
        deferred_free(btl, memory);
}

extern const struct btl_ops btl_ofi_ops;
__attribute__((visibility("default"))) const struct btl_ops btl_ofi_ops = {
    .version = BTL_OPS_VERSION,
    .name = "ofi",
    .attributes = {.capabilities = BTL_TARGET_PROGRESS, .alignment = CACHE_LINE},
    .query = fabric_query,
    .suitable = fabric_suitable,
    .open = ofi_open,
    .close = ofi_close,
    .forked = ofi_forked,
    .reach = ofi_reach,
    .peer_gone = ofi_peer_gone,
    .alloc = ofi_alloc,
    .free = ofi_free,
    .share = ofi_share,
    .register_memory = ofi_register,
    .register_device = ofi_register_device,
    .attach = ofi_attach,
    .detach = ofi_detach,
    .connection_open = ofi_connection_open,
    .connection_connect = ofi_connection_connect,
    .connection_state = ofi_connection_state,
    .connection_close = ofi_connection_close,
    .connection_describe = ofi_connection_describe,
    .connection_counts = ofi_connection_counts,
    .connection_atomics = ofi_connection_atomics,
    .stream_open = ofi_stream_open,
    .stream_close = ofi_stream_close,
    .connection_join = ofi_connection_join,
    .write = ofi_connection_write,
    .get = ofi_connection_get,
    .atomic = ofi_connection_atomic,
    .flush = ofi_connection_flush,
    .progress = ofi_connection_progress,
    .progress_all = ofi_progress_all,
    .progress_round = ofi_progress_round,
};
