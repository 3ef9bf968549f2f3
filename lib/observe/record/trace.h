/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h: RPIPE_TRACE: records when each call began and ended.
 *
 *     uint32_t row = trace_begin_row(ch->trace, TRACE_WRITE);
 *     ... the call ...
 *     trace_end(row, number, bytes, rc);
 *
 * An end that is traced has a row and a state flag that sends all its calls to the slow path; the fast paths do not depend on
 * it. On a slow path that is not traced, trace_begin_row tests one word of the end. Each thread records into its own ring of
 * fixed size: no lock, no malloc, and no system call but for the clock, once it has a ring. Rings are in a file, FILE.raw,
 * which survives any end of the process; observe/report makes JSON of it in rexit or later (rmalloc_trace(1)).
 *
 * A record is written when a call ends. Calls that have not ended are listed in the ring, so the last thing that a process did
 * is known too.
 */
#ifndef OBSERVE_RECORD_TRACE_H
#define OBSERVE_RECORD_TRACE_H

#include "observe/record/publish.h"
#include "observe/record/trace_file.h"
#include "util/cpu.h"

#include <stdbool.h>

extern bool trace_on; /* between trace_start and trace_stop */

/* Creates the file if RPIPE_TRACE is set. A failure is logged; the job continues without a trace. */
void trace_start(int rank, int ranks);

/* The file that trace_stop leaves behind. */
struct trace_output {
    int fd;               /* of the records; the caller closes it */
    const char *name;     /* where the trace is expected */
    const char *raw_name; /* where the records are */
};
bool trace_stop(struct trace_output *output); /* false: there was no trace */
void trace_forked(void);                      /* in the child of a fork */

void trace_clock_name(char *name, size_t bytes); /* of the clock of this process; "": unknown */
void trace_sample(const struct trace_sample *sample); /* of the clock of rank 0 */
/* A row for a new end: one that was not used yet, or that of the end which was closed first. 0: the end is not traced. */
uint32_t trace_row(void);
void trace_row_release(uint32_t row);                               /* the end is closed */
void trace_describe(uint32_t row, const struct published_end *end); /* names the end of a row */
void trace_set_incarnation(uint32_t row, uint32_t incarnation);     /* the larger one counts */

void trace_begin_call(uint32_t row, enum trace_kind kind);
void trace_end_call(uint64_t number, uint64_t bytes, int rc);
void trace_end_text(const char *text, int rc);
/* Records a call that had no row yet when it began. */
void trace_past(uint32_t row, enum trace_kind kind, int64_t begin);
/* Records an instant. */
void trace_moment(uint32_t row, enum trace_kind kind, uint64_t number, uint64_t bytes, int code);

/* Returns the row for the end of the call, since the end may be gone then. */
static inline uint32_t trace_begin_row(uint32_t row, enum trace_kind kind)
{
    if (UNLIKELY(row != 0))
        trace_begin_call(row, kind);
    return row;
}

static inline void trace_end(uint32_t row, uint64_t number, uint64_t bytes, int rc)
{
    if (UNLIKELY(row != 0))
        trace_end_call(number, bytes, rc);
}

#endif
