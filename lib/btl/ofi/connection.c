/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.c: the libfabric backend as btl.h wants it: lines, memory, and the life of the whole.
 *
 * A line is a peer's address and counters: the endpoint is one for all. It is up as soon as it has the other end's address; the
 * provider connects, where it connects at all, with the first transfer, and refuses transfers until then.
 *
 * Memory that a device may still reach for: operations of a closed line stay as orphans until they complete, and pieces of
 * their peer that are freed meanwhile wait for that. Of a line that has failed nothing is known, so the peer's pieces
 * are kept to the end.
 */
#include "btl/ofi/ofi.h"

#include "util/clock.h"
#include "util/cpu.h"
#include "util/log.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

struct ofi_parting {
    struct link link;
    int peer;
    struct btl_memory memory;
};

static int ofi_connection_refuse_child(const struct btl *btl, struct error *err)
{
    if (!btl->forked)
        return 0;
    return error_set(err, -ENOTCONN, "this is the child of a fork: the endpoint is its parent's");
}

static int ofi_connection_ofi_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access,
                                    bool huge, struct btl_memory *memory, struct error *err)
{
    int rc = ofi_connection_refuse_child(btl, err);

    return rc != 0 ? rc : slab_alloc(btl->slabs, peer, bytes, access, huge, memory, err);
}

/* Whoever has the key reaches the memory: that the cells are meant for several peers is for the program to say. */
static int ofi_connection_ofi_share(struct btl *btl, int peer, const struct btl_memory *memory,
                                    struct btl_key *key, struct error *err)
{
    (void)btl;
    (void)peer;
    (void)err;
    *key = memory->key;
    return 0;
}

static int ofi_connection_ofi_register(struct btl *btl, int peer, void *base, size_t bytes,
                                       uint32_t access, struct btl_memory *memory,
                                       struct error *err)
{
    int rc = ofi_connection_refuse_child(btl, err);

    return rc != 0 ? rc : slab_register(btl->slabs, peer, base, bytes, access, memory, err);
}

static void ofi_connection_ofi_free(struct btl *btl, struct btl_memory *memory)
{
    struct ofi_parting *p;
    bool wait = false;

    if (memory->slab == NULL || btl->forked)
        return;
    ofi_lock(btl);
    if (ops_orphaned(btl, slab_peer(memory))) {
        p = malloc(sizeof(*p));
        if (p != NULL) {
            p->peer = slab_peer(memory);
            p->memory = *memory;
            list_append(&btl->parting, &p->link);
            atomic_fetch_add_explicit(&btl->partings, 1, memory_order_relaxed);
        } /* without: the piece stays with the pool until the end */
        wait = true;
    }
    ofi_unlock(btl);
    if (!wait)
        slab_free(btl->slabs, memory);
    memory->slab = NULL;
    memory->base = NULL;
}

void progress_part(struct btl *btl)
{
    struct link ready, *at, *after;

    if (atomic_load_explicit(&btl->partings, memory_order_relaxed) == 0)
        return; /* what comes this moment, the next look sees */
    list_init(&ready);
    ofi_lock(btl);
    list_for_each (at, after, &btl->parting) {
        if (ops_orphaned(btl, container_of(at, struct ofi_parting, link)->peer))
            continue;
        list_remove(at);
        list_append(&ready, at);
        atomic_fetch_sub_explicit(&btl->partings, 1, memory_order_relaxed);
    }
    ofi_unlock(btl);
    while (!list_empty(&ready)) {
        struct ofi_parting *p = container_of(ready.next, struct ofi_parting, link);

        list_remove(&p->link);
        slab_free(btl->slabs, &p->memory);
        free(p);
    }
}

static int ofi_connection_ofi_attach(struct btl *btl, int peer, const struct btl_key *key,
                                     size_t bytes, uint32_t access, struct btl_remote *remote,
                                     struct error *err)
{
    (void)access; /* the registration there knows it */
    if (key->word[KEY_BYTES] < bytes)
        return error_set(err, -EPROTO, "rank %d offers %llu bytes where %zu are needed", peer,
                         (unsigned long long)key->word[KEY_BYTES], bytes);
    remote->base = NULL;
    remote->bytes = key->word[KEY_BYTES];
    remote->mapping = btl;
    remote->key = *key;
    return 0;
}

static void ofi_connection_ofi_detach(struct btl *btl, struct btl_remote *remote)
{
    (void)btl;
    remote->mapping = NULL;
}

/* ---- lines ---- */

static int ofi_connection_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                               struct btl_connection **out, struct btl_address *address,
                               struct error *err)
{
    struct btl_connection *connection;
    int rc = ofi_connection_refuse_child(btl, err);

    (void)role; /* nobody dials: the endpoint is there */
    if (rc != 0)
        return rc;
    connection =
        aligned_alloc(CACHE_LINE, (sizeof(*connection) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (connection == NULL)
        return error_set(err, -ENOMEM, "no memory for another line");
    memset(connection, 0, sizeof(*connection));
    connection->btl = btl;
    connection->endpoint = &btl->rma;
    connection->peer = peer;
    connection->depth = depth > OFI_DEPTH ? depth : OFI_DEPTH;
    list_init(&connection->ops);
    list_init(&connection->stuck);
    ofi_lock(btl);
    btl->line_count++;
    rc = ops_reserve(btl, err);
    if (rc == 0) {
        connection->id = ++btl->last_line;
        list_append(&btl->lines, &connection->link);
    } else {
        btl->line_count--;
    }
    ofi_unlock(btl);
    if (rc != 0) {
        free(connection);
        return rc;
    }
    RPIPE_FAILPOINT("ofi: line open");
    *address = btl->rma.address;
    *out = connection;
    return 0;
}

static int ofi_connection_connect(struct btl_connection *connection,
                                  const struct btl_address *address, struct error *err)
{
    struct btl *btl = connection->btl;
    int rc = ofi_connection_refuse_child(btl, err);

    if (rc != 0)
        return rc;
    ofi_lock(btl);
    rc = fabric_peer(connection->endpoint, address, &connection->to, err);
    if (rc == 0 && connection->endpoint->broken) {
        error_note(err,
                   "provider %s has lost its completion queue: nothing goes through it any more",
                   connection->endpoint->provider);
        rc = -EIO;
    }
    if (rc == 0) {
        connection->far = *address;
        connection->connected = true;
    }
    ofi_unlock(btl);
    RPIPE_FAILPOINT("ofi: address of the other end known");
    return rc;
}

static int ofi_connection_state(struct btl_connection *connection, struct error *err)
{
    int rc = atomic_load_explicit(&connection->error,
                                  memory_order_acquire); /* pairs with ofi_connection_fail */

    if (rc != 0)
        error_note(err, "%s", connection->why);
    else if (!connection->connected)
        rc = -EAGAIN;
    return rc;
}

static void ofi_connection_close(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    bool keep;

    if (btl->forked)
        return;
    RPIPE_FAILPOINT("ofi: before a line is closed");
    ofi_lock(btl);
    transfer_abandon(connection);
    keep = atomic_load_explicit(&connection->error, memory_order_relaxed) != 0;
    list_remove(&connection->link);
    btl->line_count--;
    progress_posted(btl); /* orphans have to be seen to */
    ofi_unlock(btl);
    if (keep)
        slab_quarantine(btl->slabs, connection->peer);
    free(connection);
}

static void ofi_connection_describe(struct btl_connection *connection, char *text,
                                    size_t text_bytes)
{
    char near[128], far[128];

    ofi_lock(connection->btl);
    fabric_name(connection->endpoint, &connection->endpoint->address, near, sizeof(near));
    fabric_name(connection->endpoint, &connection->far, far, sizeof(far));
    ofi_unlock(connection->btl);
    snprintf(text, text_bytes, "%s %s to %s", connection->endpoint->provider, near,
             connection->connected ? far : "nobody yet");
}

static void ofi_connection_counts(struct btl_connection *connection, struct btl_counts *counts)
{
    ofi_lock(connection->btl);
    *counts = connection->counts;
    ofi_unlock(connection->btl);
}

static uint32_t ofi_connection_atomics(struct btl_connection *connection)
{
    return connection->endpoint->atomics;
}

/* ---- transfers: the lock around what transfer.c does ---- */

static int ofi_connection_refused_child(const struct btl_connection *connection)
{
    return connection->btl->forked ? -ENOTCONN : 0;
}

/* What has been accepted is carried on whether or not anybody calls again. */
static int ofi_connection_unlock_posted(struct btl *btl, int rc)
{
    progress_posted(btl);
    ofi_unlock(btl);
    return rc;
}

static int ofi_connection_ofi_write(struct btl_connection *connection,
                                    const struct btl_transfer *payload,
                                    const struct btl_transfer *slot)
{
    if (ofi_connection_refused_child(connection) != 0)
        return -ENOTCONN;
    ofi_lock(connection->btl);
    return ofi_connection_unlock_posted(connection->btl, transfer_write(connection, payload, slot));
}

static int ofi_connection_ofi_get(struct btl_connection *connection,
                                  const struct btl_transfer *transfer, struct btl_done *done)
{
    if (ofi_connection_refused_child(connection) != 0)
        return -ENOTCONN;
    ofi_lock(connection->btl);
    return ofi_connection_unlock_posted(connection->btl, transfer_get(connection, transfer, done));
}

static int ofi_connection_ofi_atomic(struct btl_connection *connection, int op,
                                     const struct btl_transfer *at, uint64_t operand,
                                     uint64_t compare, struct btl_done *done)
{
    if (ofi_connection_refused_child(connection) != 0)
        return -ENOTCONN;
    ofi_lock(connection->btl);
    return ofi_connection_unlock_posted(
        connection->btl, transfer_atomic(connection, op, at, operand, compare, done));
}

static int ofi_connection_ofi_flush(struct btl_connection *connection)
{
    int rc;

    if (ofi_connection_refused_child(connection) != 0)
        return -ENOTCONN;
    ofi_lock(connection->btl);
    rc = transfer_flush(connection);
    if (rc == -EAGAIN) {
        atomic_store_explicit(&connection->btl->driven_at, clock_now(), memory_order_relaxed);
        progress_drive(connection->btl);
    }
    return ofi_connection_unlock_posted(connection->btl, rc);
}

static int ofi_connection_ofi_progress_all(struct btl *btl)
{
    if (!btl->forked)
        progress_by_user(btl);
    return 0;
}

static int ofi_connection_ofi_progress(struct btl_connection *connection)
{
    if (ofi_connection_refused_child(connection) != 0)
        return -ENOTCONN;
    progress_by_user(connection->btl);
    return atomic_load_explicit(&connection->error, memory_order_relaxed);
}

/* ---- the backend ---- */

static int ofi_connection_ofi_open(const struct btl_host *host, struct btl **out, struct error *err)
{
    struct btl *btl = calloc(1, sizeof(*btl));
    int rc;

    if (btl == NULL)
        return error_set(err, -ENOMEM, "no memory");
    btl->host = *host;
    log_set_level((enum log_level)host->log_level);
    log_set_rank(host->rank);
    pthread_mutex_init(&btl->lock, NULL);
    list_init(&btl->lines);
    list_init(&btl->stuck);
    list_init(&btl->stuck_lines);
    list_init(&btl->spare);
    list_init(&btl->orphans);
    list_init(&btl->parting);
    rc = fabric_open(host, &btl->rma, err);
    if (rc != 0)
        goto no_endpoint;
    RPIPE_FAILPOINT("ofi: endpoint open");
    btl->rma.atomics = transfer_atomics(&btl->rma);
    rc = slab_pool_create(&memory_source, btl, &btl->slabs);
    if (rc == 0)
        rc = progress_start(btl);
    if (rc != 0) {
        error_note(err, "no memory, or no watch of the service thread: %s", strerror(-rc));
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

static void ofi_connection_ofi_close(struct btl *btl)
{
    if (btl->forked)
        return; /* what closing would say to peers, it would say in the parent's name */
    progress_stop(btl);
    while (!list_empty(&btl->lines))
        ofi_connection_close(container_of(btl->lines.next, struct btl_connection, link));
    while (!list_empty(&btl->parting)) {
        struct ofi_parting *p = container_of(btl->parting.next, struct ofi_parting, link);

        list_remove(&p->link);
        free(p); /* its piece goes with the pool */
    }
    fabric_close(&btl->rma);
    ops_release(btl);
    slab_pool_destroy(btl->slabs);
    fabric_close_domain(&btl->rma);
    pthread_mutex_destroy(&btl->lock);
    free(btl);
}

static void ofi_connection_ofi_forked(struct btl *btl)
{
    pthread_mutex_init(&btl->lock, NULL);
    slab_pool_forked(btl->slabs);
    btl->forked = true;
}

static int ofi_connection_ofi_reach(struct btl *btl, int peer, struct error *err)
{
    (void)peer;
    return ofi_connection_refuse_child(btl, err); /* whether it answers, the line will tell */
}

static void ofi_connection_ofi_peer_gone(struct btl *btl, int peer)
{
    if (btl->forked)
        return;
    ofi_lock(btl);
    transfer_peer_gone(btl, peer);
    ofi_unlock(btl);
}

extern const struct btl_ops btl_ofi_ops;
__attribute__((visibility("default"))) const struct btl_ops btl_ofi_ops = {
    .version = BTL_OPS_VERSION,
    .name = "ofi",
    .attributes = {.capabilities = BTL_TARGET_PROGRESS, .alignment = CACHE_LINE},
    .query = fabric_query,
    .open = ofi_connection_ofi_open,
    .close = ofi_connection_ofi_close,
    .forked = ofi_connection_ofi_forked,
    .reach = ofi_connection_ofi_reach,
    .peer_gone = ofi_connection_ofi_peer_gone,
    .alloc = ofi_connection_ofi_alloc,
    .free = ofi_connection_ofi_free,
    .share = ofi_connection_ofi_share,
    .register_memory = ofi_connection_ofi_register,
    .attach = ofi_connection_ofi_attach,
    .detach = ofi_connection_ofi_detach,
    .connection_open = ofi_connection_open,
    .connection_connect = ofi_connection_connect,
    .connection_state = ofi_connection_state,
    .connection_close = ofi_connection_close,
    .connection_describe = ofi_connection_describe,
    .connection_counts = ofi_connection_counts,
    .connection_atomics = ofi_connection_atomics,
    .write = ofi_connection_ofi_write,
    .get = ofi_connection_ofi_get,
    .atomic = ofi_connection_ofi_atomic,
    .flush = ofi_connection_ofi_flush,
    .progress = ofi_connection_ofi_progress,
    .progress_all = ofi_connection_ofi_progress_all,
};
