/* SPDX-License-Identifier: BSD-3-Clause */
/* parts.h: a plan as one operation, or as several where the heap is too small for one (team.h, struct parts). */
#ifndef COLL_ENGINE_PARTS_H
#define COLL_ENGINE_PARTS_H

#include "coll/engine/plan.h"

/* Chooses the algorithm, unless one is given, divides the plan, and makes its programs. 0, or a code and its message. */
int parts_make(struct rplan *plan, const struct coll_choice *given, struct error *err);

/* ---- for the engine ---- */

/* Of plans of several parts, or of parts that have not been counted. */
const struct program *plan_program_of_part(struct rplan *plan);
void plan_set_bases_of_part(struct rplan *plan);
bool plan_begin_next_part(struct rplan *plan);

/* The program of the next part; NULL: it could not be made, and the team has failed. */
static inline const struct program *plan_program(struct rplan *plan)
{
    return LIKELY(plan->parts.used == 1) ? &plan->program : plan_program_of_part(plan);
}

static inline const void *plan_into(const struct rplan *plan)
{
    return LIKELY(plan->into != NULL) ? plan->into : plan->hidden;
}

static inline void plan_set_bases(struct rplan *plan)
{
    if (UNLIKELY(plan->parts.used != 1)) {
        plan_set_bases_of_part(plan);
        return;
    }
    plan->op.base[BASE_FROM] = plan->from;
    plan->op.base[BASE_INTO] = plan_into(plan);
    plan->op.base[BASE_SCRATCH] = plan->scratch;
}

static inline bool plan_is_last_part(const struct rplan *plan)
{
    return plan->part + 1 >= plan->parts.used;
}

/* An alltoall with counts whose first part has found that others follow, of which none has begun. */
static inline bool plan_has_counted(const struct rplan *plan)
{
    return plan->parts.counted && plan->part == 1;
}

/* The part is over: the next one, if there is one. */
static inline bool plan_next_part(struct rplan *plan)
{
    return plan->parts.used != 1 && plan_begin_next_part(plan);
}

#endif
