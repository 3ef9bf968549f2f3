/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.h: a plan of a team: made of parameters, and freed. */
#ifndef COLL_ENGINE_PLAN_H
#define COLL_ENGINE_PLAN_H

#include "coll/engine/team.h"

/* Checks parameters as far as this member sees them. 0, or -EINVAL or -ENOTSUP and a message. */
int params_check(const struct rteam *t, const rcoll_params_t *p, struct error *err);
/* The buffers alone: whether this member has those that it needs. */
int params_check_buffers(const struct rteam *t, const rcoll_params_t *p, struct error *err);
/* What lib/coll makes a plan of. Arrays are not copied. */
struct coll_request params_request(const rcoll_params_t *p);
/* What must be the same at all members, but for algorithm and parts. */
uint32_t params_hash(const struct rteam *t, const rcoll_params_t *p);
/* Whether two plans differ in buffers only. */
bool params_equal(const struct rteam *t, const rcoll_params_t *a, const rcoll_params_t *b);
/* Copies p, and its arrays into one allocation, *to->counts, offsets, ... point to; released by params_free. 0 or -ENOMEM. */
int params_copy(const struct rteam *t, rcoll_params_t *to, const rcoll_params_t *p,
                struct error *err);
void params_free(rcoll_params_t *p);

/* Makes a plan. choice NULL: by the rules and the model of the team. 0, or a code and its message. */
int plan_create(struct rplan **plan, struct rteam *t, const rcoll_params_t *p,
                const struct coll_choice *choice, struct error *err);
/* Makes a plan of a finished graph, which it takes over. The operators are copied. */
int plan_create_of_graph(struct rplan **plan, struct rteam *t, struct graph *g,
                         const struct coll_operator *operators, uint32_t noperators,
                         struct error *err);
/* Makes the program of a graph, and what it needs: arrays, pipes. */
int plan_compile(struct rplan *plan, const struct graph *g, struct error *err);
/* Makes the arrays of the idle operation large enough for a program. */
int plan_fit(struct rplan *plan, const struct program *p, struct error *err);

/* ---- for the engine ---- */

/* The program of the next part; NULL: it could not be made, and the team has failed. */
const struct program *plan_program(struct rplan *plan);
void plan_set_bases(struct rplan *plan);
/* The part is over: the next one, if there is one. */
bool plan_next_part(struct rplan *plan);
bool plan_is_last_part(const struct rplan *plan);

/* Frees a plan that is idle. */
void plan_destroy(struct rplan *plan);
/* "allreduce of 8 bytes", for messages. */
const char *plan_name(const struct rplan *plan, char *text, size_t bytes);

#endif
