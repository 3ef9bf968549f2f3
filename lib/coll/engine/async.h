/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * async.h: RCOLL_ASYNC: a thread that advances the operations of a team while the program computes, and a descriptor that shows an end.
 *
 * A team has a thread of its own: so an operator of the program that takes long keeps back its own team alone. The thread sleeps unless
 * operations are in flight; then it sleeps on what they wait for, and on `starts`, which changes when one more is left to it. Calls that wait
 * advance the operations themselves.
 */
#ifndef COLL_ENGINE_ASYNC_H
#define COLL_ENGINE_ASYNC_H

#include "coll/engine/team.h"

/* Starts the thread of a team that has been opened. 0, or a code and its message. */
int async_open(struct rteam *t, struct error *err);
/* Ends it; returns when it has ended. Nothing if there is none. */
void async_close(struct rteam *t);
/* A call returns while an operation is in flight: it is left to the thread. Lock held. */
void async_leave_it(struct rteam *t) __attribute__((cold));
/* The descriptor is not readable any more, until one more is over. Lock held. */
void async_drain(struct rteam *t) __attribute__((cold));

#endif
