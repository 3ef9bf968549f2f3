/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backend.c: the backend mpi as struct btl_ops: memory, opening, closing, fork. Connections are in
 * connection.c.
 */
#include "btl/remote.h"
#include "btl/mpi/connection.h"
#include "btl/mpi/memory.h"
#include "btl/mpi/operation.h"
#include "btl/mpi/pump.h"
#include "btl/mpi/rma.h"
#include "btl/mpi/window.h"

#include "util/cpu.h"
#include "util/failpoint.h"
#include "util/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef OPEN_MPI
#define OWN_OPS btl_openmpi_ops
#else
#define OWN_OPS btl_mpich_ops
#endif

/* ---- memory ---- */

static int rma_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
                     struct btl_memory *memory, struct error *err)
{
    int rc = rma_check_fork(btl, err);

    return rc != 0 ? rc : slab_alloc(btl->slabs, peer, bytes, access, huge, memory, err);
}

static void rma_free(struct btl *btl, struct btl_memory *memory)
{
    if (!btl->forked)
        rma_memory_free(btl, memory);
}

/* Any rank that has the address can access the memory. The program decides which peers share cells. */
static int rma_share(struct btl *btl, int peer, const struct btl_memory *memory,
                     struct btl_key *key, struct error *err)
{
    (void)btl, (void)peer, (void)err;
    *key = memory->key;
    return 0;
}

static int rma_register(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access,
                        struct btl_memory *memory, struct error *err)
{
    int rc = rma_check_fork(btl, err);

    return rc != 0 ? rc : slab_register(btl->slabs, peer, base, bytes, access, memory, err);
}

static int rma_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                      uint32_t access, struct btl_remote *remote, struct error *err)
{
    int rc;

    if (key->word[KEY_JOB] != rma_window.job)
        return error_set(err, -EPROTO, "rank %d offers memory of another window", peer);
    rc = btl_key_check_access(peer, key->word[KEY_ACCESS], access, err);
    return rc != 0 ? rc
                   : btl_key_attach(btl, peer, key, key->word[KEY_ADDRESS], key->word[KEY_BYTES],
                                    bytes, remote, err);
}

static void rma_detach(struct btl *btl, struct btl_remote *remote)
{
    (void)btl;
    remote->mapping = NULL;
}

/* ---- opening and closing ---- */

/*
 * MPI is being finalized while the job is open. MPICH holds its lock meanwhile; so the pump may wait for it, and
 * then MPICH aborts.
 */
static void rma_finalized(void *argument)
{
    struct btl *btl = argument;
    struct link *at, *after;

    log_error("mpi: MPI_Finalize has been called before rexit(): all pipes over MPI fail, and MPI "
              "may abort");
    btl->stuck = rma_pump_stop(btl) != 0;
    if (btl->stuck)
        rma_window_stuck();
    pthread_mutex_lock(&btl->lock);
    list_for_each (at, after, &btl->connections)
        rma_operation_fail_connection(container_of(at, struct btl_connection, link), -EIO,
                                      "MPI_Finalize has been called before rexit()");
    pthread_mutex_unlock(&btl->lock);
}

static int rma_open(const struct btl_host *host, struct btl **out, struct error *err)
{
    struct btl *btl = calloc(1, sizeof(*btl));
    int rc;

    if (btl == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the backend");
    btl->host = *host;
    btl->in_call = strcmp(host->setting("RPIPE_MPI_FLUSH"), "inline") == 0;
    log_set_level((enum log_level)host->log_level);
    log_set_rank(host->rank);
    pthread_mutex_init(&btl->lock, NULL);
    list_init(&btl->connections);
    list_init(&btl->queue);
    list_init(&btl->deferred);
    rma_arenas_init(&btl->arenas);
    rc = rma_window_open(host, err);
    if (rc != 0)
        goto no_window;
    RPIPE_FAILPOINT("mpi: window open");
    rc = slab_pool_create(&rma_memory_source, btl, &btl->slabs);
    if (rc != 0) {
        error_note(err, "there is no memory for the backend");
        goto no_window;
    }
    rc = rma_pump_start(btl);
    if (rc != 0) {
        error_note(err, "a thread cannot be started: %s", strerror(-rc));
        goto no_thread;
    }
    rma_window_used(rma_finalized, btl);
    *out = btl;
    return 0;
no_thread:
    slab_pool_destroy(btl->slabs);
no_window:
    pthread_mutex_destroy(&btl->lock);
    free(btl);
    return rc;
}

/* A thread that is in a call of MPI that does not return keeps everything: MPI may still access it. */
static void rma_close(struct btl *btl)
{
    if (btl->forked)
        return;
    rma_window_close();
    if (!atomic_load_explicit(&rma_window.gone, memory_order_relaxed))
        btl->stuck = rma_pump_stop(btl) != 0;
    if (btl->stuck) {
        log_warn("mpi: MPI_Win_flush does not return: has a rank died? MPI is left as it is");
        rma_window_stuck();
        return;
    }
    while (!list_empty(&btl->connections))
        rma_connection_close(container_of(btl->connections.next, struct btl_connection, link));
    rma_memory_forget(btl);
    slab_pool_destroy(btl->slabs);
    pthread_cond_destroy(&btl->work);
    pthread_mutex_destroy(&btl->lock);
    free(btl);
}

static void rma_forked(struct btl *btl)
{
    pthread_mutex_init(&btl->lock, NULL);
    slab_pool_forked(btl->slabs);
    btl->forked = true;
}

static int rma_reach(struct btl *btl, int peer, struct error *err)
{
    int rc = rma_check_fork(btl, err);

    if (rc == 0 && peer >= rma_window.size)
        rc = error_set(err, -ENOTSUP, "MPI_COMM_WORLD has %d ranks", rma_window.size);
    return rc;
}

static void rma_peer_gone(struct btl *btl, int peer)
{
    struct link *at, *after;

    if (btl->forked)
        return;
    pthread_mutex_lock(&btl->lock);
    list_for_each (at, after, &btl->connections) {
        struct btl_connection *c = container_of(at, struct btl_connection, link);

        if (c->peer == peer)
            rma_operation_fail_connection(c, -ECONNRESET, "this rank is gone");
    }
    pthread_mutex_unlock(&btl->lock);
}

static int rma_progress_all(struct btl *btl)
{
    if (!btl->forked)
        rma_window_progress();
    return 0;
}

extern const struct btl_ops OWN_OPS;
__attribute__((visibility("default"))) const struct btl_ops OWN_OPS = {
    .version = BTL_OPS_VERSION,
    .name = "mpi",
    .attributes = {.capabilities = BTL_TARGET_PROGRESS, .alignment = CACHE_LINE},
    .query = rma_window_query,
    .open = rma_open,
    .close = rma_close,
    .forked = rma_forked,
    .reach = rma_reach,
    .peer_gone = rma_peer_gone,
    .alloc = rma_alloc,
    .free = rma_free,
    .share = rma_share,
    .register_memory = rma_register,
    .attach = rma_attach,
    .detach = rma_detach,
    .connection_open = rma_connection_open,
    .connection_connect = rma_connection_connect,
    .connection_state = rma_connection_state,
    .connection_close = rma_connection_close,
    .connection_describe = rma_connection_describe,
    .connection_counts = rma_connection_counts,
    .connection_atomics = rma_connection_atomics,
    .write = rma_connection_write,
    .get = rma_connection_get,
    .atomic = rma_connection_atomic,
    .flush = rma_connection_flush,
    .progress = rma_connection_progress,
    .progress_all = rma_progress_all,
};
