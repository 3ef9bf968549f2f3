/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h: the queue of a team: operations are activated, advanced and ended, in passes over their steps. */
#ifndef COLL_ENGINE_ENGINE_H
#define COLL_ENGINE_ENGINE_H

#include "coll/engine/team.h"

#define WAIT_POLLS 512 /* before the first yield, where each member has a processor */
#define WAIT_POLLS_EAGER                                                                           \
    64 /* of these, without a pause, which takes as long as a line to another processor */

/* Appends a plan that is idle to the queue: its operations have their numbers now, which may grow until they begin (engine_renumber). */
void engine_start(struct rteam *t, struct rplan *plan);
/* Whether nothing else is in flight, no other thread uses the team, and the plan is short and for this host. */
static inline bool engine_is_alone(const struct rteam *t, const struct rplan *plan)
{
    return plan->may_be_alone && t->done == t->number && !t->threads;
}

/*
 * Such a plan, idle, is executed without the queue, for as long as a mate usually lets wait. True: it is over, with success. False: it has
 * been started, and is in the queue; or it has failed with the team, as in engine_advance.
 */
bool engine_run_alone(struct rteam *t, struct rplan *plan);
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
