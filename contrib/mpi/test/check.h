/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.h: assertions of the tests of the subset. They include mpi.h alone, so that they are programs of MPI: what they assert is
 * confirmed by building and running them with another MPI (contrib/mpi/README.md).
 */
#ifndef RMPI_TEST_CHECK_H
#define RMPI_TEST_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_rank, check_size;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: rank %d of %d: not true: %s\n", __FILE__, __LINE__,            \
                    check_rank, check_size, #condition);                                           \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

static inline void check_begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
}

static inline int check_end(const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        printf("%s: passed with %d processes\n", name, check_size);
    MPI_Finalize();
    return 0;
}

/* A generator that all members run alike. */
static inline unsigned check_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

#endif
