/* SPDX-License-Identifier: BSD-3-Clause */
/* parts.h: a plan as one operation, or as several where the heap is too small for one (team.h, struct parts). */
#ifndef COLL_ENGINE_PARTS_H
#define COLL_ENGINE_PARTS_H

#include "coll/engine/plan.h"

/* Chooses the algorithm, divides the plan, and makes its programs. 0, or a code and its message. */
int parts_make(struct rplan *plan, const struct coll_choice *choice, struct error *err);

/* ---- for the engine ---- */

/* The program of the next part; NULL: it could not be made, and the team has failed. */
const struct program *plan_program(struct rplan *plan);
void plan_set_bases(struct rplan *plan);
/* The part is over: the next one, if there is one. */
bool plan_next_part(struct rplan *plan);
bool plan_is_last_part(const struct rplan *plan);

#endif
