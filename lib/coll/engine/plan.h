/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.h: a plan of a team: the memory and the program of its operation, and its name. */
#ifndef COLL_ENGINE_PLAN_H
#define COLL_ENGINE_PLAN_H

#include "coll/engine/params.h"

/* Makes the program of a graph, and what it needs: arrays, pipes. */
int plan_compile(struct rplan *plan, const struct graph *g, struct error *err);
/* Makes the arrays of the idle operation large enough for a program. */
int plan_fit(struct rplan *plan, const struct program *p, struct error *err);

/* Frees a plan that is idle. */
void plan_destroy(struct rplan *plan);
/* "allreduce of 8 bytes", for messages. */
const char *plan_name(const struct rplan *plan, char *text, size_t bytes);

#endif
