/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.h: what RPIPE_STATS asks for: the counters of a process, and of every channel that it has had, told when it leaves the job.
 */
#ifndef OBSERVE_REPORT_REPORT_H
#define OBSERVE_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>

struct rch;

void report_keep(struct rch *ch); /* closed: it is part of the report. Store lock held */
void report_print(int rank, int ranks);

/* The name of a file for this process: %p, %r, %% in `pattern`; without any of these in a job of several, ".RANK" is appended. */
bool report_file_name(const char *pattern, int rank, int ranks, char *name, size_t name_bytes);

#endif
