/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backend.c: the sockets backend as struct btl_ops: memory, opening, closing, fork. Connections are
 * in connection.c.
 *
 * Nothing but this process accesses its memory: a peer's request is executed by a thread that holds
 * the lock of the region and of the connection. So memory is freed at once, also that of a
 * connection with outstanding operations that has been closed.
 */
#include "btl/remote.h"
#include "btl/tcp/connection.h"
#include "btl/tcp/failure.h"
#include "btl/tcp/gather.h"
#include "btl/tcp/listener.h"
#include "btl/tcp/progress.h"
#include "btl/tcp/region.h"
#include "btl/tcp/stream.h"

#include "util/cpu.h"
#include "util/failpoint.h"
#include "util/fork_fds.h"
#include "util/limit.h"
#include "util/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* ---- memory ---- */

static int tcp_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
                     struct btl_memory *memory, struct error *err)
{
    int rc = tcp_check_fork(btl, err);

    return rc != 0 ? rc : slab_alloc(btl->slabs, peer, bytes, access, huge, memory, err);
}

static void tcp_free(struct btl *btl, struct btl_memory *memory)
{
    if (!btl->forked)
        slab_free(btl->slabs, memory);
}

static int tcp_share(struct btl *btl, int peer, const struct btl_memory *memory,
                     struct btl_key *key, struct error *err)
{
    int rc = tcp_check_fork(btl, err);

    if (rc != 0)
        return rc;
    rc = region_share(slab_registration(memory), peer);
    if (rc != 0)
        return error_set(err, rc, "there is no memory to share a region with rank %d", peer);
    *key = memory->key;
    return 0;
}

static int tcp_register(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access,
                        struct btl_memory *memory, struct error *err)
{
    int rc = tcp_check_fork(btl, err);

    return rc != 0 ? rc : slab_register(btl->slabs, peer, base, bytes, access, memory, err);
}

static int tcp_revoke(struct btl *btl, const struct btl_memory *memory)
{
    return btl->forked ? -ENOTCONN : region_revoke(btl, slab_registration(memory));
}

static int tcp_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                      uint32_t access, struct btl_remote *remote, struct error *err)
{
    int rc = btl_key_check_access(peer, key->word[KEY_ACCESS], access, err);

    return rc != 0 ? rc
                   : btl_key_attach(btl, peer, key, key->word[KEY_OFFSET], key->word[KEY_BYTES],
                                    bytes, remote, err);
}

static void tcp_detach(struct btl *btl, struct btl_remote *remote)
{
    (void)btl;
    remote->mapping = NULL;
}

/* ---- opening and closing ---- */

static int tcp_backend_query(struct error *err)
{
    error_note(err, "sockets; between hosts without RDMA");
    return 0;
}

static void tcp_init(struct btl *btl, const struct btl_host *host)
{
    btl->host = *host;
    log_set_level((enum log_level)host->log_level);
    log_set_rank(host->rank);
    pthread_mutex_init(&btl->lock, NULL);
    list_init(&btl->all);
    list_init(&btl->rising);
    list_init(&btl->arrivals);
    list_init(&btl->streams);
    btl->alarm = -1;
    gather_init(btl);
    hash_init(&btl->connections);
    hash_init(&btl->arrival_of);
}

static void tcp_fini(struct btl *btl)
{
    fork_fds_close(btl->epoll);
    slab_pool_destroy(btl->slabs);
    regions_destroy(btl->regions);
    streams_close(btl);
    hash_free(&btl->connections);
    hash_free(&btl->arrival_of);
    pthread_mutex_destroy(&btl->lock);
    free(btl);
}

static int tcp_backend_open(const struct btl_host *host, struct btl **out, struct error *err)
{
    struct btl *btl = calloc(1, sizeof(*btl));
    int rc;

    if (btl == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the backend");
    tcp_init(btl, host);
    btl->epoll = epoll_create1(EPOLL_CLOEXEC);
    rc = btl->epoll < 0 ? -errno : 0;
    if (rc == 0)
        fork_fds_add(btl->epoll);
    if (rc == 0)
        rc = streams_open(btl);
    if (rc == 0)
        rc = regions_create(&btl->regions);
    if (rc == 0)
        rc = slab_pool_create(&region_source, btl, &btl->slabs);
    if (rc != 0) {
        error_note(err, "memory, epoll_create1(2) or eventfd(2): %s%s", strerror(-rc),
                   limit_of(-rc));
        goto no_pool;
    }
    rc = listener_open(btl, err);
    if (rc != 0)
        goto no_pool;
    RPIPE_FAILPOINT("tcp: listener open");
    rc = progress_start(btl);
    if (rc != 0) {
        error_note(err, "the service thread cannot watch the sockets: %s", strerror(-rc));
        goto no_watch;
    }
    *out = btl;
    return 0;
no_watch:
    listener_close(btl);
no_pool:
    tcp_fini(btl);
    return rc;
}

static void tcp_backend_close(struct btl *btl)
{
    if (btl->forked)
        return;
    progress_stop(btl);
    gather_stop(btl);
    while (!list_empty(&btl->all))
        tcp_connection_close(container_of(btl->all.next, struct btl_connection, link));
    listener_close(btl);
    tcp_fini(btl);
}

/* The child closes its copies, so that a connection ends with the parent. */
static void tcp_forked(struct btl *btl)
{
    pthread_mutex_init(&btl->lock, NULL);
    gather_forked(btl);
    slab_pool_forked(btl->slabs);
    regions_forked(btl->regions);
    fork_fds_close_all();
    btl->forked = true;
}

/* Whether the peer answers is found out by a connection. */
static int tcp_reach(struct btl *btl, int peer, struct error *err)
{
    (void)peer;
    return tcp_check_fork(btl, err);
}

static void tcp_peer_gone(struct btl *btl, int peer)
{
    struct link *at, *after;
    bool as_owner;

    if (btl->forked)
        return;
    regions_peer_gone(btl->regions, peer);
    pthread_mutex_lock(&btl->lock);
    list_for_each (at, after, &btl->all) {
        struct btl_connection *c = container_of(at, struct btl_connection, link);

        if (c->peer != peer)
            continue;
        as_owner = tcp_enter(c, BIASED_NEVER);
        (void)tcp_fail(c, -ECONNRESET, "this rank is gone");
        tcp_leave(c, as_owner);
    }
    pthread_mutex_unlock(&btl->lock);
}

static int tcp_progress_all(struct btl *btl)
{
    if (!btl->forked)
        progress_all(btl);
    return 0;
}

static void tcp_progress_round(struct btl *btl)
{
    if (!btl->forked)
        progress_round(btl);
}

extern const struct btl_ops btl_tcp_ops;
__attribute__((visibility("default"))) const struct btl_ops btl_tcp_ops = {
    .version = BTL_OPS_VERSION,
    .name = "tcp",
    .attributes = {.capabilities = BTL_TARGET_PROGRESS | BTL_ATOMICS_COHERENT,
                   .alignment = CACHE_LINE},
    .query = tcp_backend_query,
    .open = tcp_backend_open,
    .close = tcp_backend_close,
    .forked = tcp_forked,
    .reach = tcp_reach,
    .peer_gone = tcp_peer_gone,
    .alloc = tcp_alloc,
    .free = tcp_free,
    .share = tcp_share,
    .register_memory = tcp_register,
    .revoke = tcp_revoke,
    .attach = tcp_attach,
    .detach = tcp_detach,
    .connection_open = tcp_connection_open,
    .connection_connect = tcp_connection_connect,
    .connection_state = tcp_connection_state,
    .connection_close = tcp_connection_close,
    .connection_describe = tcp_connection_describe,
    .connection_counts = tcp_connection_counts,
    .connection_atomics = tcp_connection_atomics,
    .stream_open = tcp_stream_open,
    .stream_close = tcp_stream_close,
    .connection_join = tcp_connection_join,
    .write = tcp_connection_write,
    .get = tcp_connection_get,
    .atomic = tcp_connection_atomic,
    .hold = tcp_connection_hold,
    .flush = tcp_connection_flush,
    .position = tcp_connection_position,
    .progress = tcp_connection_progress,
    .progress_all = tcp_progress_all,
    .progress_round = tcp_progress_round,
};
