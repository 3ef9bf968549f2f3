/* SPDX-License-Identifier: BSD-3-Clause */
/* job_tcp_address.h: RPIPE_ROOT, the address at which rank 0 of the tcp bootstrap listens. */
#ifndef BOOTSTRAP_JOB_TCP_ADDRESS_H
#define BOOTSTRAP_JOB_TCP_ADDRESS_H

#include "bootstrap/job_tcp_wire.h"

#include <netdb.h>
#include <stdbool.h>

/* "host:port", "[address]:port" into j->host and j->port. False: malformed. */
bool tcp_split_root(const char *root, struct tcp_job *j);
/* 0; -EAGAIN: try again; -EHOSTUNREACH; with a message. */
int tcp_resolve(const struct tcp_job *j, struct addrinfo **list, struct error *err);

#endif
