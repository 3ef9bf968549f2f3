/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * published.h: counters of an end by their row in a table, and the sums of closed ends in the published header.
 *
 * The table belongs to the layer above (rpipe/end/counters.c). Recording depends on nothing of the pipes.
 */
#ifndef OBSERVE_RECORD_PUBLISHED_H
#define OBSERVE_RECORD_PUBLISHED_H

#include "observe/record/publish.h"

/* Value of a counter of an end; 0 where ends of this role have no such counter. */
uint64_t published_value(const struct counter_row *row, const void *end, enum published_role role);

/* Publishes an end that has just been opened; all other members of *published are complete. */
void published_open(struct published_end *published);

/* A function that keeps the counters of an end that is being closed; called with the rendezvous lock held. */
typedef void (*published_keeper)(const struct published_end *published, const uint64_t *value,
                                 int counters);
void published_keep_retired(published_keeper keep); /* NULL: none */

/* Unpublishes an end that is being closed and adds its counters to the sums of the process. Rendezvous lock held. */
void published_retire(const struct published_layout *layout, const void *end,
                      struct published_end *published);

#endif
