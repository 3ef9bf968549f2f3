/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_library.h: which MPI a job can be taken from: the one in this process, or that of the launcher.
 *
 * Implementations of MPI have different handles and constants, so there is a module for each kind
 * (job_openmpi, job_mpich; MPICH, Intel MPI and MVAPICH are one kind, with one ABI), and a process can
 * have one of them only. Nothing here starts MPI.
 */
#ifndef BOOTSTRAP_MPI_LIBRARY_H
#define BOOTSTRAP_MPI_LIBRARY_H

#include "util/error.h"

#include <stdbool.h>

struct mpi_library {
    const char *module; /* "job_openmpi", "job_mpich"; NULL: no MPI, or one without a module */
    bool present;       /* a library of MPI is in this process; otherwise the launcher was asked */
    bool started;       /* it runs: MPI_Init has been called, and MPI_Finalize has not */
};

/* 0, or -ENOTSUP: there are two libraries of MPI in this process, which err names. */
int mpi_library_find(struct mpi_library *found, struct error *err);

#endif
