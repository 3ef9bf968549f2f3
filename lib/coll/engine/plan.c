/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c: see plan.h: how a plan is made of parameters, or of a graph, and freed. Its parts are in parts.c. */
#include "coll/engine/plan.h"

#include "coll/engine/edge.h"
#include "coll/engine/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- arrays of the operation ---- */

static int plan_grow(void **array, size_t count, size_t element)
{
    void *larger = realloc(*array, count * element);

    if (larger == NULL)
        return -ENOMEM;
    memset(larger, 0, count * element);
    *array = larger;
    return 0;
}

/* Makes the arrays of an idle operation large enough for a program. */
int plan_fit(struct rplan *plan, const struct program *p, struct error *err)
{
    struct operation *o = &plan->op;
    uint32_t bases = BASE_VIEWS + p->nviews, steps = p->count + 1;
    int rc = 0;

    if (bases > o->bases_allocated) {
        rc |= plan_grow((void **)&o->base, bases, sizeof(*o->base));
        rc |= plan_grow((void **)&o->ready, bases, sizeof(*o->ready));
        rc |= plan_grow((void **)&o->held, bases, sizeof(*o->held));
        rc |= plan_grow((void **)&o->copy, bases, sizeof(*o->copy));
    }
    if (steps > o->steps_allocated) {
        rc |= plan_grow((void **)&o->is_done, steps / 64 + 1, sizeof(*o->is_done));
        rc |= plan_grow((void **)&o->progress, steps, sizeof(*o->progress));
    }
    if ((plan->params.flags & RCOLL_VIEWS) != 0 && plan->hidden == NULL) {
        plan->hidden = malloc(p->space[1] + 1);
        rc |= plan->hidden == NULL ? -ENOMEM : 0;
    }
    if (p->space[2] > plan->scratch_bytes || plan->scratch == NULL) {
        void *scratch = realloc(plan->scratch, p->space[2] + 1);

        rc |= scratch == NULL ? -ENOMEM : 0;
        plan->scratch = scratch != NULL ? scratch : plan->scratch;
        plan->scratch_bytes = p->space[2];
    }
    if (rc != 0)
        return error_set(err, -ENOMEM, "no memory for a plan of %u steps", p->count);
    o->bases_allocated = bases > o->bases_allocated ? bases : o->bases_allocated;
    o->steps_allocated = steps > o->steps_allocated ? steps : o->steps_allocated;
    return 0;
}

/* ---- making ---- */

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
           ((p->kind == RCOLL_ALLGATHER || p->kind == RCOLL_ALLTOALL) && p->counts == NULL &&
            p->count > 0);
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
    plan->graph = *g;
    *g = (struct graph){0};
    *result = plan;
    return 0;
}

int plan_compile(struct rplan *plan, const struct graph *g, struct error *err)
{
    int rc = program_compile(&plan->program, g, &plan->team->shape,
                             (plan->params.flags & RCOLL_VIEWS) != 0, err);

    if (rc == 0)
        rc = plan_fit(plan, &plan->program, err);
    if (rc == 0) {
        rc = edge_open_all(plan->team, &plan->program);
        if (rc != 0)
            error_set(err, rc, "%s", rpipe_error(NULL));
    }
    return rc;
}

void plan_destroy(struct rplan *plan)
{
    struct operation *o = &plan->op;
    struct rteam *t = plan->team;

    for (int i = 0; i < TEAM_CACHE; i++)
        if (t->cache[i] == plan)
            t->cache[i] = NULL;
    list_remove(&plan->in_plans);
    list_remove(&plan->in_queue);
    params_free(&plan->params);
    program_free(&plan->program);
    program_free(&plan->last);
    graph_free(&plan->graph);
    free(plan->operators);
    free(plan->operator_scratch);
    free(plan->scratch);
    free(plan->hidden);
    free(o->base);
    free(o->ready);
    free(o->held);
    free(o->copy);
    free(o->is_done);
    free(o->progress);
    free(plan);
}

/* ---- names ---- */

const char *plan_name(const struct rplan *plan, char *text, size_t bytes)
{
    struct coll_request r = params_request(&plan->params);

    if (plan->of_graph)
        snprintf(text, bytes, "a graph of %u steps", plan->program.count);
    else if (r.kind == COLL_BARRIER)
        snprintf(text, bytes, "a barrier");
    else if (r.counts != NULL)
        snprintf(text, bytes, "%s of blocks of different lengths", coll_kind_name(r.kind));
    else
        snprintf(text, bytes, "%s of %zu bytes", coll_kind_name(r.kind), r.count * r.element);
    return text;
}

void plan_set_bases(struct rplan *plan)
{
    struct operation *o = &plan->op;
    struct parts *parts = &plan->parts;
    uint64_t part = parts->agreed ? plan->part - 1 : plan->part, at;

    o->base[BASE_SCRATCH] = plan->scratch;
    if (parts->agreed && plan->part == 0) {
        o->base[BASE_FROM] = (const char *)&parts->here;
        o->base[BASE_INTO] = (const char *)&parts->most;
        return;
    }
    at = parts->used == 1 || part == 0
             ? 0
             : part * parts->count * params_request(&plan->params).element;
    o->base[BASE_FROM] = at > 0 ? (const char *)plan->from + at : plan->from;
    o->base[BASE_INTO] = plan->into == NULL && plan->hidden != NULL ? plan->hidden
                         : at > 0                                   ? (const char *)plan->into + at
                                                                    : plan->into;
}
