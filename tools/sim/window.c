/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.c: how many operations of a loop are in flight on a host: see sim.h. Member i executes a SEND of operation k to its host when
 * all members of the host are over with operation k - depth, as the floor of a team's board has it (doc/boards.md); it reads that from
 * their boards when the least that it knows of them is not enough.
 *
 * The graph of a loop (repeat.c) has as many nodes for each operation, the last of which joins it.
 */
#include "tools/sim/state.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t window_per(const struct sim *s, const struct sim_member *m)
{
    return m->g->count / (uint32_t)s->options->repeat;
}

static bool window_is_local_send(const struct sim *s, int member, uint32_t node)
{
    const struct graph *g = s->member[member].g;
    const struct graph_node *n = &g->nodes[node];

    for (uint32_t i = 0; n->kind == GRAPH_SEND && i < n->npeers; i++)
        if (s->shape->host[g->peers[n->peer + i]] == s->shape->host[member])
            return true;
    return false;
}

/* What is over at all where it is over at one is never read: all wait for all. */
static bool window_synchronizes(const struct coll_request *r)
{
    return r->kind == COLL_BARRIER || r->kind == COLL_ALLREDUCE || r->kind == COLL_ALLGATHER ||
           r->kind == COLL_ALLTOALL;
}

int sim_window_open(struct sim *s)
{
    uint32_t depth = (uint32_t)s->options->depth;

    if (s->options->repeat < 2 || depth == 0 || depth >= (uint32_t)s->options->repeat)
        return 0;
    s->over = calloc((size_t)s->shape->hosts * (size_t)s->options->repeat, sizeof(*s->over));
    if (s->over == NULL)
        return sim_fail(s, -ENOMEM, "no memory for %d operations of each host", s->options->repeat);
    s->depth = depth;
    for (int i = 0; i < s->shape->size; i++) {
        const struct sim_member *m = &s->member[i];

        for (uint32_t node = depth * window_per(s, m); node < m->g->count; node++)
            if (window_is_local_send(s, i, node))
                s->operation[m->base + node].waits++;
    }
    return 0;
}

/* All members of the host are over with operation k: those that wait for it may write again. */
static void window_move(struct sim *s, int host, uint32_t k, uint64_t t, uint32_t cause)
{
    uint64_t line = s->model->line;

    s->host[host].over = k + 1;
    if (k + s->depth >= (uint32_t)s->options->repeat)
        return;
    for (int i = s->shape->first[host]; i < s->shape->first[host + 1]; i++) {
        int member = s->shape->members[i];
        const struct sim_member *m = &s->member[member];
        uint32_t per = window_per(s, m), first = (k + s->depth) * per;

        for (uint32_t node = first; node < first + per; node++)
            if (window_is_local_send(s, member, node) &&
                events_add(&s->events, t + line, SIM_CREDIT, m->base + node, cause) != 0)
                sim_fail(s, -ENOMEM, "no memory for %u events", s->events.count);
    }
}

void sim_window_over(struct sim *s, uint32_t number, uint64_t t)
{
    int member = s->operation[number].member, host = s->shape->host[member];
    const struct sim_member *m = &s->member[member];
    uint32_t node, per, k, *over;

    if (s->depth == 0)
        return;
    node = number - m->base;
    per = window_per(s, m);
    if (node % per != per - 1)
        return;
    k = node / per;
    over = &s->over[(size_t)host * (size_t)s->options->repeat + k];
    if (++*over == (uint32_t)(s->shape->first[host + 1] - s->shape->first[host]))
        window_move(s, host, k, t, number);
}

uint64_t sim_window_cost(struct sim *s, uint32_t number)
{
    int member = s->operation[number].member, host = s->shape->host[member];
    struct sim_member *m = &s->member[member];
    uint32_t k, mates = (uint32_t)(s->shape->first[host + 1] - s->shape->first[host]) - 1;

    if (s->depth == 0 || window_synchronizes(s->request))
        return 0;
    k = (number - m->base) / window_per(s, m);
    if (m->floor + s->depth > k)
        return 0;
    m->floor = s->host[host].over;
    return s->model->line + (mates - 1) * s->model->more;
}
