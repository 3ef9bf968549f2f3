/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.h: what an end counts on its slow paths, beside the words of its fast paths; and the one table of all counters
 * (counter.c), from which rpipe_counter(3), the report at exit and rmalloc_stat(1) are made.
 */
#ifndef OBSERVE_RECORD_COUNTER_H
#define OBSERVE_RECORD_COUNTER_H

#include "btl/btl.h"

#include <stddef.h>
#include <stdint.h>

struct rch;
struct published;
struct waiter;

#define COUNTER_EVERY 64 /* messages over a network: then the backend is asked what it counts */

struct counts {
    /* of waits: added by threads that hold no lock, where several share an end */
    _Atomic uint64_t waits_spin, waits_yield, waits_sleep, waited_ns, timeouts, errors;
    uint64_t grows, grow_refused;
    struct btl_counts remote; /* of the line, as it was when somebody last asked */
    uint64_t credit_reads;
};

void counter_publish(struct published *header); /* where which counter is */
uint64_t counter_value(const struct rch *ch, int index);
int counter_count(void);
void counter_opened(struct rch *ch);
void counter_refresh(struct rch *ch);                        /* what the backend counts */
void counter_waited(struct rch *ch, const struct waiter *w); /* a wait has ended */
void counter_retire(struct rch *ch); /* closed: into the sums. Store lock held */

#endif
