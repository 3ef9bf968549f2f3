/* SPDX-License-Identifier: BSD-3-Clause */
/* run.c: rcoll_plan, rcoll_start, rcoll_test, rcoll_wait, rcoll_wait_any, rcoll_free, rcoll_run, rcoll_barrier. */
#include "coll/engine/async.h"
#include "coll/engine/compare.h"
#include "coll/engine/edge.h"
#include "coll/engine/engine.h"
#include "coll/engine/fail.h"
#include "coll/engine/plan.h"
#include "coll/engine/wait.h"
#include "coll/engine/create.h"
#include "coll/engine/params.h"
#include "util/hash.h"
#include "util/sized.h"

#include <errno.h>

#undef rcoll_plan
#undef rcoll_run

/* ---- checks ---- */

static int run_check(const struct rteam *t, const char *call)
{
    int rc;

    if (UNLIKELY(t == NULL))
        return coll_fail(-EINVAL, "%s: the team is NULL", call);
    rc = coll_check_job(call);
    if (UNLIKELY(rc == 0 && t->lost != 0))
        rc = team_lost_error(t, call);
    return rc;
}

static int run_check_plan(const struct rplan *plan, const char *call)
{
    return LIKELY(plan != NULL) ? run_check(plan->team, call)
                                : coll_fail(-EINVAL, "%s: the plan is NULL", call);
}

static bool run_is_over(struct rteam *t, void *of)
{
    const struct rplan *plan = of;

    (void)t;
    return plan->state == PLAN_IDLE || plan->state == PLAN_HELD;
}

/* ---- plans ---- */

static int run_make(struct rplan **plan, struct rteam *t, const rcoll_params_t *params,
                    const char *call)
{
    struct error err = {""};
    int rc = params_check(t, params, &err);

    if (rc == 0)
        rc = plan_create(plan, t, params, NULL, &err);
    return rc == 0 ? 0 : coll_fail(rc, "%s: %s", call, err.text);
}

/* Params of another size than here: a copy of them is made. */
static __attribute__((cold, noinline)) int
run_copy(rcoll_params_t *copy, const rcoll_params_t **params, size_t size, const char *call)
{
    struct error err = {""};
    int rc;

    if (*params == NULL)
        return coll_fail(-EINVAL, "%s: params is NULL", call);
    rc = sized_copy(copy, sizeof(*copy), *params, size, &err);
    *params = copy;
    return rc == 0 ? 0 : coll_fail(rc, "%s: params: %s", call, err.text);
}

/* As this library has them: the program's own, or the copy. */
static inline int run_params(rcoll_params_t *copy, const rcoll_params_t **params, size_t size,
                             const char *call)
{
    return LIKELY(*params != NULL && size == sizeof(**params)) ? 0
                                                               : run_copy(copy, params, size, call);
}

int rcoll_plan(rplan_t *plan, rteam_t team, const rcoll_params_t *params, size_t size)
{
    struct team_call call;
    rcoll_params_t copy;
    int rc;

    team_enter_counted(&call, "rcoll_plan");
    rc = run_check(team, "rcoll_plan");

    if (rc == 0 && plan == NULL)
        rc = coll_fail(-EINVAL, "rcoll_plan: plan is NULL");
    if (rc == 0)
        rc = run_params(&copy, &params, size, "rcoll_plan");
    if (rc != 0)
        return team_leave(&call, rc);
    team_lock(team);
    rc = run_make(plan, team, params, "rcoll_plan");
    team_unlock(team);
    return team_leave(&call, rc);
}

/* Lock held. */
static int run_start(struct rplan *plan)
{
    struct rteam *t = plan->team;

    engine_release(t, plan);
    if (plan->state != PLAN_IDLE || plan->free_at_end)
        return coll_fail(-EBUSY, "rcoll_start: the plan has been started, and is not over");
    engine_start(t, plan);
    (void)engine_advance(t);
    if (UNLIKELY(t->async != NULL) && !run_is_over(t, plan))
        async_leave_it(t);
    return 0;
}

int rcoll_start(rplan_t plan)
{
    struct team_call call;
    int rc;

    team_enter(&call, plan != NULL ? plan->team : NULL, "rcoll_start");
    if (plan != NULL && !call.counted && plan->weight + plan->team->weight > COPY_UNCOUNTED_MOST)
        team_count(&call);
    rc = run_check_plan(plan, "rcoll_start");
    if (LIKELY(rc == 0)) {
        team_lock(plan->team);
        rc = run_start(plan);
        team_unlock(plan->team);
    }
    return team_leave(&call, rc);
}

/* The result of a plan that is over. */
static int run_result(const struct rplan *plan, const char *call)
{
    return LIKELY(plan->result == 0) ? 0 : team_lost_error(plan->team, call);
}

/* Lock held. */
static int run_test(struct rplan *plan)
{
    struct rteam *t = plan->team;

    if (UNLIKELY(t->async != NULL))
        async_drain(t);
    if (!run_is_over(t, plan) && !engine_advance(t)) {
        team_compare_operations(t);
        if (team_is_lost(t))
            engine_end_all(t);
        edge_drive(t); /* may sleep: no board is loaded after it */
    }
    return run_is_over(t, plan) ? run_result(plan, "rcoll_test") : R_PENDING;
}

int rcoll_test(rplan_t plan)
{
    struct team_call call;
    int rc;

    team_enter(&call, plan != NULL ? plan->team : NULL, "rcoll_test");
    if (plan != NULL && UNLIKELY(plan->team->shape.hosts > 1))
        team_count(&call); /* it may take locks, and sleep, before it loads boards */
    if (UNLIKELY(plan == NULL || rpipe_initialized() != 1))
        return team_leave(&call, run_check_plan(plan, "rcoll_test"));
    team_lock(plan->team);
    rc = run_test(plan);
    team_unlock(plan->team);
    return team_leave(&call, rc);
}

/* The deadline of a call has passed, and the operation goes on. */
static void run_leave_it(struct rteam *t)
{
    if (t->async == NULL)
        return;
    team_lock(t);
    async_leave_it(t);
    team_unlock(t);
}

/* Waits for a plan that has been started. */
static int run_wait(struct rplan *plan, struct team_call *call)
{
    struct rteam *t = plan->team;
    int rc = team_wait(t, call, run_is_over, plan, t->timeout_ms);

    if (LIKELY(rc == 0))
        return run_result(plan, call->name);
    if (rc == -ETIMEDOUT) {
        run_leave_it(t);
        return team_timed_out(t, call->name, t->timeout_ms);
    }
    return t->lost != 0 ? team_lost_error(t, call->name) : coll_fail_named(call->name, rc);
}

int rcoll_wait(rplan_t plan)
{
    struct team_call call;
    int rc;

    team_enter(&call, plan != NULL ? plan->team : NULL, "rcoll_wait");
    if (LIKELY(plan != NULL && rpipe_initialized() == 1))
        rc = run_wait(plan, &call);
    else
        rc = run_check_plan(plan, "rcoll_wait");
    return team_leave(&call, rc);
}

/* ---- the first of several ---- */

struct run_list {
    const rplan_t *plan;
    bool *awaited;
    int n, which;
};

/* Whether a plan that has been started is not over. */
static bool run_is_awaited(struct rplan *plan)
{
    bool over = true;

    if (plan == NULL)
        return false;
    team_lock(plan->team);
    over = run_is_over(plan->team, plan);
    team_unlock(plan->team);
    return !over;
}

static bool run_any_is_over(struct rteam *t, void *of)
{
    struct run_list *list = of;

    for (int i = 0; i < list->n; i++)
        if (list->awaited[i] && run_is_over(t, list->plan[i])) {
            list->which = i;
            return true;
        }
    return false;
}

static int run_wait_any(struct team_call *call, const rplan_t *list, int n, int *which,
                        int timeout_ms)
{
    bool awaited[n > 0 ? n : 1];
    struct run_list of = {.plan = list, .awaited = awaited, .n = n};
    struct rteam *t = NULL;
    int rc;

    if (list == NULL || n < 1 || n > 65536 || which == NULL || timeout_ms < -1)
        return coll_fail(
            -EINVAL,
            "rcoll_wait_any: list is %s, n is %d, which is %s, timeout_ms is %d; n must be 1 to "
            "65,536, timeout_ms 0, a number of ms, or R_FOREVER (-1)",
            list == NULL ? "NULL" : "given", n, which == NULL ? "NULL" : "given", timeout_ms);
    rc = coll_check_job("rcoll_wait_any");
    if (rc != 0)
        return rc;
    for (int i = 0; i < n; i++) {
        awaited[i] = run_is_awaited(list[i]);
        if (awaited[i] && t != NULL && list[i]->team != t)
            return coll_fail(-EINVAL, "rcoll_wait_any: plan %d is of another team", i);
        t = awaited[i] ? list[i]->team : t;
    }
    if (t == NULL)
        return coll_fail(-ENOENT, "rcoll_wait_any: none of %d plans runs", n);
    rc = team_wait(t, call, run_any_is_over, &of, timeout_ms);
    if (rc == -ETIMEDOUT)
        return team_timed_out(t, "rcoll_wait_any", timeout_ms);
    if (rc != 0)
        return t->lost != 0 ? team_lost_error(t, "rcoll_wait_any")
                            : coll_fail_named("rcoll_wait_any", rc);
    *which = of.which;
    return run_result(list[of.which], "rcoll_wait_any");
}

int rcoll_wait_any(const rplan_t *list, int n, int *which, int timeout_ms)
{
    struct team_call call;

    team_enter_counted(&call, "rcoll_wait_any");
    return team_leave(&call, run_wait_any(&call, list, n, which, timeout_ms));
}

static int run_free(struct rplan *plan)
{
    struct rteam *t;

    if (plan == NULL)
        return coll_fail(-EINVAL, "rcoll_free: the plan is NULL");
    t = plan->team;
    if (rpipe_initialized() != 1)
        return coll_check_job("rcoll_free");
    team_lock(t);
    engine_release(t, plan);
    if (plan->state == PLAN_IDLE)
        plan_destroy(plan);
    else
        plan->free_at_end = true;
    team_unlock(t);
    return 0;
}

int rcoll_free(rplan_t plan)
{
    struct team_call call;

    team_enter_counted(&call, "rcoll_free");
    return team_leave(&call, run_free(plan));
}

/* ---- all in one call ---- */

static uint32_t run_cache_index(const rcoll_params_t *p)
{
    uint64_t key = p->count * UINT64_C(0x9e3779b97f4a7c15) ^
                   ((uint64_t)p->kind << 40 | (uint64_t)p->root << 20 | (uint64_t)p->type << 12 |
                    (uint64_t)p->op << 6 | p->flags);

    return (uint32_t)(key * UINT64_C(0xbf58476d1ce4e5b9) >> 58);
}

/* A new plan, which is kept. */
static __attribute__((cold, noinline)) int run_make_cached(struct rplan **plan, struct rteam *t,
                                                           struct team_call *call,
                                                           const rcoll_params_t *p,
                                                           struct rplan **cached)
{
    int rc;

    team_count(call);
    rc = coll_check_job(call->name);
    if (rc == 0)
        rc = run_make(plan, t, p, call->name);
    if (rc != 0)
        return rc;
    if (*cached != NULL && (*cached)->state == PLAN_IDLE && !(*cached)->in_call)
        plan_destroy(*cached);
    else if (*cached != NULL)
        (*cached)->free_at_end = true;
    *cached = *plan;
    return 0;
}

/* A plan of these parameters that is idle: a kept one, or a new one. */
static int run_find(struct rplan **plan, struct rteam *t, struct team_call *call,
                    const rcoll_params_t *p)
{
    struct rplan **cached = &t->cache[run_cache_index(p)];

    static_assert(TEAM_CACHE == 64, "run_cache_index has 6 bits");
    *plan = *cached;
    if (LIKELY(*plan != NULL && (*plan)->state == PLAN_IDLE && !(*plan)->in_call &&
               (LIKELY(params_same(&(*plan)->params, p)) || params_equal(t, &(*plan)->params, p)) &&
               params_have_buffers(t, p)))
        return 0;
    return run_make_cached(plan, t, call, p, cached);
}

/* Waits for a plan that this call has started. */
static int run_wait_in_call(struct rplan *plan, struct team_call *call)
{
    struct rteam *t = plan->team;
    int rc = run_wait(plan, call);

    if (UNLIKELY(t->threads)) {
        team_lock(t);
        plan->in_call = false;
        if (plan->free_at_end && plan->state == PLAN_IDLE)
            plan_destroy(plan);
        team_unlock(t);
    }
    return rc;
}

static inline int run_run(rteam_t team, struct team_call *call, const rcoll_params_t *params,
                          size_t size)
{
    rcoll_params_t copy;
    struct rplan *plan;
    int rc = run_check(team, "rcoll_run");

    if (LIKELY(rc == 0))
        rc = run_params(&copy, &params, size, "rcoll_run");
    if (UNLIKELY(rc == 0 && (params->flags & RCOLL_VIEWS) != 0))
        rc = coll_fail(-EINVAL, "rcoll_run: flags has RCOLL_VIEWS, which are views of a plan");
    if (UNLIKELY(rc != 0))
        return rc;
    team_lock(team);
    rc = run_find(&plan, team, call, params);
    if (LIKELY(rc == 0)) {
        plan->from = params->from;
        plan->into = params->into;
        if (LIKELY(engine_is_alone(team, plan)))
            return engine_run_alone(team, plan) ? 0 : run_wait(plan, call);
        plan->in_call = team->threads;
        engine_start(team, plan);
    }
    team_unlock(team);
    return LIKELY(rc == 0) ? run_wait_in_call(plan, call) : rc;
}

int rcoll_run(rteam_t team, const rcoll_params_t *params, size_t size)
{
    struct team_call call;

    team_enter(&call, team, "rcoll_run");
    return team_leave(&call, run_run(team, &call, params, size));
}

static inline int run_barrier(rteam_t team, struct team_call *call)
{
    struct rplan *plan;
    int rc = run_check(team, "rcoll_barrier");

    if (UNLIKELY(rc != 0))
        return rc;
    plan = team->barrier;
    team_lock(team);
    /* one that has reached its deadline, or another thread's */
    if (UNLIKELY(plan->state != PLAN_IDLE || plan->in_call)) {
        const rcoll_params_t barrier = {.kind = RCOLL_BARRIER};

        rc = run_find(&plan, team, call, &barrier);
        if (rc != 0) {
            team_unlock(team);
            return rc;
        }
    }
    if (LIKELY(engine_is_alone(team, plan)))
        return engine_run_alone(team, plan) ? 0 : run_wait(plan, call);
    plan->in_call = team->threads;
    engine_start(team, plan);
    team_unlock(team);
    return run_wait_in_call(plan, call);
}

int rcoll_barrier(rteam_t team)
{
    struct team_call call;

    team_enter(&call, team, "rcoll_barrier");
    return team_leave(&call, run_barrier(team, &call));
}
