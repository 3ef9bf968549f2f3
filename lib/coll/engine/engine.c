/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.c: see engine.h. */
#include "coll/engine/engine.h"

#include "coll/engine/edge.h"
#include "coll/engine/plan.h"
#include "coll/engine/row.h"
#include "coll/engine/step.h"
#include "coll/engine/fail.h"
#include "coll/engine/operation.h"
#include "coll/engine/parts.h"
#include "coll/engine/team_call.h"
#include "util/failpoint.h"
#include "util/segment.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#define HEAP_LEAST 65536              /* bytes by which the allocated part of the heap grows */
#define HEAP_STEP (UINT64_C(1) << 20) /* bytes that it grows beyond what is needed, at most */
#define ALONE_YIELDS 16               /* before an operation is one of the queue */
#define ALONE_POLLS 60                /* of a member of another processor, before a yield */

/* ---- numbers ---- */

/* The oldest operation that is not over, or has views. */
static uint64_t engine_oldest(const struct rteam *t)
{
    const struct rplan *first;

    if (list_empty(&t->queue))
        return t->number;
    first = container_of(t->queue.next, struct rplan, in_queue);
    return first->number;
}

static inline void engine_store_done(struct rteam *t, uint64_t done)
{
    t->done = done;
    RPIPE_FAILPOINT("rcoll: before done");
    /* release: pairs with the acquire of team_refresh_floor; what was read of others' boards has been read */
    atomic_store_explicit(&t->head->done, done, memory_order_release);
}

static inline void engine_publish_done(struct rteam *t)
{
    uint64_t done = engine_oldest(t);

    if (done != t->done)
        engine_store_done(t, done);
}

/* An operation that all members start is over: they are over with those depth - 1 before (doc/boards.md "The floor"). */
static inline void engine_raise_floor(struct rteam *t, uint64_t number)
{
    if (number + 2 > t->floor + t->depth)
        t->floor = number + 2 - t->depth;
}

/* The next numbers of the team are those of this start. */
static inline void engine_number(struct rteam *t, struct rplan *plan)
{
    plan->number = t->number;
    plan->part = 0;
    plan->result = 0;
    plan->history = t->history = (t->history + plan->check) * UINT32_C(0x9e3779b1);
    t->number += plan->parts.numbers;
}

/* The oldest operation in flight that has views: its block may stay in use for as long as the program likes. 0: there is none. */
static uint64_t engine_oldest_views(const struct rteam *t)
{
    const struct link *link;

    for (link = t->queue.next; link != &t->queue; link = link->next) {
        const struct rplan *plan = container_of(link, const struct rplan, in_queue);

        if ((plan->params.flags & RCOLL_VIEWS) != 0)
            return plan->number;
    }
    return 0;
}

/* A mate that has received a message of such an operation finds that it has views. */
static void engine_publish_views(struct rteam *t)
{
    /* relaxed: before the release of step_publish */
    atomic_store_explicit(&t->head->views, engine_oldest_views(t), memory_order_relaxed);
}

static void engine_append(struct rteam *t, struct rplan *plan, enum plan_state state)
{
    plan->state = state;
    t->weight += plan->weight;
    list_append(&t->queue, &plan->in_queue);
    if (UNLIKELY((plan->params.flags & RCOLL_VIEWS) != 0))
        engine_publish_views(t);
}

void engine_start(struct rteam *t, struct rplan *plan)
{
    engine_number(t, plan);
    engine_append(t, plan, PLAN_QUEUED);
}

/* ---- one part ---- */

static void engine_free_blocks(struct rteam *t)
{
    team_refresh_floor(t);
    ring_release(&t->ring, t->nmates > 0 ? t->floor : t->done);
}

/* Whether an operation in flight has views, at this member or at a mate: the blocks of this heap from then on may stay in use. */
static bool engine_has_views(const struct rteam *t)
{
    for (int i = 0; i < t->nmates; i++) {
        const struct head *head = (const struct head *)(const void *)t->board_of[t->mates[i]];

        if (atomic_load_explicit(&head->views, memory_order_relaxed) != 0)
            return true;
    }
    return engine_oldest_views(t) != 0;
}

static bool engine_allocate(struct rteam *t, struct rplan *plan, size_t bytes)
{
    bool near = plan->parts.near && ring_is_far(&t->ring, bytes);
    size_t *at = &plan->op.heap_at;

    if (near) {
        engine_free_blocks(t);
        /* what is behind the last block is lost until the oldest is free, which one that is held is not */
        near = !engine_has_views(t);
    }
    if (ring_alloc(&t->ring, plan->number, bytes, near, at))
        return true;
    engine_free_blocks(t);
    return ring_alloc(&t->ring, plan->number, bytes, near, at);
}

/*
 * Allocates the heap up to `end` at least, and as much again, but no more than HEAP_STEP beyond it: a call that is not counted takes less
 * than a millisecond. 0, or the failure of the team.
 */
static __attribute__((cold, noinline)) int engine_extend_heap(struct rteam *t, uint64_t end)
{
    uint64_t to = 2 * t->heap_ready > end ? 2 * t->heap_ready : end;
    int rc;

    to = to < end + HEAP_STEP ? to : end + HEAP_STEP;
    to = (to + HEAP_LEAST - 1) / HEAP_LEAST * HEAP_LEAST;
    to = to < t->heap_bytes ? to : t->heap_bytes;
    RPIPE_FAILPOINT("rcoll: heap extended");
    rc = segment_allocate_late(t->heap + t->heap_ready, to - t->heap_ready);
    if (rc != 0)
        return team_fail(t, rc, t->me,
                         "member %d, rank %d, has no memory for %llu bytes of its heap: %s", t->me,
                         t->rank[t->me], (unsigned long long)to, strerror(-rc));
    t->heap_ready = to;
    return 0;
}

/* The part begins: no step of it is done. */
static inline void engine_begin(struct rteam *t, struct rplan *plan, const struct program *p)
{
    struct operation *o = &plan->op;

    o->program = p;
    o->number = plan->number;
    o->check = plan->history;
    /* relaxed: number and check are one word */
    atomic_store_explicit(&t->head->started[plan->number % HEAD_STARTED],
                          head_started(plan->number, o->check), memory_order_relaxed);
    o->next = 0;
    if (UNLIKELY(o->ahead))
        memset(o->is_done, 0, (o->steps_allocated / 64 + 1) * sizeof(*o->is_done));
    o->ahead = false;
}

/* STEP_DONE: the next part of the plan runs. STEP_WAITS: not now. Or a failure. */
static int engine_activate(struct rteam *t, struct rplan *plan)
{
    struct operation *o = &plan->op;
    const struct program *p;
    size_t heap;

    if (plan->number + 2 > t->done + t->depth)
        return STEP_WAITS;
    p = plan_program(plan);
    if (UNLIKELY(p == NULL))
        return t->lost;
    plan_set_bases(plan);
    heap = p->heap;
    if (UNLIKELY(p->shared > 0) && team_is_shared(t, o->base[BASE_FROM]))
        heap -= p->shared;
    if (UNLIKELY(heap > t->heap_bytes))
        return team_fail(t, -EMSGSIZE, t->me,
                         "%zu bytes of messages of one operation; heap_bytes of the team is %llu",
                         heap, (unsigned long long)t->heap_bytes);
    if (heap > 0 && !engine_allocate(t, plan, heap))
        return STEP_WAITS;
    if (UNLIKELY(heap > 0 && o->heap_at + heap > t->heap_ready)) {
        int rc = engine_extend_heap(t, o->heap_at + heap);

        if (rc != 0)
            return rc;
    }
    engine_begin(t, plan, p);
    plan->state = PLAN_RUNS;
    return STEP_DONE;
}

/*
 * Steps behind one that waits, as far as they do not depend on it: in one pass, since each follows what it waits for. 0, or a
 * failure.
 */
static int engine_pass_others(struct rteam *t, struct rplan *plan, bool *did)
{
    struct operation *o = &plan->op;

    for (uint32_t i = o->next + 1; i < o->program->count; i++) {
        int rc;

        if (operation_step_is_done(o, i) || !operation_step_may_begin(o, &o->program->steps[i]))
            continue;
        rc = step_try(t, plan, i);
        if (rc < 0)
            return rc;
        if (rc == STEP_DONE) {
            o->is_done[i / 64] |= UINT64_C(1) << i % 64;
            o->ahead = *did = true;
        }
    }
    return 0;
}

/* All steps that can be done now. STEP_DONE: the part is over. *did: whether any was done. */
static int engine_pass(struct rteam *t, struct rplan *plan, bool *did)
{
    struct operation *o = &plan->op;
    uint32_t count = o->program->count, before = o->next;
    int rc = STEP_DONE;

    while (o->next < count) {
        if (LIKELY(!o->ahead && o->program->steps[o->next].quick)) {
            rc = row_run(t, plan);
            if (rc != STEP_DONE)
                break;
            continue;
        }
        if (!operation_step_is_done(o, o->next)) {
            rc = step_try(t, plan, o->next);
            if (rc != STEP_DONE)
                break;
        }
        o->next++;
    }
    *did |= o->next != before;
    if (rc != STEP_WAITS || (t->crowded && o->program->in_order))
        return rc;
    rc = engine_pass_others(t, plan, did);
    return rc < 0 ? rc : STEP_WAITS;
}

/* ---- ends ---- */

static void engine_leave(struct rplan *plan, int result)
{
    plan->result = result;
    plan->state = PLAN_IDLE;
    plan->team->weight -= plan->weight;
    list_remove(&plan->in_queue);
    if (UNLIKELY((plan->params.flags & RCOLL_VIEWS) != 0))
        engine_publish_views(plan->team);
    if (plan->free_at_end && !plan->in_call)
        plan_destroy(plan);
}

/*
 * The first part of an alltoall with counts has found that others follow: those take the next numbers, from operations that have been started after
 * it and have not begun, at all members alike.
 */
static __attribute__((cold, noinline)) void engine_renumber(struct rteam *t, struct rplan *plan)
{
    const uint64_t more = plan->parts.used - 1;

    t->number += more;
    for (struct link *link = plan->in_queue.next; link != &t->queue; link = link->next)
        container_of(link, struct rplan, in_queue)->number += more;
    engine_publish_views(t);
    t->weight += WEIGHT_COUNTED - plan->weight;
    plan->weight = WEIGHT_COUNTED;
    plan->may_be_alone = false;
}

/* Whether a part of the plan follows. Else it is over, and may be gone. */
static bool engine_end_part(struct rteam *t, struct rplan *plan)
{
    uint64_t number = plan->number;
    bool synchronizes = plan->synchronizes, more = plan_next_part(plan);

    if (more) {
        edge_release(t, &plan->op);
        plan->state = PLAN_QUEUED;
        if (UNLIKELY(plan_has_counted(plan)))
            engine_renumber(t, plan);
    } else {
        if (UNLIKELY(t->ended != NULL))
            t->ended(t);
        if ((plan->params.flags & RCOLL_VIEWS) != 0 && !plan->free_at_end) {
            plan->state = PLAN_HELD;
        } else {
            edge_release(t, &plan->op);
            engine_leave(plan, 0);
        }
    }
    engine_publish_done(t);
    if (synchronizes)
        engine_raise_floor(t, number);
    return more;
}

void engine_release(struct rteam *t, struct rplan *plan)
{
    if (plan->state != PLAN_HELD)
        return;
    edge_release(t, &plan->op);
    engine_leave(plan, 0);
    engine_publish_done(t);
}

void engine_end_all(struct rteam *t)
{
    while (!list_empty(&t->queue)) {
        struct rplan *plan = container_of(t->queue.next, struct rplan, in_queue);

        if (plan->state == PLAN_RUNS)
            edge_release(t, &plan->op);
        engine_leave(plan, plan->state == PLAN_HELD ? 0 : t->lost);
    }
    if (UNLIKELY(t->ended != NULL))
        t->ended(t);
}

/* Activates and advances a plan as far as it goes. STEP_DONE: its last part is over, and it may be gone. */
static int engine_advance_plan(struct rteam *t, struct rplan *plan, bool *did)
{
    for (;;) {
        int rc = plan->state == PLAN_QUEUED ? engine_activate(t, plan) : STEP_DONE;

        if (rc == STEP_DONE)
            rc = engine_pass(t, plan, did);
        if (rc != STEP_DONE)
            return rc;
        *did = true;
        if (!engine_end_part(t, plan))
            return STEP_DONE;
        if (UNLIKELY(plan_has_counted(plan))) /* the call is counted first */
            return STEP_WAITS;
    }
}

bool engine_advance(struct rteam *t)
{
    struct link *link, *after;
    bool did = false;

    list_for_each (link, after, &t->queue) {
        struct rplan *plan = container_of(link, struct rplan, in_queue);
        int rc;

        if (plan->state == PLAN_HELD)
            continue;
        rc = engine_advance_plan(t, plan, &did);
        if (rc < 0) {
            engine_end_all(t);
            return true;
        }
        if (rc == STEP_WAITS && (plan->state == PLAN_QUEUED || !plan_is_last_part(plan)))
            break; /* operations are activated in the order of their numbers: the ring relies on it */
    }
    return did;
}

/* ---- one operation by itself ---- */

struct engine_patience {
    uint32_t polls, yields;
};

/* Whether a mate that may share the processor of this member has not begun the operation. */
static bool engine_some_behind(const struct rteam *t, uint64_t number)
{
    for (int i = 0; i < t->nbeside; i++) {
        const struct head *head = (const struct head *)(const void *)t->board_of[t->mates[i]];
        uint32_t started =
            atomic_load_explicit(&head->started[number % HEAD_STARTED], memory_order_relaxed);

        if (!head_has_begun(started, number))
            return true;
    }
    return false;
}

/* Whether a step behind the one that waits awaits a mate that may share the processor of this member. */
static bool engine_awaits_beside(const struct operation *o)
{
    for (uint32_t i = o->next + 1; i < o->program->count; i++) {
        const struct step *s = &o->program->steps[i];

        if (s->kind == STEP_RECV && !s->elsewhere &&
            atomic_load_explicit(&operation_cell(o->number, s)->number, memory_order_relaxed) !=
                o->number)
            return true;
    }
    return false;
}

/*
 * Whether a member whose processor is shared polls instead of giving it away, which costs more than a message takes: what it awaits comes
 * from another processor, and those of its own have nothing to do, or nothing new. A member that has sent something in its turn gives
 * way where another one has not begun this operation: what was sent may be what that one awaits, to send the next message.
 */
static bool engine_polls_on(const struct rteam *t, const struct operation *o)
{
    const struct step *s = &o->program->steps[o->next];

    return s->kind == STEP_RECV && s->elsewhere && !engine_awaits_beside(o) &&
           !(t->has_sent && engine_some_behind(t, o->number));
}

static bool engine_pause_crowded(struct rteam *t, const struct operation *o,
                                 struct engine_patience *p)
{
    if (++p->polls < ALONE_POLLS && engine_polls_on(t, o)) {
        cpu_pause();
        return true;
    }
    sched_yield();
    t->has_sent = false;
    p->polls = 0;
    return ++p->yields < ALONE_YIELDS;
}

/* As in team_wait, but for a short time: false when that is over. */
static inline bool engine_pause(struct rteam *t, const struct operation *o,
                                struct engine_patience *p)
{
    if (t->crowded)
        return engine_pause_crowded(t, o, p);
    if (++p->polls > WAIT_POLLS_EAGER)
        cpu_pause();
    return p->polls < WAIT_POLLS && t->contended == 0;
}

/* Steps in their order. */
static inline int engine_run_row(struct rteam *t, struct rplan *plan)
{
    struct engine_patience patience = {0};
    int rc;

    plan_set_bases(plan);
    engine_begin(t, plan, &plan->program);
    plan->state = PLAN_RUNS;
    do
        rc = row_run(t, plan);
    while (rc == STEP_WAITS && engine_pause(t, &plan->op, &patience));
    return rc;
}

/* Steps as what they need is there. */
static __attribute__((noinline)) int engine_run_steps(struct rteam *t, struct rplan *plan)
{
    struct engine_patience patience = {0};
    bool did = false;
    int rc;

    plan->state = PLAN_QUEUED;
    rc = engine_activate(t, plan);
    if (rc != STEP_DONE)
        return rc;
    for (;;) {
        rc = engine_pass(t, plan, &did);
        if (did)
            patience = (struct engine_patience){0};
        did = false;
        if (rc != STEP_WAITS || !engine_pause(t, &plan->op, &patience))
            return rc;
    }
}

bool engine_run_alone(struct rteam *t, struct rplan *plan)
{
    int rc;

    engine_number(t, plan);
    rc = LIKELY(plan->is_row) ? engine_run_row(t, plan) : engine_run_steps(t, plan);
    if (UNLIKELY(rc == STEP_DONE && plan_next_part(plan))) {
        engine_append(t, plan, PLAN_QUEUED);
        engine_renumber(t, plan);
        engine_publish_done(t);
        return false;
    }
    if (UNLIKELY(rc != STEP_DONE)) {
        engine_append(t, plan, plan->state);
        if (rc < 0)
            engine_end_all(t);
        return false;
    }
    plan->state = PLAN_IDLE;
    engine_store_done(t, t->number);
    if (plan->synchronizes)
        engine_raise_floor(t, plan->number);
    return true;
}
