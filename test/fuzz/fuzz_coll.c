/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_coll.c: what a member of a team may store and send, and graphs of programs.
 *
 * The first byte selects one. A team is made by hand: its member 0 is the engine, with a board in plain memory of exactly its size, so that a
 * sanitizer finds an access beyond it.
 *
 *     board   member 1 is on the same host: its cells and its head are words of the input, most of them almost right. Operations end, wait, or
 *             fail; memory around the result stays as it is
 *     tags    member 1 is on another host: messages with tags and sizes of the input come by a pipe of this process with itself
 *     graphs  graphs of two members, with arrows from one operation to later and earlier ones: refused, or both members compute by the engine
 *             what one loop over the operations computes
 */
#include "input.h"

#include "coll/engine/compare.h"
#include "coll/engine/edge.h"
#include "coll/engine/engine.h"
#include "coll/engine/create.h"
#include "coll/engine/fail.h"
#include "coll/engine/operation.h"
#include "coll/engine/plan.h"
#include "test/lib/pattern.h"

#include <rpipe.h>

#define MEMBERS 2
#define HEAP 65536
#define DEPTH 8
#define BYTES 40000 /* of FROM and INTO */
#define GUARD 64

static rboard_t board; /* of this process alone: no process sleeps on it */

static void start(void)
{
    rboard_config_t cfg = {.context = 1, .bytes = 4096};
    int rank = 0;

    if (board != NULL)
        return;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_LOG", "error", 1);
    REQUIRE(rinit(NULL, NULL) == 0 && (rboard_open)(&board, &cfg, &rank, 1, sizeof(cfg)) == 0);
}

/* ---- a team in plain memory ---- */

static void team_make(struct rteam *t, int me, char *const memory[MEMBERS], bool apart)
{
    const int hosts[MEMBERS] = {0, apart};

    memset(t, 0, sizeof(*t));
    t->board = board;
    t->size = MEMBERS;
    t->me = me;
    t->rank = calloc(MEMBERS, sizeof(*t->rank)); /* all are this process */
    REQUIRE(t->rank != NULL && shape_init(&t->shape, MEMBERS, hosts, 2) == 0);
    t->shape.slots = CELL_SLOTS;
    t->model = coll_model_default();
    t->depth = DEPTH;
    t->heap_bytes = t->heap_ready = HEAP; /* plain memory: none of it is allocated late */
    t->name = 77;
    t->head = (struct head *)(void *)memory[me];
    t->cells = (struct cell *)(void *)(t->head + 1);
    t->heap = memory[me] + board_heap_at(DEPTH);
    t->board_of = calloc(MEMBERS, sizeof(*t->board_of));
    t->mates = calloc(MEMBERS, sizeof(*t->mates));
    t->edges = calloc(MEMBERS, sizeof(struct edge *));
    REQUIRE(t->board_of != NULL && t->mates != NULL && t->edges != NULL);
    t->board_of[me] = memory[me];
    if (!apart) {
        t->board_of[1 - me] = memory[1 - me];
        t->mates[t->nmates++] = 1 - me;
    }
    t->number = t->done = t->floor = 1;
    ring_init(&t->ring, HEAP);
    list_init(&t->queue);
    list_init(&t->plans);
    pthread_mutex_init(&t->lock, NULL);
}

static void team_release(struct rteam *t)
{
    engine_end_all(t);
    edge_close_all(t);
    while (!list_empty(&t->plans))
        plan_destroy(container_of(t->plans.next, struct rplan, in_plans));
    shape_free(&t->shape);
    pthread_mutex_destroy(&t->lock);
    free(t->rank);
    free((void *)t->board_of);
    free(t->mates);
}

static char *memory_make(void)
{
    char *memory = aligned_alloc(CACHE_LINE, board_heap_at(DEPTH) + HEAP);

    REQUIRE(memory != NULL);
    memset(memory, 0, board_heap_at(DEPTH) + HEAP);
    atomic_store(&((struct head *)(void *)memory)->done, 1);
    return memory;
}

/* ---- operations of member 0 ---- */

static unsigned char from[BYTES], into[GUARD + BYTES + GUARD];

static void start_operation(struct rteam *t, struct input *in)
{
    static const rcoll_kind_t kinds[] = {
        RCOLL_BARRIER,        RCOLL_BCAST,     RCOLL_BCAST,    RCOLL_ALLREDUCE,
        RCOLL_REDUCE_SCATTER, RCOLL_ALLGATHER, RCOLL_ALLTOALL, RCOLL_SCAN};
    static const size_t counts[] = {0, 1, 7, 14, 15, BYTES / 16};
    const size_t blocks[MEMBERS] = {30, 40};
    const unsigned what = input_byte(in);
    rcoll_params_t p = {.kind = kinds[what % 8], .from = from, .into = into + GUARD};
    struct error err = {""};
    struct rplan *plan;

    p.count = counts[(what >> 3) % 6];
    p.root = p.kind == RCOLL_BCAST ? (int)(what % 2) : 0;
    p.flags = what >= 192 && p.kind != RCOLL_ALLTOALL ? RCOLL_VIEWS : 0;
    if (p.kind == RCOLL_BCAST && p.root == 0)
        p.into = from;
    if (p.kind == RCOLL_ALLTOALL && what >= 128) {
        p.count = 0;
        p.counts = p.counts_in = blocks;
    }
    if (p.kind == RCOLL_ALLREDUCE || p.kind == RCOLL_SCAN || p.kind == RCOLL_REDUCE_SCATTER)
        p.type = RGROUP_DOUBLE;
    else if (p.kind != RCOLL_BARRIER)
        p.element = 8;
    if (plan_create(&plan, t, &p, NULL, &err) != 0)
        return;
    plan->free_at_end = what % 3 == 0;
    engine_start(t, plan);
}

/* The oldest operation that runs; NULL: none. */
static struct rplan *find_running(const struct rteam *t)
{
    for (const struct link *link = t->queue.next; link != &t->queue; link = link->next) {
        struct rplan *plan = container_of(link, struct rplan, in_queue);

        if (plan->state == PLAN_RUNS)
            return plan;
    }
    return NULL;
}

static void release_held(struct rteam *t)
{
    struct link *link, *after;

    list_for_each (link, after, &t->queue)
        engine_release(t, container_of(link, struct rplan, in_queue));
}

/* A value near one that is right, or at an edge. */
static uint64_t near(struct input *in, uint64_t right)
{
    const unsigned how = input_byte(in);

    switch (how % 8) {
    case 0:
        return right + (how >> 3);
    case 1:
        return right - (how >> 3);
    case 2:
        return UINT64_MAX - (how >> 3);
    case 3:
        return board_heap_at(DEPTH) + HEAP - (how >> 3);
    case 4:
        return how >> 3;
    case 5:
        return UINT64_C(1) << (how >> 2);
    default:
        return right;
    }
}

static uint32_t check_of(const struct operation *o, size_t bytes)
{
    return o->check ^
           (uint32_t)(2 * bytes * UINT64_C(0x9e3779b97f4a7c15) >> 32); /* operation_salt */
}

/* ---- board ---- */

/* A step of the plan that waits for a message of member 1. */
static const struct step *find_recv(const struct operation *o)
{
    for (uint32_t i = o->next; i < o->program->count; i++)
        if (o->program->steps[i].kind == STEP_RECV)
            return &o->program->steps[i];
    return NULL;
}

/* What member 1 would store for a step that waits, but for what the input changes of it. */
static void store_cell(struct rteam *t, char *theirs, struct input *in)
{
    const struct rplan *plan = find_running(t);
    const struct step *s = plan != NULL ? find_recv(&plan->op) : NULL;
    const unsigned how = input_byte(in);
    struct cell *cells = (struct cell *)(void *)(theirs + sizeof(struct head)), *cell;

    if (s == NULL)
        return;
    cell = &cells[cell_index(DEPTH, plan->op.number, s->slot)];
    if (!s->in_cell) {
        cell->message.at = near(in, board_heap_at(DEPTH));
        atomic_store(&cell->message.ready, near(in, s->bytes));
    }
    cell->check = check_of(&plan->op, s->bytes);
    if ((how & 15) == 0)
        cell->check ^= input_word(in);
    atomic_store(&cell->number, near(in, plan->op.number));
}

static void store_head(struct rteam *t, char *theirs, struct input *in)
{
    struct head *head = (struct head *)(void *)theirs;

    if (input_byte(in) % 2 == 0)
        atomic_store(&head->done, near(in, t->number));
    else
        atomic_store(&head->started[t->done % HEAD_STARTED],
                     head_started(t->done, (uint32_t)near(in, t->history)));
}

static void check_team(const struct rteam *t)
{
    for (int i = 0; i < GUARD; i++)
        REQUIRE(into[i] == 0x5a && into[GUARD + BYTES + i] == 0x5a);
    REQUIRE(t->floor <= t->number && t->done <= t->number && t->ring.count <= RING_BLOCKS);
    REQUIRE(t->lost <= 0 && (t->lost == 0 || t->lost_text[0] != '\0'));
}

static void fuzz_board(struct input *in)
{
    char *memory[MEMBERS] = {memory_make(), memory_make()};
    struct rteam t;

    team_make(&t, 0, memory, false);
    memset(into, 0x5a, sizeof(into));
    while (!input_is_empty(in) && t.lost == 0) {
        switch (input_byte(in) % 6) {
        case 0:
            start_operation(&t, in);
            break;
        case 1:
            store_head(&t, memory[1], in);
            break;
        case 2:
            release_held(&t);
            break;
        case 3:
            team_compare_operations(&t);
            break;
        default:
            store_cell(&t, memory[1], in);
        }
        (void)engine_advance(&t);
        check_team(&t);
    }
    team_release(&t);
    free(memory[0]);
    free(memory[1]);
}

/* ---- tags ---- */

/* The first members of a `struct edge` (edge.c). */
struct edge_ends {
    rch_t out, in;
};

static void send_message(struct rteam *t, struct input *in)
{
    const struct edge_ends *ends = (const void *)t->edges[1];
    const struct rplan *plan = find_running(t);
    uint64_t number, check;
    raddr_t d = ADDR_NULL;
    size_t bytes;

    if (ends == NULL || ends->out == NULL || plan == NULL)
        return;
    number = near(in, plan->op.number);
    check = near(in, plan->op.check) & 0xffffff;
    bytes =
        plan->op.next < plan->op.program->count ? plan->op.program->steps[plan->op.next].bytes : 0;
    bytes = near(in, bytes) % (2 * HEAP);
    if (rmalloc_nb(ends->out, bytes, &d) != 0)
        return;
    memset(rmem(ends->out, d), 0x11, bytes);
    (void)rset_tag(ends->out, d, number << 40 | (uint64_t)(input_byte(in) % 70) << 24 | check);
    (void)rwrite_nb(ends->out, d);
}

static void fuzz_tags(struct input *in)
{
    char *memory[MEMBERS] = {memory_make(), NULL};
    struct rteam t;

    team_make(&t, 0, memory, true);
    memset(into, 0x5a, sizeof(into));
    while (!input_is_empty(in) && t.lost == 0) {
        if (input_byte(in) % 4 == 0)
            start_operation(&t, in);
        else
            send_message(&t, in);
        release_held(&t);
        (void)engine_advance(&t);
        check_team(&t);
    }
    team_release(&t);
    free(memory[0]);
}

/* ---- graphs ---- */

#define NODES 24
#define SPACE 256 /* bytes of FROM, INTO and SCRATCH */

static const size_t node_sizes[] = {0, 8, 16, 48, 56, 128};

/* What the members send each other: each has one operation for each of them, so that most graphs fit. */
#define MESSAGES 4

struct messages {
    int from[MESSAGES];
    size_t bytes[MESSAGES];
    int n;
};

static void input_messages(struct messages *m, struct input *in)
{
    m->n = (int)(input_byte(in) % (MESSAGES + 1));
    for (int i = 0; i < m->n; i++) {
        const unsigned what = input_byte(in);

        m->from[i] = what % 2;
        m->bytes[i] = node_sizes[(what >> 1) % 6];
    }
}

/* FROM, INTO, SCRATCH, or a view, where there is one. */
static struct graph_ref input_ref(const struct graph *g, struct input *in)
{
    const unsigned what = input_byte(in);
    const size_t at = input_byte(in) % 24 * 8;
    uint32_t view = g->count;

    while (what % 4 == 3 && view > 0 && g->nodes[view - 1].kind != GRAPH_RECV)
        view--;
    if (what % 4 == 3 && view > 0)
        return graph_at((int32_t)view - 1, what >= 128 ? at : 0);
    return graph_at((int32_t)(-1 - (int)(what % 3)), at);
}

static void input_message(struct graph *g, const struct messages *m, int i, struct input *in)
{
    const int other = 1 - g->me;
    const size_t bytes = m->bytes[i] + (input_byte(in) == 255 ? 8 : 0);

    if (m->from[i] == g->me)
        graph_send(g, &other, 1, (uint32_t)i, input_ref(g, in), bytes);
    else
        graph_recv(g, other, (uint32_t)i, bytes);
}

static void input_node(struct graph *g, struct input *in)
{
    const unsigned what = input_byte(in);
    const size_t bytes = node_sizes[(what >> 2) % 6];
    const struct graph_ref to = input_ref(g, in), source = input_ref(g, in);

    switch (what % 4) {
    case 0:
        graph_fold(g, to, source, bytes, false);
        break;
    case 1:
    case 2:
        graph_copy(g, to, source, bytes);
        break;
    default:
        graph_call(g, NULL, NULL);
    }
}

/* Arrows in either direction: some of them make a cycle. */
static bool input_graph(struct graph *g, int me, const struct messages *m, struct input *in)
{
    const unsigned nodes = input_byte(in) % (NODES - MESSAGES), how = input_byte(in);
    struct error err = {""};
    int rc, next = 0;

    graph_init(g, MEMBERS, me, SPACE, SPACE);
    (void)graph_scratch(g, SPACE);
    for (unsigned i = 0; i < nodes; i++)
        if (next < m->n && input_byte(in) % 3 == 0)
            input_message(g, m, next++, in);
        else
            input_node(g, in);
    while (next < m->n)
        input_message(g, m, next++, in);
    for (uint32_t i = 1; how % 4 != 0 && i < g->count; i++)
        graph_after(g, (int)i, (int)i - 1); /* one after the other: no race */
    for (unsigned i = how >> 5; i > 0 && g->count > 0; i--) {
        const unsigned node = input_byte(in);

        graph_after(g, (int)(node % g->count), (int)(input_byte(in) % g->count));
    }
    rc = graph_finish(g, &err);
    if (rc == 0)
        rc = graph_find_race(g, &err);
    REQUIRE(rc == 0 || err.text[0] != '\0' || rc == g->failed);
    return rc == 0;
}

/* Each message that one sends is received by the other one, with its length. */
static bool graphs_match(const struct graph g[MEMBERS])
{
    for (int m = 0; m < MEMBERS; m++)
        for (uint32_t i = 0; i < g[m].count; i++) {
            const struct graph_node *node = &g[m].nodes[i];
            uint32_t k = 0;

            if (node->kind != GRAPH_SEND && node->kind != GRAPH_RECV)
                continue;
            while (
                k < g[1 - m].count &&
                (g[1 - m].nodes[k].kind != (node->kind == GRAPH_SEND ? GRAPH_RECV : GRAPH_SEND) ||
                 g[1 - m].nodes[k].slot != node->slot))
                k++;
            if (k == g[1 - m].count || g[1 - m].nodes[k].bytes != node->bytes)
                return false;
        }
    return true;
}

struct interpreted {
    unsigned char space[GRAPH_SPACES][SPACE];
    unsigned char view[NODES][128 + 8], sent[MESSAGES][128 + 8];
    bool has_sent[MESSAGES], done[NODES];
};

static unsigned char *interpreted_at(struct interpreted *m, int32_t base, size_t at)
{
    return base >= 0 ? &m->view[base][at] : &m->space[-1 - base][at];
}

static bool interpret_node(struct interpreted *m, const struct interpreted *other,
                           const struct graph_node *node, uint32_t i)
{
    switch (node->kind) {
    case GRAPH_SEND:
        memcpy(m->sent[node->slot], interpreted_at(m, node->from, node->from_at), node->bytes);
        m->has_sent[node->slot] = true;
        return true;
    case GRAPH_RECV:
        if (!other->has_sent[node->slot])
            return false;
        memcpy(m->view[i], other->sent[node->slot], node->bytes);
        return true;
    case GRAPH_COPY:
        memmove(interpreted_at(m, node->into, node->into_at),
                interpreted_at(m, node->from, node->from_at), node->bytes);
        return true;
    case GRAPH_FOLD:
        for (size_t k = 0; k < node->bytes; k++)
            *interpreted_at(m, node->into, node->into_at + k) ^=
                *interpreted_at(m, node->from, node->from_at + k);
        return true;
    default:
        return true;
    }
}

static bool interpret_may(const struct interpreted *m, const struct graph *g, uint32_t i)
{
    for (uint32_t e = 0; e < g->nedges; e++)
        if (g->edges[e].node == i && !m->done[g->edges[e].of])
            return false;
    return !m->done[i];
}

/* False: they wait for each other. */
static bool interpret(struct interpreted m[MEMBERS], const struct graph g[MEMBERS])
{
    uint32_t left = g[0].count + g[1].count;
    bool did = true;

    while (did) {
        did = false;
        for (int me = 0; me < MEMBERS; me++)
            for (uint32_t i = 0; i < g[me].count; i++)
                if (interpret_may(&m[me], &g[me], i) &&
                    interpret_node(&m[me], &m[1 - me], &g[me].nodes[i], i)) {
                    m[me].done[i] = did = true;
                    left--;
                }
    }
    return left == 0;
}

static void graphs_execute(struct graph g[MEMBERS], struct interpreted expected[MEMBERS], bool ends)
{
    char *memory[MEMBERS] = {memory_make(), memory_make()};
    static unsigned char spaces[MEMBERS][2][SPACE];
    struct coll_operator xor ;
    struct rteam t[MEMBERS];
    struct rplan *plan[MEMBERS];
    struct error err = {""};
    bool did = true;

    REQUIRE(coll_operator_init(&xor, RGROUP_UINT8, RGROUP_BXOR, &err) == 0);
    for (int m = 0; m < MEMBERS; m++) {
        team_make(&t[m], m, memory, false);
        REQUIRE(plan_create_of_graph(&plan[m], &t[m], &g[m], &xor, 1, &err) == 0);
        pattern_fill(spaces[m][0], SPACE, (uint64_t)m);
        pattern_fill(spaces[m][1], SPACE, (uint64_t)m + 10);
        plan[m]->from = spaces[m][0];
        plan[m]->into = spaces[m][1];
        memset(plan[m]->scratch, 0, SPACE);
        engine_start(&t[m], plan[m]);
    }
    while (did) {
        did = engine_advance(&t[0]);
        did |= engine_advance(&t[1]);
    }
    for (int m = 0; m < MEMBERS; m++) {
        REQUIRE(t[m].lost == 0 && (plan[m]->state == PLAN_IDLE || !ends));
        REQUIRE(!ends || memcmp(spaces[m][1], expected[m].space[1], SPACE) == 0);
        team_release(&t[m]);
    }
    free(memory[0]);
    free(memory[1]);
}

static void fuzz_graphs(struct input *in)
{
    static struct interpreted expected[MEMBERS];
    struct graph g[MEMBERS];
    struct messages m;
    bool right = true, ends;

    memset(expected, 0, sizeof(expected));
    input_messages(&m, in);
    for (int me = 0; me < MEMBERS; me++) {
        right = input_graph(&g[me], me, &m, in) && right;
        pattern_fill(expected[me].space[0], SPACE, (uint64_t)me);
        pattern_fill(expected[me].space[1], SPACE, (uint64_t)me + 10);
    }
    if (right && graphs_match(g)) {
        ends = interpret(expected, g);
        graphs_execute(g, expected, ends);
    } else {
        graph_free(&g[0]);
        graph_free(&g[1]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};

    start();
    switch (input_byte(&in) % 3) {
    case 0:
        fuzz_board(&in);
        break;
    case 1:
        fuzz_tags(&in);
        break;
    default:
        fuzz_graphs(&in);
    }
    return 0;
}
