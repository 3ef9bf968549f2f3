/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h: zeroed memory for the MPI twins, or the end of the job. */
#ifndef EXAMPLES_MPI_MEMORY_H
#define EXAMPLES_MPI_MEMORY_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static inline void *memory(size_t count, size_t bytes)
{
    void *mem = calloc(count > 0 ? count : 1, bytes);

    if (mem == NULL) {
        fprintf(stderr, "no memory for %zu elements of %zu bytes\n", count, bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return mem;
}

#endif
