/* SPDX-License-Identifier: BSD-3-Clause */
/* create.h: plans are made, of parameters or of a graph. */
#ifndef COLL_ENGINE_CREATE_H
#define COLL_ENGINE_CREATE_H

#include "coll/engine/team.h"

/* Makes a plan. choice NULL: by the rules and the model of the team. 0, or a code and its message. */
int plan_create(struct rplan **result, struct rteam *t, const rcoll_params_t *p,
                const struct coll_choice *choice, struct error *err);
/* Makes a plan of a finished graph, which it takes over. The operators are copied. */
int plan_create_of_graph(struct rplan **result, struct rteam *t, struct graph *g,
                         const struct coll_operator *operators, uint32_t noperators,
                         struct error *err);

#endif
