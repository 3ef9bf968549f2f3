/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * team_call.h: a call of the program on a team, for rexit of another thread, which unmaps the boards that the call loads.
 *
 *     struct team_call call;
 *     team_enter(&call, t, "rcoll_wait");
 *     ... check the job, then a pass; before anything that may sleep or take long: team_count(&call), and check the job again
 *     return team_leave(&call, rc);
 *
 * rexit waits for each thread in a counted call (rpipe/end/call_context.h), and for each other thread until it sleeps or has run for a
 * millisecond (rpipe/job/thread_quiesce.h). So a call that is not counted sleeps in nothing after which it loads a board, checks the
 * job before a millisecond has passed, and moves at most COPY_UNCOUNTED_MOST bytes in a pass over all operations in flight: that is the
 * weight of a team. Whatever takes a lock, executes a function of the program, or uses pipes is counted from its beginning.
 */
#ifndef COLL_ENGINE_TEAM_CALL_H
#define COLL_ENGINE_TEAM_CALL_H

#include "coll/engine/team.h"
#include "rpipe/end/call_context.h"

/* The weight of a plan that is not to be executed in a call that is not counted. */
#define WEIGHT_COUNTED ((size_t)COPY_UNCOUNTED_MOST + 1)

struct team_call {
    const char *name;
    bool counted;
    struct call call;
};

/* From here on rexit waits for this call, unless it has begun before: the caller checks the job after it. */
void team_count(struct team_call *call);

static inline bool team_is_heavy(const struct rteam *t) { return t->weight > COPY_UNCOUNTED_MOST; }

/* t may be NULL. */
static inline void team_enter(struct team_call *call, const struct rteam *t, const char *name)
{
    call->name = name;
    call->counted = false;
    if (UNLIKELY(t != NULL && (t->threads || team_is_heavy(t))))
        team_count(call);
}

static inline void team_enter_counted(struct team_call *call, const char *name)
{
    call->name = name;
    call->counted = false;
    team_count(call);
}

/* Returns rc. */
static inline int team_leave(const struct team_call *call, int rc)
{
    if (UNLIKELY(call->counted))
        call_leave(&call->call);
    return rc;
}

#endif
