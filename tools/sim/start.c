/* SPDX-License-Identifier: BSD-3-Clause */
/* start.c: a simulation before it runs: see state.h. */
#include "tools/sim/state.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int sim_fail(struct sim *s, int code, const char *format, ...)
{
    va_list arguments;

    if (s->failed != 0)
        return s->failed;
    s->failed = code;
    va_start(arguments, format);
    error_vnote(s->err, format, arguments);
    va_end(arguments);
    return code;
}

/* ---- receives by sender and slot ---- */

static uint32_t start_hash(int to, int from, uint32_t slot)
{
    uint64_t x = (uint64_t)(uint32_t)to << 32 ^ (uint64_t)(uint32_t)from << 16 ^ slot;

    x *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x >> 32);
}

uint32_t sim_find_receive(const struct sim *s, int to, int from, uint32_t slot)
{
    for (uint32_t i = start_hash(to, from, slot);; i++) {
        uint32_t number = s->receives[i & s->receives_mask];
        const struct graph_node *node;

        if (number == 0)
            return SIM_NONE;
        node = sim_node(s, number - 1);
        if (s->operation[number - 1].member == to && (int)node->peer == from && node->slot == slot)
            return number - 1;
    }
}

static void start_add_receive(struct sim *s, uint32_t number)
{
    const struct graph_node *node = sim_node(s, number);
    uint32_t i = start_hash(s->operation[number].member, (int)node->peer, node->slot);

    while (s->receives[i & s->receives_mask] != 0)
        i++;
    s->receives[i & s->receives_mask] = number + 1;
}

/* ---- members and cores ---- */

static void start_open_operations(struct sim *s, int member)
{
    const struct sim_member *m = &s->member[member];

    for (uint32_t i = 0; i < m->g->count; i++) {
        bool receives = m->g->nodes[i].kind == GRAPH_RECV;

        s->operation[m->base + i] = (struct sim_operation){
            .announced = SIM_NEVER,
            .waits = m->g->waits[i] + receives + (m->g->waits[i] == 0), /* for the beginning */
            .cause = SIM_NONE,
            .from = SIM_NONE,
            .member = member};
        if (receives)
            start_add_receive(s, m->base + i);
    }
}

static uint32_t start_cores_of(const struct sim *s, int host)
{
    int members = s->shape->first[host + 1] - s->shape->first[host];

    assert(members > 0 && s->shape->cores > 0);
    return (uint32_t)(members < s->shape->cores ? members : s->shape->cores);
}

/* Members of a host are on its cores in turn. */
static void start_open_cores(struct sim *s)
{
    const struct shape *shape = s->shape;
    uint64_t draw = s->options->seed;

    for (int h = 0; h < shape->hosts; h++) {
        uint32_t cores = start_cores_of(s, h), first = s->cores;
        uint32_t members = (uint32_t)(shape->first[h + 1] - shape->first[h]);

        s->crowded |= cores < members;
        for (uint32_t c = 0; c < cores; c++) {
            draw = data_value((int)(draw >> 33) + (int)c);
            s->core[s->cores++] = (struct sim_core){.members = shape->members + shape->first[h] + c,
                                                    .count = (members - c + cores - 1) / cores,
                                                    .stride = cores,
                                                    .waits = true,
                                                    .wake = SIM_NEVER,
                                                    .last = SIM_NONE,
                                                    .call = SIM_NONE,
                                                    .little = SIM_NONE,
                                                    .noise = s->options->noise_period == 0
                                                                 ? SIM_NEVER
                                                                 : draw % s->options->noise_period};
        }
        for (uint32_t i = 0; i < members; i++)
            s->member[shape->members[shape->first[h] + (int)i]].core = first + i % cores;
    }
}

static int start_allocate(struct sim *s, uint64_t operations, uint64_t receives, uint32_t cores)
{
    uint64_t table = 16;

    if (operations > UINT32_MAX / 4)
        return -ENOMEM;
    while (table < 2 * receives)
        table *= 2;
    s->receives_mask = (uint32_t)(table - 1);
    s->operation = calloc(operations + 1, sizeof(*s->operation));
    s->ready = calloc(operations + 1, sizeof(*s->ready));
    s->receives = calloc(table, sizeof(*s->receives));
    s->core = calloc((size_t)cores + 1, sizeof(*s->core));
    s->host = calloc((size_t)s->shape->hosts, sizeof(*s->host));
    return s->operation == NULL || s->ready == NULL || s->receives == NULL || s->core == NULL ||
                   s->host == NULL
               ? -ENOMEM
               : 0;
}

int sim_open(struct sim *s, const struct graph *graph)
{
    uint64_t operations = 0, receives = 0, draw = s->options->seed + 1;
    uint32_t cores = 0;

    s->member = calloc((size_t)s->shape->size, sizeof(*s->member));
    if (s->member == NULL)
        return sim_fail(s, -ENOMEM, "no memory for %d members", s->shape->size);
    for (int i = 0; i < s->shape->size; i++) {
        s->member[i] = (struct sim_member){.g = &graph[i],
                                           .base = (uint32_t)operations,
                                           .left = graph[i].count,
                                           .ended = SIM_NEVER,
                                           .killed = SIM_NEVER};
        operations += graph[i].count;
        for (uint32_t k = 0; k < graph[i].count; k++)
            receives += graph[i].nodes[k].kind == GRAPH_RECV;
    }
    for (int h = 0; h < s->shape->hosts; h++)
        cores += start_cores_of(s, h);
    s->operations = (uint32_t)operations;
    if (start_allocate(s, operations, receives, cores) != 0)
        return sim_fail(s, -ENOMEM, "no memory for %llu operations",
                        (unsigned long long)operations);
    if (sim_blocks_open(s) != 0)
        return s->failed;
    start_open_cores(s);
    for (int k = 0; k < s->options->kills; k++)
        s->member[s->options->kill[k].member].killed = s->options->kill[k].time;
    for (int i = 0; i < s->shape->size; i++) {
        s->member[i].ready = s->ready + s->member[i].base;
        start_open_operations(s, i);
        draw = data_value((int)(draw >> 33) + i);
        if (sim_contribute(s, i) != 0 ||
            events_add(&s->events, s->options->skew == 0 ? 0 : draw % (s->options->skew + 1),
                       SIM_BEGIN, (uint32_t)i, 0) != 0)
            return sim_fail(s, -ENOMEM, "no memory for member %d", i);
    }
    return 0;
}

void sim_close(struct sim *s)
{
    for (uint32_t i = 0; i < s->operations && s->operation != NULL; i++)
        data_free(&s->operation[i].sent);
    for (int i = 0; i < s->shape->size && s->member != NULL; i++) {
        for (int k = 0; k < GRAPH_SPACES; k++)
            data_free(&s->member[i].memory[k]);
        sim_cache_close(&s->member[i]);
    }
    free(s->member);
    free(s->operation);
    free(s->ready);
    free(s->receives);
    free(s->core);
    free(s->host);
    free(s->over);
    free(s->block_at);
    free(s->block_in_at);
    data_free(&s->buffer);
    events_free(&s->events);
}
