/* SPDX-License-Identifier: BSD-3-Clause */
/* execute.c: operations and messages of a simulation: what they cost, and what they move. */
#include "tools/sim/state.h"

#include <errno.h>

static void execute_add_event(struct sim *s, uint64_t time, enum sim_event kind, uint32_t at)
{
    if (events_add(&s->events, time, kind, at, 0) != 0)
        sim_fail(s, -ENOMEM, "no memory for %u events", s->events.count);
}

/* A core computes for `cost` from time t on, and is lost meanwhile from time to time. Returns the end. */
static uint64_t execute_compute(struct sim *s, struct sim_core *core, uint64_t t, uint64_t cost)
{
    const struct sim_options *o = s->options;
    uint64_t end;

    if (core->noise == SIM_NEVER)
        return t + cost;
    if (t > core->noise + o->noise_length) /* those that nothing was computed in */
        core->noise += (t - core->noise - o->noise_length + o->noise_period - 1) / o->noise_period *
                       o->noise_period;
    end = core->noise < t ? core->noise + o->noise_length + cost : t + cost;
    if (core->noise < t)
        core->noise += o->noise_period;
    while (core->noise < end) {
        end += o->noise_length;
        core->noise += o->noise_period;
    }
    return end;
}

/* ---- data ---- */

static int execute_read(struct sim *s, uint32_t number, struct graph_ref from, size_t bytes,
                        size_t to, struct data *out)
{
    const struct sim_member *m = &s->member[s->operation[number].member];
    const struct data *memory =
        from.base >= 0 ? &s->operation[s->operation[m->base + (uint32_t)from.base].from].sent
                       : &m->memory[-1 - from.base];

    return data_read(memory, from.at, bytes, to, out);
}

static void execute_data(struct sim *s, uint32_t number)
{
    const struct graph_node *node = sim_node(s, number);
    struct sim_operation *operation = &s->operation[number];
    struct data *into;
    struct data *out = node->kind == GRAPH_SEND ? &operation->sent : &s->buffer;
    int rc = execute_read(s, number, graph_at(node->from, node->from_at), node->bytes,
                          node->kind == GRAPH_SEND ? 0 : node->into_at, out);

    if (rc == 0 && node->kind != GRAPH_SEND) {
        into = &s->member[operation->member].memory[-1 - node->into];
        rc = node->kind == GRAPH_COPY ? data_write(into, out)
                                      : data_fold(into, out, s->request->order, node->reversed);
    }
    if (rc == -ENOMEM)
        sim_fail(s, rc, "no memory for what members have");
    else if (rc != 0)
        sim_fail(s, -EPROTO,
                 "operation %u of member %d reads bytes that were never written, or folds bytes of "
                 "different places",
                 number - s->member[operation->member].base, (int)operation->member);
}

/* ---- messages ---- */

/* Its RECV was found, and the bytes are as many. */
static uint32_t execute_find(struct sim *s, uint32_t number, int to)
{
    const struct graph_node *node = sim_node(s, number);
    int from = (int)s->operation[number].member;
    uint32_t receive = sim_find_receive(s, to, from, node->slot);

    if (receive == SIM_NONE || s->operation[receive].from != SIM_NONE ||
        sim_node(s, receive)->bytes != node->bytes) {
        sim_fail(s, -EPROTO, "member %d sends %zu bytes of slot %u to member %d, which receives %s",
                 from, node->bytes, node->slot, to,
                 receive == SIM_NONE ? "none" : "other bytes, or has received them");
        return SIM_NONE;
    }
    s->operation[receive].from = number;
    return receive;
}

static int execute_host_of(const struct sim *s, uint32_t number)
{
    return s->shape->host[s->operation[number].member];
}

/* A long message is on its way when its RECV has been reached, and the sender was notified of it. */
static void execute_request(struct sim *s, uint32_t receive, uint64_t posted)
{
    uint64_t announced = s->operation[receive].announced,
             trip = s->model->latency + s->model->overhead;

    execute_add_event(s, (announced > posted ? announced : posted) + trip, SIM_INJECT, receive);
}

static void execute_send_remote(struct sim *s, uint32_t receive, uint64_t t)
{
    struct sim_operation *operation = &s->operation[receive];
    size_t bytes = sim_node(s, receive)->bytes;

    s->result->messages[1]++;
    s->result->bytes[1] += bytes;
    if (bytes <= s->model->eager) {
        execute_add_event(s, t, SIM_INJECT, receive);
        return;
    }
    operation->announced = t + s->model->latency + s->model->overhead;
    if (operation->posted)
        execute_request(s, receive, 0);
}

/* A message between hosts that is longer than E, and no cast. */
static bool execute_is_long(const struct sim *s, uint32_t receive)
{
    return coll_model_is_long(s->model, sim_node(s, receive)->bytes) &&
           !sim_casts(s, s->operation[receive].from);
}

void sim_inject(struct sim *s, uint32_t number, uint64_t t)
{
    struct sim_host *host = &s->host[execute_host_of(s, s->operation[number].from)];
    size_t bytes = sim_node(s, number)->bytes;
    uint64_t start = host->out > t ? host->out : t;

    host->out = start + coll_model_interface(s->model, bytes);
    host->messages++;
    host->bytes += bytes;
    execute_add_event(
        s,
        start + (execute_is_long(s, number) ? coll_model_way(s->model, bytes) : s->model->latency),
        SIM_LAND, number);
}

void sim_land(struct sim *s, uint32_t number, uint64_t t)
{
    struct sim_host *host = &s->host[execute_host_of(s, number)];
    size_t bytes = sim_node(s, number)->bytes;
    uint64_t start = host->in > t ? host->in : t;

    if (execute_is_long(s, number)) {
        host->in = start + coll_model_interface(s->model, bytes);
        execute_add_event(s, start, SIM_ARRIVE, number);
        return;
    }
    host->in = start + (coll_model_is_long(s->model, bytes) /* by cast */
                            ? coll_model_packets(s->model, bytes)
                            : coll_model_interface(s->model, bytes));
    execute_add_event(s, host->in, SIM_ARRIVE, number);
}

/* Of what is copied or folded, the cost of the last chunk: it cannot be before all of the message is there. */
static uint64_t execute_chunk(size_t bytes, uint64_t cost)
{
    return bytes <= COLL_CHUNK ? cost : (uint64_t)((double)cost * COLL_CHUNK / (double)bytes);
}

/* An operation whose bytes take `cost`, and that would end at `end`; it may read a view. */
static uint64_t execute_end(const struct sim *s, uint32_t number, uint64_t end, uint64_t cost)
{
    const struct graph_node *node = sim_node(s, number);
    const struct sim_member *m = &s->member[s->operation[number].member];
    uint64_t complete;

    if (node->from < 0)
        return end;
    complete = s->operation[s->operation[m->base + (uint32_t)node->from].from].complete;
    complete += execute_chunk(node->bytes, cost);
    return complete > end ? complete : end;
}

/*
 * Where each member has a core, the cell of the next operation is fetched when the first message of one is received: so much earlier,
 * at most half of the time of a line, is it there when it is stored.
 */
static uint64_t execute_fetched(const struct sim *s, uint32_t number, uint64_t t)
{
    const struct sim_member *m = &s->member[s->operation[number].member];
    uint32_t k = sim_window_of(s, number);
    uint64_t early = t - m->expected, most = s->model->line / 2;

    if (k == 0 || m->expects != k || s->crowded || sim_slot(s, sim_node(s, number)) != 0)
        return 0;
    return early < most ? early : most;
}

static uint64_t execute_send(struct sim *s, uint32_t number, uint64_t t)
{
    const struct graph_node *node = sim_node(s, number);
    const struct sim_member *m = &s->member[s->operation[number].member];
    struct sim_core *core = &s->core[m->core];
    const struct coll_model *model = s->model;
    uint64_t line = model->line > model->more ? model->line - model->more : 0, first, cost = 0;
    int host = execute_host_of(s, number);
    uint32_t local = 0;
    bool copies, casts = sim_casts(s, number);

    for (uint32_t i = 0; i < node->npeers; i++)
        local += s->shape->host[m->g->peers[node->peer + i]] == host;
    copies = local > 0 && node->bytes > sim_cell_bytes(s, node) && !node->lent;
    if (local > 0)
        t = execute_compute(s, core, t, sim_window_cost(s, number));
    if (copies)
        cost = sim_bytes_cost(s, number);
    first = t + model->step + execute_chunk(node->bytes, cost);
    t = execute_compute(s, core, t, model->step + cost);
    if (copies)
        t = execute_end(s, number, t, cost);
    if (local > 0)
        line -= execute_fetched(s, number, t) < line ? execute_fetched(s, number, t) : line;
    if (s->operation[number].taken) /* the first line of the heap is taken away before the cell */
        line += model->line / 2;
    s->operation[number].complete = t + line;
    if (s->crowded || first > t)
        first = t;
    for (uint32_t i = 0; i < node->npeers && s->failed == 0; i++) {
        int to = m->g->peers[node->peer + i];
        uint32_t receive = execute_find(s, number, to);

        if (receive == SIM_NONE)
            return t;
        if (s->shape->host[to] == host) {
            s->result->messages[0]++;
            s->result->bytes[0] += node->bytes;
            execute_add_event(s, first + line, SIM_ARRIVE, receive);
        } else if (!casts) {
            t = execute_compute(s, core, t, coll_model_sending(model, node->bytes));
            execute_send_remote(s, receive, t);
        }
    }
    if (casts) {
        t = execute_compute(s, core, t, model->overhead);
        execute_add_event(s, t, SIM_CAST, number);
    }
    return t;
}

static bool execute_is_local(const struct sim *s, uint32_t receive)
{
    return execute_host_of(s, receive) == execute_host_of(s, s->operation[receive].from);
}

/* A RECV, or short work on what one has got: the processor reads the line of the next RECV meanwhile. */
static bool execute_overlaps(const struct graph_node *node)
{
    return node->kind == GRAPH_RECV || ((node->kind == GRAPH_COPY || node->kind == GRAPH_FOLD) &&
                                        node->from >= 0 && node->bytes <= SIM_CELL_BYTES);
}

/*
 * A line that was there before is missed when it is read: half of the time of a line that is awaited, in which its writer misses it too.
 * Misses of RECVs that follow each other overlap, with short work on what they have got between them; and the first one of an
 * operation with what its call takes, if that has just been.
 */
static uint64_t execute_line(const struct sim *s, const struct sim_core *core, uint32_t number,
                             uint64_t t)
{
    const struct sim_operation *operation = &s->operation[number];
    uint64_t miss = s->model->line / 2;
    uint32_t last = core->last, call = core->call;

    if (operation->arrived == t || miss < s->model->more)
        return s->model->more;
    if (last == SIM_NONE || s->operation[last].member != operation->member ||
        s->operation[last].end != t)
        return miss;
    if (execute_overlaps(sim_node(s, last)))
        return s->model->more;
    if (call != SIM_NONE && s->operation[call].member == operation->member &&
        t - s->operation[call].end < miss) /* short work since */
        miss = miss > s->model->call ? miss - s->model->call : 0;
    return miss > s->model->more ? miss : s->model->more;
}

/* Of the line of a message on a host: nothing, if its sender, or another receiver, is on this core, and so had it there. */
static uint64_t execute_receive(struct sim *s, struct sim_core *core, uint32_t number, uint64_t t)
{
    struct sim_operation *send = &s->operation[s->operation[number].from];
    uint32_t own = (uint32_t)(core - s->core), bit = UINT32_C(1) << own % 32;
    bool had = (send->readers & bit) != 0 || s->member[send->member].core == own;

    send->readers |= bit;
    return had ? 0 : execute_line(s, core, number, t);
}

/* The cell of the next operation is fetched from here on. */
static void execute_expect(struct sim *s, uint32_t number, uint64_t t)
{
    struct sim_member *m = &s->member[s->operation[number].member];
    uint32_t next = sim_window_of(s, number) + 1;

    if (m->expects == next)
        return;
    m->expects = next;
    m->expected = t;
}

uint64_t sim_execute(struct sim *s, uint32_t number, uint64_t t)
{
    const struct graph_node *node = sim_node(s, number);
    struct sim_core *core = &s->core[s->member[s->operation[number].member].core];
    const struct coll_model *m = s->model;
    uint64_t cost;

    switch (node->kind) {
    case GRAPH_SEND:
        execute_data(s, number);
        return execute_send(s, number, t);
    case GRAPH_RECV:
        if (execute_is_local(s, number))
            cost = execute_receive(s, core, number, t);
        else
            cost = execute_is_long(s, number) ? coll_model_receiving(m, node->bytes) : m->overhead;
        t = execute_compute(s, core, t, m->step + cost);
        if (execute_is_local(s, number))
            execute_expect(s, number, t);
        return t;
    case GRAPH_FOLD:
    case GRAPH_COPY:
        execute_data(s, number);
        cost = sim_bytes_cost(s, number);
        t = execute_compute(s, core, t, m->step + cost);
        return execute_end(s, number, t, cost);
    default:
        if (!sim_window_ends(s, number))
            return t;
        core->call = number;
        return execute_compute(s, core, t, m->call);
    }
}

void sim_release(struct sim *s, uint32_t number, uint64_t t, uint32_t cause)
{
    struct sim_operation *operation = &s->operation[number];

    operation->ready = t;
    operation->cause = cause;
    if (--operation->waits == 0) {
        sim_add_ready(s, number, t);
    } else if (operation->waits == 1 && sim_node(s, number)->kind == GRAPH_RECV) {
        /* its message is missing, or, if that is here already, another operation */
        operation->posted = true;
        if (operation->announced != SIM_NEVER)
            execute_request(s, number, t);
    }
}
