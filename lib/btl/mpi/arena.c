/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arena.c: see arena.h.
 *
 * Invariants: the holes of an arena are in the order of their offsets, do not touch each other, and are zero. Everything
 * else is in use.
 */
#include "btl/mpi/arena.h"

#include "btl/mpi/window.h"

#include "util/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_LEAST ((size_t)4 << 20)
#define ARENA_MOST ((size_t)256 << 20) /* but for a slab that is larger */

struct rma_arena {
    struct link link; /* rma_arenas.all */
    struct link holes;
    char *base;
    size_t bytes;
};

struct rma_hole {
    struct link link;
    size_t offset, bytes;
};

int rma_arena_attach(void *base, size_t bytes, struct error *err)
{
    struct error cause = {""};
    int code;

    if (!rma_window_enter())
        return error_set(err, -ENOTSUP, "MPI_Finalize has been called before rexit()");
    code = MPI_Win_attach(rma_window.window, base, (MPI_Aint)bytes);
    rma_window_leave();
    if (code == MPI_SUCCESS)
        return 0;
    (void)rma_window_failed("MPI_Win_attach", code, &cause);
    return error_set(err, -ENOSPC,
                     "%zu bytes cannot be attached to the window of MPI: %s (Open MPI: raise "
                     "osc_rdma_max_attach)",
                     bytes, cause.text);
}

void rma_arena_detach(void *base)
{
    if (!rma_window_enter())
        return;
    MPI_Win_detach(rma_window.window, base);
    rma_window_leave();
}

void rma_arenas_init(struct rma_arenas *arenas)
{
    list_init(&arenas->all);
    arenas->next_bytes = ARENA_LEAST;
}

static struct rma_hole *arena_hole(size_t offset, size_t bytes, struct link *before)
{
    struct rma_hole *hole = malloc(sizeof(*hole));

    if (hole == NULL)
        return NULL;
    hole->offset = offset;
    hole->bytes = bytes;
    list_insert(before, &hole->link);
    return hole;
}

static void arena_release(struct rma_arena *a)
{
    while (!list_empty(&a->holes)) {
        struct rma_hole *hole = container_of(a->holes.next, struct rma_hole, link);

        list_remove(&hole->link);
        free(hole);
    }
    munmap(a->base, a->bytes);
    free(a);
}

static int arena_create(struct rma_arenas *arenas, size_t least, struct rma_arena **out,
                        struct error *err)
{
    size_t bytes = arenas->next_bytes > least ? arenas->next_bytes : least;
    struct rma_arena *a = calloc(1, sizeof(*a));
    int rc;

    if (a == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the metadata of an arena");
    list_init(&a->holes);
    a->bytes = bytes;
    a->base = map_aligned(bytes, PROT_READ | PROT_WRITE, MAP_NORESERVE);
    if (a->base == MAP_FAILED || arena_hole(0, bytes, &a->holes) == NULL) {
        if (a->base != MAP_FAILED)
            munmap(a->base, bytes);
        free(a);
        return error_set(err, -ENOMEM, "%zu bytes of memory cannot be mapped: %s", bytes,
                         strerror(errno));
    }
    rc = rma_arena_attach(a->base, bytes, err);
    if (rc != 0) {
        arena_release(a);
        return rc;
    }
    list_append(&arenas->all, &a->link);
    if (arenas->next_bytes < ARENA_MOST)
        arenas->next_bytes *= 2;
    *out = a;
    return 0;
}

/* What map_aligned() aligns so much to. */
static size_t arena_alignment(size_t bytes)
{
    size_t alignment = MAP_ALIGNMENT_MOST;

    while (alignment > bytes)
        alignment /= 2;
    return alignment;
}

/* The offset in the hole where the memory begins; SIZE_MAX: it does not fit. */
static size_t arena_fit(const struct rma_arena *a, const struct rma_hole *hole, size_t bytes)
{
    size_t alignment = arena_alignment(bytes), at = (size_t)(uintptr_t)a->base + hole->offset,
           skip = map_round_up(at, alignment) - at;

    return skip <= hole->bytes && bytes <= hole->bytes - skip ? skip : SIZE_MAX;
}

/* From the first hole that has the space; NULL: there is none, or no memory for metadata. */
static char *arena_take(struct rma_arena *a, size_t bytes)
{
    struct link *at, *after;

    list_for_each (at, after, &a->holes) {
        struct rma_hole *hole = container_of(at, struct rma_hole, link);
        size_t skip = arena_fit(a, hole, bytes), begin;

        if (skip == SIZE_MAX)
            continue;
        begin = hole->offset + skip;
        if (skip + bytes < hole->bytes &&
            arena_hole(begin + bytes, hole->bytes - skip - bytes, &hole->link) == NULL)
            return NULL;
        hole->bytes = skip;
        if (skip == 0) {
            list_remove(&hole->link);
            free(hole);
        }
        return a->base + begin;
    }
    return NULL;
}

int rma_arena_alloc(struct rma_arenas *arenas, size_t bytes, void **arena, char **base,
                    struct error *err)
{
    struct rma_arena *a = NULL;
    struct link *at, *after;
    char *found = NULL;
    int rc;

    list_for_each (at, after, &arenas->all) {
        a = container_of(at, struct rma_arena, link);
        found = arena_take(a, bytes);
        if (found != NULL)
            break;
    }
    if (found == NULL) {
        rc = arena_create(arenas, bytes, &a, err);
        if (rc != 0)
            return rc;
        found = arena_take(a, bytes);
        if (found == NULL)
            return error_set(err, -ENOMEM, "there is no memory for the metadata of an arena");
    }
    *arena = a;
    *base = found;
    return 0;
}

/* Joins the hole with the one behind it, if they touch. */
static void arena_join(const struct rma_arena *a, struct rma_hole *hole)
{
    struct rma_hole *next = container_of(hole->link.next, struct rma_hole, link);

    if (hole->link.next == &a->holes || hole->offset + hole->bytes != next->offset)
        return;
    hole->bytes += next->bytes;
    list_remove(&next->link);
    free(next);
}

void rma_arena_free(void *arena, char *base, size_t bytes)
{
    struct rma_arena *a = arena;
    size_t offset = (size_t)(base - a->base);
    struct link *before = &a->holes, *at, *after;
    struct rma_hole *hole;

    list_for_each (at, after, &a->holes) {
        if (container_of(at, struct rma_hole, link)->offset > offset)
            break;
        before = at;
    }
    hole = arena_hole(offset, bytes, before);
    if (hole == NULL)
        return; /* without memory for it, the space is lost */
    arena_join(a, hole);
    if (before != &a->holes)
        arena_join(a, container_of(before, struct rma_hole, link));
    hole = container_of(a->holes.next, struct rma_hole, link);
    if (hole->bytes == a->bytes) {
        list_remove(&a->link);
        rma_arena_detach(a->base);
        arena_release(a);
    } else {
        memset(base, 0, bytes); /* and not MADV_DONTNEED: a device may have registered the pages */
    }
}
