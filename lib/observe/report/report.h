/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.h: what a process reports when it leaves its job: counters (RPIPE_STATS) and the trace (RPIPE_TRACE).
 *
 * Reporting is above everything that records; rpipe/job starts and finishes it.
 */
#ifndef OBSERVE_REPORT_REPORT_H
#define OBSERVE_REPORT_REPORT_H

void report_start(void);                 /* rinit: from now on ends are kept when they are closed */
void report_finish(int rank, int ranks); /* rexit, when recording is over */

#endif
