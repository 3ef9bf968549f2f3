/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_case.c: see coll_case.h. */
#include "test/unit/coll_case.h"

#include "test/lib/random.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- random cases ---- */

static size_t case_below(uint64_t *seed, size_t limit)
{
    return (size_t)(random_draw(seed) % limit);
}

static size_t case_draw_count(uint64_t *seed)
{
    switch (random_draw(seed) % 8) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return 200 + case_below(seed, 100);
    default:
        return case_below(seed, 40);
    }
}

/* Offsets of blocks that do not overlap, in any order, with gaps. */
static void case_draw_offsets(uint64_t *seed, const size_t *counts, size_t *offsets, int size)
{
    int order[COLL_CASE_MEMBERS];
    size_t at = 0;

    for (int i = 0; i < size; i++)
        order[i] = i;
    for (int i = size - 1; i > 0; i--) {
        int k = (int)case_below(seed, (size_t)i + 1), other = order[k];

        order[k] = order[i];
        order[i] = other;
    }
    for (int i = 0; i < size; i++) {
        at += case_below(seed, 3);
        offsets[order[i]] = at;
        at += counts[order[i]];
    }
}

static void case_draw_alltoall(struct coll_case *c, uint64_t *seed)
{
    int size = c->shape.size;
    bool offsets = random_draw(seed) % 2 == 0;

    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            bool copied = c->request.in_place && j < i; /* in place, both directions are equal */

            c->sent[i][j] = copied ? c->sent[j][i] : case_below(seed, 12);
            c->in[j][i] = c->sent[i][j];
        }
    for (int i = 0; i < size; i++) {
        case_draw_offsets(seed, c->sent[i], c->sent_at[i], size);
        case_draw_offsets(seed, c->in[i], c->in_at[i], size);
    }
    c->request.counted = size > 1 && random_draw(seed) % 2 == 0;
    c->request.counts = c->sent[0]; /* of each member: coll_case_request */
    c->request.counts_in = c->in[0];
    c->request.offsets = offsets ? c->sent_at[0] : NULL;
    c->request.offsets_in = offsets ? c->in_at[0] : NULL;
}

static void case_draw_counts(struct coll_case *c, uint64_t *seed)
{
    for (int i = 0; i < c->shape.size; i++)
        c->counts[i] = random_draw(seed) % 4 == 0 ? 0 : case_below(seed, 30);
    case_draw_offsets(seed, c->counts, c->offsets, c->shape.size);
    c->request.counts = c->counts;
    c->request.offsets =
        random_draw(seed) % 2 == 0 && c->request.kind != COLL_REDUCE_SCATTER ? c->offsets : NULL;
}

static void case_draw_shape(struct coll_case *c, uint64_t *seed)
{
    int host[COLL_CASE_MEMBERS];
    int size = random_draw(seed) % 4 == 0 ? 1 << case_below(seed, 6)
                                          : 1 + (int)case_below(seed, COLL_CASE_MEMBERS);
    int hosts = 1 + (int)case_below(seed, 8), rows = (int)case_below(seed, 3);

    for (int i = 0; i < size; i++)
        host[i] = rows == 0   ? (int)case_below(seed, (size_t)hosts)
                  : rows == 1 ? i / (1 + (size - 1) / hosts)
                              : i / (1 << (hosts / 3));
    if (shape_init(&c->shape, size, host, 1 + (int)case_below(seed, 4)) != 0)
        abort();
}

static void case_draw_algorithm(struct coll_case *c, uint64_t *seed)
{
    enum coll_algorithm algorithm;

    do
        algorithm = (enum coll_algorithm)case_below(seed, COLL_ALGORITHMS);
    while (!coll_has(c->request.kind, algorithm));
    c->choice.algorithm = algorithm;
    c->choice.radix = (int)case_below(seed, 6);
    if (random_draw(seed) % 6 == 0)
        c->choice.radix = c->shape.size;
    c->choice.segment = case_below(seed, 60);
}

static bool case_has_kind(enum coll_kind kind)
{
    for (int a = 0; a < COLL_ALGORITHMS; a++)
        if (coll_has(kind, (enum coll_algorithm)a))
            return true;
    return false;
}

static bool case_folds(enum coll_kind kind) { return kind >= COLL_REDUCE && kind <= COLL_EXSCAN; }

/* An operator of util/fold.h, or a function of coll_value.c. */
static void case_draw_operator(struct coll_case *c, uint64_t *seed)
{
    c->typed = random_draw(seed) % 2 == 0;
    c->request.element = 8 * (1 + case_below(seed, 3));
    if (!c->typed)
        return;
    do {
        c->type = (unsigned)case_below(seed, FOLD_TYPES);
        c->op = (unsigned)case_below(seed, FOLD_OPERATORS);
    } while (fold_function(c->type, c->op) == NULL);
    c->request.element = fold_element_bytes(c->type);
}

void coll_case_draw(struct coll_case *c, uint64_t seed)
{
    struct coll_request *r = &c->request;
    uint64_t draw = random_mix(seed);

    memset(c, 0, sizeof(*c));
    c->seed = seed;
    case_draw_shape(c, &draw);
    do
        r->kind = (enum coll_kind)case_below(&draw, COLL_KINDS);
    while (!case_has_kind(r->kind));
    r->order = (enum coll_order)case_below(&draw, 3);
    r->root = (int)case_below(&draw, (size_t)c->shape.size);
    r->in_place = random_draw(&draw) % 3 == 0;
    r->element = 1 + case_below(&draw, 16);
    if (case_folds(r->kind))
        case_draw_operator(c, &draw);
    r->count = case_draw_count(&draw);
    if (r->kind == COLL_ALLTOALL && random_draw(&draw) % 2 == 0)
        case_draw_alltoall(c, &draw);
    if ((r->kind == COLL_GATHER || r->kind == COLL_ALLGATHER || r->kind == COLL_SCATTER ||
         r->kind == COLL_REDUCE_SCATTER) &&
        random_draw(&draw) % 2 == 0)
        case_draw_counts(c, &draw);
    case_draw_algorithm(c, &draw);
}

void coll_case_free(struct coll_case *c) { shape_free(&c->shape); }

const char *coll_case_describe(const struct coll_case *c)
{
    static char text[300];
    const struct coll_request *r = &c->request;

    snprintf(text, sizeof(text),
             "seed %llu: %s by %s, radix %d, segment %zu, %d members on %d hosts%s, root %d, "
             "%zu elements of %zu bytes%s%s, order %d%s, operator %d of %s",
             (unsigned long long)c->seed, coll_kind_name(r->kind),
             coll_algorithm_name(c->choice.algorithm), c->choice.radix, c->choice.segment,
             c->shape.size, c->shape.hosts, c->shape.in_rows ? " in rows" : "", r->root, r->count,
             r->element, r->counts != NULL ? ", counts" : "", r->offsets != NULL ? ", offsets" : "",
             (int)r->order, r->in_place ? ", in place" : "", (int)c->op,
             c->typed ? fold_type_name(c->type) : "the program");
    return text;
}

struct coll_request coll_case_request(const struct coll_case *c, int me)
{
    struct coll_request r = c->request;

    if (r.kind == COLL_ALLTOALL && r.counts != NULL) {
        r.counts = c->sent[me];
        r.counts_in = c->in[me];
        r.offsets = r.offsets != NULL ? c->sent_at[me] : NULL;
        r.offsets_in = r.offsets_in != NULL ? c->in_at[me] : NULL;
    }
    return r;
}

/* ---- blocks, by the words of coll.h ---- */

struct case_block {
    size_t at, bytes;
};

static struct case_block case_block_of(const struct coll_request *r, const size_t *counts,
                                       const size_t *offsets, int i)
{
    struct case_block block = {.at = r->count * r->element * (size_t)i,
                               .bytes = r->count * r->element};

    if (counts != NULL) {
        block = (struct case_block){.bytes = counts[i] * r->element};
        for (int k = 0; k < i && offsets == NULL; k++)
            block.at += counts[k] * r->element;
        if (offsets != NULL)
            block.at = offsets[i] * r->element;
    }
    return block;
}

/* Block i of the vector of blocks, and, for alltoall, of FROM and of INTO of member `me`. */
static struct case_block case_block(const struct coll_case *c, int me, int i)
{
    struct coll_request r = coll_case_request(c, me);

    return case_block_of(&r, r.counts, r.offsets, i);
}

static struct case_block case_block_in(const struct coll_case *c, int me, int i)
{
    struct coll_request r = coll_case_request(c, me);

    if (r.in_place)
        return case_block_of(&r, r.counts, r.offsets, i);
    return case_block_of(&r, r.counts_in, r.offsets_in, i);
}

/* ---- contributions ---- */

static void case_put(const struct coll_case *c, uint64_t op, int member, struct case_block what,
                     uint8_t *to, uint8_t *defined)
{
    coll_case_contribution(c, op, member, what.at, what.bytes, to);
    memset(defined, 1, what.bytes);
}

void coll_case_fill(const struct coll_case *c, uint64_t op, int me, const struct graph *g,
                    uint8_t *memory[GRAPH_SPACES], uint8_t *defined[GRAPH_SPACES])
{
    struct case_block all = {.at = 0, .bytes = g->space[0]}, own;
    enum coll_kind kind = c->request.kind;
    uint8_t *into = memory[1], *into_defined = defined[1];
    bool in_place = c->request.in_place && g->space[0] == 0;

    case_put(c, op, me, all, memory[0], defined[0]);
    if (c->request.counted) {
        uint64_t words[2] = {coll_case_word(c, op, me), 0};

        memcpy(memory[2], words, sizeof(words));
        memset(defined[2], 1, sizeof(words));
    }
    if (!in_place)
        return;
    all.bytes = g->space[1];
    if (kind == COLL_GATHER || kind == COLL_ALLGATHER) {
        own = case_block(c, me, me);
        if ((kind == COLL_ALLGATHER || me == c->request.root) && own.bytes > 0)
            case_put(c, op, me, (struct case_block){.at = 0, .bytes = own.bytes}, into + own.at,
                     into_defined + own.at);
    } else if (case_folds(kind) || kind == COLL_ALLTOALL) {
        case_put(c, op, me, all, into, into_defined);
    }
}

/* ---- results ---- */

struct case_value {
    uint8_t byte[COLL_CASE_ELEMENT];
};

static void case_combine(const struct coll_operator *o, struct case_value *into,
                         const struct case_value *from)
{
    o->function(into->byte, from->byte, o->element, o->argument);
}

/* The perfect tree of n leaves, into the first. */
static void case_fold_tree(const struct coll_operator *o, struct case_value *leaf, int n)
{
    for (int step = 1; step < n; step *= 2)
        for (int i = 0; i < n; i += 2 * step)
            case_combine(o, &leaf[i], &leaf[i + step]);
}

/* The fold of n values in the order of the case, into the first. */
static void case_fold_values(const struct coll_case *c, const struct coll_operator *o,
                             struct case_value *value, int n)
{
    int power = 1, extras, leaves = 0;

    if (c->request.order != COLL_FIXED_ORDER) {
        for (int i = 1; i < n; i++)
            case_combine(o, &value[0], &value[i]);
        return;
    }
    while (2 * power <= n)
        power *= 2;
    extras = n - power;
    for (int i = 0; i < n; i++) {
        value[leaves] = value[i];
        if (i < 2 * extras) {
            case_combine(o, &value[leaves], &value[i + 1]);
            i++;
        }
        leaves++;
    }
    assert(leaves == power);
    case_fold_tree(o, value, power);
}

/* The fold of bytes [at, at + bytes) of what members 0 to n - 1 contribute. */
static void case_expect_fold(const struct coll_case *c, uint64_t op, int n, struct case_block what,
                             uint8_t *into)
{
    struct coll_operator o = coll_case_operator(c);

    for (size_t i = 0; i < what.bytes; i += o.element) {
        struct case_value value[COLL_CASE_MEMBERS];

        for (int member = 0; member < n; member++)
            coll_case_contribution(c, op, member, what.at + i, o.element, value[member].byte);
        case_fold_values(c, &o, value, n);
        memcpy(into + i, value[0].byte, o.element);
    }
}

static void case_expect_blocks(const struct coll_case *c, uint64_t op, int me, uint8_t *into,
                               uint8_t *defined)
{
    for (int i = 0; i < c->shape.size; i++) {
        bool alltoall = c->request.kind == COLL_ALLTOALL;
        struct case_block to = alltoall ? case_block_in(c, me, i) : case_block(c, me, i), from = to;

        from.at = alltoall ? case_block(c, i, me).at : 0;
        if (to.bytes > 0)
            case_put(c, op, i, from, into + to.at, defined + to.at);
    }
}

void coll_case_expect(const struct coll_case *c, uint64_t op, int me, size_t bytes, uint8_t *into,
                      uint8_t *defined)
{
    const struct coll_request *r = &c->request;
    struct case_block all = {.at = 0, .bytes = r->count * r->element}, own;
    bool root = me == r->root;

    memset(defined, 0, bytes);
    switch (r->kind) {
    case COLL_BARRIER:
        break;
    case COLL_BCAST:
        if (!root)
            case_put(c, op, r->root, all, into, defined);
        break;
    case COLL_REDUCE:
    case COLL_ALLREDUCE:
    case COLL_SCAN:
    case COLL_EXSCAN:
        if ((r->kind == COLL_REDUCE && !root) || (r->kind == COLL_EXSCAN && me == 0))
            break;
        memset(defined, 1, all.bytes);
        case_expect_fold(c, op,
                         r->kind == COLL_SCAN     ? me + 1
                         : r->kind == COLL_EXSCAN ? me
                                                  : c->shape.size,
                         all, into);
        break;
    case COLL_REDUCE_SCATTER:
        own = case_block(c, me, me);
        memset(defined, 1, own.bytes);
        case_expect_fold(c, op, c->shape.size, own, into);
        break;
    case COLL_GATHER:
        if (root)
            case_expect_blocks(c, op, me, into, defined);
        break;
    case COLL_ALLGATHER:
    case COLL_ALLTOALL:
        case_expect_blocks(c, op, me, into, defined);
        break;
    case COLL_SCATTER:
        if (!root || !r->in_place)
            case_put(c, op, r->root, case_block(c, me, me), into, defined);
        break;
    }
}
