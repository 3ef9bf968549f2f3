/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h: memory that is attached to the window: slabs, and memory of the user.
 */
#ifndef BTL_MPI_MEMORY_H
#define BTL_MPI_MEMORY_H

#include "btl/mpi/rma.h"

extern const struct slab_source rma_memory_source;

/* As free of struct btl_ops: at once, or when the rounds that may access the memory are over. */
void rma_memory_free(struct btl *btl, struct btl_memory *memory);
/* The slabs that are waited for and that no round can access any more. Lock not held. */
void rma_memory_free_ready(struct btl *btl);
/* Forgets what is waited for: the pool is destroyed next. */
void rma_memory_forget(struct btl *btl);

#endif
