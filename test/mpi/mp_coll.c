/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives against one loop for each kind: random kinds, lengths, types, roots, blocks, in place; plans that overlap; teams that
 * are split; views; the same bits by all algorithms; graphs; mistakes. The number is that of random cases.
 * -apart: each rank is a host of its own; -spread: every third one, and the others share a host. -cast, on several hosts: what can go by casts does, of whose packets 5 % are lost and 2 % repeated.
 */
#include "test/lib/mp_check.h"

#include <rcoll.h>
#include <stdlib.h>

#define MEMBERS_MOST 64

/* ---- contents: each member can compute those of all ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    return x ^ x >> 29;
}

static uint64_t shared; /* the same sequence at all ranks */

static uint32_t draw(uint32_t below)
{
    shared = shared * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(mix(shared) >> 33) % below;
}

/* Matrices of 2 x 2 modulo 2^64: their product is associative, and does not commute. */
static void multiply(void *into, const void *from, size_t bytes, void *argument)
{
    (void)argument;
    for (size_t at = 0; at < bytes; at += 32) {
        uint64_t a[4], b[4], c[4];

        memcpy(a, (char *)into + at, 32);
        memcpy(b, (const char *)from + at, 32);
        for (int i = 0; i < 4; i++)
            c[i] = a[i / 2 * 2] * b[i % 2] + a[i / 2 * 2 + 1] * b[2 + i % 2];
        memcpy((char *)into + at, c, 32);
    }
}

/* Products modulo 2^64, which commute. */
static void scale(void *into, const void *from, size_t bytes, void *argument)
{
    (void)argument;
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t a, b;

        memcpy(&a, (char *)into + at, 8);
        memcpy(&b, (const char *)from + at, 8);
        a *= b;
        memcpy((char *)into + at, &a, 8);
    }
}

enum operand {
    SUM_INT32,
    SUM_DOUBLE,
    MAX_UINT64,
    MIN_INDEX,
    SUM_BFLOAT16,
    PRODUCT,
    MATRIX,
    BYTES,
    OPERANDS
};

static size_t element_bytes(enum operand o)
{
    static const size_t bytes[OPERANDS] = {4, 8, 8, 16, 2, 8, 32, 1};

    return bytes[o];
}

static void set_operator(rcoll_params_t *p, enum operand o)
{
    static const rgroup_type_t type[] = {RGROUP_INT32, RGROUP_DOUBLE, RGROUP_UINT64,
                                         RGROUP_INT64_INDEX, RGROUP_BFLOAT16};
    static const rgroup_op_t op[] = {RGROUP_SUM, RGROUP_SUM, RGROUP_MAX, RGROUP_MIN, RGROUP_SUM};

    if (o == MATRIX) {
        p->function = multiply;
        p->element = 32;
    } else if (o == PRODUCT) {
        p->function = scale;
        p->element = 8;
        p->flags |= RCOLL_COMMUTES;
    } else if (o == BYTES)
        p->element = 0;
    else {
        p->type = type[o];
        p->op = op[o];
    }
}

/* Element i of what a member contributes to block `block` of a case. */
static void fill_element(void *to, enum operand o, uint64_t round, int member, int block, size_t i)
{
    uint64_t x = mix(round * 1000003 + (uint64_t)member * 8191 + (uint64_t)block * 131 + i);
    struct rgroup_int64_index pair = {(int64_t)(x % 5), member};
    double number = (double)(x % 1000);
    float few = (float)(x % 5) - 2; /* the sums of all members are exact in 8 bits */
    int32_t small = (int32_t)x;
    uint64_t odd = x | 1; /* no product is 0 */
    uint32_t bits;
    uint16_t half;

    switch (o) {
    case SUM_INT32:
        memcpy(to, &small, 4);
        break;
    case SUM_DOUBLE:
        memcpy(to, &number, 8);
        break;
    case MAX_UINT64:
        memcpy(to, &x, 8);
        break;
    case MIN_INDEX:
        memcpy(to, &pair, 16);
        break;
    case SUM_BFLOAT16:
        memcpy(&bits, &few, 4);
        half = (uint16_t)(bits >> 16);
        memcpy(to, &half, 2);
        break;
    case PRODUCT:
        memcpy(to, &odd, 8);
        break;
    case MATRIX:
        for (uint64_t k = 0; k < 4; k++) {
            uint64_t y = mix(x + k);

            memcpy((char *)to + 8 * k, &y, 8);
        }
        break;
    default:
        *(unsigned char *)to = (unsigned char)x;
    }
}

static void fill(void *to, enum operand o, uint64_t round, int member, int block, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fill_element((char *)to + i * element_bytes(o), o, round, member, block, i);
}

static void combine(void *into, const void *from, enum operand o, size_t count)
{
    rcoll_params_t p = {.kind = RCOLL_REDUCE};

    set_operator(&p, o);
    if (p.function != NULL)
        p.function(into, from, count * p.element, NULL);
    else
        CHECK_OK(NULL, rgroup_combine(into, from, count, p.type, p.op));
}

/* Members first to last - 1 of a block, in their order. */
static void folded(void *into, enum operand o, uint64_t round, int first, int last, int block,
                   size_t count)
{
    char *next = malloc(count * element_bytes(o) + 1);

    fill(into, o, round, first, block, count);
    for (int m = first + 1; m < last; m++) {
        fill(next, o, round, m, block, count);
        combine(into, next, o, count);
    }
    free(next);
}

/* ---- one case ---- */

struct coll_case {
    rcoll_params_t p;
    enum operand o;
    uint64_t round;
    int n, me;
    size_t counts[MEMBERS_MOST], offsets[MEMBERS_MOST], counts_in[MEMBERS_MOST],
        offsets_in[MEMBERS_MOST];
    size_t all, all_in; /* elements of the vector of blocks */
    char *from, *into, *expected;
    size_t from_bytes, into_bytes;
    bool has_result;
};

static bool has_blocks(rcoll_kind_t kind)
{
    return kind == RCOLL_REDUCE_SCATTER || kind >= RCOLL_GATHER;
}

static size_t draw_count(enum operand o, bool blocks, bool slow)
{
    static const size_t bytes[] = {0, 1, 8, 40, 48, 49, 112, 113, 500, 4096, 65536, 1048584};
    uint32_t kinds = slow ? 10 : blocks ? 11 : 12;
    uint32_t which = draw(kinds);

    if (which >= 10 && draw(4) != 0)
        which = draw(10);
    return (bytes[which] + element_bytes(o) - 1) / element_bytes(o);
}

/* Blocks of different lengths, some empty, with gaps between them. row: of an alltoall, whose blocks depend on sender and receiver. */
static size_t draw_blocks(const struct coll_case *c, size_t *counts, size_t *offsets, bool gaps)
{
    size_t at = 0;

    for (int i = 0; i < c->n; i++) {
        offsets[i] = at;
        at += counts[i] + (gaps ? (size_t)i % 3 : 0);
    }
    return at;
}

/* What member `from` sends to member `to` in an alltoall with counts; in place, both directions are equal. */
static size_t pair_count(const struct coll_case *c, int from, int to)
{
    if ((c->p.flags & RCOLL_IN_PLACE) != 0 && from > to)
        return pair_count(c, to, from);
    return mix(c->round * 77 + (uint64_t)from * 64 + (uint64_t)to) % (2 * c->p.count + 2);
}

static void set_blocks(struct coll_case *c, bool with_counts)
{
    bool gaps = draw(2) == 0;

    for (int i = 0; i < c->n; i++) {
        c->counts[i] = c->counts_in[i] = c->p.count;
        if (with_counts && c->p.kind == RCOLL_ALLTOALL) {
            c->counts[i] = pair_count(c, c->me, i);
            c->counts_in[i] = pair_count(c, i, c->me);
        } else if (with_counts)
            c->counts[i] = pair_count(c, 0, i);
    }
    c->all = draw_blocks(c, c->counts, c->offsets, with_counts && gaps);
    c->all_in = draw_blocks(c, c->counts_in, c->offsets_in, with_counts && gaps);
    if (!with_counts)
        return;
    c->p.counts = c->counts;
    c->p.offsets = c->offsets;
    if (c->p.kind == RCOLL_ALLTOALL) {
        c->p.counts_in = c->counts_in;
        c->p.offsets_in = c->offsets_in;
    }
}

static void put_block(const struct coll_case *c, char *to, const size_t *offsets, int block,
                      int member, int of, size_t count)
{
    fill(to + offsets[block] * element_bytes(c->o), c->o, c->round, member, of, count);
}

static void set_contribution(struct coll_case *c)
{
    rcoll_kind_t kind = c->p.kind;

    if (kind == RCOLL_REDUCE_SCATTER || kind == RCOLL_SCATTER || kind == RCOLL_ALLTOALL)
        for (int i = 0; i < c->n; i++)
            put_block(c, c->from, c->offsets, i, c->me, i, c->counts[i]);
    else
        fill(c->from, c->o, c->round, c->me, kind >= RCOLL_GATHER ? c->me : 0,
             kind >= RCOLL_GATHER ? c->counts[c->me] : c->p.count);
}

static void set_expected(struct coll_case *c)
{
    rcoll_kind_t kind = c->p.kind;
    bool root = c->me == c->p.root;

    c->has_result = true;
    if (kind == RCOLL_BCAST) {
        fill(c->expected, c->o, c->round, c->p.root, 0, c->p.count);
        c->has_result = !root;
    } else if (kind == RCOLL_REDUCE || kind == RCOLL_ALLREDUCE) {
        folded(c->expected, c->o, c->round, 0, c->n, 0, c->p.count);
        c->has_result = kind == RCOLL_ALLREDUCE || root;
    } else if (kind == RCOLL_SCAN || kind == RCOLL_EXSCAN) {
        c->has_result = kind == RCOLL_SCAN || c->me > 0;
        if (c->has_result)
            folded(c->expected, c->o, c->round, 0, c->me + (kind == RCOLL_SCAN), 0, c->p.count);
    } else if (kind == RCOLL_REDUCE_SCATTER) {
        folded(c->expected, c->o, c->round, 0, c->n, c->me, c->counts[c->me]);
    } else if (kind == RCOLL_SCATTER) {
        fill(c->expected, c->o, c->round, c->p.root, c->me, c->counts[c->me]);
    } else {
        c->has_result = kind != RCOLL_GATHER || root;
        for (int i = 0; i < c->n; i++)
            if (kind == RCOLL_ALLTOALL)
                put_block(c, c->expected, c->offsets_in, i, i, c->me, c->counts_in[i]);
            else
                put_block(c, c->expected, c->offsets, i, i, i, c->counts[i]);
    }
}

/* Compares what belongs to the result: gaps between blocks are as they were. */
static void compare(const struct coll_case *c)
{
    size_t e = element_bytes(c->o);
    rcoll_kind_t kind = c->p.kind;

    if (!c->has_result)
        return;
    if (kind == RCOLL_GATHER || kind == RCOLL_ALLGATHER || kind == RCOLL_ALLTOALL)
        for (int i = 0; i < c->n; i++) {
            const size_t *counts = kind == RCOLL_ALLTOALL ? c->counts_in : c->counts;
            const size_t *offsets = kind == RCOLL_ALLTOALL ? c->offsets_in : c->offsets;

            CHECK(NULL, memcmp(c->into + offsets[i] * e, c->expected + offsets[i] * e,
                               counts[i] * e) == 0);
        }
    else
        CHECK(NULL, memcmp(c->into, c->expected,
                           (has_blocks(kind) ? c->counts[c->me] : c->p.count) * e) == 0);
}

/* In place: what is contributed is where the result goes. */
static void move_in_place(struct coll_case *c)
{
    size_t e = element_bytes(c->o), own = c->offsets[c->me] * e;
    rcoll_kind_t kind = c->p.kind;
    bool root = c->me == c->p.root;

    if (kind == RCOLL_GATHER || kind == RCOLL_ALLGATHER) {
        if (kind == RCOLL_ALLGATHER || root)
            memcpy(c->into + own, c->from, c->counts[c->me] * e);
    } else if (kind == RCOLL_ALLREDUCE || kind == RCOLL_SCAN || kind == RCOLL_EXSCAN ||
               kind == RCOLL_REDUCE_SCATTER || kind == RCOLL_ALLTOALL ||
               (kind == RCOLL_REDUCE && root))
        memcpy(c->into, c->from, c->from_bytes);
    else if (kind == RCOLL_SCATTER && root)
        c->has_result = false;
    c->p.counts_in = c->p.offsets_in =
        NULL; /* of an alltoall: counts and offsets are those of `into` */
}

/* Not in place: it can be started twice. */
static void move_apart(struct coll_case *c)
{
    if ((c->p.flags & RCOLL_IN_PLACE) == 0)
        return;
    c->p.flags &= ~RCOLL_IN_PLACE;
    if (c->p.kind == RCOLL_ALLTOALL && c->p.counts != NULL) {
        c->p.counts_in = c->counts_in;
        c->p.offsets_in = c->offsets_in;
    }
    set_expected(c);
}

static void case_make(struct coll_case *c, rteam_t team, uint64_t round, bool slow)
{
    bool counts;

    *c = (struct coll_case){.round = round, .n = rcoll_size(team), .me = rcoll_rank(team)};
    c->p.kind = (rcoll_kind_t)draw(11);
    c->o =
        c->p.kind >= RCOLL_REDUCE && c->p.kind <= RCOLL_EXSCAN ? (enum operand)draw(BYTES) : BYTES;
    set_operator(&c->p, c->o);
    c->p.count = c->p.kind == RCOLL_BARRIER ? 0 : draw_count(c->o, has_blocks(c->p.kind), slow);
    if (c->p.kind == RCOLL_BCAST || c->p.kind == RCOLL_REDUCE || c->p.kind == RCOLL_GATHER ||
        c->p.kind == RCOLL_SCATTER)
        c->p.root = (int)draw((uint32_t)c->n);
    if (c->p.kind != RCOLL_BCAST && c->p.kind != RCOLL_BARRIER && draw(3) == 0)
        c->p.flags |= RCOLL_IN_PLACE;
    counts = has_blocks(c->p.kind) && draw(2) == 0;
    set_blocks(c, counts);
    if (draw(4) == 0)
        c->p.flags |= RCOLL_ORDERED;
    c->from_bytes = c->into_bytes =
        (has_blocks(c->p.kind) ? c->all : c->p.count) * element_bytes(c->o);
    if (c->p.kind == RCOLL_ALLTOALL)
        c->into_bytes = c->all_in * element_bytes(c->o);
    c->from = calloc(1, c->from_bytes + 1);
    c->into = calloc(1, c->into_bytes + c->from_bytes + 1);
    c->expected = calloc(1, c->into_bytes + c->from_bytes + 1);
    CHECK(NULL, c->from != NULL && c->into != NULL && c->expected != NULL);
    set_contribution(c);
    set_expected(c);
    c->p.from = c->from;
    c->p.into = c->into;
    if ((c->p.flags & RCOLL_IN_PLACE) != 0)
        move_in_place(c);
}

static void case_free(struct coll_case *c)
{
    free(c->from);
    free(c->into);
    free(c->expected);
}

static void random_cases(rteam_t team, uint64_t cases, bool slow)
{
    for (uint64_t i = 0; i < cases; i++) {
        struct coll_case c;

        case_make(&c, team, i, slow);
        if (mix(i + (uint64_t)mp_rank) % 64 == 0)
            compute_us(200);
        CHECK_OK(NULL, rcoll_run(team, &c.p));
        compare(&c);
        case_free(&c);
    }
}

/* More than what is copied by a step of its own before something is folded into it (PROGRAM_LONG), and no multiple of a line. */
static void long_fold(rteam_t team, rcoll_kind_t kind, enum operand o, const char *algorithm)
{
    struct coll_case c = {.round = (uint64_t)kind, .n = rcoll_size(team), .me = rcoll_rank(team)};

    c.p.kind = kind;
    c.p.algorithm = algorithm;
    c.p.root = kind == RCOLL_REDUCE ? c.n - 1 : 0;
    c.o = o;
    set_operator(&c.p, o);
    c.p.count = 400000 / element_bytes(o) + 1;
    c.from_bytes = c.into_bytes = c.p.count * element_bytes(o);
    c.from = calloc(1, c.from_bytes);
    c.into = calloc(1, c.into_bytes);
    c.expected = calloc(1, c.into_bytes);
    CHECK(NULL, c.from != NULL && c.into != NULL && c.expected != NULL);
    set_contribution(&c);
    set_expected(&c);
    c.p.from = c.from;
    c.p.into = c.into;
    CHECK_OK(NULL, rcoll_run(team, &c.p));
    compare(&c);
    case_free(&c);
}

static void long_folds(rteam_t team)
{
    for (enum operand o = 0; o < BYTES; o++) {
        for (rcoll_kind_t kind = RCOLL_REDUCE; kind <= RCOLL_EXSCAN; kind++)
            if (kind != RCOLL_REDUCE_SCATTER)
                long_fold(team, kind, o, NULL);
        long_fold(team, RCOLL_REDUCE, o, "tree:2");
        long_fold(team, RCOLL_SCAN, o, "linear");
    }
    long_fold(team, RCOLL_REDUCE, SUM_DOUBLE, "rabenseifner");
    long_fold(team, RCOLL_ALLREDUCE, SUM_DOUBLE, "rabenseifner");
}

/* ---- several at a time ---- */

#define PLANS 12

static void overlapping(rteam_t team, uint64_t rounds, bool slow)
{
    for (uint64_t i = 0; i < rounds; i++) {
        struct coll_case c[PLANS];
        rplan_t plan[PLANS];
        int which, left = PLANS;

        for (int k = 0; k < PLANS; k++) {
            case_make(&c[k], team, 1000 * i + (uint64_t)k, slow);
            move_apart(&c[k]);
            CHECK_OK(NULL, rcoll_plan(&plan[k], team, &c[k].p));
        }
        for (int again = 0; again < 2; again++) {
            for (int k = 0; k < PLANS; k++)
                CHECK_OK(NULL, rcoll_start(plan[k]));
            for (int k = 0; k < 3; k++)
                (void)rcoll_test(plan[(k * 5 + mp_rank) % PLANS]);
            if (again == 0)
                for (int k = PLANS - 1; k >= 0; k--)
                    CHECK_OK(NULL, rcoll_wait(plan[k]));
        }
        while (left > 0) {
            int rc = rcoll_wait_any(plan, PLANS, &which, R_FOREVER);

            if (rc == -ENOENT)
                break; /* the others were over before they were waited for */
            CHECK(NULL, rc == R_SUCCESS);
            CHECK_OK(NULL, rcoll_test(plan[which]));
            left--;
        }
        for (int k = 0; k < PLANS; k++) {
            CHECK_OK(NULL, rcoll_wait(plan[k]));
            compare(&c[k]);
            CHECK_OK(NULL, rcoll_free(plan[k]));
            case_free(&c[k]);
        }
    }
}

/* ---- views ---- */

static void views(rteam_t team, size_t count)
{
    int n = rcoll_size(team), me = rcoll_rank(team);
    double *own = rcoll_alloc(team, count * sizeof(*own));
    rcoll_params_t gather = {.kind = RCOLL_ALLGATHER,
                             .flags = RCOLL_VIEWS,
                             .from = own,
                             .count = count,
                             .element = sizeof(double)};
    rcoll_params_t sum = {.kind = RCOLL_ALLREDUCE,
                          .flags = RCOLL_VIEWS,
                          .from = own,
                          .count = count,
                          .type = RGROUP_DOUBLE,
                          .op = RGROUP_SUM};
    rplan_t plan[2];

    CHECK(NULL, own != NULL);
    CHECK_OK(NULL, rcoll_plan(&plan[0], team, &gather));
    CHECK_OK(NULL, rcoll_plan(&plan[1], team, &sum));
    for (int round = 0; round < 20; round++) {
        const void *at;
        size_t bytes, seen = 0;

        for (size_t i = 0; i < count; i++)
            own[i] = me + (double)i + round;
        CHECK_OK(NULL, rcoll_start(plan[0]));
        CHECK_OK(NULL, rcoll_start(plan[1]));
        CHECK_OK(NULL, rcoll_wait(plan[1]));
        CHECK_OK(NULL, rcoll_wait(plan[0]));
        for (int m = 0; m < n; m++) {
            CHECK_OK(NULL, rcoll_view(plan[0], m, &at, &bytes));
            CHECK(NULL, bytes == count * sizeof(*own));
            for (size_t i = 0; i < count; i++)
                CHECK(NULL, ((const double *)at)[i] == m + (double)i + round);
        }
        for (int part = 0; rcoll_view(plan[1], part, &at, &bytes) == R_SUCCESS; part++)
            for (size_t i = 0; i < bytes / sizeof(double); i++, seen++)
                CHECK(NULL,
                      ((const double *)at)[i] == n * ((double)seen + round) + n * (n - 1) / 2.0);
        CHECK(NULL, seen == count);
        CHECK_OK(NULL, rcoll_release(plan[0]));
        CHECK_OK(NULL, rcoll_release(plan[1]));
        CHECK_OK(NULL, rcoll_settled(plan[1], 0));
    }
    CHECK_OK(NULL, rcoll_free(plan[0]));
    CHECK_OK(NULL, rcoll_free(plan[1]));
    CHECK_OK(NULL, rcoll_dealloc(team, own));
}

/* The result as the views of a plan have it: parts that follow each other, or the blocks of a gather. */
static void take_views(rplan_t plan, struct coll_case *c)
{
    const size_t e = element_bytes(c->o);
    const bool blocks = c->p.kind == RCOLL_GATHER || c->p.kind == RCOLL_ALLGATHER;
    const void *at;
    size_t bytes, end = 0;

    for (int m = 0; blocks && m < c->n; m++)
        if (c->counts[m] > 0) {
            CHECK_OK(NULL, rcoll_view(plan, m, &at, &bytes));
            CHECK(NULL, bytes == c->counts[m] * e);
            memcpy(c->into + c->offsets[m] * e, at, bytes);
        }
    for (int i = 0; !blocks && rcoll_view(plan, i, &at, &bytes) == R_SUCCESS; i++) {
        CHECK(NULL, end + bytes <= c->into_bytes);
        memcpy(c->into + end, at, bytes);
        end += bytes;
    }
}

/* Random cases, in no memory of the program. */
static void views_of_all_kinds(rteam_t team, uint64_t cases)
{
    for (uint64_t i = 0; i < cases; i++) {
        struct coll_case c;
        rplan_t plan;

        case_make(&c, team, 7000 + i, true);
        if ((c.p.flags & RCOLL_IN_PLACE) != 0 ||
            c.p.count * element_bytes(c.o) * (size_t)c.n > 200000) { /* of the heap */
            case_free(&c);
            continue;
        }
        c.p.flags |= RCOLL_VIEWS;
        c.p.into = NULL;
        CHECK_OK(NULL, rcoll_plan(&plan, team, &c.p));
        CHECK_OK(NULL, rcoll_start(plan));
        CHECK_OK(NULL, rcoll_wait(plan));
        if (c.has_result)
            take_views(plan, &c);
        compare(&c);
        CHECK_OK(NULL, rcoll_free(plan));
        case_free(&c);
    }
}

/* A member that sends, and receives nothing, has no view. */
static void views_of_nothing(rteam_t team)
{
    const int me = rcoll_rank(team), n = rcoll_size(team);
    size_t out[MEMBERS_MOST] = {1}, in[MEMBERS_MOST] = {0}, bytes, seen = 0;
    uint64_t own = mix((uint64_t)me);
    rcoll_params_t p = {.kind = RCOLL_ALLTOALL,
                        .flags = RCOLL_VIEWS,
                        .from = &own,
                        .counts = out,
                        .counts_in = in,
                        .element = sizeof(own)};
    const void *at;
    rplan_t plan;

    for (int m = 0; m < n; m++)
        in[m] = me == 0;
    CHECK_OK(NULL, rcoll_plan(&plan, team, &p));
    CHECK_OK(NULL, rcoll_start(plan));
    CHECK_OK(NULL, rcoll_wait(plan));
    for (int part = 0; rcoll_view(plan, part, &at, &bytes) == R_SUCCESS; part++)
        for (size_t i = 0; i < bytes / sizeof(own); i++, seen++)
            CHECK(NULL, ((const uint64_t *)at)[i] == mix(seen));
    CHECK(NULL, seen == (me == 0 ? (size_t)n : 0));
    CHECK_OK(NULL, rcoll_free(plan));
}

/* ---- bits ---- */

static void same_bits(rteam_t team)
{
    static const char *const algorithm[] = {"tree:2",       "flat", "shares", "exchange",
                                            "rabenseifner", "ring", "tree:4"};
    double mine[100], first[100], sum[100];
    int done = 0;

    for (int i = 0; i < 100; i++)
        mine[i] = 1.0 / (1 + (double)(mix((uint64_t)mp_rank * 100 + (uint64_t)i) % 100000));
    for (size_t a = 0; a < sizeof(algorithm) / sizeof(*algorithm); a++) {
        rcoll_params_t p = {.kind = RCOLL_ALLREDUCE,
                            .flags = RCOLL_ORDERED,
                            .from = mine,
                            .into = sum,
                            .count = 100,
                            .type = RGROUP_DOUBLE,
                            .op = RGROUP_SUM,
                            .algorithm = algorithm[a]};
        int rc = rcoll_run(team, &p);

        if (rc == -ENOTSUP)
            continue;
        CHECK(NULL, rc == R_SUCCESS);
        if (done++ == 0)
            memcpy(first, sum, sizeof(sum));
        CHECK(NULL, memcmp(first, sum, sizeof(sum)) == 0);
    }
    CHECK(NULL, done >= 3);
}

/* ---- teams ---- */

static void teams(rteam_t all)
{
    int n = rcoll_size(all), me = rcoll_rank(all), ranks[MEMBERS_MOST], sum = 0, one = 1;
    rteam_t half, reversed, none;

    CHECK_OK(NULL, rcoll_split(&half, all, me % 2, -me));
    CHECK(NULL, rcoll_size(half) == (n + 1 - me % 2) / 2);
    CHECK(NULL, rcoll_peer(half, 0) == (n - 1) - (n - 1 - me) % 2); /* the last of this parity */
    CHECK_OK(NULL, rcoll_allreduce(half, &one, &sum, 1, RGROUP_INT32, RGROUP_SUM));
    CHECK(NULL, sum == rcoll_size(half));
    CHECK_OK(NULL, rcoll_split(&none, all, me == 0 ? 0 : -1, 0));
    CHECK(NULL, (none != NULL) == (me == 0));
    if (none != NULL)
        CHECK_OK(NULL, rcoll_close(none));
    for (int i = 0; i < n; i++)
        ranks[i] = n - 1 - i;
    CHECK_OK(NULL, rcoll_team(&reversed, NULL, ranks, n));
    CHECK(NULL, rcoll_rank(reversed) == n - 1 - mp_rank);
    random_cases(reversed, 20, true);
    CHECK_OK(NULL, rcoll_barrier(all));
    CHECK_OK(NULL, rcoll_close(reversed));
    random_cases(half, 10, true);
    CHECK_OK(NULL, rcoll_close(half));
}

/* ---- a graph: what a member has goes around, and is added up ---- */

static void ring(rteam_t team)
{
    int n = rcoll_size(team), me = rcoll_rank(team), right = (me + 1) % n, last = -1;
    double mine = me + 1, sum = 0;
    rcoll_ref_t into = {.base = RCOLL_INTO}, from = {.base = RCOLL_FROM};
    rgraph_t graph;
    rplan_t plan;

    CHECK_OK(NULL, rcoll_graph(&graph, team, 64));
    last = rcoll_graph_copy(graph, into, from, sizeof(double));
    CHECK(NULL, last >= 0);
    for (int i = 1; i < n; i++) {
        int send = rcoll_graph_send(graph, &right, 1, (uint32_t)i, from, sizeof(double));
        int got = rcoll_graph_recv(graph, (me + n - 1) % n, (uint32_t)i, sizeof(double)), fold;

        CHECK(NULL, send >= 0 && got >= 0);
        from = (rcoll_ref_t){.base = got};
        fold = rcoll_graph_fold(graph, into, from, 1, RGROUP_DOUBLE, RGROUP_SUM);
        CHECK(NULL, fold >= 0);
        CHECK_OK(NULL, rcoll_graph_after(graph, fold, last));
        last = fold;
    }
    CHECK_OK(NULL, rcoll_graph_plan(&plan, graph, &mine, sizeof(mine), &sum, sizeof(sum)));
    for (int round = 0; round < 100; round++) {
        CHECK_OK(NULL, rcoll_start(plan));
        CHECK_OK(NULL, rcoll_wait(plan));
        CHECK(NULL, sum == n * (n + 1) / 2.0);
    }
    CHECK_OK(NULL, rcoll_free(plan));
}

/* ---- a graph with functions of the program ---- */

struct called {
    int times, result;
    const double *sum; /* what the function reads */
    double seen;
};

static int call_count(void *argument)
{
    struct called *c = argument;

    c->times++;
    c->seen = *c->sum;
    return c->result;
}

/* FROM goes to the member to the right, by slot 0, and by slot 1 after node `after`; what comes by slot 0 is added to `into`, after `sum`. */
static int call_exchange(rgraph_t graph, rteam_t team, rcoll_ref_t into, int sum, int after)
{
    int n = rcoll_size(team), me = rcoll_rank(team), left = (me + n - 1) % n, right = (me + 1) % n;
    rcoll_ref_t from = {.base = RCOLL_FROM}, view = {0};
    int send[2], recv[2], fold;

    for (int i = 0; i < 2; i++) {
        send[i] = rcoll_graph_send(graph, &right, 1, (uint32_t)i, from, sizeof(double));
        recv[i] = rcoll_graph_recv(graph, left, (uint32_t)i, sizeof(double));
        CHECK(NULL, send[i] >= 0 && recv[i] >= 0);
    }
    view.base = recv[0];
    fold = rcoll_graph_fold(graph, into, view, 1, RGROUP_DOUBLE, RGROUP_SUM);
    CHECK_OK(NULL, rcoll_graph_after(graph, fold, sum));
    CHECK_OK(NULL, rcoll_graph_after(graph, send[1], after));
    return fold;
}

/*
 * INTO becomes the own contribution, and that of the member to the left; then the function is called; then INTO gets twice the own
 * contribution, from two copies that a call without a function joins.
 */
static rplan_t call_plan(rteam_t team, const double *mine, double *into, struct called *c)
{
    rcoll_ref_t to = {.base = RCOLL_INTO}, from = {.base = RCOLL_FROM};
    rcoll_ref_t half[2] = {{.base = RCOLL_SCRATCH}, {.base = RCOLL_SCRATCH, .at = sizeof(double)}};
    int sum, call, join, twice, last;
    rgraph_t graph;
    rplan_t plan;

    c->sum = into;
    CHECK_OK(NULL, rcoll_graph(&graph, team, 2 * sizeof(double)));
    sum = rcoll_graph_copy(graph, to, from, sizeof(double));
    call = rcoll_graph_call(graph, call_count, c);
    join = rcoll_graph_call(graph, NULL, NULL);
    CHECK(NULL, sum >= 0 && call >= 0 && join >= 0);
    for (int i = 0; i < 2; i++) {
        int copy = rcoll_graph_copy(graph, half[i], from, sizeof(double));

        CHECK_OK(NULL, rcoll_graph_after(graph, join, copy));
    }
    if (rcoll_size(team) > 1)
        sum = call_exchange(graph, team, to, sum, call);
    twice = rcoll_graph_fold(graph, half[0], half[1], 1, RGROUP_DOUBLE, RGROUP_SUM);
    last = rcoll_graph_fold(graph, to, half[0], 1, RGROUP_DOUBLE, RGROUP_SUM);
    CHECK_OK(NULL, rcoll_graph_after(graph, call, sum));
    CHECK_OK(NULL, rcoll_graph_after(graph, twice, join));
    CHECK_OK(NULL, rcoll_graph_after(graph, last, twice));
    CHECK_OK(NULL, rcoll_graph_after(graph, last, call));
    CHECK_OK(NULL, rcoll_graph_plan(&plan, graph, mine, sizeof(*mine), into, sizeof(*into)));
    return plan;
}

static void calls(rteam_t team)
{
    int n = rcoll_size(team), me = rcoll_rank(team);
    struct called c = {.result = 1}; /* not negative: no failure */
    double mine = 0, into = 0;
    rplan_t plan = call_plan(team, &mine, &into, &c);

    for (int round = 0; round < 20; round++) {
        double both;

        mine = me + 1 + 100 * round;
        both = mine + (n > 1 ? (me + n - 1) % n + 1 + 100 * round : 0);
        CHECK_OK(NULL, rcoll_start(plan));
        CHECK_OK(NULL, rcoll_wait(plan));
        CHECK(NULL, c.times == round + 1);
        CHECK(NULL, c.seen == both);
        CHECK(NULL, into == both + 2 * mine);
    }
    CHECK_OK(NULL, rcoll_free(plan));
}

/* A function of the last member fails: the operation has its result there, and the team at all others, whose operations wait for it or not. */
static void call_that_fails(void)
{
    int last = mp_ranks - 1, rc, member = -1;
    struct called c = {.result = mp_rank == last ? -EDOM : 0};
    double mine = 1, into = 0;
    char words[120];
    rteam_t bad;
    rplan_t plan;

    CHECK_OK(NULL, rcoll_team(&bad, NULL, NULL, mp_ranks));
    plan = call_plan(bad, &mine, &into, &c);
    CHECK_OK(NULL, network_barrier()); /* all have opened it before it fails */
    rc = rcoll_start(plan);
    if (rc == R_SUCCESS)
        rc = rcoll_wait(plan);
    if (mp_rank == last) {
        snprintf(words, sizeof(words),
                 "a function of the graph of member %d, rank %d, has returned %d", last, last,
                 -EDOM);
        CHECK_RC(-EDOM, NULL, rc);
        CHECK_ERROR(NULL, words);
    }
    if (rc == R_SUCCESS)
        rc = rcoll_barrier(bad);
    CHECK_RC(-EDOM, NULL, rc);
    CHECK(NULL, c.times == 1 || mp_rank != last);
    CHECK(NULL, rcoll_lost(bad, &member) == -EDOM && member == last);
    CHECK_RC(-EDOM, NULL, rcoll_barrier(bad));
    CHECK_OK(NULL, rcoll_close(bad));
}

/* ---- mistakes ---- */

/*
 * One member starts another operation than the others: all get -EPROTO, at once or at the next operation, and none waits for its deadline.
 * Where both wait for the other one no message shows it, but the words of the board do, and between hosts a probe; more in mp_coll_mismatch.
 */
static void mismatch(const rcoll_params_t *one, const rcoll_params_t *others)
{
    const rcoll_params_t *p = mp_rank == mp_ranks - 1 ? one : others;
    double from[64] = {0}, into[64];
    rcoll_params_t mine = *p;
    int rc, member = -1;
    rteam_t bad;

    mine.from = from;
    mine.into = mine.kind == RCOLL_BCAST ? from : into;
    CHECK_OK(NULL, rcoll_team(&bad, NULL, NULL, mp_ranks));
    CHECK_OK(NULL, network_barrier()); /* all have opened it before it fails */
    rc = rcoll_run(bad, &mine);
    if (rc == R_SUCCESS)
        rc = rcoll_barrier(bad);
    CHECK_RC(-EPROTO, NULL, rc);
    CHECK(NULL, rcoll_lost(bad, &member) == -EPROTO && member >= 0);
    CHECK_RC(-EPROTO, NULL, rcoll_barrier(bad));
    CHECK_OK(NULL, rcoll_close(bad));
}

static void mismatches(void)
{
    const rcoll_params_t barrier = {.kind = RCOLL_BARRIER},
                         bcast = {.kind = RCOLL_BCAST, .count = 8};
    const rcoll_params_t longer = {.kind = RCOLL_BCAST, .count = 9};
    const rcoll_params_t last = {.kind = RCOLL_BCAST, .count = 8, .root = mp_ranks - 1};
    const rcoll_params_t gather = {.kind = RCOLL_GATHER, .count = 8, .root = mp_ranks - 1};
    const rcoll_params_t sum = {.kind = RCOLL_ALLREDUCE, .type = RGROUP_DOUBLE, .count = 2};
    const rcoll_params_t most = {
        .kind = RCOLL_ALLREDUCE, .type = RGROUP_DOUBLE, .op = RGROUP_MAX, .count = 2};

    mismatch(&bcast, &longer);
    mismatch(&last, &bcast); /* two roots: each of them is over at once */
    mismatch(&barrier, &sum);
    mismatch(&most, &sum);
    mismatch(&sum, &gather);
    mismatch(&gather, &last); /* each waits for the other one */
}

static void wrong_ranks(void)
{
    const int twice[2] = {mp_rank, mp_rank}, beyond[2] = {mp_rank, mp_ranks};
    const int other = (mp_rank + 1) % mp_ranks;
    char words[80];
    rteam_t bad;

    snprintf(words, sizeof(words), "rank %d is in the list twice", mp_rank);
    CHECK_RC(-EINVAL, NULL, rcoll_team(&bad, NULL, twice, 2));
    CHECK_ERROR(NULL, words);
    snprintf(words, sizeof(words), "member 1 is rank %d; the job has %d", mp_ranks, mp_ranks);
    CHECK_RC(-EINVAL, NULL, rcoll_team(&bad, NULL, beyond, 2));
    CHECK_ERROR(NULL, words);
    if (other == mp_rank)
        return;
    snprintf(words, sizeof(words), "rank %d, is not in the list", mp_rank);
    CHECK_RC(-EINVAL, NULL, rcoll_team(&bad, NULL, &other, 1));
    CHECK_ERROR(NULL, words);
}

static void mistakes(rteam_t team)
{
    int n = rcoll_size(team), rc, member = -1;
    rcoll_params_t wrong = {.kind = RCOLL_BCAST, .root = n, .count = 1};
    double x = 1, y[2];
    rteam_t bad;
    rplan_t plan;

    CHECK_RC(-EINVAL, NULL, rcoll_run(team, &wrong));
    CHECK_ERROR(NULL, "root is");
    CHECK_RC(-EINVAL, NULL, rcoll_allreduce(team, &x, y, 1, RGROUP_DOUBLE, RGROUP_BAND));
    wrong = (rcoll_params_t){.kind = RCOLL_BARRIER};
    CHECK_OK(NULL, rcoll_plan(&plan, team, &wrong));
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == 0 && n > 1) {
        CHECK_OK(NULL, rcoll_start(plan));
        CHECK_RC(-EBUSY, NULL, rcoll_start(plan));
        CHECK_OK(NULL, rcoll_set_timeout(team, 50));
        CHECK_RC(-ETIMEDOUT, NULL, rcoll_wait(plan));
        CHECK_ERROR(NULL, "has not come");
        CHECK_OK(NULL, rcoll_set_timeout(team, 60000));
    }
    CHECK_OK(NULL, network_barrier());
    if (mp_rank != 0 || n == 1)
        CHECK_OK(NULL, rcoll_start(plan));
    CHECK_OK(NULL, rcoll_wait(plan));
    CHECK_OK(NULL, rcoll_free(plan));
    if (n == 1)
        return;
    CHECK_OK(NULL, rcoll_team(&bad, NULL, NULL, n));
    CHECK_OK(NULL, network_barrier()); /* all have opened it before it fails */
    /* one member has another length: all fail, and none hangs */
    rc = rcoll_allreduce(bad, y, y, mp_rank == n - 1 ? 2 : 1, RGROUP_DOUBLE, RGROUP_SUM);
    if (rc == R_SUCCESS)
        rc = rcoll_barrier(bad);
    CHECK(NULL, rc == -EPROTO);
    CHECK(NULL, rcoll_lost(bad, &member) == -EPROTO && member >= 0);
    CHECK_RC(-EPROTO, NULL, rcoll_barrier(bad));
    CHECK_OK(NULL, rcoll_close(bad));
}

/* A deadline names the one member that has not begun, at all others, and none that has and waits itself. */
static void deadline_names(rteam_t team, rcoll_kind_t kind, const char *algorithm, int late)
{
    uint64_t data = 0;
    rcoll_params_t p = {.kind = kind, .algorithm = algorithm, .from = &data, .into = &data};
    bool waits = rcoll_rank(team) != late;
    char words[80];
    rplan_t plan;

    if (kind == RCOLL_BCAST) {
        p.root = late;
        p.count = sizeof(data);
    }
    snprintf(words, sizeof(words), "member %d, rank %d, has not come", late,
             rcoll_peer(team, late));
    CHECK_OK(NULL, rcoll_plan(&plan, team, &p));
    if (waits)
        CHECK_OK(NULL, rcoll_start(plan));
    CHECK_OK(NULL, network_barrier()); /* all others have begun */
    if (waits) {
        CHECK_OK(NULL, rcoll_set_timeout(team, 20));
        CHECK_RC(-ETIMEDOUT, NULL, rcoll_wait(plan));
        CHECK_ERROR(NULL, words);
        CHECK_OK(NULL, rcoll_set_timeout(team, 60000));
    }
    CHECK_OK(NULL, network_barrier());
    if (!waits)
        CHECK_OK(NULL, rcoll_start(plan));
    CHECK_OK(NULL, rcoll_wait(plan));
    CHECK_OK(NULL, rcoll_free(plan));
}

/* Between hosts it is not shown which members have begun: there all wait for the late one itself. */
static void late_members(bool one_host)
{
    static const char *const barrier[] = {"flat", "dissemination:2", "tree:2", "exchange"};
    int n = mp_ranks, reversed[MEMBERS_MOST];
    rcoll_team_config_t cfg = {.context = 18};
    rteam_t team;

    for (int i = 0; i < n; i++)
        reversed[i] = n - 1 - i;
    CHECK_OK(NULL, rcoll_team(&team, &cfg, reversed, n));
    deadline_names(team, RCOLL_BCAST, "flat", 0);
    deadline_names(team, RCOLL_BCAST, "flat", n - 1);
    for (size_t a = 0; a < sizeof(barrier) / sizeof(*barrier) && one_host; a++) {
        deadline_names(team, RCOLL_BARRIER, barrier[a], 0);
        deadline_names(team, RCOLL_BARRIER, barrier[a], n - 1);
    }
    if (one_host) {
        deadline_names(team, RCOLL_BARRIER, NULL, n / 2);
        deadline_names(team, RCOLL_BCAST, "chain:8", 0);
    }
    CHECK_OK(NULL, rcoll_close(team));
}

/*
 * A root is as far ahead as a team lets it, before the others begin: messages of three segments, so of three slots of its board,
 * which have fewer cells than there are operations.
 */
#define AHEAD 50

static void far_ahead(void)
{
    rplan_t plan[AHEAD];
    uint64_t data[AHEAD][3];
    rteam_t team;
    char go = 1;

    CHECK_OK(NULL, rcoll_team(&team, NULL, NULL, mp_ranks));
    for (int k = 0; k < AHEAD; k++) {
        rcoll_params_t p = {.kind = RCOLL_BCAST,
                            .from = data[k],
                            .into = data[k],
                            .count = 3,
                            .element = 8,
                            .algorithm = "chain:8"};

        for (uint64_t i = 0; i < 3; i++)
            data[k][i] = mp_rank == 0 ? mix((uint64_t)k * 3 + i) : 0;
        CHECK_OK(NULL, rcoll_plan(&plan[k], team, &p));
    }
    if (mp_rank != 0)
        CHECK_OK(NULL, network_recv(0, &go, sizeof(go)));
    for (int k = 0; k < AHEAD; k++)
        CHECK_OK(NULL, rcoll_start(plan[k]));
    for (int to = 1; mp_rank == 0 && to < mp_ranks; to++)
        CHECK_OK(NULL, network_send(to, &go, sizeof(go)));
    for (int k = 0; k < AHEAD; k++) {
        CHECK_OK(NULL, rcoll_wait(plan[k]));
        for (uint64_t i = 0; i < 3; i++)
            CHECK(NULL, data[k][i] == mix((uint64_t)k * 3 + i));
        CHECK_OK(NULL, rcoll_free(plan[k]));
    }
    CHECK_OK(NULL, rcoll_close(team));
}

/* ---- plans that are kept ---- */

#define MANY 3000
#define FEW 300

/* Elements of an exchange from a member to another: few, but from member 1 to member 2 as many as asked for. */
static size_t exchanged(int from, int to, size_t many) { return from == 1 && to == 2 ? many : FEW; }

static uint64_t exchanged_value(int from, int to, size_t i)
{
    return mix((uint64_t)from << 40 ^ (uint64_t)to << 20 ^ i);
}

static void exchange(rteam_t team, size_t many)
{
    int n = rcoll_size(team), me = rcoll_rank(team);
    size_t out[n], in[n], all_out = 0, all_in = 0, at = 0;
    uint64_t *from, *into;
    rcoll_params_t p = {.kind = RCOLL_ALLTOALL, .element = sizeof(*from)};

    for (int m = 0; m < n; m++) {
        all_out += out[m] = exchanged(me, m, many);
        all_in += in[m] = exchanged(m, me, many);
    }
    p.counts = out;
    p.counts_in = in;
    p.from = from = malloc(all_out * sizeof(*from));
    p.into = into = calloc(all_in, sizeof(*into));
    CHECK(NULL, from != NULL && into != NULL);
    for (int m = 0; m < n; m++)
        for (size_t i = 0; i < out[m]; i++)
            from[at++] = exchanged_value(me, m, i);
    CHECK_OK(NULL, rcoll_run(team, &p));
    at = 0;
    for (int m = 0; m < n; m++)
        for (size_t i = 0; i < in[m]; i++)
            CHECK(NULL, into[at++] == exchanged_value(m, me, i));
    free(from);
    free(into);
}

/*
 * Members other than 1 and 2 keep one plan for all of these: several parts, then none, which is the program of the whole and not that of
 * the last part before.
 */
static void parts_come_and_go(void)
{
    rcoll_team_config_t cfg = {.heap_bytes = 65536, .context = 11};
    rteam_t team;

    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    exchange(team, MANY);
    exchange(team, FEW);
    exchange(team, MANY);
    exchange(team, FEW + 1);
    exchange(team, FEW);
    CHECK_OK(NULL, rcoll_close(team));
}

/* Operations that have been started behind an exchange, before its first part has found how many there are. */
static void numbers_behind(void)
{
    rcoll_team_config_t cfg = {.heap_bytes = 65536, .context = 16};
    size_t counts[MEMBERS_MOST] = {0}, most = mp_rank == 0 ? 2 * MANY : 0;
    uint64_t *from = calloc(2 * MANY, sizeof(*from)), *into = calloc(2 * MANY, sizeof(*into));
    uint64_t own = mix((uint64_t)mp_rank), all[MEMBERS_MOST], word = 0;
    rcoll_params_t exchange = {.kind = RCOLL_ALLTOALL,
                               .from = from,
                               .into = into,
                               .counts = counts,
                               .counts_in = counts,
                               .element = sizeof(*from)};
    rcoll_params_t gather = {
        .kind = RCOLL_ALLGATHER, .from = &own, .into = all, .count = 1, .element = sizeof(own)};
    rcoll_params_t bcast = {.kind = RCOLL_BCAST,
                            .root = mp_ranks - 1,
                            .from = &word,
                            .into = &word,
                            .count = 1,
                            .element = sizeof(word)};
    rplan_t plan[3];
    rteam_t team;

    CHECK(NULL, from != NULL && into != NULL);
    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    counts[0] = most; /* only member 0 needs more than one part, for what it has for itself */
    CHECK_OK(NULL, rcoll_plan(&plan[0], team, &exchange));
    CHECK_OK(NULL, rcoll_plan(&plan[1], team, &gather));
    CHECK_OK(NULL, rcoll_plan(&plan[2], team, &bcast));
    for (uint64_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < most; i++)
            from[i] = mix(round << 32 | i);
        word = mp_rank == mp_ranks - 1 ? mix(round) : 0;
        memset(all, 0, sizeof(all));
        for (int k = 0; k < 3; k++)
            CHECK_OK(NULL, rcoll_start(plan[k]));
        for (int k = 2; k >= 0; k--)
            CHECK_OK(NULL, rcoll_wait(plan[k]));
        CHECK(NULL, word == mix(round) && memcmp(from, into, most * sizeof(*from)) == 0);
        for (int i = 0; i < mp_ranks; i++)
            CHECK(NULL, all[i] == mix((uint64_t)i));
    }
    CHECK_OK(NULL, rcoll_close(team));
    free(from);
    free(into);
}

/* ---- views that are held ---- */

#define BEHIND 8 /* operations: the last one cannot have all of its messages */

/* The last member holds views, and waits for an operation whose second message has no cell until it has released them. */
static void views_held_too_long(void)
{
    rcoll_team_config_t cfg = {.context = 12};
    bool holds = mp_rank == mp_ranks - 1;
    uint64_t data[BEHIND][3], own = 1;
    rcoll_params_t gather = {.kind = RCOLL_ALLGATHER,
                             .flags = RCOLL_VIEWS,
                             .from = &own,
                             .count = 1,
                             .element = sizeof(own)};
    rplan_t held, plan[BEHIND];
    rteam_t team;

    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    CHECK_OK(NULL, rcoll_plan(&held, team, &gather));
    CHECK_OK(NULL, rcoll_start(held));
    CHECK_OK(NULL, rcoll_wait(held));
    if (!holds)
        CHECK_OK(NULL, rcoll_release(held));
    for (int k = 0; k < BEHIND; k++) {
        rcoll_params_t p = {.kind = RCOLL_BCAST,
                            .from = data[k],
                            .into = data[k],
                            .count = 3,
                            .element = sizeof(uint64_t),
                            .algorithm = "chain:8"};

        CHECK_OK(NULL, rcoll_plan(&plan[k], team, &p));
        CHECK_OK(NULL, rcoll_start(plan[k]));
    }
    for (int k = 0; k < BEHIND - 1; k++)
        CHECK_OK(NULL, rcoll_wait(plan[k]));
    if (holds) {
        CHECK_OK(NULL, rcoll_set_timeout(team, 50));
        CHECK_RC(-ETIMEDOUT, NULL, rcoll_wait(plan[BEHIND - 1]));
        CHECK_ERROR(NULL, "this member holds the views of operation");
        CHECK_OK(NULL, rcoll_set_timeout(team, 60000));
        CHECK_OK(NULL, rcoll_release(held));
    }
    CHECK_OK(NULL, rcoll_wait(plan[BEHIND - 1]));
    CHECK_OK(NULL, rcoll_close(team));
}

/* Views that keep nothing back are not what the deadline reports where another member has not come. */
static void views_held_beside_late_member(void)
{
    const rcoll_params_t barrier = {.kind = RCOLL_BARRIER};
    rcoll_team_config_t cfg = {.context = 17};
    uint64_t own = 1;
    rcoll_params_t gather = {.kind = RCOLL_ALLGATHER,
                             .flags = RCOLL_VIEWS,
                             .from = &own,
                             .count = 1,
                             .element = sizeof(own)};
    rplan_t held, late;
    rteam_t team;

    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    CHECK_OK(NULL, rcoll_plan(&held, team, &gather));
    CHECK_OK(NULL, rcoll_plan(&late, team, &barrier));
    CHECK_OK(NULL, rcoll_start(held));
    CHECK_OK(NULL, rcoll_wait(held));
    for (int k = 0; k < BEHIND / 2; k++)
        CHECK_OK(NULL, rcoll_barrier(team));
    if (mp_rank > 0) {
        CHECK_OK(NULL, rcoll_start(late));
        CHECK_OK(NULL, rcoll_set_timeout(team, 50));
        CHECK_RC(-ETIMEDOUT, NULL, rcoll_wait(late));
        CHECK_ERROR(NULL, "has not come");
        CHECK_OK(NULL, rcoll_set_timeout(team, 60000));
    }
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == 0)
        CHECK_OK(NULL, rcoll_start(late));
    CHECK_OK(NULL, rcoll_wait(late));
    CHECK_OK(NULL, rcoll_close(team));
}

#define HELD_COUNT 7680 /* numbers of a block of 60 KiB */

/* Operations beside views that are held have the heap that is left, all of it. Not `all`: the last member alone holds views. */
static void views_held_beside_heap(bool all_hold)
{
    rcoll_team_config_t cfg = {.context = 13, .heap_bytes = 1 << 20};
    bool holds = all_hold || mp_rank == mp_ranks - 1;
    double *own = calloc(HELD_COUNT, sizeof(*own));
    double *all = calloc((size_t)mp_ranks * HELD_COUNT, sizeof(*all));
    rcoll_params_t gather = {.kind = RCOLL_ALLGATHER,
                             .from = own,
                             .into = all,
                             .count = HELD_COUNT,
                             .element = sizeof(*own),
                             .algorithm = "flat"};
    rplan_t held;
    rteam_t team;

    CHECK(NULL, own != NULL && all != NULL);
    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    CHECK_OK(NULL, rcoll_set_timeout(team, 20000));
    for (int k = 0; k < 8; k++) {
        if (k == 3) { /* its block is the last one within what is used again first */
            gather.flags = holds ? RCOLL_VIEWS : 0;
            CHECK_OK(NULL, rcoll_plan(&held, team, &gather));
            gather.flags = 0;
            CHECK_OK(NULL, rcoll_start(held));
            CHECK_OK(NULL, rcoll_wait(held));
        }
        own[HELD_COUNT - 1] = mp_rank + 100 * k;
        CHECK_OK(NULL, rcoll_run(team, &gather));
        for (int m = 0; m < mp_ranks; m++)
            CHECK(NULL, all[(size_t)m * HELD_COUNT + HELD_COUNT - 1] == m + 100 * k);
    }
    CHECK_OK(NULL, rcoll_free(held));
    CHECK_OK(NULL, rcoll_close(team));
    free(own);
    free(all);
}

#define FULL_COUNT                                                                                 \
    2304 /* numbers of a block of 18 KiB: three fit into a heap of 64 KiB beside what has opened the team */

/* The last member holds views, so that no other can send more than its heap: the deadline names the views, at it and at the others. */
static void views_fill_a_heap(void)
{
    rcoll_team_config_t cfg = {.context = 14, .heap_bytes = 65536};
    bool holds = mp_rank == mp_ranks - 1;
    double *own = calloc(FULL_COUNT, sizeof(*own));
    double *all = calloc((size_t)mp_ranks * FULL_COUNT, sizeof(*all));
    rcoll_params_t gather = {.kind = RCOLL_ALLGATHER,
                             .flags = holds ? RCOLL_VIEWS : 0,
                             .from = own,
                             .into = all,
                             .count = FULL_COUNT,
                             .element = sizeof(*own),
                             .algorithm = "flat"};
    rplan_t held, last;
    rteam_t team;

    CHECK(NULL, own != NULL && all != NULL);
    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    CHECK_OK(NULL, rcoll_plan(&held, team, &gather));
    gather.flags = 0;
    CHECK_OK(NULL, rcoll_plan(&last, team, &gather));
    CHECK_OK(NULL, rcoll_start(held));
    CHECK_OK(NULL, rcoll_wait(held));
    for (int k = 0; k < 2; k++)
        CHECK_OK(NULL, rcoll_run(team, &gather));
    own[0] = mp_rank;
    CHECK_OK(NULL, rcoll_start(last));
    CHECK_OK(NULL, rcoll_set_timeout(team, 50));
    CHECK_RC(-ETIMEDOUT, NULL, rcoll_wait(last));
    CHECK_ERROR(NULL, holds ? "this member holds the views of operation"
                            : "has not given back the views of operation");
    CHECK_OK(NULL, rcoll_set_timeout(team, 60000));
    CHECK_OK(NULL, network_barrier());
    if (holds)
        CHECK_OK(NULL, rcoll_release(held));
    CHECK_OK(NULL, rcoll_wait(last));
    for (int m = 0; m < mp_ranks; m++)
        CHECK(NULL, all[(size_t)m * FULL_COUNT] == m);
    CHECK_OK(NULL, rcoll_close(team));
    free(own);
    free(all);
}

/* The others wait for a root of another host for so long that they send it probes of what it does as well, if later. */
static void late_root(void)
{
    int last = mp_ranks - 1, seen[MEMBERS_MOST], mine = 10 + mp_rank, value = mp_rank;
    rcoll_team_config_t cfg = {.context = 15};
    rteam_t team;

    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    if (mp_rank == last)
        compute_ms(1300);
    CHECK_OK(NULL, rcoll_bcast(team, &value, sizeof(value), last));
    CHECK(NULL, value == last);
    CHECK_OK(NULL, rcoll_gather(team, &mine, seen, sizeof(mine), last));
    for (int m = 0; m < mp_ranks && mp_rank == last; m++)
        CHECK(NULL, seen[m] == 10 + m);
    CHECK_OK(NULL, rcoll_close(team));
}

static bool on_one_host(void)
{
    rboard_config_t cfg = {.context = rcontext("mp_coll")};
    rboard_t board;
    bool one = true;

    CHECK_OK(NULL, rboard_open(&board, &cfg, NULL, mp_ranks));
    for (int i = 0; i < mp_ranks; i++)
        one = one && rboard_host(board, i) == 0;
    CHECK_OK(NULL, rboard_close(board));
    return one;
}

/* Before rinit. */
static bool is_third_rank(void)
{
    const char *rank = getenv("PMIX_RANK") != NULL ? getenv("PMIX_RANK") : getenv("RPIPE_RANK");

    return rank != NULL && atoi(rank) % 3 == 2;
}

int main(int argc, char **argv)
{
    rcoll_team_config_t cfg = {.mem_bytes = 1 << 20};
    bool spread = mp_asked(argc, argv, "-spread"), casts = mp_asked(argc, argv, "-cast"),
         apart = spread || mp_asked(argc, argv, "-apart"), one_host;
    uint64_t cases;
    rteam_t team;

    if (apart && (!spread || is_third_rank()))
        setenv("RPIPE_CONTROL", "tcp", 1);
    if (mp_asked(argc, argv, "-fetch"))
        setenv("RCOLL_ALGORITHM",
               "bcast=fetch,gather=fetch,allgather=fetch,scatter=fetch,alltoall=fetch", 1);
    if (casts) {
        setenv("RCOLL_ALGORITHM", "bcast=cast,allreduce=cast:4,barrier=cast:4,allgather=cast", 1);
        setenv("RPIPE_CAST_LOSE", "1:5:2", 1);
    }
    mp_begin(argc, argv, 1);
    shared = mp_seed;
    cfg.depth = 4u << shared % 5;
    cases = (uint64_t)mp_number(argc, argv,
                                (apart || casts ? 100 : 1500) / (mp_ranks > 4 ? mp_ranks : 1));
    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    random_cases(team, cases, apart || casts);
    if (!apart && !casts)
        long_folds(team);
    overlapping(team, cases / 50, apart || casts);
    views(team, 3);
    views(team, 5000);
    views_of_nothing(team);
    views_of_all_kinds(team, cases / 10 + 30);
    same_bits(team);
    teams(team);
    ring(team);
    calls(team);
    call_that_fails();
    wrong_ranks();
    mistakes(team);
    far_ahead();
    if (mp_ranks > 2) {
        parts_come_and_go();
        numbers_behind();
    }
    one_host = on_one_host();
    if (mp_ranks > 1)
        late_members(one_host);
    if (mp_ranks > 1 && one_host) {
        views_held_too_long();
        views_held_beside_late_member();
        views_held_beside_heap(true);
        views_held_beside_heap(false);
        views_fill_a_heap();
    }
    if (mp_ranks > 1 && !one_host)
        late_root();
    if (mp_ranks > 1)
        mismatches();
    for (int i = 0; i < 1000; i++)
        CHECK_OK(NULL, rcoll_barrier(team));
    CHECK_OK(NULL, rcoll_close(team));
    return mp_end();
}
