/* SPDX-License-Identifier: BSD-3-Clause */
/* parts.h: a plan as one operation, or as several where the heap is too small for one (team.h, struct parts). */
#ifndef COLL_ENGINE_PARTS_H
#define COLL_ENGINE_PARTS_H

#include "coll/engine/plan.h"

/* Chooses the algorithm, divides the plan, and makes its programs. 0, or a code and its message. */
int parts_make(struct rplan *plan, const struct coll_choice *choice, struct error *err);

#endif
