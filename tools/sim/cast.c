/* SPDX-License-Identifier: BSD-3-Clause */
/* cast.c: multicast between simulated hosts: see sim.h. */
#include "tools/sim/state.h"

#include <errno.h>

static bool cast_is_remote(const struct sim *s, uint32_t number, int to)
{
    return s->shape->host[to] != s->shape->host[s->operation[number].member];
}

/* Of multicast; 0: there is none. */
static uint64_t cast_latency(const struct sim *s, uint32_t number)
{
    if (s->options->multicast != 0)
        return s->options->multicast;
    return sim_node(s, number)->op == GRAPH_BY_CAST ? s->model->multicast : 0;
}

/* Of a million; not all, or asking would not end. */
static uint64_t cast_loss(const struct sim *s)
{
    const uint64_t loss = s->options->loss != 0 ? s->options->loss : 10 * s->model->loss;

    return loss < SIM_LOSS_MOST ? loss : SIM_LOSS_MOST;
}

bool sim_casts(const struct sim *s, uint32_t number)
{
    const struct graph_node *node = sim_node(s, number);
    const struct graph *g = s->member[s->operation[number].member].g;
    int remote = 0;

    if (cast_latency(s, number) == 0 || node->kind != GRAPH_SEND ||
        (node->op != GRAPH_BY_CAST && s->operation[number].member != s->request->root))
        return false;
    for (uint32_t i = 0; i < node->npeers; i++)
        remote += cast_is_remote(s, number, g->peers[node->peer + i]);
    return remote > 0 && remote >= s->shape->hosts - 1;
}

/* When a receiver has all packets, which leave at t: it asks for what it has lost. */
static uint64_t cast_arrival(struct sim *s, uint32_t receive, uint64_t packets, uint64_t t,
                             uint64_t latency)
{
    const struct sim_options *o = s->options;
    uint64_t ask = o->ask != 0 ? o->ask : SIM_ASK, trip = s->model->latency + latency, missing;
    const uint64_t loss = cast_loss(s);

    t += latency;
    for (uint64_t again = 0; packets > 0 && loss > 0; again++) {
        missing = 0;
        for (uint64_t i = 0; i < packets; i++) {
            uint64_t draw = data_value((int)(receive * 31 + i * 7919 + again * 104729 + o->seed));

            missing += (draw >> 20) % 1000000 < loss;
        }
        packets = missing;
        if (missing > 0) {
            t += ask + trip;
            ask *= 2;
            s->result->lost += missing;
        }
    }
    return t;
}

void sim_cast(struct sim *s, uint32_t number, uint64_t t)
{
    const struct graph_node *node = sim_node(s, number);
    int member = s->operation[number].member;
    const struct graph *g = s->member[member].g;
    struct sim_host *host = &s->host[s->shape->host[member]];
    uint64_t packets = node->bytes == 0 ? 1 : (node->bytes + SIM_PACKET - 1) / SIM_PACKET;
    uint64_t start = host->out > t ? host->out : t;

    host->out = start + coll_model_packets(s->model, node->bytes);
    host->messages++;
    host->bytes += node->bytes;
    s->result->messages[1]++;
    s->result->bytes[1] += node->bytes;
    for (uint32_t i = 0; i < node->npeers; i++) {
        int to = g->peers[node->peer + i];
        uint32_t receive = sim_find_receive(s, to, member, node->slot);

        if (receive != SIM_NONE && cast_is_remote(s, number, to) &&
            events_add(&s->events,
                       cast_arrival(s, receive, packets, start, cast_latency(s, number)), SIM_LAND,
                       receive, 0) != 0)
            sim_fail(s, -ENOMEM, "no memory for %u events", s->events.count);
    }
}
