/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.h: who is in the job. Stage 1 of the bootstrap: rank, size, business cards, abort.
 *
 * Three ways, chosen by the setting RPIPE_BOOTSTRAP, or in this order by what the environment shows: `pmix` (mpirun,
 * prterun, srun --mpi=pmix; a module, so that the library does not need libpmix), `tcp` (RPIPE_RANK, RPIPE_SIZE, RPIPE_ROOT,
 * RPIPE_SECRET), `single`. A business card is an opaque blob of at most JOB_CARD_MAX bytes that one rank publishes and any
 * other can ask for.
 */
#ifndef BOOTSTRAP_JOB_H
#define BOOTSTRAP_JOB_H

#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOB_CARD_MAX 512
#define JOB_OPS_VERSION 1

struct job; /* one per process */

/* What a way into a job implements; the module `pmix` exports it as `job_pmix_ops`. */
struct job_ops {
    uint32_t version; /* JOB_OPS_VERSION */
    const char *name;
    /* Could it work here? 0, or a negative errno; either way one line that says why. No side effects. */
    int (*query)(struct error *err);
    /* Joins the job. A failure is a sentence in `why`. Waits for the others at most until the deadline. */
    int (*open)(int *rank, int *size, int64_t deadline, struct error *err);
    /* Publishes the own card and waits until every rank has (or, where it is cheap, until cards can be asked for). */
    int (*publish)(const void *card, size_t bytes, int64_t deadline, struct error *err);
    /* A copy of the card of `rank`. Callable from any thread after publish. */
    int (*card)(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err);
    void (*abort)(int code) __attribute__((noreturn)); /* ends every process of the job */
    void (*close)(void);                               /* local: does not wait for anybody */
    /* Ranks on this host, this one included. NULL: every card is at hand, count them. */
    int (*local_size)(void);
    /* A descriptor for the service thread to watch, -1 for none, and what to do when it is readable. May be NULL. */
    int (*watch)(void);
    void (*watched)(void);
};

int job_open(int *rank, int *size, int64_t deadline, struct error *err);
int job_publish(const void *card, size_t bytes, int64_t deadline, struct error *err);
int job_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err);
_Noreturn void job_abort(int code);
void job_close(void);
int job_rank(void);
int job_size(void);
int job_local_size(
    void);           /* ranks on this host; 0: unknown, but every card is at hand without waiting */
int job_watch(void); /* see job_ops.watch; -1: nothing to watch */
void job_watched(void);
const char *job_name(void); /* "pmix", "tcp", "single"; NULL before job_open */
/* For rmalloc_info: the index-th way, what job_ops.query says of it; -ENOENT after the last. */
int job_describe(int index, const char **name, bool *usable, struct error *err);

#endif
