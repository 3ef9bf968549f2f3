/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counters.h: what an end records and publishes: its counters, and its description.
 *
 * The one table of counters (counters.c) has names and offsets within struct rch. observe/record publishes it;
 * rinfo_count(3), the report at exit and rmalloc_stat(1) are made from it.
 */
#ifndef RPIPE_END_COUNTERS_H
#define RPIPE_END_COUNTERS_H

#include "observe/record/publish.h"
#include "observe/record/published.h"
#include "rpipe/end/counts.h"

#include <stdint.h>

struct rch;
struct waiter;

/* Table of counters and layout of an end. */
const struct published_layout *counter_layout(void);

/* Publishes the ends of this process from rinit on. 0 or -errno: it is not observable. */
int counter_start(int rank, int ranks, const char *job);

/* Fills in what is published of an end that is being opened. */
void counter_describe(struct rch *ch);
/* The end is open: from now on it is visible. */
void counter_opened(struct rch *ch);
/* The end is closed: adds its counters to the sums of the process. Rendezvous lock held. */
void counter_retire(struct rch *ch);

void counter_refresh(struct rch *ch);                        /* fetches the backend's counters */
void counter_waited(struct rch *ch, const struct waiter *w); /* counts a wait that has ended */

#endif
