/* SPDX-License-Identifier: BSD-3-Clause */
/* cost.c: see cost.h: rounds, and what a request moves. */
#include "coll/cost.h"

/* A message of a host that fits into the line of its number is no further line. */
#define COST_LINE_BYTES 40
/* A round of members that share a core, after the first: this part of the first, as measured (bench/compare_coll). */
#define COST_FURTHER 3
/* Bytes of a block that differs between members, so that they all choose the same. */
#define COST_UNEQUAL_BLOCK 4096

int cost_levels(int n, int radix)
{
    int levels = 0;

    for (int64_t reached = 1; reached < n; reached *= radix)
        levels++;
    return levels;
}

uint64_t cost_copy(const struct cost *c, uint64_t bytes)
{
    return bytes == 0 ? 0 : model_add(c->model->step, model_times(bytes, c->model->copy));
}

uint64_t cost_fold(const struct cost *c, uint64_t bytes)
{
    return bytes == 0 ? 0 : model_add(c->model->step, model_times(bytes, c->model->fold));
}

uint64_t cost_fetch(const struct cost *c, uint64_t bytes)
{
    return bytes == 0 ? 0
                      : model_add(model_add(c->model->step, c->model->fetch),
                                  model_times(bytes, c->model->fetched));
}

uint64_t cost_fetches(const struct cost *c, uint64_t x, uint64_t bytes, uint64_t y)
{
    uint64_t time = cost_look(c, x);

    cost_add(&time, x, cost_fetch(c, bytes));
    return model_add(time, model_add(c->model->step, cost_look(c, y)));
}

/* What the sender of a message on a host writes besides its line. */
static uint64_t cost_post(const struct cost *c, uint64_t bytes)
{
    return bytes <= COST_LINE_BYTES ? c->model->step : cost_copy(c, bytes);
}

/* What of it is over before a receiver that has a core and sends nothing itself begins to read. */
static uint64_t cost_post_first(const struct cost *c, uint64_t bytes)
{
    return cost_post(c, c->queue == 1 && bytes > COLL_CHUNK ? COLL_CHUNK : bytes);
}

uint64_t cost_turn(const struct cost *c)
{
    return c->queue > 1 ? model_times(c->queue, c->model->yield) / COST_FURTHER : 0;
}

uint64_t cost_look(const struct cost *c, uint64_t x)
{
    uint64_t time = model_times(x, c->model->step);

    if (x == 0)
        return 0;
    if (c->queue > 1)
        return model_add(time, cost_turn(c));
    cost_add(&time, x - 1, c->model->more);
    return model_add(time, c->model->line);
}

uint64_t cost_net(const struct cost *c, uint64_t x, uint64_t k, uint64_t bytes)
{
    const struct coll_model *m = c->model;
    uint64_t send = coll_model_sending(m, bytes), receive = coll_model_receiving(m, bytes);
    uint64_t way = coll_model_way(m, bytes), messages = model_times(x, k), processor, interface;

    /* the first message arrives while the others are sent */
    processor = cost_at_least(model_times(x, send), model_add(send, way));
    cost_add(&processor, x, receive);
    interface = model_add(model_add(send, way), receive);
    cost_add(&interface, messages > 0 ? messages - 1 : 0, coll_model_interface(m, bytes));
    processor = cost_at_least(processor, interface);
    if (bytes > m->eager) /* it is announced, and requested */
        cost_add(&processor, 2, model_add(m->latency, m->overhead));
    return processor;
}

uint64_t cost_cast(const struct cost *c, uint64_t bytes)
{
    const struct coll_model *m = c->model;
    uint64_t packets = bytes == 0 ? 1 : (bytes + COLL_PACKET - 1) / COLL_PACKET, time;
    /* how often one of all receivers lacks a packet, in thousandths of a percent; a round of repair serves all */
    uint64_t lost = model_times(model_times(packets, (uint64_t)c->hosts - 1), m->loss);

    if (c->hosts == 1)
        return 0;
    time = model_add(2 * m->overhead + m->multicast, coll_model_packets(m, bytes));
    lost = lost < 100000 ? lost : 100000;
    return model_add(time, model_times(lost, (COLL_REPAIR + m->latency + m->multicast) / 100000));
}

/* How many members of a host send to another one, in a round in which all send as far. */
static uint64_t cost_senders(const struct cost *c, uint64_t distance)
{
    if (c->hosts == 1)
        return 0;
    return c->shape->in_rows && distance < (uint64_t)c->p ? distance : (uint64_t)c->p;
}

uint64_t cost_round(const struct cost *c, uint64_t distance, uint64_t x, uint64_t bytes)
{
    /* messages go to distance, 2 distance ... x distance */
    uint64_t senders = cost_senders(c, model_times(distance, x + 1) / 2), local, remote;

    local = cost_look(c, x);
    cost_add(&local, x, cost_post(c, bytes));
    if (senders == 0)
        return local;
    remote = model_add(cost_net(c, x, senders, bytes), cost_turn(c));
    return senders < (uint64_t)c->p ? cost_at_least(local, remote) : remote;
}

uint64_t cost_pair(const struct cost *c, uint64_t distance, uint64_t bytes)
{
    uint64_t p = (uint64_t)c->p, local;

    if (c->hosts == 1 || !c->shape->in_rows || distance >= p || (p & (p - 1)) != 0)
        return cost_round(c, distance, 1, bytes);
    local = cost_look(c, 1);
    return model_add(local, cost_post(c, bytes));
}

uint64_t cost_level(const struct cost *c, uint64_t distance, uint64_t x, uint64_t bytes, bool up)
{
    const struct coll_model *m = c->model;
    uint64_t near = c->hosts == 1 ? x : 0, far, time = 0;

    if (c->hosts > 1 && c->shape->in_rows)
        near = ((uint64_t)c->p - 1) / distance;
    near = near < x ? near : x;
    far = x - near;
    if (near > 0)
        time = model_add(cost_look(c, up ? near : 1), cost_post_first(c, bytes));
    if (near > 0 &&
        up) /* the members of a level do not run ahead of it, as those of a broadcast do */
        cost_add(&time, 1, cost_turn(c));
    if (far > 0) { /* a parent and its children: no other member of their hosts sends */
        cost_add(&time, 1, model_add(cost_net(c, 1, 1, bytes), cost_turn(c)));
        cost_add(&time, far - 1,
                 cost_at_least(up ? coll_model_receiving(m, bytes) : coll_model_sending(m, bytes),
                               coll_model_interface(m, bytes)));
    }
    return time;
}

/* What bytes add to a time. A message that is a call of its own has other costs than one without bytes, and may be measured shorter. */
static uint64_t cost_beyond(uint64_t moved, uint64_t bare)
{
    return moved > bare ? moved - bare : 0;
}

uint64_t cost_gather(const struct cost *c, uint64_t distance, uint64_t x, uint64_t bytes)
{
    uint64_t moved = cost_level(c, distance, x, bytes, true), copied = 0, bare;

    bare = cost_level(c, distance, x, 0, true);
    cost_add(&copied, x - 1, cost_copy(c, bytes));
    moved = model_add(bare, cost_at_least(cost_beyond(moved, bare), copied));
    return model_add(moved, cost_copy(c, bytes));
}

uint64_t cost_ring(const struct cost *c, uint64_t bytes, uint64_t on_path, uint64_t beside)
{
    uint64_t hops = (uint64_t)c->n - 1, remote, time = 0, stage;

    remote = c->hosts == 1 ? 0 : c->shape->in_rows ? (uint64_t)c->hosts - 1 : hops;
    cost_add(&time, hops, on_path);
    cost_add(&time, remote, cost_net(c, 1, c->shape->in_rows ? 1 : (uint64_t)c->p, bytes));
    cost_add(&time, hops - remote, cost_level(c, 1, 1, bytes, false));
    if (c->queue > 1)
        cost_add(&time, remote, cost_turn(c));
    /* what a member does for each block, which is more than the way of one block if there are few hops */
    stage =
        model_add(cost_post(c, c->hosts == 1 || c->p > 1 ? bytes : 0), model_add(on_path, beside));
    if (c->hosts > 1)
        stage = model_add(stage, model_add(coll_model_sending(c->model, bytes),
                                           coll_model_receiving(c->model, bytes)));
    return cost_at_least(time, model_times(hops, stage));
}

uint64_t cost_all_work(const struct cost *c, uint64_t bytes, uint64_t work)
{
    uint64_t moved = cost_all(c, bytes), bare = cost_all(c, 0);

    moved = model_add(
        bare, cost_at_least(cost_beyond(moved, bare), model_times((uint64_t)c->n - 1, work)));
    return model_add(moved, work);
}

uint64_t cost_all(const struct cost *c, uint64_t bytes)
{
    uint64_t local = model_add(cost_look(c, (uint64_t)c->p - 1), cost_post(c, bytes));

    if (c->hosts == 1)
        return local;
    return cost_at_least(
        local,
        model_add(cost_net(c, (uint64_t)(c->n - c->p), (uint64_t)c->p, bytes), cost_turn(c)));
}

uint64_t cost_extras(const struct cost *c, bool answered)
{
    uint64_t once = cost_round(c, 1, 1, c->bytes);

    if ((c->n & (c->n - 1)) == 0)
        return 0;
    if (answered)
        once = model_add(model_times(2, once), cost_copy(c, c->bytes));
    return model_add(once, cost_fold(c, c->bytes));
}

/* ---- requests ---- */

static uint64_t cost_product(size_t a, size_t b) { return model_times(a, b); }

/* The bytes of all blocks, however they are given. */
static uint64_t cost_all_bytes(const struct cost *c)
{
    const struct coll_request *r = c->request;
    uint64_t count = 0;

    if (r->kind == COLL_ALLTOALL && r->counts != NULL)
        return cost_product(COST_UNEQUAL_BLOCK, (size_t)c->n);
    if (r->counts == NULL)
        return cost_product(cost_product(r->count, r->element), (size_t)c->n);
    for (int i = 0; i < c->n; i++)
        count = model_add(count, r->counts[i]);
    return cost_product(count, r->element);
}

static bool cost_has_blocks(enum coll_kind kind)
{
    return kind >= COLL_GATHER || kind == COLL_REDUCE_SCATTER;
}

/* Whether members do about as much: those of a core do it one after the other. */
static bool cost_all_work_alike(enum coll_kind kind, enum coll_algorithm algorithm)
{
    if (kind == COLL_REDUCE || kind == COLL_GATHER || kind == COLL_SCATTER)
        return algorithm == COLL_RABENSEIFNER || (kind == COLL_SCATTER && algorithm == COLL_FETCH);
    return algorithm != COLL_TREE && algorithm != COLL_HOSTS && algorithm != COLL_CAST;
}

uint64_t coll_cost(const struct shape *shape, const struct coll_request *request,
                   const struct coll_choice *choice, const struct coll_model *model)
{
    static uint64_t (*const formula[COLL_KINDS])(const struct cost *) = {
        [COLL_BARRIER] = cost_of_barrier,     [COLL_BCAST] = cost_of_bcast,
        [COLL_REDUCE] = cost_of_reduce,       [COLL_ALLREDUCE] = cost_of_allreduce,
        [COLL_SCAN] = cost_of_scan,           [COLL_REDUCE_SCATTER] = cost_of_reduce_scatter,
        [COLL_EXSCAN] = cost_of_scan,         [COLL_GATHER] = cost_of_gather,
        [COLL_ALLGATHER] = cost_of_allgather, [COLL_SCATTER] = cost_of_scatter,
        [COLL_ALLTOALL] = cost_of_alltoall};
    struct cost c = {.shape = shape,
                     .model = model,
                     .request = request,
                     .choice = choice,
                     .n = shape->size,
                     .p = shape->largest,
                     .hosts = shape->hosts,
                     .queue = ((uint64_t)shape->largest + (uint64_t)shape->cores - 1) /
                              (uint64_t)shape->cores,
                     .radix = coll_radix(shape, choice)};
    struct coll_model shared = *model; /* by the members of a core */
    uint64_t first = 0;

    if (c.queue > 1 && cost_all_work_alike(request->kind, choice->algorithm)) {
        shared.copy = model_times(c.queue, model->copy);
        shared.fold = model_times(c.queue, model->fold);
        shared.fetch = model_times(c.queue, model->fetch);
        shared.fetched = model_times(c.queue, model->fetched);
        c.model = &shared;
    }
    c.levels = cost_levels(c.n, c.radix);
    c.bytes = request->kind == COLL_BARRIER ? 0 : cost_product(request->count, request->element);
    if (cost_has_blocks(request->kind)) {
        c.all = cost_all_bytes(&c);
        c.bytes = c.all / (uint64_t)c.n;
    }
    if (c.n == 1)
        return cost_copy(&c, c.bytes);
    if (c.queue > 1)
        first = model_times(c.queue, model->yield) / COST_FURTHER * (COST_FURTHER - 1);
    return model_add(first, formula[request->kind](&c));
}
