/* SPDX-License-Identifier: BSD-3-Clause */
/* job_methods.h: the ways into a job that are linked into the library; pmix is a module. */
#ifndef BOOTSTRAP_JOB_METHODS_H
#define BOOTSTRAP_JOB_METHODS_H

#include "bootstrap/job.h"

extern const struct job_ops job_single_ops;
extern const struct job_ops job_tcp_ops;

#endif
