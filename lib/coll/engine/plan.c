/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c: see plan.h: memory, program, name. */
#include "coll/engine/plan.h"

#include "coll/engine/edge.h"
#include "coll/engine/row.h"

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
    if ((plan->params.flags & RCOLL_VIEWS) != 0 &&
        (p->space[1] > plan->hidden_bytes || plan->hidden == NULL)) {
        free(plan->hidden); /* nothing of it is shown: the operation is idle */
        plan->hidden = malloc(p->space[1] + 1);
        plan->hidden_bytes = plan->hidden != NULL ? p->space[1] : 0;
        rc |= plan->hidden == NULL ? -ENOMEM : 0;
    }
    if (p->space[2] > plan->scratch_bytes || plan->scratch == NULL) {
        free(plan->scratch); /* nothing of it is needed: the operation is idle */
        plan->scratch = malloc(p->space[2] + 1);
        plan->scratch_bytes = plan->scratch != NULL ? p->space[2] : 0;
        rc |= plan->scratch == NULL ? -ENOMEM : 0;
    }
    if (rc != 0)
        return error_set(err, -ENOMEM, "no memory for a plan of %u steps", p->count);
    o->bases_allocated = bases > o->bases_allocated ? bases : o->bases_allocated;
    o->steps_allocated = steps > o->steps_allocated ? steps : o->steps_allocated;
    return 0;
}

/* ---- program ---- */

int plan_compile(struct rplan *plan, const struct graph *g, struct error *err)
{
    int rc = program_compile(&plan->program, g, &plan->team->shape,
                             (plan->params.flags & RCOLL_VIEWS) != 0, err);

    if (rc == 0)
        rc = row_bind(plan, &plan->program, err);
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
