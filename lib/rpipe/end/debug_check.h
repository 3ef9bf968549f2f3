/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * debug_check.h: RMALLOC_DEBUG=1: the metadata of the heap is checked after every operation, and that one thread at a time is
 * inside an end without RPIPE_THREADS (debug_check.c).
 */
#ifndef RPIPE_END_DEBUG_CHECK_H
#define RPIPE_END_DEBUG_CHECK_H

#include "rpipe/end/call_context.h"
#include "rpipe/end/feature.h"
#include "rpipe/end/rch.h"
#include "util/error.h"

/* RMALLOC_DEBUG=1: the reader has a second instance of the heap. */
extern const struct end_feature debug_check_feature;
/* A call on an end begins. -EBUSY and its message: another thread is inside. */
int debug_check_enter(struct rch *ch, struct call *call);
bool debug_check_is_inside(struct rch *ch); /* this thread is, by this call or one around it */
void debug_check_leave(struct rch *ch);     /* where debug_check_enter has set call.inside */
/* -EPROTO: the message overlaps one that is held. */
int debug_check_read(struct rch *ch, struct rdesc *d);
void debug_check_freed(struct rch *ch, struct rdesc *d);
void debug_check_grow(struct rch *ch, uint64_t bytes);
void debug_check_heap(struct rch *ch); /* writer: aborts where the own metadata is corrupt */
/*
 * For tests that have both ends in one process: what the writer's shadow holds free must be free in the reader's instance;
 * at rest, when everything written has been read, both must be the same. 0, or -EUCLEAN and a message.
 */
int debug_check_compare(struct rch *writer, struct rch *reader, bool at_rest, struct error *err);

#endif
