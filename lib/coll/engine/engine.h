/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h: the queue of a team: operations are activated, advanced and ended, in passes over their steps. */
#ifndef COLL_ENGINE_ENGINE_H
#define COLL_ENGINE_ENGINE_H

#include "coll/engine/team.h"

/* Appends a plan that is idle to the queue: its operations have their numbers now. */
void engine_start(struct rteam *t, struct rplan *plan);
/*
 * One pass over all operations in flight. Returns whether any step was done. An operation that fails fails the team: then all
 * plans of the queue are over.
 */
bool engine_advance(struct rteam *t);
/* The views of a plan that is held are given back. */
void engine_release(struct rteam *t, struct rplan *plan);
/* Ends all plans of the queue with the code that the team has. */
void engine_end_all(struct rteam *t);

#endif
