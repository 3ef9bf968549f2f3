/* SPDX-License-Identifier: BSD-3-Clause */
/* build.c: see coll.h and build.h: the table of builders, what a request must be, and its memory. */
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

static const char *const coll_kind_names[COLL_KINDS] = {
    "barrier", "bcast",  "reduce",    "allreduce", "reduce_scatter", "scan",
    "exscan",  "gather", "allgather", "scatter",   "alltoall"};

static const char *const coll_algorithm_names[COLL_ALGORITHMS] = {
    "dissemination", "exchange", "tree",  "chain",    "scatter-ring", "flat",    "shares",
    "rabenseifner",  "ring",     "bruck", "pairwise", "linear",       "halving", "hosts"};

static const coll_builder coll_builders[COLL_KINDS][COLL_ALGORITHMS] = {
    [COLL_BARRIER] = {[COLL_DISSEMINATION] = alg_barrier_dissemination,
                      [COLL_EXCHANGE] = alg_barrier_exchange,
                      [COLL_TREE] = alg_barrier_tree,
                      [COLL_HOSTS] = alg_barrier_hosts},
    [COLL_BCAST] = {[COLL_TREE] = alg_bcast_tree,
                    [COLL_CHAIN] = alg_bcast_chain,
                    [COLL_SCATTER_RING] = alg_bcast_scatter_ring,
                    [COLL_HOSTS] = alg_bcast_hosts},
    [COLL_REDUCE] = {[COLL_TREE] = alg_reduce_tree,
                     [COLL_FLAT] = alg_reduce_flat,
                     [COLL_RABENSEIFNER] = alg_reduce_rabenseifner,
                     [COLL_HOSTS] = alg_reduce_hosts},
    [COLL_ALLREDUCE] = {[COLL_EXCHANGE] = alg_allreduce_exchange,
                        [COLL_TREE] = alg_allreduce_tree,
                        [COLL_FLAT] = alg_allreduce_flat,
                        [COLL_SHARES] = alg_allreduce_shares,
                        [COLL_RABENSEIFNER] = alg_allreduce_rabenseifner,
                        [COLL_RING] = alg_allreduce_ring,
                        [COLL_HOSTS] = alg_allreduce_hosts},
};

const char *coll_kind_name(enum coll_kind kind) { return coll_kind_names[kind]; }

const char *coll_algorithm_name(enum coll_algorithm algorithm)
{
    return coll_algorithm_names[algorithm];
}

bool coll_has(enum coll_kind kind, enum coll_algorithm algorithm)
{
    return coll_builders[kind][algorithm] != NULL;
}

int coll_unsupported(const struct coll_build *b, const char *needs)
{
    return error_set(b->err, -ENOTSUP, "%s by %s needs %s", coll_kind_name(b->request->kind),
                     coll_algorithm_name(b->choice->algorithm), needs);
}

bool coll_hosts_keep_order(const struct coll_build *b)
{
    const struct shape *s = b->shape;

    if (b->request->order == COLL_ANY_ORDER)
        return true;
    if (b->request->order == COLL_MEMBER_ORDER)
        return s->in_rows;
    return s->in_rows && s->size == s->hosts * s->largest && (s->size & (s->size - 1)) == 0;
}

/* ---- blocks ---- */

/* Where blocks of `counts` begin that follow each other; size + 1 elements. NULL: no memory. */
static size_t *coll_add_counts(const size_t *counts, int size)
{
    size_t *offset = malloc(((size_t)size + 1) * sizeof(*offset));

    if (offset == NULL)
        return NULL;
    offset[0] = 0;
    for (int i = 0; i < size; i++)
        offset[i + 1] = offset[i] + counts[i];
    return offset;
}

size_t coll_block_at(const struct coll_build *b, int i)
{
    const struct coll_request *r = b->request;
    size_t at = r->counts == NULL ? r->count * (size_t)i : b->offsets[i];

    return at * r->element;
}

size_t coll_block_bytes(const struct coll_build *b, int i)
{
    const struct coll_request *r = b->request;

    return (r->counts == NULL ? r->count : r->counts[i]) * r->element;
}

size_t coll_block_in_at(const struct coll_build *b, int i)
{
    const struct coll_request *r = b->request;
    size_t at;

    if (r->in_place)
        return coll_block_at(b, i);
    at = r->counts_in == NULL ? r->count * (size_t)i : b->offsets_in[i];

    return at * r->element;
}

size_t coll_block_in_bytes(const struct coll_build *b, int i)
{
    const struct coll_request *r = b->request;

    if (r->in_place)
        return coll_block_bytes(b, i);
    return (r->counts_in == NULL ? r->count : r->counts_in[i]) * r->element;
}

/* The bytes that the blocks of all members take: the end of the last one. */
static size_t coll_extent(const struct coll_build *b, size_t (*at)(const struct coll_build *, int),
                          size_t (*bytes)(const struct coll_build *, int))
{
    size_t extent = 0;

    if (b->request->counts == NULL)
        return b->bytes * (size_t)b->size;
    for (int i = 0; i < b->size; i++) {
        size_t end = at(b, i) + bytes(b, i);

        extent = bytes(b, i) > 0 && end > extent ? end : extent;
    }
    return extent;
}

/* ---- memory ---- */

static void coll_set_memory(struct coll_build *b, size_t *from, size_t *into)
{
    const struct coll_request *r = b->request;
    bool root = b->me == r->root;
    size_t all = 0, own = 0;

    if (r->kind >= COLL_GATHER || r->kind == COLL_REDUCE_SCATTER) {
        all = coll_extent(b, coll_block_at, coll_block_bytes);
        own = coll_block_bytes(b, b->me);
    }
    *from = *into = 0;
    switch (r->kind) {
    case COLL_BARRIER:
        break;
    case COLL_BCAST:
        *(root ? from : into) = b->bytes;
        break;
    case COLL_REDUCE:
        *from = b->bytes;
        *into = root ? b->bytes : 0;
        break;
    case COLL_ALLREDUCE:
    case COLL_SCAN:
    case COLL_EXSCAN:
        *from = *into = b->bytes;
        break;
    case COLL_REDUCE_SCATTER:
        *from = all;
        *into = r->in_place ? all : own;
        break;
    case COLL_GATHER:
        *from = own;
        *into = root ? all : 0;
        break;
    case COLL_ALLGATHER:
        *from = own;
        *into = all;
        break;
    case COLL_SCATTER:
        *from = root ? all : 0;
        *into = root && r->in_place ? 0 : own;
        break;
    case COLL_ALLTOALL:
        *from = all;
        *into = coll_extent(b, coll_block_in_at, coll_block_in_bytes);
        break;
    }
}

/* Whether FROM of this member is INTO. */
static bool coll_contributes_in_place(const struct coll_build *b)
{
    enum coll_kind kind = b->request->kind;
    bool rooted = kind == COLL_REDUCE || kind == COLL_GATHER;

    return b->request->in_place && kind != COLL_BARRIER && kind != COLL_BCAST &&
           kind != COLL_SCATTER && (!rooted || b->me == b->request->root);
}

static int coll_check(const struct coll_build *b)
{
    const struct coll_request *r = b->request;

    if ((unsigned)r->kind >= COLL_KINDS || (unsigned)b->choice->algorithm >= COLL_ALGORITHMS)
        return error_set(b->err, -EINVAL, "kind %d and algorithm %d; there are %d and %d",
                         (int)r->kind, (int)b->choice->algorithm, COLL_KINDS, COLL_ALGORITHMS);
    if (b->me < 0 || b->me >= b->size || r->root < 0 || r->root >= b->size)
        return error_set(b->err, -EINVAL, "member %d, root %d; the team has %d members", b->me,
                         r->root, b->size);
    if (r->element == 0 && r->kind != COLL_BARRIER)
        return error_set(b->err, -EINVAL, "an element has 0 bytes");
    if (r->element > 0 && r->count > SIZE_MAX / 8 / r->element / (size_t)b->size)
        return error_set(b->err, -EINVAL, "%zu elements of %zu bytes of %d members are too many",
                         r->count, r->element, b->size);
    if (r->kind == COLL_ALLTOALL && !r->in_place && (r->counts == NULL) != (r->counts_in == NULL))
        return error_set(b->err, -EINVAL, "one of counts and counts_in is NULL");
    if (coll_builders[r->kind][b->choice->algorithm] == NULL)
        return error_set(b->err, -ENOTSUP, "%s by %s does not exist", coll_kind_name(r->kind),
                         coll_algorithm_name(b->choice->algorithm));
    return 0;
}

static int coll_find_offsets(struct coll_build *b)
{
    const struct coll_request *r = b->request;

    if (r->counts != NULL) {
        b->offsets = coll_add_counts(r->counts, b->size);
        if (b->offsets == NULL)
            return -ENOMEM;
        for (int i = 0; r->offsets != NULL && i < b->size; i++)
            b->offsets[i] = r->offsets[i];
    }
    if (r->counts_in != NULL) {
        b->offsets_in = coll_add_counts(r->counts_in, b->size);
        if (b->offsets_in == NULL)
            return -ENOMEM;
        for (int i = 0; r->offsets_in != NULL && i < b->size; i++)
            b->offsets_in[i] = r->offsets_in[i];
    }
    return 0;
}

int coll_build(struct graph *g, const struct shape *shape, int me,
               const struct coll_request *request, const struct coll_choice *choice,
               struct error *err)
{
    struct coll_build b = {.g = g,
                           .shape = shape,
                           .size = shape->size,
                           .me = me,
                           .request = request,
                           .choice = choice,
                           .bytes = request->count * request->element,
                           .err = err};
    size_t from = 0, into = 0;
    int rc;

    graph_init(g, shape->size, me, 0, 0);
    rc = coll_check(&b);
    if (rc != 0)
        return rc;
    b.radix = choice->radix > b.size ? b.size : choice->radix;
    b.radix = b.radix < 2 ? 2 : b.radix;
    rc = coll_find_offsets(&b);
    if (rc == 0) {
        coll_set_memory(&b, &from, &into);
        b.from = graph_at(coll_contributes_in_place(&b) ? GRAPH_INTO : GRAPH_FROM, 0);
        graph_init(g, shape->size, me, b.from.base == GRAPH_INTO ? 0 : from, into);
        rc = coll_builders[request->kind][choice->algorithm](&b);
    }
    if (rc == 0)
        rc = graph_finish(g, err);
    else if (rc == -ENOMEM)
        error_set(err, rc, "no memory for the plan of a %s", coll_kind_name(request->kind));
    free(b.offsets);
    free(b.offsets_in);
    return rc;
}
