/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_summary.h: where the time of a traced job went: rmalloc_trace --summary.
 */
#ifndef TOOLS_TRACE_SUMMARY_H
#define TOOLS_TRACE_SUMMARY_H

#include <stdbool.h>
#include <stdio.h>

struct trace_summary;

struct trace_summary *trace_summary_new(void); /* NULL: no memory */
void trace_summary_free(struct trace_summary *s);

/* Adds an event, one line of a trace. False: no memory. */
bool trace_summary_add(struct trace_summary *s, const char *line);

/* Prints the longest waits, at most `most`; then each pipe; then the calls that have not ended. */
void trace_summary_print(struct trace_summary *s, FILE *to, int most);

#endif
