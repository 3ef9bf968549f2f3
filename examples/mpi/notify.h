/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notify.h: how a one-sided MPI program notifies its peer of new data.
 *
 * A box is a part of every process's window: a flag with a cache line of its own, followed by data.
 * By flags, the default: the writer puts the data, flushes, puts the flag, flushes; the reader
 * polls the flag in its own memory, with MPI_Win_sync as the standard requires. With more processes
 * than processors, or if Open MPI is set to do so (mpi_yield_when_idle), a poll yields the
 * processor now and then, as Open MPI's own waits do.
 *
 * Programs that exchange in phases can do it in the other ways of MPI. By locks: the same flag, but
 * each put is an epoch of its own with an exclusive lock. By fences, and by post, start, complete
 * and wait (pscw): the end of an epoch is the notification, and there is no flag. Each phase is
 * notify_begin, notify_put for each peer, notify_end, notify_arrive, and then notify_await for each
 * box; a box must not be used in two phases that follow each other.
 */
#ifndef EXAMPLES_MPI_NOTIFY_H
#define EXAMPLES_MPI_NOTIFY_H

#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTIFY_LINE 64

enum notify_by { NOTIFY_FLAG = 0, NOTIFY_LOCK, NOTIFY_FENCE, NOTIFY_PSCW };

struct notify {
    MPI_Win win;
    char *base;
    size_t box_bytes;
    bool crowded; /* more processes than processors */
    enum notify_by by;
    MPI_Group peers; /* NOTIFY_PSCW */
};

static inline void notify_yield(bool crowded, unsigned *tries)
{
    if (crowded && (++*tries & 63) == 0)
        sched_yield();
}

/* MPICH grants a lock of its window only while the target is in a call. */
static inline void notify_progress(void)
{
#ifdef MPICH_VERSION
    int there;

    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
#endif
}

static inline bool notify_crowded(int ranks)
{
    const char *told = getenv("OMPI_MCA_mpi_yield_when_idle");

    return ranks > sysconf(_SC_NPROCESSORS_ONLN) || (told != NULL && strcmp(told, "1") == 0);
}

/* Collective: so many boxes for so many bytes of data in every process, all zeros. peers: those that put here, and get what is put. */
static inline void notify_create_by(struct notify *n, enum notify_by by, int boxes,
                                    size_t data_bytes, const int *peers, int npeers)
{
    MPI_Group all;
    MPI_Aint bytes;
    int ranks;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    n->by = by;
    n->crowded = notify_crowded(ranks);
    n->box_bytes = NOTIFY_LINE + (data_bytes + NOTIFY_LINE - 1) / NOTIFY_LINE * NOTIFY_LINE;
    bytes = (MPI_Aint)n->box_bytes * boxes;
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &n->base, &n->win);
    memset(n->base, 0, (size_t)bytes);
    if (by == NOTIFY_FLAG) {
        MPI_Win_lock_all(MPI_MODE_NOCHECK, n->win);
        MPI_Win_sync(n->win);
    } else if (by == NOTIFY_FENCE) {
        MPI_Win_fence(0, n->win);
    } else if (by == NOTIFY_PSCW) {
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, npeers, peers, &n->peers);
        MPI_Group_free(&all);
        MPI_Win_post(n->peers, 0, n->win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static inline void notify_create(struct notify *n, int boxes, size_t data_bytes)
{
    notify_create_by(n, NOTIFY_FLAG, boxes, data_bytes, NULL, 0);
}

static inline void notify_begin(struct notify *n)
{
    if (n->by == NOTIFY_PSCW)
        MPI_Win_start(n->peers, 0, n->win);
}

static inline void notify_end(struct notify *n)
{
    if (n->by == NOTIFY_PSCW)
        MPI_Win_complete(n->win);
}

/* The peers' data of this phase are here; or notify_await waits for them, by flag. */
static inline void notify_arrive(struct notify *n)
{
    if (n->by == NOTIFY_FENCE) {
        MPI_Win_fence(0, n->win);
    } else if (n->by == NOTIFY_PSCW) {
        MPI_Win_wait(n->win);
        MPI_Win_post(n->peers, 0, n->win); /* for the other boxes */
    }
}

/* Collective. */
static inline void notify_destroy(struct notify *n)
{
    if (n->by == NOTIFY_FLAG) {
        MPI_Win_unlock_all(n->win);
    } else if (n->by == NOTIFY_FENCE) {
        MPI_Win_fence(MPI_MODE_NOSUCCEED, n->win);
    } else if (n->by == NOTIFY_PSCW) { /* an epoch without data, for the last post */
        MPI_Win_start(n->peers, 0, n->win);
        MPI_Win_complete(n->win);
        MPI_Win_wait(n->win);
        MPI_Group_free(&n->peers);
    }
    MPI_Win_free(&n->win);
}

/* The flag alone: something that was in the box is taken, or may be. By flags. */
static inline void notify_flag(struct notify *n, int to, int box, uint64_t flag)
{
    MPI_Put(&flag, 1, MPI_UINT64_T, to, (MPI_Aint)(n->box_bytes * (size_t)box), 1, MPI_UINT64_T,
            n->win);
    MPI_Win_flush(to, n->win);
}

static inline void notify_put(struct notify *n, int to, int box, const void *data, size_t bytes,
                              uint64_t flag)
{
    if (n->by == NOTIFY_LOCK)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, n->win);
    MPI_Put(data, (int)bytes, MPI_BYTE, to, (MPI_Aint)(n->box_bytes * (size_t)box + NOTIFY_LINE),
            (int)bytes, MPI_BYTE, n->win);
    if (n->by == NOTIFY_FENCE || n->by == NOTIFY_PSCW)
        return;
    MPI_Win_flush(to, n->win);
    notify_flag(n, to, box, flag);
    if (n->by == NOTIFY_LOCK)
        MPI_Win_unlock(to, n->win);
}

static inline void *notify_data(const struct notify *n, int box)
{
    return n->base + n->box_bytes * (size_t)box + NOTIFY_LINE;
}

/* The flag of one's own box, as it is now. */
static inline uint64_t notify_test(struct notify *n, int box)
{
    uint64_t flag = __atomic_load_n((uint64_t *)(void *)(n->base + n->box_bytes * (size_t)box),
                                    __ATOMIC_ACQUIRE);

    if (n->by == NOTIFY_FLAG)
        MPI_Win_sync(n->win);
    return flag;
}

/* Waits until the flag of one's own box has reached this value. */
static inline void notify_await(struct notify *n, int box, uint64_t flag)
{
    unsigned tries = 0;

    if (n->by == NOTIFY_FENCE || n->by == NOTIFY_PSCW)
        return;
    while (notify_test(n, box) < flag) {
        notify_progress();
        notify_yield(n->crowded, &tries);
    }
}

#endif
