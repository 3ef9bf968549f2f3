/* SPDX-License-Identifier: BSD-3-Clause */
/* job_tcp_root.h: rank 0 of the tcp bootstrap: gathers the cards of all ranks, and sends each
 * the table. */
#ifndef BOOTSTRAP_JOB_TCP_ROOT_H
#define BOOTSTRAP_JOB_TCP_ROOT_H

#include "bootstrap/job_tcp_wire.h"

/* The listening socket, or -errno and a message. */
int tcp_root_listen(const struct tcp_job *job, int64_t deadline, struct error *err);
/* Fills job->table; the connections stay open, in job->links. 0 or -errno and a message. */
int tcp_root_gather(struct tcp_job *job, int listener, int64_t deadline, struct error *err);

#endif
