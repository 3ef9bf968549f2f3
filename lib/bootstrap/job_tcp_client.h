/* SPDX-License-Identifier: BSD-3-Clause */
/* job_tcp_client.h: the ranks of the tcp bootstrap but rank 0: each joins at rank 0, and gets
 * the cards of all. */
#ifndef BOOTSTRAP_JOB_TCP_CLIENT_H
#define BOOTSTRAP_JOB_TCP_CLIENT_H

#include "bootstrap/job_tcp_wire.h"

/* Sends this card; fills job->table, and leaves the connection in job->links[0]. 0 or -errno and
 * a message. */
int tcp_client_join(struct tcp_job *job, const void *card, size_t bytes, int64_t deadline,
                    struct error *err);

#endif
