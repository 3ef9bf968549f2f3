/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cache.c: which memory the cache of each core has, and so how long the bytes of an operation take: see sim.h.
 *
 * An area is memory of a member: FROM, INTO, SCRATCH, or the heap that its messages are copied into. It has a list of parts, each of
 * which is in the cache of one core. Invariants:
 *
 * 1. The parts of an area that one core has are disjoint.
 * 2. A core that writes bytes is then the only one that has them; a core that reads bytes has them too.
 * 3. What a core has touched before it has brought another C bytes into its cache is there no more; its part may be in the list still.
 *
 * Messages that fit into their cell are not in it: their line is that of the RECV.
 */
#include "tools/sim/state.h"

#include <errno.h>
#include <stdlib.h>

#define CACHE_LINE_BYTES 64
#define CACHE_NEAR 262144 /* RING_NEAR of the engine */

/* Bytes [at, end) of an area, which a core has had since it had brought so many bytes into its cache. */
struct sim_part_held {
    size_t at, end;
    uint64_t since;
    uint32_t core;
};

struct cache_place {
    int member;
    uint32_t space; /* of struct sim_member, area */
    size_t at;
};

/* ---- areas ---- */

static int cache_add(struct sim_area *area, struct sim_part_held part)
{
    uint32_t next = area->allocated == 0 ? 4 : area->allocated * 2;
    struct sim_part_held *larger;

    if (area->count == area->allocated) {
        larger = realloc(area->held, next * sizeof(*larger));
        if (larger == NULL)
            return -ENOMEM;
        area->held = larger;
        area->allocated = next;
    }
    area->held[area->count++] = part;
    return 0;
}

/* Part i has no byte of [at, end) any more: it becomes shorter, or two, or the last part takes its place. */
static int cache_cut(struct sim_area *area, uint32_t i, size_t at, size_t end)
{
    struct sim_part_held part = area->held[i], behind = part;

    behind.at = end;
    if (part.at < at) {
        area->held[i].end = at;
        return part.end > end ? cache_add(area, behind) : 0;
    }
    area->held[i] = part.end > end ? behind : area->held[--area->count];
    return 0;
}

#define CACHE_BEGINNING 0 /* since when a core has memory that it has not touched yet */

static bool cache_has_still(const struct sim *s, const struct sim_part_held *part)
{
    return s->core[part->core].brought - part->since <= s->model->cache;
}

/*
 * A core reads or writes bytes [at, end) of an area. Returns how many of them its cache did not have, or, where it writes them, did
 * not have alone.
 */
static size_t cache_touch(struct sim *s, struct sim_area *area, uint32_t core, size_t at,
                          size_t end, bool writes)
{
    size_t own = 0, others = 0, touched = 0;
    int rc = 0;

    for (uint32_t i = area->count; i-- > 0 && rc == 0;) {
        struct sim_part_held part = area->held[i];
        size_t from = part.at > at ? part.at : at, to = part.end < end ? part.end : end;

        if (from >= to || (part.core != core && !writes))
            continue;
        if (cache_has_still(s, &part)) {
            *(part.core == core ? &own : &others) += to - from;
            touched += part.since != CACHE_BEGINNING && part.core == core ? to - from : 0;
        }
        rc = cache_cut(area, i, at, end);
    }
    s->core[core].brought += end - at - touched;
    if (rc == 0)
        rc = cache_add(area,
                       (struct sim_part_held){
                           .at = at, .end = end, .since = s->core[core].brought, .core = core});
    if (rc != 0)
        sim_fail(s, rc, "no memory for what is in caches");
    others = others < end - at ? others : end - at;
    return others > end - at - own ? others : end - at - own;
}

/* The same, in whole lines. Memory of a member, but for its heap, is in the cache of its core at first. */
static size_t cache_access(struct sim *s, uint32_t core, struct cache_place place, size_t bytes,
                           bool writes)
{
    const struct sim_member *m = &s->member[place.member];
    struct sim_area *area = &s->member[place.member].area[place.space];
    size_t at = place.at / CACHE_LINE_BYTES * CACHE_LINE_BYTES, found;
    size_t end = (place.at + bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;

    if (area->allocated == 0 && place.space != SIM_HEAP &&
        cache_add(area, (struct sim_part_held){
                            .end = SIZE_MAX, .since = CACHE_BEGINNING, .core = m->core}) != 0)
        sim_fail(s, -ENOMEM, "no memory for what is in caches");
    found = cache_touch(s, area, core, at, end, writes);
    return found < bytes ? found : bytes;
}

void sim_cache_close(struct sim_member *m)
{
    for (int k = 0; k < SIM_AREAS; k++)
        free(m->area[k].held);
}

/* ---- operations ---- */

/* The SEND of the message that an operation reads; NULL: it reads memory of the member. */
static const struct graph_node *cache_message(const struct sim *s, const struct sim_member *m,
                                              int32_t from, uint32_t *send)
{
    if (from < 0)
        return NULL;
    *send = s->operation[m->base + (uint32_t)from].from;
    return sim_node(s, *send);
}

/* Where an operation of a member reads. False: in a cell, or in memory of a pipe. */
static bool cache_find(const struct sim *s, int member, struct graph_ref from,
                       struct cache_place *place)
{
    const struct graph_node *node;
    uint32_t send = 0;

    while ((node = cache_message(s, &s->member[member], from.base, &send)) != NULL) {
        int sender = s->operation[send].member;

        if (node->bytes <= sim_cell_bytes(s, node) ||
            s->shape->host[sender] != s->shape->host[member])
            return false;
        if (!node->lent) {
            *place = (struct cache_place){
                .member = sender, .space = SIM_HEAP, .at = s->operation[send].heap_at + from.at};
            return true;
        }
        from = graph_at(node->from, node->from_at + from.at);
        member = sender;
    }
    *place =
        (struct cache_place){.member = member, .space = (uint32_t)(-1 - from.base), .at = from.at};
    return true;
}

/* Whether the message of operation k is to be at the beginning of the heap: the engine reads there what all have copied, and it is free. */
static bool cache_is_near(const struct sim *s, const struct sim_member *m, uint32_t number,
                          size_t end)
{
    enum coll_kind kind = s->request->kind;
    uint32_t k = sim_window_of(s, number),
             host = (uint32_t)s->shape->host[s->operation[number].member];

    return end > CACHE_NEAR && s->shape->hosts == 1 &&
           (kind == COLL_REDUCE || kind == COLL_ALLREDUCE || kind == COLL_REDUCE_SCATTER ||
            kind == COLL_ALLGATHER) &&
           m->heap_bytes > 0 && s->host[host].over + m->heap_at / m->heap_bytes > k;
}

/* The ring of the engine. */
static size_t cache_allocate(const struct sim *s, struct sim_member *m, uint32_t number)
{
    size_t at = m->heap_at, bytes = sim_node(s, number)->bytes;

    bytes = (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    if (at + bytes > SIM_HEAP_BYTES || cache_is_near(s, m, number, at + bytes))
        at = 0;
    m->heap_at = at + bytes;
    return at;
}

static uint64_t cache_more(uint64_t rate, uint64_t least)
{
    return rate > least ? rate - least : 0;
}

/* What a byte costs that the cache has, and one that it has not. */
struct cache_rate {
    uint64_t had, missed;
};

/* Whether the member waited for the message of its host that it reads: its bytes are in the first cache of their writer still. */
static bool cache_is_awaited(const struct sim *s, uint32_t number, const struct graph_node *node)
{
    int member = s->operation[number].member;
    const struct sim_operation *receive;

    if (node->from < 0)
        return false;
    receive = &s->operation[s->member[member].base + (uint32_t)node->from];
    return receive->arrived == receive->start &&
           s->shape->host[s->operation[receive->from].member] == s->shape->host[member];
}

static struct cache_rate cache_rate_of(const struct sim *s, uint32_t number, bool fetches)
{
    const struct graph_node *node = sim_node(s, number);
    const struct coll_model *m = s->model;
    uint64_t after = s->crowded ? cache_more(m->switched, m->own) : 0;
    bool awaited = cache_is_awaited(s, number, node);

    if (fetches)
        return (struct cache_rate){m->refetch + after, m->fetched};
    if (node->kind == GRAPH_FOLD)
        return (struct cache_rate){m->folded + after, awaited ? m->fold : m->added};
    return (struct cache_rate){m->own + after, awaited ? m->copy : m->streamed};
}

/*
 * The first line of a message in a heap is missed after that of its cell, which has its address. Where such messages are read one after
 * the other, and little of each, these misses overlap.
 */
static uint64_t cache_miss(struct sim *s, uint32_t number)
{
    struct sim_core *core = &s->core[s->member[s->operation[number].member].core];
    uint32_t last = core->last, before = core->little;
    bool little = sim_node(s, number)->bytes <= SIM_CELL_BYTES;
    bool overlaps = little && before != SIM_NONE && last != SIM_NONE &&
                    (last == before || s->operation[last].start == s->operation[before].end);

    core->little = little ? number : SIM_NONE;
    return overlaps && s->model->more < s->model->line / 2 ? s->model->more : s->model->line / 2;
}

/* Of what is read. */
static uint64_t cache_read_cost(struct sim *s, uint32_t number, bool fetches)
{
    const struct graph_node *node = sim_node(s, number);
    struct cache_rate rate = cache_rate_of(s, number, fetches);
    int member = s->operation[number].member;
    struct cache_place place;
    uint64_t cost;
    size_t missed;

    if (node->from < 0 && node->bytes <= SIM_CELL_BYTES)
        return node->bytes * rate.had;
    if (!cache_find(s, member, graph_at(node->from, node->from_at), &place))
        return node->bytes * (rate.had + cache_more(rate.missed, rate.had));
    missed = cache_access(s, s->member[member].core, place, node->bytes, false);
    cost = node->bytes * rate.had + missed * cache_more(rate.missed, rate.had);
    return missed > 0 && place.space == SIM_HEAP ? cost + cache_miss(s, number) : cost;
}

static uint64_t cache_write_cost(struct sim *s, uint32_t number, struct cache_place place)
{
    size_t taken = cache_access(s, s->member[s->operation[number].member].core, place,
                                sim_node(s, number)->bytes, true);

    s->operation[number].taken = taken > 0;
    return taken * cache_more(s->model->taken, s->model->own);
}

/* Of a message that is lent, and long. */
static bool cache_fetches(const struct sim_member *m, const struct graph_node *node)
{
    return node->kind == GRAPH_COPY && node->from >= 0 && m->g->nodes[node->from].lent &&
           node->bytes > SIM_CELL_BYTES;
}

uint64_t sim_bytes_cost(struct sim *s, uint32_t number)
{
    const struct graph_node *node = sim_node(s, number);
    struct sim_operation *operation = &s->operation[number];
    struct sim_member *m = &s->member[operation->member];
    bool fetches = cache_fetches(m, node);
    struct cache_place into = {.member = operation->member};
    uint64_t cost;

    if (node->bytes == 0)
        return 0;
    cost = cache_read_cost(s, number, fetches) + (fetches ? s->model->fetch : 0);
    if (node->bytes <= SIM_CELL_BYTES)
        return cost;
    if (node->kind == GRAPH_SEND) {
        operation->heap_at = cache_allocate(s, m, number);
        into.space = SIM_HEAP;
        into.at = operation->heap_at;
    } else {
        into.space = (uint32_t)(-1 - node->into);
        into.at = node->into_at;
    }
    return cost + cache_write_cost(s, number, into);
}
