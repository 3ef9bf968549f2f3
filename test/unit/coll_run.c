/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_run.c: see coll_run.h. */
#include "test/unit/coll_run.h"

#include "coll/limits.h"
#include "test/lib/random.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run_cell {
    bool used;
    uint64_t op;
    const struct graph_node *send;
    uint32_t left; /* receivers that have not taken it */
    uint8_t *data;
};

struct run_member {
    const struct graph *g;
    uint8_t *memory[GRAPH_SPACES], *defined[GRAPH_SPACES];
    uint32_t *waits;
    uint8_t **view;        /* of each RECV */
    struct run_cell *cell; /* [op % depth * slots + slot] */
    uint32_t *parked;      /* SENDs and RECVs that were tried too early */
    uint32_t nparked;
    uint32_t left; /* operations of the graph that are not over */
    uint64_t op;   /* the collectives before it are over */
};

struct run_item {
    int member;
    uint32_t node;
};

struct run_state {
    struct coll_run *run;
    const struct coll_case *c;
    int size;
    struct run_member *member;
    struct run_item *ready;
    size_t nready, most_ready;
    uint64_t draw;
    struct coll_operator operator;
    void *scratch;
    bool failed;
};

static void run_fail(struct run_state *s, int member, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void run_fail(struct run_state *s, int member, const char *format, ...)
{
    va_list arguments;
    int n;

    if (s->failed)
        return;
    s->failed = true;
    n = snprintf(s->run->error, sizeof(s->run->error), "member %d: ", member);
    va_start(arguments, format);
    vsnprintf(s->run->error + n, sizeof(s->run->error) - (size_t)n, format, arguments);
    va_end(arguments);
}

static void *run_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes == 0 ? 1 : bytes);

    if (memory == NULL)
        abort();
    return memory;
}

/* ---- members ---- */

static void run_add_ready(struct run_state *s, int member, uint32_t node)
{
    s->ready[s->nready++] = (struct run_item){.member = member, .node = node};
}

static void run_start(struct run_state *s, int member)
{
    struct run_member *m = &s->member[member];
    const struct graph *g = m->g;

    for (int i = 0; i < GRAPH_SPACES; i++) {
        memset(m->memory[i], 0xa5, g->space[i]);
        memset(m->defined[i], 0, g->space[i]);
    }
    coll_case_fill(s->c, m->op, member, g, m->memory, m->defined);
    memcpy(m->waits, g->waits, g->count * sizeof(*m->waits));
    m->left = g->count;
    for (uint32_t i = 0; i < g->count; i++)
        if (g->waits[i] == 0)
            run_add_ready(s, member, i);
}

static void run_open(struct run_state *s, int member, const struct graph *g)
{
    struct run_member *m = &s->member[member];

    m->g = g;
    for (int i = 0; i < GRAPH_SPACES; i++) {
        m->memory[i] = run_alloc(g->space[i]);
        m->defined[i] = run_alloc(g->space[i]);
    }
    m->waits = run_alloc(g->count * sizeof(*m->waits));
    m->view = run_alloc(g->count * sizeof(*m->view));
    m->cell = run_alloc(g->slots * s->run->depth * sizeof(*m->cell));
    m->parked = run_alloc(g->count * sizeof(*m->parked));
    s->most_ready += g->count;
}

static void run_close(struct run_state *s)
{
    for (int i = 0; i < s->size; i++) {
        struct run_member *m = &s->member[i];

        for (size_t k = 0; k < (size_t)m->g->slots * s->run->depth; k++)
            free(m->cell[k].data);
        for (int k = 0; k < GRAPH_SPACES; k++) {
            free(m->memory[k]);
            free(m->defined[k]);
        }
        free(m->waits);
        free(m->view);
        free(m->cell);
        free(m->parked);
    }
    free(s->member);
    free(s->ready);
    free(s->scratch);
}

/* Parked operations of a member are tried again. */
static void run_unpark(struct run_state *s, int member)
{
    struct run_member *m = &s->member[member];

    for (uint32_t i = 0; i < m->nparked; i++)
        run_add_ready(s, member, m->parked[i]);
    m->nparked = 0;
}

/* What the member has lent is as it was. */
static void run_check_lent(struct run_state *s, int member)
{
    struct run_member *m = &s->member[member];

    for (uint32_t i = 0; i < m->g->count; i++) {
        const struct graph_node *node = &m->g->nodes[i];

        if (node->kind == GRAPH_SEND && node->lent && node->bytes > 0 &&
            memcmp(m->memory[-1 - node->from] + node->from_at,
                   m->cell[m->op % s->run->depth * m->g->slots + node->slot].data,
                   node->bytes) != 0)
            run_fail(s, member, "operation %u has lent memory that was changed", i);
    }
}

/* The largest word of all members is behind the own one. */
static void run_check_most(struct run_state *s, int member)
{
    const struct run_member *m = &s->member[member];
    uint64_t most = 0, found;

    for (int i = 0; i < s->size; i++)
        most = coll_case_word(s->c, m->op, i) > most ? coll_case_word(s->c, m->op, i) : most;
    memcpy(&found, m->memory[2] + 2 * sizeof(found), sizeof(found));
    if (s->size > 1 && (!m->defined[2][2 * sizeof(found)] || found != most))
        run_fail(s, member, "the largest word is %llu, and not %llu", (unsigned long long)found,
                 (unsigned long long)most);
}

static void run_end(struct run_state *s, int member)
{
    struct run_member *m = &s->member[member];
    size_t bytes = m->g->space[1];
    uint8_t *expected = run_alloc(bytes), *defined = run_alloc(bytes);

    run_check_lent(s, member);
    coll_case_expect(s->c, m->op, member, bytes, expected, defined);
    for (size_t i = 0; i < bytes; i++) {
        if (defined[i] && !m->defined[1][i])
            run_fail(s, member, "byte %zu of the result was not written", i);
        if (defined[i] && m->memory[1][i] != expected[i])
            run_fail(s, member, "byte %zu of the result is wrong", i);
    }
    if (s->run->result != NULL && member == 0 && bytes > 0)
        memcpy(s->run->result, m->memory[1], bytes);
    if (s->c->request.counted)
        run_check_most(s, member);
    free(expected);
    free(defined);
    m->op++;
    if (s->run->floor)
        for (int i = 0; i < s->size; i++)
            run_unpark(s, i);
    if (m->op < s->run->ops)
        run_start(s, member);
}

/* ---- operations ---- */

/* The memory of a reference. Bytes that are read must have been written. */
static uint8_t *run_at(struct run_state *s, int member, uint32_t node, struct graph_ref ref,
                       size_t bytes, bool reads)
{
    struct run_member *m = &s->member[member];

    if (ref.base >= 0)
        return m->view[ref.base] + ref.at;
    for (size_t i = 0; reads && i < bytes; i++)
        if (m->defined[-1 - ref.base][ref.at + i] == 0) {
            run_fail(s, member, "operation %u reads byte %zu of space %d, which was not written",
                     node, ref.at + i, (int)ref.base);
            break;
        }
    return m->memory[-1 - ref.base] + ref.at;
}

static bool run_is_receiver(const struct run_member *sender, const struct graph_node *send,
                            int member)
{
    for (uint32_t i = 0; i < send->npeers; i++)
        if (sender->g->peers[send->peer + i] == member)
            return true;
    return false;
}

/* The receivers may still read the cell: their operation is not over. */
static bool run_cell_in_use(const struct run_state *s, const struct run_member *m,
                            const struct run_cell *cell)
{
    for (uint32_t i = 0; cell->used && i < cell->send->npeers; i++)
        if (s->member[m->g->peers[cell->send->peer + i]].op <= cell->op)
            return true;
    return false;
}

static bool run_send(struct run_state *s, int member, uint32_t i)
{
    struct run_member *m = &s->member[member];
    const struct graph_node *node = &m->g->nodes[i];
    struct run_cell *cell = &m->cell[m->op % s->run->depth * m->g->slots + node->slot];

    if (run_cell_in_use(s, m, cell)) {
        if (s->run->floor)
            return false;
        run_fail(s, member,
                 "slot %u of operation %llu is overwritten by operation %llu, and in use",
                 node->slot, (unsigned long long)cell->op, (unsigned long long)m->op);
    }
    free(cell->data);
    *cell = (struct run_cell){.used = true,
                              .op = m->op,
                              .send = node,
                              .left = node->npeers,
                              .data = run_alloc(node->bytes)};
    if (node->bytes > 0)
        memcpy(cell->data,
               run_at(s, member, i, graph_at(node->from, node->from_at), node->bytes, true),
               node->bytes);
    for (uint32_t k = 0; k < node->npeers; k++)
        run_unpark(s, m->g->peers[node->peer + k]);
    return true;
}

static bool run_recv(struct run_state *s, int member, uint32_t i)
{
    struct run_member *m = &s->member[member];
    const struct graph_node *node = &m->g->nodes[i];
    struct run_member *sender = &s->member[node->peer];
    struct run_cell *cell;

    if (node->slot >= sender->g->slots) {
        run_fail(s, member, "operation %u receives slot %u of member %u, which sends up to %u", i,
                 node->slot, node->peer, sender->g->slots);
        return true;
    }
    cell = &sender->cell[m->op % s->run->depth * sender->g->slots + node->slot];
    if (!cell->used || cell->op < m->op)
        return false;
    if (cell->op > m->op)
        run_fail(s, member, "operation %u: the cell was overwritten", i);
    if ((cell->send->op == GRAPH_MARKED) != (node->op == GRAPH_MARKED))
        run_fail(s, member, "operation %u and its sender do not both have a mark", i);
    if (!run_is_receiver(sender, cell->send, member) || cell->send->bytes != node->bytes)
        run_fail(s, member,
                 "operation %u receives %zu bytes of slot %u of member %u: it sends %zu%s", i,
                 node->bytes, node->slot, node->peer, cell->send->bytes,
                 run_is_receiver(sender, cell->send, member) ? "" : ", and not to this member");
    m->view[i] = cell->data;
    cell->left--;
    s->run->messages++;
    s->run->bytes += node->bytes;
    return true;
}

static void run_compute(struct run_state *s, int member, uint32_t i)
{
    struct run_member *m = &s->member[member];
    const struct graph_node *node = &m->g->nodes[i];
    bool folds = node->kind == GRAPH_FOLD;
    const uint8_t *from =
        run_at(s, member, i, graph_at(node->from, node->from_at), node->bytes, true);
    uint8_t *into = run_at(s, member, i, graph_at(node->into, node->into_at), node->bytes, folds);
    const struct graph_node *view = node->from >= 0 ? &m->g->nodes[node->from] : NULL;

    if (view != NULL && view->lent && s->member[view->peer].op > m->op)
        run_fail(s, member, "operation %u reads memory of member %u, which is over with it", i,
                 view->peer);

    if (folds)
        coll_operator_apply(&s->operator, into, from, node->bytes, node->reversed, s->scratch);
    else if (node->bytes > 0)
        memmove(into, from, node->bytes);
    memset(m->defined[-1 - node->into] + node->into_at, 1, node->bytes);
}

/* Executes a node. False: it has to wait. */
static bool run_node(struct run_state *s, int member, uint32_t i)
{
    const struct graph *g = s->member[member].g;

    switch (g->nodes[i].kind) {
    case GRAPH_SEND:
        return run_send(s, member, i);
    case GRAPH_RECV:
        return run_recv(s, member, i);
    case GRAPH_CALL:
        if (g->calls[g->nodes[i].peer].function != NULL &&
            g->calls[g->nodes[i].peer].function(g->calls[g->nodes[i].peer].argument) != 0)
            run_fail(s, member, "call %u failed", i);
        return true;
    default:
        run_compute(s, member, i);
        return true;
    }
}

static void run_loop(struct run_state *s)
{
    while (s->nready > 0 && !s->failed) {
        size_t chosen = (size_t)(random_draw(&s->draw) % s->nready);
        struct run_item item = s->ready[chosen];
        struct run_member *m = &s->member[item.member];
        const struct graph *g = m->g;

        s->ready[chosen] = s->ready[--s->nready];
        if (!run_node(s, item.member, item.node)) {
            m->parked[m->nparked++] = item.node;
            continue;
        }
        for (uint32_t k = g->first[item.node]; k < g->first[item.node + 1]; k++)
            if (--m->waits[g->successors[k]] == 0)
                run_add_ready(s, item.member, g->successors[k]);
        if (--m->left == 0)
            run_end(s, item.member);
    }
}

static void run_check_end(struct run_state *s)
{
    for (int i = 0; i < s->size && !s->failed; i++) {
        const struct run_member *m = &s->member[i];

        if (m->g->count > 0 && m->op < s->run->ops)
            run_fail(s, i, "deadlock: %u operations of %llu are left, first parked: %d", m->left,
                     (unsigned long long)m->op, m->nparked > 0 ? (int)m->parked[0] : -1);
        for (size_t k = 0; k < (size_t)m->g->slots * s->run->depth; k++)
            if (m->cell[k].used && m->cell[k].left > 0)
                run_fail(s, i, "slot %zu: %u receivers have not received it", k % m->g->slots,
                         m->cell[k].left);
    }
}

int coll_run_graphs(struct coll_run *run, const struct coll_case *c, const struct graph *graph)
{
    struct run_state s = {.run = run, .c = c, .size = c->shape.size, .draw = run->seed};
    struct error err = {""};

    run->messages = run->bytes = 0;
    run->error[0] = '\0';
    s.operator= coll_case_operator(c);
    s.scratch = run_alloc(coll_operator_scratch(&s.operator));
    s.member = run_alloc((size_t)s.size * sizeof(*s.member));
    for (int i = 0; i < s.size; i++) {
        run_open(&s, i, &graph[i]);
        if (run->races && graph_find_race(&graph[i], &err) != 0)
            run_fail(&s, i, "%s", err.text);
    }
    s.ready = run_alloc(s.most_ready * sizeof(*s.ready));
    for (int i = 0; i < s.size; i++) {
        run_start(&s, i);
        if (graph[i].count == 0) /* nothing to do, ever */
            for (s.member[i].left = 0; s.member[i].op < run->ops;)
                run_end(&s, i);
    }
    run_loop(&s);
    run_check_end(&s);
    run_close(&s);
    return s.failed ? -1 : 0;
}

/* Whether a graph has the slots, and its messages the bytes, that coll_limits() allows: a team allocates no more. */
static bool run_is_within_limits(struct coll_run *run, const struct coll_case *c,
                                 const struct coll_request *request, const struct graph *g)
{
    struct coll_limits limits = coll_limits(&c->shape, request, &c->choice);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < g->count; i++)
        if (g->nodes[i].kind == GRAPH_SEND && !g->nodes[i].lent)
            bytes += (g->nodes[i].bytes + 63) / 64 * 64;
    if (g->slots <= limits.slots &&
        (bytes <= limits.bytes || (request->kind == COLL_ALLTOALL && request->counts != NULL)))
        return true;
    snprintf(run->error, sizeof(run->error),
             "member %d has %u slots and sends %llu bytes; the limits are %llu and %llu", g->me,
             g->slots, (unsigned long long)bytes, (unsigned long long)limits.slots,
             (unsigned long long)limits.bytes);
    return false;
}

int coll_run(struct coll_run *run, const struct coll_case *c)
{
    int size = c->shape.size, rc = 0, first = 0;
    struct graph *graph = run_alloc((size_t)size * sizeof(*graph));
    struct error err = {""};

    for (int i = 0; i < size; i++) {
        struct coll_request request = coll_case_request(c, i);

        rc = coll_build(&graph[i], &c->shape, i, &request, &c->choice, &err);
        first = i == 0 ? rc : first;
        if (rc != first || (rc != 0 && rc != -ENOTSUP)) {
            snprintf(run->error, sizeof(run->error), "member %d builds no graph (%d, %d): %s", i,
                     rc, first, err.text);
            rc = -1;
            break;
        }
        if (rc == 0 && !run_is_within_limits(run, c, &request, &graph[i])) {
            rc = -1;
            break;
        }
    }
    if (rc == 0)
        rc = coll_run_graphs(run, c, graph);
    for (int i = 0; i < size; i++)
        graph_free(&graph[i]);
    free(graph);
    return rc;
}
