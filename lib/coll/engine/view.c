/* SPDX-License-Identifier: BSD-3-Clause */
/* view.c: rcoll_alloc, rcoll_dealloc, rcoll_view, rcoll_release, rcoll_settled, rcoll_lost. */
#include "coll/engine/engine.h"
#include "coll/engine/fail.h"
#include "coll/engine/plan.h"
#include "coll/engine/wait.h"
#include "coll/engine/operation.h"
#include "coll/engine/params.h"

#include <errno.h>

/* ---- memory ---- */

static uint64_t view_key(const struct rteam *t, const void *mem)
{
    return (uint64_t)((const char *)mem - (const char *)t->head);
}

static void *view_alloc(rteam_t team, size_t bytes)
{
    void *mem = NULL;
    raddr_t d;
    int rc;

    if (team == NULL || coll_check_job("rcoll_alloc") != 0 || team->mem == NULL) {
        errno = team == NULL ? EINVAL : team->mem == NULL ? ENOMEM : ENOTCONN;
        if (errno != ENOTCONN)
            (void)coll_fail(
                -errno, "rcoll_alloc: %s",
                team == NULL ? "the team is NULL"
                             : "the team has no memory for it; set mem_bytes in its configuration");
        return NULL;
    }
    team_lock(team);
    d = rvmem_alloc(team->mem, bytes > 0 ? bytes : 1);
    rc = d == ADDR_NULL ? -errno : 0;
    if (rc == 0) {
        mem = rvmem_mem(team->mem, d);
        rc = hash_put(&team->blocks, view_key(team, mem), (void *)(uintptr_t)d);
        if (rc != 0)
            (void)rvmem_free(team->mem, d);
    }
    team_unlock(team);
    if (rc == 0)
        return mem;
    (void)coll_fail(rc, "rcoll_alloc: %zu bytes do not fit into what is left of mem_bytes, %llu",
                    bytes, (unsigned long long)team->mem_bytes);
    errno = -rc;
    return NULL;
}

void *rcoll_alloc(rteam_t team, size_t bytes)
{
    struct team_call call;
    void *mem;

    team_enter_counted(&call, "rcoll_alloc");
    mem = view_alloc(team, bytes);
    (void)team_leave(&call, 0);
    return mem;
}

static int view_dealloc(rteam_t team, void *mem)
{
    void *d;
    int rc;

    if (team == NULL)
        return coll_fail(-EINVAL, "rcoll_dealloc: the team is NULL");
    if (mem == NULL)
        return 0;
    rc = coll_check_job("rcoll_dealloc");
    if (rc != 0)
        return rc;
    team_lock(team);
    d = team->mem != NULL ? hash_remove(&team->blocks, view_key(team, mem)) : NULL;
    if (d != NULL)
        (void)rvmem_free(team->mem, (raddr_t)(uintptr_t)d);
    team_unlock(team);
    return d != NULL
               ? 0
               : coll_fail(-EINVAL, "rcoll_dealloc: %p is not memory of rcoll_alloc of this team",
                           mem);
}

int rcoll_dealloc(rteam_t team, void *mem)
{
    struct team_call call;

    team_enter_counted(&call, "rcoll_dealloc");
    return team_leave(&call, view_dealloc(team, mem));
}

/* ---- views ---- */

/* Whether a COPY was left out: not one that had to read the memory of another process. */
static bool view_is_left(const struct rplan *plan, const struct program_view *v)
{
    return v->from < BASE_VIEWS || plan->op.ready[v->from] != &operation_in_process;
}

/* Bytes [at, at + bytes) of the result: in a view, or where this member has computed them. False: they are in several places. */
static bool view_find_range(const struct rplan *plan, size_t at, size_t bytes, const void **found)
{
    const struct program *p = plan->op.program;

    for (uint32_t i = 0; i < p->nleft; i++) {
        const struct program_view *v = &p->views[i];

        if (!view_is_left(plan, v))
            continue;
        if (at >= v->into_at && at + bytes <= v->into_at + v->bytes) {
            *found = plan->op.base[v->from] + v->from_at + (at - v->into_at);
            return true;
        }
        if (at + bytes > v->into_at && at < v->into_at + v->bytes)
            return false;
    }
    *found = plan->op.base[BASE_INTO] + at;
    return true;
}

/* Block i of a gather or an allgather. */
static int view_find_block(const struct rplan *plan, int i, const void **at, size_t *bytes)
{
    const rcoll_params_t *p = &plan->params;
    size_t element = params_request(p).element, offset = 0;

    if (i < 0 || i >= plan->team->size || plan->op.program->space[1] == 0)
        return -ENOENT;
    *bytes = (p->counts != NULL ? p->counts[i] : p->count) * element;
    if (p->offsets != NULL)
        offset = p->offsets[i];
    else
        for (int k = 0; k < i; k++)
            offset += p->counts != NULL ? p->counts[k] : p->count;
    return view_find_range(plan, offset * element, *bytes, at) ? 0 : -ENOENT;
}

/* The number of the next COPY from k on that was left out; nleft: there is none. */
static uint32_t view_next_left(const struct rplan *plan, uint32_t k)
{
    const struct program *p = plan->op.program;

    while (k < p->nleft && !view_is_left(plan, &p->views[k]))
        k++;
    return k;
}

/* Part i of anything else: views, and what is between them, in the order of INTO. */
static int view_find_part(const struct rplan *plan, int i, const void **at, size_t *bytes)
{
    const struct program *p = plan->op.program;
    size_t end = 0, all = p->space[1];

    if (plan->params.kind == RCOLL_BCAST && all == 0 && i == 0) { /* its root: what it has sent */
        *at = plan->op.base[BASE_FROM];
        *bytes = p->space[0];
        return 0;
    }
    for (uint32_t k = view_next_left(plan, 0); end < all; k = view_next_left(plan, k + 1)) {
        size_t next = k < p->nleft ? p->views[k].into_at : all;

        if (next > end && i-- == 0) {
            *at = plan->op.base[BASE_INTO] + end;
            *bytes = next - end;
            return 0;
        }
        if (k < p->nleft && i-- == 0) {
            *at = plan->op.base[p->views[k].from] + p->views[k].from_at;
            *bytes = p->views[k].bytes;
            return 0;
        }
        end = k < p->nleft ? next + p->views[k].bytes : all;
    }
    return -ENOENT;
}

static int view_find(struct rplan *plan, int i, const void **at, size_t *bytes)
{
    int rc;

    if (plan->state != PLAN_HELD)
        return coll_fail(-EAGAIN,
                         "rcoll_view: the plan is not over, or its views have been released");
    rc = plan->params.kind == RCOLL_GATHER || plan->params.kind == RCOLL_ALLGATHER
             ? view_find_block(plan, i, at, bytes)
             : view_find_part(plan, i, at, bytes);
    return rc == 0 ? 0 : coll_fail(rc, "rcoll_view: the result has no part %d", i);
}

int rcoll_view(rplan_t plan, int i, const void **at, size_t *bytes)
{
    int rc;

    if (plan == NULL || at == NULL || bytes == NULL)
        return coll_fail(-EINVAL, "rcoll_view: the plan, at or bytes is NULL");
    if ((plan->params.flags & RCOLL_VIEWS) == 0)
        return coll_fail(-EINVAL, "rcoll_view: the plan was made without RCOLL_VIEWS");
    rc = coll_check_job("rcoll_view");
    if (rc != 0)
        return rc;
    team_lock(plan->team);
    rc = view_find(plan, i, at, bytes);
    team_unlock(plan->team);
    return rc;
}

int rcoll_release(rplan_t plan)
{
    struct team_call call;
    int rc;

    team_enter(&call, plan != NULL ? plan->team : NULL, "rcoll_release");
    rc = plan == NULL ? coll_fail(-EINVAL, "rcoll_release: the plan is NULL")
                      : coll_check_job("rcoll_release");
    if (LIKELY(rc == 0)) {
        team_lock(plan->team);
        engine_release(plan->team, plan);
        team_unlock(plan->team);
    }
    return team_leave(&call, rc);
}

static bool view_is_settled(struct rteam *t, void *of)
{
    const struct rplan *plan = of;

    if (plan->state == PLAN_QUEUED || plan->state == PLAN_RUNS)
        return false;
    if (t->nmates == 0 || t->floor > plan->number)
        return true;
    team_refresh_floor(t);
    return t->floor > plan->number;
}

static int view_settled(struct team_call *call, rplan_t plan, int flags)
{
    struct rteam *t;
    int rc;

    if (plan == NULL || (flags & ~R_NOWAIT) != 0)
        return coll_fail(-EINVAL,
                         "rcoll_settled: the plan is %s, flags is 0x%x; it must be 0 or R_NOWAIT",
                         plan == NULL ? "NULL" : "given", (unsigned)flags);
    rc = coll_check_job("rcoll_settled");
    if (rc != 0)
        return rc;
    t = plan->team;
    if ((flags & R_NOWAIT) != 0) {
        team_lock(t);
        (void)engine_advance(t);
        rc = view_is_settled(t, plan) ? 0 : R_PENDING;
        team_unlock(t);
        return rc;
    }
    rc = team_wait(t, call, view_is_settled, plan, t->timeout_ms);
    if (rc == -ETIMEDOUT)
        return team_timed_out(t, "rcoll_settled", t->timeout_ms);
    return rc == 0 || t->lost == 0 ? rc : team_lost_error(t, "rcoll_settled");
}

int rcoll_settled(rplan_t plan, int flags)
{
    struct team_call call;

    team_enter_counted(&call, "rcoll_settled");
    return team_leave(&call, view_settled(&call, plan, flags));
}

/* ---- failures ---- */

int rcoll_lost(rteam_t team, int *member)
{
    if (team == NULL)
        return coll_fail(-EINVAL, "rcoll_lost: the team is NULL");
    if (coll_check_job("rcoll_lost") != 0)
        return -ENOTCONN;
    team_lock(team);
    if (team_is_lost(team) && member != NULL)
        *member = team->lost_member;
    team_unlock(team);
    return team->lost;
}
