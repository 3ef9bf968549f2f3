/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notify.h: how a one-sided MPI program notifies its peer of new data.
 *
 * A box is a part of every process's window: a flag with a cache line of its own, followed by data.
 * The writer puts the data, flushes, puts the flag, flushes; the reader polls the flag in its own
 * memory, with MPI_Win_sync as the standard requires. With more processes than processors, or if
 * Open MPI is set to do so (mpi_yield_when_idle), a poll yields the processor now and then, as Open
 * MPI's own waits do.
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

struct notify {
    MPI_Win win;
    char *base;
    size_t box_bytes;
    bool crowded; /* more processes than processors */
};

static inline void notify_yield(bool crowded, unsigned *tries)
{
    if (crowded && (++*tries & 63) == 0)
        sched_yield();
}

static inline bool notify_crowded(int ranks)
{
    const char *told = getenv("OMPI_MCA_mpi_yield_when_idle");

    return ranks > sysconf(_SC_NPROCESSORS_ONLN) || (told != NULL && strcmp(told, "1") == 0);
}

/* Collective: so many boxes for so many bytes of data in every process, all zeros. */
static inline void notify_create(struct notify *n, int boxes, size_t data_bytes)
{
    MPI_Aint bytes;
    int ranks;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    n->crowded = notify_crowded(ranks);
    n->box_bytes = NOTIFY_LINE + (data_bytes + NOTIFY_LINE - 1) / NOTIFY_LINE * NOTIFY_LINE;
    bytes = (MPI_Aint)n->box_bytes * boxes;
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &n->base, &n->win);
    memset(n->base, 0, (size_t)bytes);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, n->win);
    MPI_Win_sync(n->win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static inline void notify_destroy(struct notify *n)
{
    MPI_Win_unlock_all(n->win);
    MPI_Win_free(&n->win);
}

/* The flag alone: something that was in the box is taken, or may be. */
static inline void notify_flag(struct notify *n, int to, int box, uint64_t flag)
{
    MPI_Put(&flag, 1, MPI_UINT64_T, to, (MPI_Aint)(n->box_bytes * (size_t)box), 1, MPI_UINT64_T,
            n->win);
    MPI_Win_flush(to, n->win);
}

static inline void notify_put(struct notify *n, int to, int box, const void *data, size_t bytes,
                              uint64_t flag)
{
    MPI_Put(data, (int)bytes, MPI_BYTE, to, (MPI_Aint)(n->box_bytes * (size_t)box + NOTIFY_LINE),
            (int)bytes, MPI_BYTE, n->win);
    MPI_Win_flush(to, n->win);
    notify_flag(n, to, box, flag);
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

    MPI_Win_sync(n->win);
    return flag;
}

/* Waits until the flag of one's own box has reached this value. */
static inline void notify_await(struct notify *n, int box, uint64_t flag)
{
    unsigned tries = 0;

    while (notify_test(n, box) < flag)
        notify_yield(n->crowded, &tries);
}

#endif
