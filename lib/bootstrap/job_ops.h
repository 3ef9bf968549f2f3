/* SPDX-License-Identifier: BSD-3-Clause */
/* job_ops.h: what a bootstrap implements, and those that are linked into the library; pmix is a
 * module. */
#ifndef BOOTSTRAP_JOB_OPS_H
#define BOOTSTRAP_JOB_OPS_H

#include "util/error.h"

#include <stddef.h>
#include <stdint.h>

#define JOB_CARD_MAX 1024
#define JOB_OPS_VERSION 2

/* What a bootstrap implements; the module `pmix` exports it as `job_pmix_ops`. */
struct job_ops {
    uint32_t version; /* JOB_OPS_VERSION */
    const char *name;
    /* Whether it can work here: 0, or a negative errno; in both cases with a message of one
     * line. No side effects. */
    int (*query)(struct error *err);
    /* Joins the job. Waits for the other processes at most until the deadline. */
    int (*open)(int *rank, int *size, int64_t deadline, struct error *err);
    /* Publishes the own card and waits until every rank has published its card, or until cards
     * can be requested. */
    int (*publish)(const void *card, size_t bytes, int64_t deadline, struct error *err);
    /* A copy of the card of `rank`. Callable from any thread after publish. */
    int (*card)(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err);
    void (*abort)(int code) __attribute__((noreturn)); /* ends every process of the job */
    void (*close)(void);                               /* local: waits for no other process */
    /* Ranks on this host, this one included. NULL: every card is here, the caller counts them. */
    int (*local_size)(void);
    /* A descriptor for the service thread to watch, -1 for none, and what to do when it is
     * readable. May be NULL. */
    int (*watch)(void);
    void (*watched)(void);
};

extern const struct job_ops job_single_ops;
extern const struct job_ops job_tcp_ops;

#endif
