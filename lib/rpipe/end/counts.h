/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counts.h: what an end counts on its slow paths, beside the words of its fast paths.
 */
#ifndef RPIPE_END_COUNTS_H
#define RPIPE_END_COUNTS_H

#include "btl/btl.h"
#include "observe/record/publish.h"
#include "observe/record/published.h"
#include "observe/record/trace.h"

#include <stdint.h>

/* Messages over a network between two refreshes of the backend's counters. */
#define COUNTER_EVERY 64

struct counts {
    /* of waits; atomic, since threads of an end with RPIPE_THREADS wait without its lock */
    _Atomic uint64_t waits_spin, waits_yield, waits_sleep, waited_ns, timeouts, errors;
    uint64_t grows, grow_refused;
    struct btl_counts remote; /* of the connection, at the last refresh */
    uint64_t credit_reads, direct;
    uint64_t staged; /* messages that were copied between memory of a device and staging memory */
};

/* Records the begin of a call on an end; see observe/record/trace.h. */
#define trace_begin(ch, kind) trace_begin_row((ch)->trace, (kind))

#endif
