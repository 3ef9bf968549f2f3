/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arena.h: memory for slabs, in few large ranges that are attached to the window once.
 *
 * Open MPI attaches at most 64 ranges to a window (osc_rdma_max_attach), and searches the range of a transfer among them. A job
 * with many pipes has more slabs than that. Each arena is twice as large as the one before, up to ARENA_MOST. One that
 * is not used any more is detached and unmapped.
 *
 * The calls are made with the lock of the slab pool held.
 */
#ifndef BTL_MPI_ARENA_H
#define BTL_MPI_ARENA_H

#include "util/error.h"
#include "util/list.h"

#include <stddef.h>

struct rma_arenas {
    struct link all;
    size_t next_bytes; /* of the next arena; 0: the least */
};

void rma_arenas_init(struct rma_arenas *arenas);
/*
 * Zeroed memory of whole pages, aligned as that of map_aligned(); *arena is what rma_arena_free is
 * called with. 0, or -ENOMEM or -ENOSPC and the reason.
 */
int rma_arena_alloc(struct rma_arenas *arenas, size_t bytes, void **arena, char **base,
                    struct error *err);
void rma_arena_free(void *arena, char *base, size_t bytes);

/* Attaches memory to the window: 0, or -ENOSPC or -ENOTSUP and the reason. */
int rma_arena_attach(void *base, size_t bytes, struct error *err);
void rma_arena_detach(void *base);

#endif
