/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.c: how many operations of a loop are in flight on a host: see sim.h. Member i executes a SEND of operation k to its host when
 * all members of the host are over with operation k - depth, as the floor of a team's board has it (doc/boards.md): `depth` of slot 0, 8 or 4
 * of others, or fewer, if the heap has messages of no more of them. It reads that from their boards when the least that it has read is not enough.
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

uint32_t sim_window_of(const struct sim *s, uint32_t number)
{
    const struct sim_member *m = &s->member[s->operation[number].member];

    return s->options->repeat > 1 ? (number - m->base) / window_per(s, m) : 0;
}

bool sim_window_ends(const struct sim *s, uint32_t number)
{
    const struct sim_member *m = &s->member[s->operation[number].member];

    return s->options->repeat > 1 && (number - m->base + 1) % window_per(s, m) == 0;
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

/* CELL_DEPTH of the engine; and of its last slots, from the first of these on */
#define WINDOW_DEPTH 8
#define WINDOW_DEPTH_LAST 4
#define WINDOW_LAST 32

/* The slots of a loop are those of one operation, again for each. */
static uint32_t window_depth(const struct sim *s, const struct sim_member *m, uint32_t node)
{
    uint32_t slot = sim_slot(s, &m->g->nodes[node]), depth = s->depth;
    uint32_t most = slot == 0 ? depth : slot < WINDOW_LAST ? WINDOW_DEPTH : WINDOW_DEPTH_LAST;
    size_t heaps;

    depth = depth < most ? depth : most;
    heaps = m->heap_bytes > 0 ? SIM_HEAP_BYTES / m->heap_bytes : depth;
    return heaps == 0 ? 1 : heaps < depth ? (uint32_t)heaps : depth;
}

static size_t window_heap_bytes(const struct sim *s, int member)
{
    const struct sim_member *m = &s->member[member];
    size_t bytes = 0;

    for (uint32_t node = 0; node < window_per(s, m); node++)
        if (window_is_local_send(s, member, node) && !m->g->nodes[node].lent &&
            m->g->nodes[node].bytes > sim_cell_bytes(s, &m->g->nodes[node]))
            bytes += m->g->nodes[node].bytes;
    return bytes;
}

int sim_window_open(struct sim *s)
{
    uint32_t depth = (uint32_t)s->options->depth, slots = 0;

    if (s->options->repeat < 2)
        return 0;
    for (int i = 0; i < s->shape->size; i++)
        slots = s->member[i].g->slots > slots ? s->member[i].g->slots : slots;
    s->slots = slots / (uint32_t)s->options->repeat + (slots % (uint32_t)s->options->repeat != 0);
    if (depth == 0)
        return 0;
    s->over = calloc((size_t)s->shape->hosts * (size_t)s->options->repeat, sizeof(*s->over));
    if (s->over == NULL)
        return sim_fail(s, -ENOMEM, "no memory for %d operations of each host", s->options->repeat);
    s->depth = depth;
    for (int i = 0; i < s->shape->size; i++) {
        struct sim_member *m = &s->member[i];

        m->heap_bytes = window_heap_bytes(s, i);
        for (uint32_t node = 0; node < m->g->count && !window_synchronizes(s->request); node++)
            if (window_is_local_send(s, i, node) &&
                node >= (uint64_t)window_depth(s, m, node) * window_per(s, m))
                s->operation[m->base + node].waits++;
    }
    return 0;
}

/* All members of the host are over with operation k: those that wait for it may write again. */
static void window_move(struct sim *s, int host, uint32_t k, uint64_t t, uint32_t cause)
{
    uint64_t line = s->model->line;

    s->host[host].over = k + 1;
    if (window_synchronizes(s->request))
        return;
    for (int i = s->shape->first[host]; i < s->shape->first[host + 1]; i++) {
        int member = s->shape->members[i];
        const struct sim_member *m = &s->member[member];
        uint32_t per = window_per(s, m);

        for (uint32_t node = (k + 1) * per; node < (k + s->depth + 1) * per && node < m->g->count;
             node++)
            if (window_is_local_send(s, member, node) &&
                node / per == k + window_depth(s, m, node) &&
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
    if (m->floor + window_depth(s, m, number - m->base) > k)
        return 0;
    m->floor = s->host[host].over;
    return s->model->line + (mates - 1) * s->model->more;
}
