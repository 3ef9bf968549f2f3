/* SPDX-License-Identifier: BSD-3-Clause */
/* parts.c: see parts.h. What is decided here is the same at all members: it depends on what they have in common. */
#include "coll/engine/parts.h"
#include "coll/engine/fail.h"
#include "coll/engine/plan.h"

#include "coll/limits.h"
#include "util/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PART_NEAR 262144 /* bytes of the messages of a part, with a processor for each member */

/* ---- requests of parts ---- */

/* A request of one part, with arrays of its own. */
struct part_request {
    struct coll_request r;
    size_t *counts, *offsets, *counts_in, *offsets_in;
};

static void part_request_free(struct part_request *part)
{
    free(part->counts);
    free(part->offsets);
    free(part->counts_in);
    free(part->offsets_in);
}

static bool parts_have_blocks(const struct coll_request *r)
{
    return r->kind >= COLL_GATHER || r->kind == COLL_REDUCE_SCATTER;
}

/* Elements [first, first + most) of a block of `count`. */
static size_t part_of_block(size_t count, uint64_t first, uint64_t most)
{
    if (count <= first)
        return 0;
    return count - first < most ? count - (size_t)first : (size_t)most;
}

/* Blocks stay where they are: their offsets in elements, from where the part begins in the first one. */
static int part_set_blocks(int n, const size_t *counts, const size_t *offsets, size_t count,
                           uint64_t first, uint64_t most, size_t **part_counts,
                           size_t **part_offsets)
{
    size_t at = 0;

    *part_counts = calloc((size_t)n, sizeof(**part_counts));
    *part_offsets = calloc((size_t)n, sizeof(**part_offsets));
    if (*part_counts == NULL || *part_offsets == NULL)
        return -ENOMEM;
    for (int i = 0; i < n; i++) {
        size_t length = counts != NULL ? counts[i] : count;

        (*part_counts)[i] = part_of_block(length, first, most);
        (*part_offsets)[i] = offsets != NULL ? offsets[i] : at;
        at += length;
    }
    return 0;
}

static int part_request_make(struct part_request *part, const struct rteam *t,
                             const struct coll_request *whole, uint64_t first, uint64_t most,
                             struct error *err)
{
    int rc = 0;

    *part = (struct part_request){.r = *whole};
    if (!parts_have_blocks(whole)) {
        part->r.count = part_of_block(whole->count, first, most);
        return 0;
    }
    rc = part_set_blocks(t->size, whole->counts, whole->offsets, whole->count, first, most,
                         &part->counts, &part->offsets);
    part->r.counts = part->counts;
    part->r.offsets = part->offsets;
    if (rc == 0 && whole->kind == COLL_ALLTOALL && !whole->in_place) {
        rc = part_set_blocks(t->size, whole->counts != NULL ? whole->counts_in : NULL,
                             whole->offsets_in, whole->count, first, most, &part->counts_in,
                             &part->offsets_in);
        part->r.counts_in = part->counts_in;
        part->r.offsets_in = part->offsets_in;
    }
    if (rc != 0) {
        part_request_free(part);
        return error_set(err, rc, "no memory for the blocks of %d members", t->size);
    }
    return 0;
}

/* ---- algorithm ---- */

static int parts_choose(const struct rplan *plan, const struct coll_request *r,
                        const struct coll_choice *given, struct coll_choice *choice,
                        struct error *err)
{
    const struct rteam *t = plan->team;
    const char *text = plan->params.algorithm;
    struct coll_rule rule = {0};
    const char *needs;
    int rc;

    if (given != NULL) {
        *choice = *given;
        return 0;
    }
    if (text == NULL)
        return coll_choose(&t->shape, r, &t->model, &t->rules, choice, err);
    rc = coll_rule_parse_algorithm(&rule, r->kind, text, strlen(text), err);
    if (rc != 0)
        return rc;
    *choice = coll_rule_choice(&rule, r);
    needs = coll_needs_here(&t->shape, r, choice);
    return needs == NULL ? 0
                         : error_set(err, -ENOTSUP, "%s by %s needs %s", coll_kind_name(r->kind),
                                     text, needs);
}

/* ---- how many parts ---- */

static size_t parts_longest(const struct rteam *t, const size_t *counts, size_t count)
{
    size_t longest = count;

    if (counts == NULL)
        return count;
    longest = 0;
    for (int i = 0; i < t->size; i++)
        longest = counts[i] > longest ? counts[i] : longest;
    return longest;
}

/* An alltoall with counts: what a part moves depends on the heap alone; how many there are is found by the first one. */
static void parts_of_exchange(struct rplan *plan, const struct coll_request *r)
{
    const struct rteam *t = plan->team;
    struct parts *parts = &plan->parts;
    uint64_t room = t->heap_bytes / 2 / (uint64_t)t->size / r->element;
    size_t out = parts_longest(t, r->counts, 0);
    size_t in = r->counts_in != NULL ? parts_longest(t, r->counts_in, 0) : 0;
    size_t longest = out > in ? out : in;

    parts->counted = true;
    parts->numbers = 1;
    parts->used = PARTS_MOST;
    parts->count = room > 0 ? room : 1;
    parts->here = ((uint64_t)longest + parts->count - 1) / parts->count;
}

/* Whether a member reads what all others have copied into their heaps, on this host: then these are to stay in caches. */
static bool parts_are_near(const struct rteam *t, const struct coll_request *r)
{
    return t->shape.hosts == 1 && (r->kind == COLL_REDUCE || r->kind == COLL_ALLREDUCE ||
                                   r->kind == COLL_REDUCE_SCATTER || r->kind == COLL_ALLGATHER);
}

/* Bytes of a part: two of them fit into the heap, and near ones into the caches of a processor, beside what they are copied from. */
static uint64_t parts_most(const struct rteam *t, bool near)
{
    uint64_t most = t->crowded ? PART_NEAR / 2 : PART_NEAR;

    return !near || most > t->heap_bytes / 2 ? t->heap_bytes / 2 : most;
}

/* Divides until the messages of a part fit. */
static int parts_divide(struct rplan *plan, const struct coll_request *r,
                        const struct coll_choice *given, struct error *err)
{
    const struct rteam *t = plan->team;
    struct parts *parts = &plan->parts;
    uint64_t longest = parts_longest(t, r->counts, r->count), n = 1;
    uint64_t room = parts_most(t, parts->near);
    struct part_request part;
    int rc;

    for (;;) {
        uint64_t bytes, more;

        parts->count = (longest + n - 1) / n;
        rc = part_request_make(&part, t, r, 0, parts->count, err);
        if (rc != 0)
            return rc;
        rc = parts_choose(plan, n == 1 ? r : &part.r, given, &plan->choice, err);
        if (rc == 0)
            bytes = coll_limits(&t->shape, n == 1 ? r : &part.r, &plan->choice).bytes;
        part_request_free(&part);
        if (rc != 0)
            return rc;
        if (bytes <= room || parts->count <= 1 || t->size == 1 ||
            (plan->params.flags & RCOLL_VIEWS) != 0)
            break;
        more = n * ((bytes + room - 1) / room);
        n = more > n ? more : n + 1;
        n = n < longest ? n : longest > 0 ? longest : 1;
    }
    parts->used = parts->count == 0 ? 1 : (longest + parts->count - 1) / parts->count;
    parts->used = parts->used == 0 ? 1 : parts->used;
    parts->numbers = parts->used;
    parts->remade = parts->used > 1 && r->counts != NULL;
    return 0;
}

/* ---- programs ---- */

static int parts_build(struct rplan *plan, const struct coll_request *r, bool keep,
                       struct error *err)
{
    struct rteam *t = plan->team;
    struct graph g;
    int rc;

    program_free(&plan->program);
    rc = coll_build(&g, &t->shape, t->me, r, &plan->choice, err);
    if (rc == 0)
        rc = plan_compile(plan, &g, err);
    if (rc == 0 && keep)
        plan->graph = g;
    else
        graph_free(&g);
    return rc;
}

static int parts_build_part(struct rplan *plan, uint64_t i, bool keep, struct error *err)
{
    struct coll_request r = params_request(&plan->params);
    struct part_request part;
    int rc;

    r.counted = plan->parts.counted && i == 0;
    if (plan->parts.used == 1 || (r.counted && plan->parts.here <= 1))
        return parts_build(plan, &r, keep, err);
    rc = part_request_make(&part, plan->team, &r, i * plan->parts.count, plan->parts.count, err);
    if (rc != 0)
        return rc;
    rc = parts_build(plan, &part.r, keep, err);
    part_request_free(&part);
    return rc;
}

/* The last part first, since that which is built last stays in plan->program. */
static int parts_build_all(struct rplan *plan, struct error *err)
{
    int rc = 0;

    if (plan->parts.used > 1 && !plan->parts.remade && !plan->parts.counted) {
        rc = parts_build_part(plan, plan->parts.used - 1, false, err);
        plan->last = plan->program;
        plan->program = (struct program){0};
    }
    return rc == 0 ? parts_build_part(plan, 0, true, err) : rc;
}

static void parts_explain(const struct rplan *plan, const struct coll_request *r)
{
    const struct rteam *t = plan->team;

    if (t->explain && t->me == 0)
        (void)coll_explain(stderr, &t->shape, r, &t->model, &t->rules);
}

int parts_make(struct rplan *plan, const struct coll_choice *given, struct error *err)
{
    struct rteam *t = plan->team;
    struct coll_request r = params_request(&plan->params);
    uint64_t key[4];
    int rc;

    plan->parts = (struct parts){.numbers = 1, .used = 1, .near = parts_are_near(t, &r)};
    if (r.kind == COLL_ALLTOALL && r.counts != NULL && t->size > 1) {
        parts_of_exchange(plan, &r);
        rc = parts_choose(plan, &r, given, &plan->choice, err);
        if (rc == 0)
            rc = coll_operator_init(&plan->operators[0], RGROUP_UINT64, RGROUP_MAX, err);
    } else
        rc = parts_divide(plan, &r, given, err);
    if (rc == 0)
        rc = parts_build_all(plan, err);
    key[0] = plan->choice.algorithm;
    key[1] = (uint64_t)plan->choice.radix;
    key[2] = plan->choice.segment;
    key[3] = plan->parts.count;
    plan->check = params_hash(t, &plan->params) ^
                  (uint32_t)hash_words(HASH_BASIS, key, sizeof(key) / sizeof(*key));
    parts_explain(plan, &r);
    return rc;
}

/* ---- for the engine ---- */

static const struct program *parts_remake(struct rplan *plan)
{
    struct error err = {""};
    int rc = parts_build_part(plan, plan->part, false, &err);

    if (rc == 0)
        return &plan->program;
    team_fail(plan->team, rc, plan->team->me, "%s", err.text);
    return NULL;
}

/* The words that the first part of an alltoall with counts has in SCRATCH (coll.h). */
static uint64_t *parts_words(const struct rplan *plan) { return (uint64_t *)(void *)plan->scratch; }

/* A member that needs more parts than there may be: the next one does not begin. */
static bool parts_are_too_many(const struct rplan *plan)
{
    bool views = (plan->params.flags & RCOLL_VIEWS) != 0;

    if (plan->parts.used < PARTS_MOST && !views)
        return false;
    team_fail(
        plan->team, -EMSGSIZE, plan->team->me,
        "the blocks of an alltoall need %llu parts, and %s at most %d; give the team a larger "
        "heap_bytes",
        (unsigned long long)parts_words(plan)[2], views ? "a plan with RCOLL_VIEWS has" : "it has",
        views ? 1 : PARTS_MOST - 1);
    return true;
}

const struct program *plan_program_of_part(struct rplan *plan)
{
    const struct parts *parts = &plan->parts;

    if (parts->counted && plan->part == 1 && parts_are_too_many(plan))
        return NULL;
    if (parts->remade)
        return parts_remake(plan);
    return !parts->counted && plan->part + 1 == parts->used ? &plan->last : &plan->program;
}

bool plan_begin_next_part(struct rplan *plan)
{
    struct parts *parts = &plan->parts;

    if (parts->counted && plan->part == 0) {
        parts->used = parts_words(plan)[2];
        parts->used = parts->used < PARTS_MOST ? parts->used : PARTS_MOST;
        /* from then on a start finds the program of the last part of the one before */
        parts->remade = parts->remade || parts->used > 1;
    }
    if (plan_is_last_part(plan)) {
        parts->used = parts->counted ? PARTS_MOST : parts->used;
        return false;
    }
    plan->part++;
    plan->number++;
    return true;
}

void plan_set_bases_of_part(struct rplan *plan)
{
    struct operation *o = &plan->op;
    uint64_t at = plan->part * plan->parts.count * params_request(&plan->params).element;

    o->base[BASE_SCRATCH] = plan->scratch;
    o->base[BASE_FROM] = at > 0 ? (const char *)plan->from + at : plan->from;
    o->base[BASE_INTO] = at > 0 ? (const char *)plan->into + at : plan_into(plan);
    if (plan->parts.counted && plan->part == 0) {
        parts_words(plan)[0] = plan->parts.here;
        parts_words(plan)[1] = 0;
    }
}
