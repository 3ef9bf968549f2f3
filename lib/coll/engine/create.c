/* SPDX-License-Identifier: BSD-3-Clause */
/* create.c: see create.h. */
#include "coll/engine/create.h"

#include "coll/engine/parts.h"
#include "coll/engine/plan.h"
#include "coll/engine/team_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int plan_set_operators(struct rplan *plan, const struct coll_operator *operators, uint32_t n,
                              struct error *err)
{
    size_t most = 0;

    plan->operators = calloc((size_t)n + 1, sizeof(*plan->operators)); /* one for the library */
    if (plan->operators == NULL)
        return error_set(err, -ENOMEM, "no memory for %u operators", n);
    if (n > 0)
        memcpy(plan->operators, operators, n * sizeof(*operators));
    plan->noperators = n;
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = coll_operator_scratch(&operators[i]);

        most = bytes > most ? bytes : most;
    }
    plan->operator_scratch = malloc(most + 1);
    if (plan->operator_scratch == NULL)
        return error_set(err, -ENOMEM, "no memory for operands of %zu bytes", most);
    return 0;
}

static int plan_find_operator(struct rplan *plan, struct error *err)
{
    const rcoll_params_t *p = &plan->params;
    struct coll_operator operator;
    int rc = 0;

    if (p->kind < RCOLL_REDUCE || p->kind > RCOLL_EXSCAN)
        return plan_set_operators(plan, NULL, 0, err);
    if (p->function != NULL)
        operator= coll_operator_of(p->function, p->argument, p->element,
                                   (p->flags & RCOLL_COMMUTES) != 0);
    else
        rc = coll_operator_init(&operator, p->type, p->op, err);
    return rc != 0 ? rc : plan_set_operators(plan, &operator, 1, err);
}

static struct rplan *plan_new(struct rteam *t, struct error *err)
{
    struct rplan *plan = calloc(1, sizeof(*plan));

    if (plan == NULL) {
        error_set(err, -ENOMEM, "no memory for a plan");
        return NULL;
    }
    plan->team = t;
    plan->state = PLAN_IDLE;
    list_init(&plan->in_queue);
    list_append(&t->plans, &plan->in_plans);
    return plan;
}

/* All members have started the operation when it is over at one: what each gets depends on all. */
static bool plan_synchronizes(const rcoll_params_t *p)
{
    return p->kind == RCOLL_BARRIER || (p->kind == RCOLL_ALLREDUCE && p->count > 0) ||
           (p->kind == RCOLL_ALLGATHER && p->counts == NULL && p->count > 0) ||
           (p->kind == RCOLL_ALLTOALL && (p->counts != NULL || p->count > 0));
}

/* ---- weight ---- */

static size_t plan_weight_of(const struct program *p)
{
    size_t weight = 0;

    for (uint32_t i = 0; i < p->count; i++) {
        const struct step *s = &p->steps[i];

        if (s->kind == STEP_CALL || s->lent || s->bytes > WEIGHT_COUNTED - weight)
            return WEIGHT_COUNTED;
        weight += s->kind != STEP_RECV ? s->bytes : 0;
    }
    return p->has_pipes ? WEIGHT_COUNTED : weight;
}

/* Bytes that one pass may move; with functions of the program, pipes, or several parts, it is as if they were too many. */
static void plan_weigh(struct rplan *plan)
{
    plan->weight = plan_weight_of(&plan->program);
    if (plan->parts.numbers > 1 || plan->parts.here > 1 || plan->params.function != NULL)
        plan->weight = WEIGHT_COUNTED;
}

/* One operation of this host alone, which may be executed in a call that is not counted, and leaves nothing behind, unless parts follow. */
static bool plan_may_be_alone(const struct rplan *plan)
{
    return plan->parts.numbers == 1 && plan->team->shape.hosts == 1 &&
           plan->weight < WEIGHT_COUNTED && (plan->params.flags & RCOLL_VIEWS) == 0;
}

static bool plan_is_row(const struct rplan *plan)
{
    const struct program *p = &plan->program;
    bool quick = p->in_order;

    for (uint32_t i = 0; i < p->count; i++)
        quick = quick && p->steps[i].quick;
    return quick;
}

int plan_create(struct rplan **result, struct rteam *t, const rcoll_params_t *p,
                const struct coll_choice *choice, struct error *err)
{
    struct rplan *plan = plan_new(t, err);
    int rc;

    if (plan == NULL)
        return -ENOMEM;
    rc = params_copy(t, &plan->params, p, err);
    if (rc == 0)
        rc = plan_find_operator(plan, err);
    if (rc == 0)
        rc = parts_make(plan, choice, err);
    if (rc != 0) {
        plan_destroy(plan);
        return rc;
    }
    plan->synchronizes = plan_synchronizes(p);
    plan_weigh(plan);
    plan->may_be_alone = plan_may_be_alone(plan);
    plan->is_row = plan_is_row(plan);
    plan->from = p->from;
    plan->into = p->into;
    *result = plan;
    return 0;
}

int plan_create_of_graph(struct rplan **result, struct rteam *t, struct graph *g,
                         const struct coll_operator *operators, uint32_t noperators,
                         struct error *err)
{
    struct rplan *plan = plan_new(t, err);
    int rc = -ENOMEM;

    if (plan != NULL) {
        plan->of_graph = true;
        plan->check = 0x67726170; /* graphs of members need not be alike */
        plan->parts = (struct parts){.numbers = 1, .used = 1};
        rc = plan_set_operators(plan, operators, noperators, err);
    }
    if (rc == 0)
        rc = plan_compile(plan, g, err);
    if (rc != 0) {
        graph_free(g);
        if (plan != NULL)
            plan_destroy(plan);
        return rc;
    }
    plan_weigh(plan);
    plan->graph = *g;
    *g = (struct graph){0};
    *result = plan;
    return 0;
}
