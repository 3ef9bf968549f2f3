/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c: see memory.h.
 *
 * MPI has no access rights: a rank that has the address of attached memory can read it and write to
 * it. The access that was asked for is in the key, so that two ends that disagree notice it.
 */
#include "btl/mpi/memory.h"

#include "btl/mpi/window.h"

#include "util/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the source of slabs ---- */

/* Local memory needs no window. */
static int memory_map(void *backend, struct slab_range *range, struct error *err)
{
    struct btl *btl = backend;
    void *local;

    range->bytes = map_round_up(range->bytes, (size_t)sysconf(_SC_PAGESIZE));
    if (range->access != BTL_LOCAL)
        return rma_arena_alloc(&btl->arenas, range->bytes, &range->registration, &range->base, err);
    local = map_aligned(range->bytes, PROT_READ | PROT_WRITE, 0);
    if (local == MAP_FAILED)
        return error_set(err, -ENOMEM, "%zu bytes of memory cannot be mapped: %s", range->bytes,
                         strerror(errno));
    range->base = local;
    return 0;
}

static void memory_unmap(void *backend, struct slab_range *range)
{
    (void)backend;
    if (range->access != BTL_LOCAL)
        rma_arena_free(range->registration, range->base, range->bytes);
    else
        munmap(range->base, range->bytes);
}

/* A slab has been attached with its arena. */
static int memory_register_range(void *backend, struct slab_range *range, struct error *err)
{
    int rc;

    (void)backend;
    if (range->access == BTL_LOCAL || range->registration != NULL)
        return 0;
    rc = rma_arena_attach(range->base, range->bytes, err);
    if (rc == 0)
        range->registration = range->base;
    return rc;
}

/* Only memory of the user is its own registration. */
static void memory_deregister(void *backend, struct slab_range *range)
{
    (void)backend;
    if (range->access != BTL_LOCAL && range->registration == range->base)
        rma_arena_detach(range->base);
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
    .map = memory_map,
    .unmap = memory_unmap,
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
