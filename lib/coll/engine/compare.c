/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare.c: see compare.h.
 *
 * On a host a member loads what its mates have begun (`started` of their heads). Between hosts it sends probes when its oldest operation has made no
 * step for a second: number and check of that operation, to each member of another host that a step of it awaits; again in pauses that double, since a
 * member that has not begun the operation ignores its probe. A probe is a word of the board (rboard_post): it needs no pipe, so it also reaches a member that awaits
 * nothing from here. What comes is compared with the words of the own head.
 *
 * So a wait without end has a probe that finds it (model/probe.pml): of the operations that are not over somewhere take the one with the least number. All
 * members have begun it, or they are late. If all have begun the same, it ends. Else some member that has not ended it awaits, through members that have
 * begun what it has, one that has begun something else: the last of these sends that one a probe.
 */
#include "coll/engine/compare.h"

#include "coll/engine/fail.h"
#include "coll/engine/operation.h"
#include "util/clock.h"
#include "util/failpoint.h"

#define COMPARE_PAUSE_NS NS_PER_S /* without a step, before the first probes */
#define COMPARE_PAUSE_MOST_NS (8 * NS_PER_S)
#define COMPARE_PROBES 16 /* sent at a time; compared in a pass */

/* ---- on a host ---- */

static void compare_with_mates(struct rteam *t, const struct operation *o)
{
    for (int i = 0; i < t->nmates; i++) {
        const struct head *head = (const struct head *)(const void *)t->board_of[t->mates[i]];
        uint32_t started =
            atomic_load_explicit(&head->started[o->number % HEAD_STARTED], memory_order_relaxed);

        if (head_contradicts(started, o->number, o->check)) {
            (void)team_fail_other(t, o, t->mates[i]); /* sleeps: no board is loaded after it */
            return;
        }
    }
}

/* ---- between hosts: probes that come ---- */

static uint64_t compare_probe(const struct operation *o)
{
    return o->number << 16 | (o->check & HEAD_CHECK);
}

/* A member of another host is in this operation: compared with what has begun here as this number, if it has, and its word has not been replaced. */
static void compare_with_probe(struct rteam *t, int member, uint64_t probe)
{
    const struct operation o = {.number = probe >> 16, .check = (uint32_t)(probe & HEAD_CHECK)};
    const uint32_t started =
        atomic_load_explicit(&t->head->started[o.number % HEAD_STARTED], memory_order_relaxed);

    if (o.number < t->number && head_contradicts(started, o.number, o.check))
        (void)team_fail_other(t, &o, member);
}

static void compare_with_others(struct rteam *t)
{
    uint64_t probe;
    int member;

    for (int k = 0; k < COMPARE_PROBES && t->lost == 0; k++) {
        if (rboard_take(t->board, &member, &probe) != 0)
            return;
        RPIPE_FAILPOINT("net: rcoll: probe here");
        compare_with_probe(t, member, probe);
    }
}

/* ---- between hosts: probes that are sent ---- */

/* Whether a step waits for s->peer, on another host: for a message, or until it reads one. */
static bool compare_awaits(const struct operation *o, uint32_t i)
{
    const struct step *s = &o->program->steps[i];

    if (operation_step_is_done(o, i))
        return false;
    return s->kind == STEP_PIPE_RECV ||
           (s->kind == STEP_PIPE_SEND && !s->by_cast && operation_step_may_begin(o, s));
}

/* The next member behind `last` for which the operation waits; the size of the team: there is none. */
static int compare_next(const struct rteam *t, const struct operation *o, int last)
{
    int next = t->size;

    for (uint32_t i = o->next; i < o->program->count; i++) {
        const int peer = o->program->steps[i].peer;

        if (compare_awaits(o, i) && peer > last && peer < next)
            next = peer;
    }
    return next;
}

/* Some of those that are awaited, in turn. A probe that cannot be sent is left out: the member is gone, or the next turn has it. */
static void compare_send(struct rteam *t, const struct operation *o)
{
    struct team_probes *p = &t->probes;

    for (int k = 0; k < COMPARE_PROBES; k++) {
        p->last = compare_next(t, o, p->last);
        if (p->last == t->size) {
            p->last = -1;
            p->pause = p->pause < COMPARE_PAUSE_MOST_NS ? 2 * p->pause : p->pause;
            return;
        }
        RPIPE_FAILPOINT("net: rcoll: before a probe");
        (void)rboard_post(t->board, p->last, compare_probe(o));
        RPIPE_FAILPOINT("net: rcoll: probe sent");
    }
}

static void compare_probe_others(struct rteam *t, const struct operation *o)
{
    const int64_t now = clock_now();
    struct team_probes *p = &t->probes;

    if (p->number != o->number || p->next != o->next)
        *p = (struct team_probes){.number = o->number,
                                  .next = o->next,
                                  .last = -1,
                                  .at = now + COMPARE_PAUSE_NS,
                                  .pause = COMPARE_PAUSE_NS};
    if (now < p->at)
        return;
    compare_send(t, o);
    /* all have had theirs; else the others of this turn follow */
    p->at = now + (p->last < 0 ? p->pause : COMPARE_PAUSE_NS);
}

void team_compare_operations(struct rteam *t)
{
    const bool apart = t->shape.hosts > 1;
    bool oldest = true;

    if (apart)
        compare_with_others(t);
    for (const struct link *link = t->queue.next; link != &t->queue && t->lost == 0;
         link = link->next) {
        const struct rplan *plan = container_of(link, struct rplan, in_queue);

        if (plan->state != PLAN_RUNS)
            continue;
        compare_with_mates(t, &plan->op);
        if (apart && oldest && t->lost == 0)
            compare_probe_others(t, &plan->op);
        oldest = false;
    }
}
