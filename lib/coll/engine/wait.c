/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c: see wait.h. A waiter polls; where members outnumber processors it yields after each poll, so that others come to what it
 * waits for; then it sleeps on the words that it waits for.
 */
#include "coll/engine/wait.h"

#include "coll/engine/compare.h"
#include "coll/engine/edge.h"
#include "coll/engine/engine.h"
#include "coll/engine/fail.h"
#include "coll/engine/plan.h"
#include "coll/engine/step.h"
#include "coll/engine/operation.h"
#include "util/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define WAIT_POLLS_PIPES 32     /* where polls are of pipes, which may be system calls */
#define WAIT_LONG_YIELD_NS 3000 /* another process has run */
#define WAIT_CONTENDED 16       /* yields */
#define WAIT_CHECK_EVERY 64     /* polls or yields: losses, the deadline, the job */
#define WAIT_YIELD_NS 2000000   /* of yields that brought nothing, before it sleeps */
#define WAIT_SLICE_MS 50
#define WAIT_NAP_NS 50000 /* where no word of this host changes: of pipes, and of credits */

struct team_waiter {
    uint32_t polls;
    int64_t deadline, idle_since; /* 0: it has not yielded since something was done */
};

/* A SEND that has been tried, and whose cell was not free: it becomes free by words of all mates, which are not slept on. */
static bool wait_is_for_cell(const struct rteam *t, const struct operation *o, const struct step *s)
{
    return s->kind == STEP_SEND && t->floor + cell_depth(t->depth, s->slot) <= o->number &&
           operation_step_may_begin(o, s);
}

int team_awaited_words(const struct rteam *t, rboard_word_t word[WAIT_WORDS])
{
    const struct link *link;
    int n = 0;

    for (link = t->queue.next; link != &t->queue; link = link->next) {
        const struct rplan *plan = container_of(link, struct rplan, in_queue);
        const struct operation *o = &plan->op;

        if (plan->state == PLAN_QUEUED)
            return 0;
        if (plan->state != PLAN_RUNS)
            continue;
        if (o->program->has_pipes)
            return 0;
        for (uint32_t i = o->next; i < o->program->count; i++) {
            if (operation_step_is_done(o, i))
                continue;
            if (wait_is_for_cell(t, o, &o->program->steps[i]))
                return 0;
            if (step_word(t, plan, i, &word[n])) {
                if (++n == WAIT_WORDS)
                    return n;
            } else if (i == o->next)
                return 0;
        }
    }
    return n;
}

static void wait_sleep(struct rteam *t)
{
    rboard_word_t word[WAIT_WORDS];
    int n;

    team_lock(t);
    n = team_awaited_words(t, word);
    team_unlock(t);
    if (n > 0)
        (void)rboard_sleep(t->board, word, n, WAIT_SLICE_MS);
    else {
        edge_drive(t);
        if (t->driver != NULL) /* it drives one stream; after this time others may be in the way */
            (void)rpipe_progress();
        clock_sleep(WAIT_NAP_NS);
    }
}

/* Yields. A long one means that others needed this processor: then the next waits yield earlier. */
static void wait_yield_once(struct rteam *t)
{
    int64_t before = clock_now();

    sched_yield();
    if (clock_now() - before > WAIT_LONG_YIELD_NS)
        t->contended = WAIT_CONTENDED;
    else if (t->contended > 0)
        t->contended--;
}

/* Whether losses and the deadline are to be checked. */
static bool wait_pause(struct rteam *t, struct team_waiter *w)
{
    bool pipes = t->shape.hosts > 1;
    uint32_t most = t->crowded || t->contended > 0 ? 0 : pipes ? WAIT_POLLS_PIPES : WAIT_POLLS;
    int64_t now;

    w->polls++;
    if (w->polls < most) {
        if (w->polls > WAIT_POLLS_EAGER)
            cpu_pause();
        return w->polls % WAIT_CHECK_EVERY == 0;
    }
    if (t->crowded && !pipes)
        sched_yield();
    else
        wait_yield_once(t);
    if (!t->threads)
        t->has_sent = false; /* its next turn begins */
    if (w->polls % (WAIT_CHECK_EVERY / 4) != 0)
        return false;
    if (pipes)
        edge_drive(t);
    now = clock_now();
    if (w->idle_since == 0)
        w->idle_since = now;
    else if (now - w->idle_since > WAIT_YIELD_NS)
        wait_sleep(t);
    return true;
}

/* False: the job has ended. */
static bool wait_count(struct team_call *call)
{
    team_count(call);
    return rpipe_initialized() == 1;
}

static int wait_job_ended(struct rteam *t)
{
    team_withdraw(t, -ENOTCONN);
    return coll_fail(-ENOTCONN, "the job has ended");
}

int team_wait(struct rteam *t, struct team_call *call, team_condition condition, void *of,
              int timeout_ms)
{
    struct team_waiter w = {.deadline = -1};

    /* a team that threads share is counted already, and its weight is under its mutex */
    if (!call->counted && UNLIKELY(team_is_heavy(t)) && !wait_count(call))
        return wait_job_ended(t);
    for (;;) {
        bool did, is_over;

        team_lock(t);
        did = engine_advance(t);
        is_over = condition(t, of);
        team_unlock(t);
        if (is_over)
            return 0;
        if (did) {
            if (!call->counted && UNLIKELY(team_is_heavy(t)) && !wait_count(call))
                return wait_job_ended(t); /* an alltoall with counts has several parts */
            w.polls = 0;
            w.idle_since = 0;
            if (!t->crowded)
                continue;
        }
        if (LIKELY(!wait_pause(t, &w)))
            continue;
        if (!wait_count(call))
            return wait_job_ended(t);
        team_lock(t);
        if (w.deadline != -1)
            team_compare_operations(t);
        if (team_is_lost(t)) {
            engine_end_all(t);
            is_over = condition(t, of);
            team_unlock(t);
            return is_over ? 0 : t->lost;
        }
        team_unlock(t);
        if (w.deadline == -1)
            w.deadline = deadline_in_ms(timeout_ms);
        else if (deadline_passed(w.deadline))
            return -ETIMEDOUT;
    }
}

/* ---- the message of a deadline ---- */

/* Whether a mate has not begun the operation. */
static bool wait_is_absent(const struct rteam *t, int mate, uint64_t number)
{
    const struct head *head = (const struct head *)(const void *)t->board_of[mate];
    uint32_t started =
        atomic_load_explicit(&head->started[number % HEAD_STARTED], memory_order_relaxed);

    return !head_has_begun(started, number);
}

/* A message to a member of another host could be sent, and waits for its pipe: to be open at both ends, or for memory. That of a cast waits for one of many. */
static bool wait_is_for_reader(const struct operation *o, const struct step *s)
{
    return s->kind == STEP_PIPE_SEND && !s->by_cast && operation_step_may_begin(o, s) &&
           operation_available(o, s->from, s->from_at, s->bytes) == s->bytes;
}

/*
 * Of the oldest operation that runs, a member that does not read what it is sent; else one of this host that has not begun, best one whose
 * message is awaited; else one whose message is awaited, which may be waiting itself; else one that is behind. -1: there is none. *what: what
 * the member "has not".
 */
static int wait_find_late(const struct rteam *t, const struct rplan *plan, const char **what)
{
    const struct operation *o = &plan->op;
    int awaited = -1, absent = -1;

    *what = "come";
    for (uint32_t i = o->next; plan->state == PLAN_RUNS && i < o->program->count; i++) {
        const struct step *s = &o->program->steps[i];

        if (operation_step_is_done(o, i))
            continue;
        if (wait_is_for_reader(o, s)) {
            *what = "come, or does not read what it is sent";
            return s->peer;
        }
        if (absent < 0 && s->kind == STEP_RECV && wait_is_absent(t, s->peer, plan->number))
            absent = s->peer;
        if (awaited < 0 && (s->kind == STEP_RECV || s->kind == STEP_PIPE_RECV))
            awaited = s->peer;
    }
    for (int i = 0; i < t->nmates && awaited >= 0 && absent < 0; i++)
        if (wait_is_absent(t, t->mates[i], plan->number))
            absent = t->mates[i];
    if (absent >= 0)
        return absent;
    if (awaited >= 0)
        return awaited;
    for (int i = 0; i < t->nmates; i++) {
        const struct head *head = (const struct head *)(const void *)t->board_of[t->mates[i]];

        if (atomic_load_explicit(&head->done, memory_order_relaxed) < plan->number)
            return t->mates[i];
    }
    return -1;
}

/*
 * Whether views that are held here keep an operation back: it cannot begin; or a cell that it needs is one of the operation that is held, at
 * this member or at a mate, which may not write it either.
 */
static bool wait_is_held(const struct rteam *t, const struct rplan *held, const struct rplan *plan)
{
    const struct operation *o = &plan->op;

    if (held->state != PLAN_HELD || plan->state == PLAN_QUEUED)
        return held->state == PLAN_HELD;
    for (uint32_t i = o->next; plan->state == PLAN_RUNS && i < o->program->count; i++) {
        const struct step *s = &o->program->steps[i];

        if ((s->kind == STEP_SEND || s->kind == STEP_RECV) && !operation_step_is_done(o, i) &&
            o->number >= held->number + cell_depth(t->depth, s->slot))
            return true;
    }
    return false;
}

/* Neither the cells of the held operation nor the heap behind them can be used again. */
static int wait_held(const struct rplan *held, const struct rplan *plan, const char *call,
                     int timeout_ms)
{
    char name[80];

    return coll_fail(
        -ETIMEDOUT,
        "%s: operation %llu, %s, is not over within %d ms: this member holds the views of "
        "operation %llu; rcoll_release gives them back%s",
        call, (unsigned long long)plan->number, plan_name(plan, name, sizeof(name)), timeout_ms,
        (unsigned long long)held->number,
        plan->state == PLAN_QUEUED ? ", or give the team a larger heap_bytes" : "");
}

/* Views that are not released, here or at a mate, may be what an operation waits for: of the heap of a member all is in use behind them. */
static void wait_find_views(const struct rplan *first, const struct head *head, char *text,
                            size_t bytes)
{
    uint64_t views = head != NULL ? atomic_load_explicit(&head->views, memory_order_relaxed) : 0;

    text[0] = '\0';
    if (first->state == PLAN_HELD)
        snprintf(text, bytes,
                 "; this member holds the views of operation %llu, which keep memory of others in "
                 "use: rcoll_release gives them back",
                 (unsigned long long)first->number);
    else if (views != 0)
        snprintf(text, bytes, "; it has not given back the views of operation %llu (rcoll_release)",
                 (unsigned long long)views);
}

static int wait_timed_out(const struct rteam *t, const char *call, int timeout_ms)
{
    const struct link *link = t->queue.next;
    const struct rplan *plan, *first;
    const struct head *head;
    char name[80], views[160];
    const char *what;
    int late;

    while (link != &t->queue &&
           container_of(link, const struct rplan, in_queue)->state == PLAN_HELD)
        link = link->next;
    if (link == &t->queue)
        return coll_fail(-ETIMEDOUT, "%s: not over within %d ms", call, timeout_ms);
    first = container_of(t->queue.next, const struct rplan, in_queue);
    plan = container_of(link, const struct rplan, in_queue);
    if (wait_is_held(t, first, plan))
        return wait_held(first, plan, call, timeout_ms);
    late = wait_find_late(t, plan, &what);
    plan_name(plan, name, sizeof(name));
    if (late < 0)
        return coll_fail(-ETIMEDOUT, "%s: operation %llu, %s, is not over within %d ms", call,
                         (unsigned long long)plan->number, name, timeout_ms);
    head = (const struct head *)(const void *)t->board_of[late];
    wait_find_views(first, head, views, sizeof(views));
    if (head == NULL)
        return coll_fail(
            -ETIMEDOUT,
            "%s: operation %llu, %s, is not over within %d ms: member %d, rank %d, has not %s%s",
            call, (unsigned long long)plan->number, name, timeout_ms, late, t->rank[late], what,
            views);
    return coll_fail(
        -ETIMEDOUT,
        "%s: operation %llu, %s, is not over within %d ms: member %d, rank %d, has not %s; "
        "the first that is not over there is %llu%s",
        call, (unsigned long long)plan->number, name, timeout_ms, late, t->rank[late], what,
        (unsigned long long)atomic_load_explicit(&head->done, memory_order_relaxed), views);
}

int team_timed_out(struct rteam *t, const char *call, int timeout_ms)
{
    int rc;

    team_lock(t);
    rc = wait_timed_out(t, call, timeout_ms);
    team_unlock(t);
    return rc;
}
