/* SPDX-License-Identifier: BSD-3-Clause */
/* trace_json.h: the trace that rexit writes. */
#ifndef OBSERVE_REPORT_TRACE_JSON_H
#define OBSERVE_REPORT_TRACE_JSON_H

#include "observe/record/trace.h"

/* Writes the JSON and removes the records, or logs why it cannot and keeps them. Closes the records. */
void trace_json_write(const struct trace_output *output);

#endif
