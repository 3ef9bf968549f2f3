/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_mpi.h: an MPI of one rank whose window promises what MPI 3.1 does and no more: a put or a get takes place in
 * MPI_Win_flush, reads its source then, and in any order with the others.
 */
#ifndef TEST_UNIT_FAKE_MPI_H
#define TEST_UNIT_FAKE_MPI_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

extern struct fake_mpi {
    int level;            /* that MPI was started with */
    int flush_fails;      /* the code of the next flush that has something to do; 0: it succeeds */
    int attached;         /* ranges */
    void (*placed)(void); /* NULL, or called after each put that has taken place */
    pthread_mutex_t gate; /* taken first by a flush: its holder stops the pump */
    _Atomic bool in_flush;
    uint64_t seed;
} fake_mpi;

#endif
