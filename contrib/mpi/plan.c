/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.c: blocking collective operations: plans that are kept, and memory for small buffers.
 *
 * rcoll_run() would wait without progress of messages, so plans are made and tested here. A plan has the addresses of its
 * buffers. So small contributions and results go through memory of the communicator, whose address does not change; plans with
 * other buffers are kept as long as no other one needs their place.
 */
#include "rmpi.h"

#define PLAN_PLACES 64
#define PLAN_STAGE 4096 /* bytes of a small buffer */

struct rmpi_plans {
    struct plan_entry {
        rcoll_params_t key;
        rplan_t plan;
    } entry[PLAN_PLACES];
    char from[PLAN_STAGE] __attribute__((aligned(64)));
    char into[PLAN_STAGE] __attribute__((aligned(64)));
};

static unsigned plan_place(const rcoll_params_t *p)
{
    uint64_t key = p->count * UINT64_C(0x9e3779b97f4a7c15) ^
                   ((uint64_t)p->kind << 40 | (uint64_t)(unsigned)p->root << 20 |
                    (uint64_t)p->type << 12 | (uint64_t)p->op << 6 | p->flags) ^
                   (uint64_t)(uintptr_t)p->from ^ (uint64_t)(uintptr_t)p->into << 7;

    return (unsigned)(key * UINT64_C(0xbf58476d1ce4e5b9) >> 58);
}

static bool plan_fits(const struct plan_entry *e, const rcoll_params_t *p)
{
    const rcoll_params_t *k = &e->key;

    return e->plan != NULL && k->kind == p->kind && k->flags == p->flags && k->root == p->root &&
           k->from == p->from && k->into == p->into && k->count == p->count && k->type == p->type &&
           k->op == p->op;
}

static bool plan_is_kept(const rcoll_params_t *p)
{
    return p->function == NULL && p->counts == NULL && p->counts_in == NULL;
}

/* A kept plan with these parameters, or a new one, which is kept from now on. */
static int plan_find(struct rmpi_comm *comm, const rcoll_params_t *p, rplan_t *plan)
{
    struct plan_entry *e = &comm->plans->entry[plan_place(p)];
    rcoll_params_t copy = *p;
    int rc;

    if (RMPI_LIKELY(plan_fits(e, p))) {
        *plan = e->plan;
        return 0;
    }
    rc = rcoll_plan(plan, comm->team, &copy);
    if (rc != 0)
        return rc;
    if (e->plan != NULL)
        (void)rcoll_free(e->plan);
    e->key = *p;
    e->plan = *plan;
    return 0;
}

static int plan_do(struct rmpi_comm *comm, const rcoll_params_t *p)
{
    bool keep = plan_is_kept(p);
    rcoll_params_t copy = *p;
    rplan_t plan;
    int rc = keep ? plan_find(comm, p, &plan) : rcoll_plan(&plan, comm->team, &copy);

    if (RMPI_UNLIKELY(rc != 0))
        return rc;
    rc = rcoll_start(plan);
    if (RMPI_LIKELY(rc == 0))
        rc = rmpi_plan_wait(plan);
    if (!keep)
        (void)rcoll_free(plan);
    return rc;
}

int rmpi_run(struct rmpi_comm *comm, const rcoll_params_t *params, size_t from_bytes,
             size_t into_bytes)
{
    rcoll_params_t p = *params;
    int rc;

    if (RMPI_UNLIKELY(comm->plans == NULL)) {
        comm->plans = aligned_alloc(64, (sizeof(*comm->plans) + 63) / 64 * 64);
        if (comm->plans == NULL)
            return -ENOMEM;
        memset(comm->plans, 0, sizeof(*comm->plans));
    }
    if (from_bytes > PLAN_STAGE || into_bytes > PLAN_STAGE || params->counts != NULL)
        return plan_do(comm, params);
    if (from_bytes > 0)
        memcpy(comm->plans->from, params->from, from_bytes);
    p.from = comm->plans->from;
    p.into = comm->plans->into;
    rc = plan_do(comm, &p);
    if (rc == 0 && into_bytes > 0)
        memcpy(params->into, comm->plans->into, into_bytes);
    return rc;
}

void rmpi_plans_free(struct rmpi_comm *comm)
{
    for (int i = 0; comm->plans != NULL && i < PLAN_PLACES; i++)
        if (comm->plans->entry[i].plan != NULL)
            (void)rcoll_free(comm->plans->entry[i].plan);
    free(comm->plans);
    comm->plans = NULL;
}
