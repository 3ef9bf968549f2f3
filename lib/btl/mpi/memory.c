/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c: see memory.h.
 *
 * MPI has no access rights: a rank that has the address of attached memory can read it and write to
 * it. The access that was asked for is in the key, so that two ends that disagree notice it.
 */
#include "btl/mpi/memory.h"

#include "btl/mpi/window.h"

#include <errno.h>
#include <stdlib.h>

/* ---- the source of slabs ---- */

static int memory_register_range(void *backend, struct slab_range *range, struct error *err)
{
    int code;

    (void)backend;
    if (range->access == BTL_LOCAL)
        return 0;
    if (atomic_load_explicit(&rma_window.gone, memory_order_relaxed))
        return error_set(err, -ENOTSUP, "MPI_Finalize has been called before rexit()");
    code = MPI_Win_attach(rma_window.window, range->base, (MPI_Aint)range->bytes);
    if (code != MPI_SUCCESS) {
        struct error cause = {""};

        (void)rma_window_failed("MPI_Win_attach", code, &cause);
        return error_set(err, -ENOSPC,
                         "%zu bytes cannot be attached to the window of MPI: %s (Open MPI: raise "
                         "osc_rdma_max_attach)",
                         range->bytes, cause.text);
    }
    range->registration = range->base;
    return 0;
}

static void memory_deregister(void *backend, struct slab_range *range)
{
    (void)backend;
    if (range->registration != NULL &&
        !atomic_load_explicit(&rma_window.gone, memory_order_relaxed))
        MPI_Win_detach(rma_window.window, range->base);
}

static void memory_key(void *backend, const struct slab_range *range, size_t offset, size_t bytes,
                       struct btl_key *key)
{
    MPI_Aint address;

    (void)backend;
    MPI_Get_address(range->base + offset, &address);
    key->word[KEY_ADDRESS] = (uint64_t)address;
    key->word[KEY_BYTES] = bytes;
    key->word[KEY_ACCESS] = range->access;
    key->word[KEY_JOB] = rma_window.job;
}

const struct slab_source rma_memory_source = {
    .register_range = memory_register_range,
    .deregister = memory_deregister,
    .key = memory_key,
};

/* ---- memory that is freed while a round runs ---- */

/* A round writes slots that the next one flushes: after two more rounds nothing accesses it. */
struct rma_deferred {
    struct link link;
    uint64_t after;
    struct btl_memory memory;
};

void rma_memory_free(struct btl *btl, struct btl_memory *memory)
{
    struct rma_deferred *d;
    bool wait;

    if (memory->slab == NULL)
        return;
    pthread_mutex_lock(&btl->lock);
    wait = btl->running;
    if (wait && (d = malloc(sizeof(*d))) != NULL) { /* else it stays in its slab until close */
        d->memory = *memory;
        d->after = btl->round + 2;
        list_append(&btl->deferred, &d->link);
    }
    pthread_mutex_unlock(&btl->lock);
    if (!wait)
        slab_free(btl->slabs, memory);
    memory->slab = NULL;
    memory->base = NULL;
}

void rma_memory_free_ready(struct btl *btl)
{
    struct link ready, *at, *after;

    list_init(&ready);
    pthread_mutex_lock(&btl->lock);
    list_for_each (at, after, &btl->deferred) {
        if (btl->running && container_of(at, struct rma_deferred, link)->after > btl->round)
            continue;
        list_remove(at);
        list_append(&ready, at);
    }
    pthread_mutex_unlock(&btl->lock);
    while (!list_empty(&ready)) {
        struct rma_deferred *d = container_of(ready.next, struct rma_deferred, link);

        list_remove(&d->link);
        slab_free(btl->slabs, &d->memory);
        free(d);
    }
}

void rma_memory_forget(struct btl *btl)
{
    while (!list_empty(&btl->deferred)) {
        struct rma_deferred *d = container_of(btl->deferred.next, struct rma_deferred, link);

        list_remove(&d->link);
        free(d);
    }
}
