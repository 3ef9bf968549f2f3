/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backend.c: the backend for InfiniBand, RoCE and iWARP: reliable connections, through libibverbs
 * and librdmacm.
 *
 * An open backend holds one device; doc/verbs.md lists what it relies on. In the child of a fork
 * the device is not used any more, since its objects are the parent's.
 */
#include "btl/verbs/connect.h"
#include "btl/verbs/connection.h"
#include "btl/verbs/device.h"
#include "btl/verbs/memory.h"
#include "btl/verbs/state.h"
#include "btl/verbs/stream.h"
#include "btl/verbs/transfer.h"
#include "btl/verbs/verbs.h"

#include "util/log.h"
#include "util/module.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void verbs_close(struct btl *btl)
{
    struct btl_connection *connection;
    size_t cursor = 0;

    verbs_connect_stop(btl); /* first: no event connects one any more */
    while ((connection = hash_next(&btl->connections, &cursor)) != NULL) {
        verbs_connection_close(connection);
        cursor = 0;
    }
    verbs_connect_close(btl);
    verbs_memory_close(btl);
    if (btl->channel != NULL && !btl->forked)
        rdma_destroy_event_channel(btl->channel);
    hash_free(&btl->connections);
    pthread_mutex_destroy(&btl->copies);
    pthread_mutex_destroy(&btl->lock);
    free(btl);
}

static int verbs_open(const struct btl_host *host, struct btl **out, struct error *err)
{
    struct btl *btl = calloc(1, sizeof(*btl));
    int rc;

    log_set_rank(host->rank);
    log_set_level((enum log_level)host->log_level);
    if (btl == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the backend");
    btl->host = *host;
    btl->process.btl = btl;
    pthread_mutex_init(&btl->lock, NULL);
    pthread_mutex_init(&btl->copies, NULL);
    hash_init(&btl->connections);
    /*
     * before the first registration; without effect if the kernel copies registered pages at a fork
     * (5.12)
     */
    (void)ibv_fork_init();
    btl->channel = rdma_create_event_channel();
    if (btl->channel == NULL) {
        rc = -errno;
        error_note(err, "rdma_create_event_channel: %s", strerror(-rc));
        goto fail;
    }
    rc = verbs_device_open(btl, err);
    if (rc == 0)
        rc = verbs_memory_open(btl, err);
    if (rc == 0)
        rc = verbs_connect_open(btl, err);
    if (rc != 0)
        goto fail;
    *out = btl;
    return 0;
fail:
    verbs_close(btl);
    return rc;
}

static void verbs_forked(struct btl *btl)
{
    btl->forked = true;
    pthread_mutex_init(&btl->lock, NULL);
    pthread_mutex_init(&btl->copies, NULL);
    slab_pool_forked(btl->slabs);
    verbs_connect_forked(btl);
}

/* Whether the peer has a device too is found out when its address arrives. */
static int verbs_reach(struct btl *btl, int peer, struct error *err)
{
    (void)peer;
    error_note(err, "%s, port %u", btl->device, btl->port);
    return 0;
}

/*
 * A device makes progress by itself, and the completions of a connection are taken by its
 * transfers.
 */
static int verbs_progress_all(struct btl *btl)
{
    (void)btl;
    return 0;
}

MODULE_EXPORT extern const struct btl_ops btl_verbs_ops;
MODULE_EXPORT const struct btl_ops btl_verbs_ops = {
    .version = BTL_OPS_VERSION,
    .name = "verbs",
    .attributes = {.capabilities = 0, .atomics = 0, .alignment = CACHE_LINE},
    .query = verbs_device_query,
    .open = verbs_open,
    .close = verbs_close,
    .forked = verbs_forked,
    .reach = verbs_reach,
    .alloc = verbs_alloc,
    .free = verbs_free,
    .share = verbs_share,
    .register_memory = verbs_register,
    .register_device = verbs_register_device,
    .attach = verbs_attach,
    .detach = verbs_detach,
    .connection_open = verbs_connection_open,
    .connection_connect = verbs_connection_connect,
    .connection_state = verbs_connection_state,
    .connection_close = verbs_connection_close,
    .connection_describe = verbs_connection_describe,
    .connection_counts = verbs_connection_counts,
    .connection_atomics = verbs_connection_atomics,
    .stream_open = verbs_stream_open,
    .stream_close = verbs_stream_close,
    .connection_join = verbs_connection_join,
    .connection_key = verbs_connection_key,
    .connection_takes = verbs_connection_takes,
    .write = verbs_write,
    .get = verbs_get,
    .atomic = verbs_atomic,
    .hold = verbs_hold,
    .flush = verbs_flush,
    .progress = verbs_progress,
    .progress_all = verbs_progress_all,
};
