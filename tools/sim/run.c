/* SPDX-License-Identifier: BSD-3-Clause */
/* run.c: virtual time: which operation of which member a core executes when. See sim.h. */
#include "tools/sim/state.h"

#include <errno.h>
#include <stdlib.h>

/* ---- operations that can be executed ---- */

static void run_push(struct sim_member *m, uint32_t number)
{
    uint32_t i = m->nready++;

    for (; i > 0 && number < m->ready[(i - 1) / 2]; i = (i - 1) / 2)
        m->ready[i] = m->ready[(i - 1) / 2];
    m->ready[i] = number;
}

static uint32_t run_pop(struct sim_member *m)
{
    uint32_t top = m->ready[0], moved = m->ready[--m->nready], i = 0;

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= m->nready)
            break;
        if (child + 1 < m->nready && m->ready[child + 1] < m->ready[child])
            child++;
        if (m->ready[child] >= moved)
            break;
        m->ready[i] = m->ready[child];
        i = child;
    }
    m->ready[i] = moved;
    return top;
}

/* ---- cores ---- */

static struct sim_member *run_member(struct sim *s, const struct sim_core *core, uint32_t index)
{
    return &s->member[core->members[index * core->stride]];
}

static bool run_can(const struct sim_member *m, uint64_t t)
{
    return m->nready > 0 && m->killed > t;
}

static void run_wake_at(struct sim *s, uint32_t number, uint64_t time)
{
    struct sim_core *core = &s->core[number];

    core->wake = time;
    if (events_add(&s->events, time, SIM_RUN, number, ++core->turn) != 0)
        sim_fail(s, -ENOMEM, "no memory for %u events", s->events.count);
}

/*
 * A core has nothing to execute since `since`, and its members yield to each other: when member `index`
 * runs for the first time at t or later.
 */
static uint64_t run_turn_of(const struct sim *s, const struct sim_core *core, uint32_t index,
                            uint64_t t)
{
    uint64_t yield = s->model->yield, turns, first;

    if (core->count == 1 || yield == 0)
        return t > core->since ? t : core->since;
    first = core->since +
            ((uint64_t)index + core->count - core->current - 1) % core->count * yield + yield;
    if (first >= t)
        return first;
    turns = (t - first + core->count * yield - 1) / (core->count * yield);
    return first + turns * core->count * yield;
}

/* The core is free at t, and its member has nothing to execute: the next one in turn that has. */
static void run_block(struct sim *s, uint32_t number, uint64_t t)
{
    struct sim_core *core = &s->core[number];
    uint64_t best = SIM_NEVER;

    core->waits = true;
    core->since = t;
    core->wake = SIM_NEVER;
    for (uint32_t i = 0; i < core->count; i++) {
        uint64_t at = run_turn_of(s, core, i, t);

        if (at < best && run_can(run_member(s, core, i), at))
            best = at;
    }
    if (best != SIM_NEVER)
        run_wake_at(s, number, best);
}

void sim_add_ready(struct sim *s, uint32_t number, uint64_t t)
{
    struct sim_member *m = &s->member[s->operation[number].member];
    struct sim_core *core = &s->core[m->core];
    uint64_t at;

    run_push(m, number);
    if (!core->waits)
        return; /* it continues with it when the present operation is over */
    for (uint32_t i = 0; i < core->count; i++)
        if (run_member(s, core, i) == m) {
            at = run_turn_of(s, core, i, t);
            if (at < core->wake)
                run_wake_at(s, m->core, at);
            return;
        }
}

static void run_one(struct sim *s, uint32_t core_number, struct sim_member *m, uint64_t *t)
{
    struct sim_core *core = &s->core[core_number];
    uint32_t number = run_pop(m);
    struct sim_operation *operation = &s->operation[number];
    const struct graph *g = m->g;
    uint32_t node = number - m->base;

    if (core->last != SIM_NONE && operation->ready < core->since) {
        operation->after_core = true;
        operation->cause = core->last;
    }
    operation->start = *t;
    *t = sim_execute(s, number, *t);
    operation->end = *t;
    core->last = number;
    core->since = *t;
    for (uint32_t k = g->first[node]; k < g->first[node + 1]; k++)
        sim_release(s, m->base + g->successors[k], *t, number);
    sim_window_over(s, number, *t);
    if (--m->left == 0)
        m->ended = *t;
}

/* Executes until the member has nothing to execute, or an event comes first. */
static void run_core(struct sim *s, uint32_t number, uint64_t t)
{
    struct sim_core *core = &s->core[number];
    struct sim_member *m;

    if (core->waits) { /* whose turn is it? */
        uint32_t i = 0;

        for (; i < core->count; i++)
            if (run_turn_of(s, core, i, t) == t && run_can(run_member(s, core, i), t))
                break;
        if (i == core->count) {
            run_block(s, number, t);
            return;
        }
        core->current = i;
        core->waits = false;
    }
    m = run_member(s, core, core->current);
    while (run_can(m, t) && s->failed == 0) {
        run_one(s, number, m, &t);
        if (s->events.count > 0 && s->events.event[0].time < t) {
            run_wake_at(s, number, t);
            return;
        }
    }
    run_block(s, number, t);
}

/* ---- events ---- */

static void run_begin(struct sim *s, int member, uint64_t t)
{
    struct sim_member *m = &s->member[member];

    if (m->killed <= t)
        return;
    if (m->left == 0)
        m->ended = t;
    for (uint32_t i = 0; i < m->g->count; i++) {
        if (m->g->waits[i] > 0)
            continue;
        sim_release(s, m->base + i, t, SIM_NONE);
    }
}

static void run_events(struct sim *s)
{
    struct event e;

    while (s->failed == 0 && events_next(&s->events, &e)) {
        switch ((enum sim_event)e.kind) {
        case SIM_BEGIN:
            run_begin(s, (int)e.at, e.time);
            break;
        case SIM_RUN:
            if (s->core[e.at].turn == e.what)
                run_core(s, e.at, e.time);
            break;
        case SIM_INJECT:
            sim_inject(s, e.at, e.time);
            break;
        case SIM_LAND:
            sim_land(s, e.at, e.time);
            break;
        case SIM_ARRIVE:
            s->operation[e.at].arrived = e.time;
            sim_release(s, e.at, e.time, s->operation[e.at].from);
            break;
        case SIM_CAST:
            sim_cast(s, e.at, e.time);
            break;
        case SIM_CREDIT:
            sim_release(s, e.at, e.time, e.what);
            break;
        }
    }
}

static int run_check_options(const struct shape *shape, const struct coll_request *request,
                             const struct sim_options *options, struct error *err)
{
    const struct coll_model *m = &options->model;
    uint64_t most = UINT64_C(1) << 40; /* a second */

    if (request->kind == COLL_ALLTOALL && request->counts != NULL && options->request_of == NULL)
        return error_set(err, -EINVAL, "the counts of an alltoall differ between members");
    if (options->multicast > most || options->ask > most || options->loss > SIM_LOSS_MOST)
        return error_set(err, -EINVAL, "multicast of more than a second, or half of it is lost");
    if (m->line > most || m->more > most || m->yield > most || m->step > most ||
        m->overhead > most || m->latency > most || m->gap > most || m->call_gap > most ||
        m->send > most || m->way > most || m->receive > most || options->skew > most ||
        m->copy > 1000000 || m->fold > 1000000 || m->byte > 1000000 || m->send_byte > 1000000 ||
        m->gathered_byte > 1000000 || m->way_byte > 1000000 || m->receive_byte > 1000000)
        return error_set(err, -EINVAL, "a parameter of more than a second, or 1 us for a byte");
    if (options->noise_period > 0 && options->noise_length >= options->noise_period / 2)
        return error_set(err, -EINVAL, "noise of more than half of the time");
    for (int k = 0; k < options->kills; k++)
        if (options->kill[k].member < 0 || options->kill[k].member >= shape->size)
            return error_set(err, -EINVAL, "there is no member %d to be killed",
                             options->kill[k].member);
    return 0;
}

int sim_run(const struct shape *shape, const struct graph *graph,
            const struct coll_request *request, const struct sim_options *options,
            struct sim_result *result, struct error *err)
{
    struct sim s = {.shape = shape,
                    .request = request,
                    .options = options,
                    .model = &options->model,
                    .result = result,
                    .err = err};

    *result = (struct sim_result){0};
    s.failed = run_check_options(shape, request, options, err);
    if (s.failed != 0)
        return s.failed;
    if (sim_open(&s, graph) == 0 && sim_window_open(&s) == 0)
        run_events(&s);
    if (s.failed == 0)
        sim_check(&s);
    if (s.failed == 0)
        sim_summarize(&s);
    sim_close(&s);
    return s.failed;
}

/* The graphs of a loop in place of those of one operation. */
static int run_repeat(struct graph *graph, int size, int times, struct error *err)
{
    uint32_t slots = 0;
    int rc = 0;

    for (int i = 0; i < size; i++)
        slots = graph[i].slots > slots ? graph[i].slots : slots;
    for (int i = 0; i < size && rc == 0; i++) {
        struct graph one = graph[i];

        rc = sim_repeat(&graph[i], &one, slots, times, err);
        graph_free(&one);
    }
    return rc;
}

static int run_build(struct graph *g, const struct shape *shape, int member,
                     const struct coll_request *request, const struct coll_choice *choice,
                     const struct sim_options *options, struct error *err)
{
    struct coll_request own = sim_request_of(options, request, member);

    return coll_build(g, shape, member, &own, choice, err);
}

int sim_request(const struct shape *shape, const struct coll_request *request,
                const struct coll_choice *choice, const struct sim_options *options,
                struct sim_result *result, struct error *err)
{
    struct graph *graph = calloc((size_t)shape->size, sizeof(*graph));
    int rc = graph == NULL ? error_set(err, -ENOMEM, "no memory for %d members", shape->size) : 0;

    if (options->repeat > 1 && request->in_place)
        rc = error_set(err, -EINVAL, "a loop of operations in place has other results");
    for (int i = 0; i < shape->size && rc == 0; i++)
        rc = run_build(&graph[i], shape, i, request, choice, options, err);
    if (rc == 0 && options->repeat > 1)
        rc = run_repeat(graph, shape->size, options->repeat, err);
    if (rc == 0)
        rc = sim_run(shape, graph, request, options, result, err);
    for (int i = 0; i < shape->size && graph != NULL; i++)
        graph_free(&graph[i]);
    free(graph);
    return rc;
}
