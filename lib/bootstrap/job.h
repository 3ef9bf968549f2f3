/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.h: the job that this process is in: rank, size, business cards, abort.
 *
 * Four bootstraps, chosen by the setting RPIPE_BOOTSTRAP, or in this order by the variables of the
 * environment: `pmix` (mpirun, prterun, srun --mpi=pmix; a module, so that the library does not
 * need libpmix), `tcp` (RPIPE_RANK, RPIPE_SIZE, RPIPE_ROOT, RPIPE_SECRET), `mpi` (in a program that
 * has called MPI_Init, or under a launcher of MPI without PMIx; a module for each kind of MPI),
 * `single`. A business card is an opaque blob of at most JOB_CARD_MAX bytes that one rank publishes
 * and any other can get.
 */
#ifndef BOOTSTRAP_JOB_H
#define BOOTSTRAP_JOB_H

#include "bootstrap/job_ops.h"
#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int job_open(int *rank, int *size, int64_t deadline, struct error *err);
int job_publish(const void *card, size_t bytes, int64_t deadline, struct error *err);
int job_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err);
_Noreturn void job_abort(int code);
void job_close(void);
int job_rank(void);
int job_size(void);
/* Ranks on this host; 0: unknown, but every card is here without waiting. */
int job_local_size(void);
int job_watch(void); /* see job_ops.watch; -1: nothing to watch */
void job_watched(void);
const char *job_name(void); /* "pmix", "tcp", "single", "mpi"; NULL before job_open */
/* The bootstrap, and the name of the job there: "pmix 4711@1", "tcp 127.0.0.1:7000". */
void job_label(char *text, size_t bytes);
/* For rmalloc_info: the bootstrap with this index, and the result of its query; -ENOENT after
 * the last. */
int job_describe(int index, const char **name, bool *usable, struct error *err);

#endif
