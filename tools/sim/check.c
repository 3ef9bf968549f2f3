/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c: what members of a simulation contribute and must get, and where the time went. */
#include "tools/sim/state.h"

#include <errno.h>
#include <stdlib.h>

/* ---- contributions ---- */

static bool check_has_block(enum coll_kind kind)
{
    return kind == COLL_GATHER || kind == COLL_ALLGATHER;
}

int sim_contribute(struct sim *s, int member)
{
    struct sim_member *m = &s->member[member];
    const struct coll_request *r = s->request;
    size_t from = m->g->space[-1 - GRAPH_FROM], into = m->g->space[-1 - GRAPH_INTO];
    struct sim_block own;
    bool root = member == r->root;

    if (from > 0 || !r->in_place || r->kind == COLL_BCAST || r->kind == COLL_SCATTER ||
        (r->kind == COLL_GATHER && !root))
        return data_fill(&m->memory[-1 - GRAPH_FROM], 0, from, data_value(member), 0);
    if (check_has_block(r->kind)) {
        own = sim_block_of(s, member, member);
        return data_fill(&m->memory[-1 - GRAPH_INTO], own.at, own.bytes, data_value(member), 0);
    }
    return data_fill(&m->memory[-1 - GRAPH_INTO], 0, into, data_value(member), 0);
}

/* ---- results ---- */

/* fold[i]: of members 0 to i; in a fixed order only where it is needed. NULL: no memory. */
static uint64_t *check_folds(const struct sim *s)
{
    int n = s->shape->size;
    uint64_t *fold = calloc((size_t)n, sizeof(*fold));

    for (int i = 0; i < n && fold != NULL; i++)
        fold[i] =
            i == 0 ? data_value(0) : data_combine(s->request->order, fold[i - 1], data_value(i));
    return fold;
}

/* The tree of coll.h: pairs and single members, and the perfect tree above these. */
static uint64_t check_fixed(int n)
{
    uint64_t value[32] = {0};
    int level[32], depth = 0, power = 1, i = 0;

    while (2 * power <= n)
        power *= 2;
    while (i < n) {
        uint64_t leaf = data_value(i);
        bool pair = i < 2 * (n - power);

        if (pair)
            leaf = data_combine(COLL_FIXED_ORDER, leaf, data_value(i + 1));
        i += pair ? 2 : 1;
        value[depth] = leaf;
        level[depth++] = 0;
        while (depth > 1 && level[depth - 1] == level[depth - 2]) {
            depth--;
            value[depth - 1] = data_combine(COLL_FIXED_ORDER, value[depth - 1], value[depth]);
            level[depth - 1]++;
        }
    }
    return value[0];
}

static uint64_t check_fold(const struct sim *s, const uint64_t *fold, int members)
{
    return s->request->order == COLL_FIXED_ORDER ? check_fixed(members) : fold[members - 1];
}

static bool check_blocks(const struct sim *s, int member)
{
    bool alltoall = s->request->kind == COLL_ALLTOALL;

    for (int i = 0; i < s->shape->size; i++) {
        struct sim_block block = sim_block_in(s, member, i);

        if (!data_is(&s->member[member].memory[-1 - GRAPH_INTO], block.at, block.bytes,
                     data_value(i), alltoall ? sim_block_of(s, i, member).at : 0))
            return false;
    }
    return true;
}

static bool check_member(const struct sim *s, const uint64_t *fold, uint64_t all, int member)
{
    const struct coll_request *r = s->request;
    const struct data *into = &s->member[member].memory[-1 - GRAPH_INTO];
    struct sim_block own = sim_block_of(s, member, member);
    size_t bytes = r->count * r->element;
    bool root = member == r->root;

    switch (r->kind) {
    case COLL_BARRIER:
        return true;
    case COLL_BCAST:
        return root || data_is(into, 0, bytes, data_value(r->root), 0);
    case COLL_REDUCE:
        return !root || data_is(into, 0, bytes, all, 0);
    case COLL_ALLREDUCE:
        return data_is(into, 0, bytes, all, 0);
    case COLL_REDUCE_SCATTER:
        return data_is(into, 0, own.bytes, all, own.at);
    case COLL_SCAN:
        return data_is(into, 0, bytes, check_fold(s, fold, member + 1), 0);
    case COLL_EXSCAN:
        return member == 0 || data_is(into, 0, bytes, check_fold(s, fold, member), 0);
    case COLL_GATHER:
        return !root || check_blocks(s, member);
    case COLL_SCATTER:
        return (root && r->in_place) || data_is(into, 0, own.bytes, data_value(r->root), own.at);
    default:
        return check_blocks(s, member);
    }
}

int sim_check(struct sim *s)
{
    uint64_t *fold = check_folds(s), all;

    if (fold == NULL)
        return sim_fail(s, -ENOMEM, "no memory for the results of %d members", s->shape->size);
    all = check_fold(s, fold, s->shape->size);
    for (int i = 0; i < s->shape->size && s->failed == 0; i++) {
        const struct sim_member *m = &s->member[i];

        if (m->ended == SIM_NEVER) {
            if (s->options->kills == 0)
                sim_fail(s, -EDEADLK, "member %d does not end: %u of its %u operations are left", i,
                         m->left, m->g->count);
            continue;
        }
        s->result->ended++;
        if (!check_member(s, fold, all, i))
            sim_fail(s, -EPROTO, "member %d gets a wrong result", i);
    }
    free(fold);
    return s->failed;
}

/* ---- where the time went ---- */

static enum sim_part check_gap(const struct sim *s, uint32_t number, uint32_t cause)
{
    int a = s->operation[number].member, b = s->operation[cause].member;

    if (a == b)
        return SIM_CORE;
    return s->shape->host[a] == s->shape->host[b] ? SIM_LINE : SIM_WIRE;
}

/* From the operation that ended last back to its causes. */
static void check_path(struct sim *s, uint32_t number, uint64_t t)
{
    uint64_t *part = s->result->part;

    while (number != SIM_NONE) {
        const struct sim_operation *operation = &s->operation[number];
        uint32_t cause = operation->cause;
        uint64_t until;

        part[sim_node(s, number)->kind] += t - operation->start;
        t = operation->start;
        if (cause == SIM_NONE)
            until = operation->ready;
        else if (operation->after_core)
            until = s->operation[cause].end;
        else
            until = operation->ready;
        if (until < t) {
            part[SIM_CORE] += t - until;
            t = until;
        }
        if (cause != SIM_NONE && s->operation[cause].end < t) {
            part[check_gap(s, number, cause)] += t - s->operation[cause].end;
            t = s->operation[cause].end;
        }
        number = cause;
    }
    part[SIM_START] += t;
}

void sim_summarize(struct sim *s)
{
    struct sim_result *r = s->result;
    uint32_t last = SIM_NONE;

    r->operations = s->operations;
    r->first = SIM_NEVER;
    for (int i = 0; i < s->shape->size; i++) {
        const struct sim_member *m = &s->member[i];
        uint64_t scratch = m->g->space[-1 - GRAPH_SCRATCH];

        r->scratch = scratch > r->scratch ? scratch : r->scratch;
        r->slots_most = m->g->slots > r->slots_most ? m->g->slots : r->slots_most;
        r->operations_most = m->g->count > r->operations_most ? m->g->count : r->operations_most;
        if (m->ended == SIM_NEVER)
            continue;
        r->first = m->ended < r->first ? m->ended : r->first;
        if (m->ended < r->time)
            continue;
        r->time = m->ended;
        for (uint32_t k = 0; k < m->g->count; k++)
            if (s->operation[m->base + k].end == m->ended)
                last = m->base + k;
    }
    r->first = r->ended == 0 ? 0 : r->first;
    for (int h = 0; h < s->shape->hosts; h++)
        if (s->host[h].messages > r->interface_messages ||
            (s->host[h].messages == r->interface_messages &&
             s->host[h].bytes > r->interface_bytes)) {
            r->interface_messages = s->host[h].messages;
            r->interface_bytes = s->host[h].bytes;
        }
    check_path(s, last, r->time);
}

const char *sim_part_name(enum sim_part part)
{
    static const char *const names[SIM_PARTS] = {"send", "receive", "fold", "copy", "call",
                                                 "line", "wire",    "core", "start"};

    return names[part];
}
