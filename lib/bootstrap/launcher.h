/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launcher.h: whether a launcher without PMIx started this process as one of several. Such a
 * process finds no job, and each would be a job of one rank.
 */
#ifndef BOOTSTRAP_LAUNCHER_H
#define BOOTSTRAP_LAUNCHER_H

#include "util/error.h"

#include <stdbool.h>

/* True: it did, and err has one line that describes what to type. *first: this process is the first
 * of them, the one that logs it. */
bool launcher_without_pmix(bool *first, struct error *err);
/* The module for the MPI of the launcher that started this process as one of several; NULL: none, or
 * it is Slurm, which has variables of PMI without being of one MPI. */
const char *launcher_mpi_module(void);

#endif
