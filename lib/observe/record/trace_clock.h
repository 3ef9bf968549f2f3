/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_clock.h: the offset between the clock of rank 0 and that of this process, so that rmalloc_trace(1) can merge traces of
 * several hosts.
 */
#ifndef OBSERVE_RECORD_TRACE_CLOCK_H
#define OBSERVE_RECORD_TRACE_CLOCK_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* Message types of the control network; rpipe/end has those before them. */
enum trace_message { MESSAGE_CLOCK = 75, MESSAGE_CLOCK_REPLY = 76 };

/* On the wire, in both directions. */
struct clock_note {
    uint64_t query;
    int64_t time;   /* reply: of rank 0, ns */
    uint64_t clock; /* reply: hash of the name of its clock; 0: unknown */
};
static_assert(sizeof(struct clock_note) == 24, "layout on the wire");

void trace_clock_start(int rank); /* after trace_start, if there is a trace */
/* In rexit, while rank 0 is still there: waits briefly for its last replies. */
void trace_clock_end(int64_t deadline);
/* A message of one of these types; on the service thread. */
void trace_clock_message(int from, uint32_t type, const void *body, size_t bytes);

#endif
