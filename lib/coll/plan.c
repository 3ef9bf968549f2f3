/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c: see coll.h: the table of builders, what a request must be, and its memory. */
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

static const coll_builder coll_builders[COLL_KINDS][COLL_ALGORITHMS] = {
    [COLL_BARRIER] = {[COLL_DISSEMINATION] = alg_barrier_dissemination,
                      [COLL_EXCHANGE] = alg_barrier_exchange,
                      [COLL_TREE] = alg_barrier_tree,
                      [COLL_HOSTS] = alg_barrier_hosts,
                      [COLL_CAST] = alg_barrier_cast},
    [COLL_BCAST] = {[COLL_TREE] = alg_bcast_tree,
                    [COLL_CHAIN] = alg_bcast_chain,
                    [COLL_SCATTER_RING] = alg_bcast_scatter_ring,
                    [COLL_HOSTS] = alg_bcast_hosts,
                    [COLL_FETCH] = alg_bcast_fetch,
                    [COLL_CAST] = alg_bcast_cast},
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
                        [COLL_HOSTS] = alg_allreduce_hosts,
                        [COLL_HOST_SHARES] = alg_allreduce_host_shares,
                        [COLL_CAST] = alg_allreduce_cast},
    [COLL_REDUCE_SCATTER] = {[COLL_FLAT] = alg_reduce_scatter_flat,
                             [COLL_PAIRWISE] = alg_reduce_scatter_pairwise,
                             [COLL_HALVING] = alg_reduce_scatter_halving,
                             [COLL_RING] = alg_reduce_scatter_ring,
                             [COLL_HOSTS] = alg_reduce_scatter_hosts},
    [COLL_SCAN] = {[COLL_LINEAR] = alg_scan_linear,
                   [COLL_EXCHANGE] = alg_scan_exchange,
                   [COLL_FLAT] = alg_scan_flat,
                   [COLL_HOSTS] = alg_scan_hosts},
    [COLL_EXSCAN] = {[COLL_LINEAR] = alg_scan_linear,
                     [COLL_EXCHANGE] = alg_scan_exchange,
                     [COLL_FLAT] = alg_scan_flat,
                     [COLL_HOSTS] = alg_scan_hosts},
    [COLL_GATHER] = {[COLL_TREE] = alg_gather_tree,
                     [COLL_LINEAR] = alg_gather_linear,
                     [COLL_HOSTS] = alg_gather_hosts,
                     [COLL_FETCH] = alg_gather_fetch},
    [COLL_ALLGATHER] = {[COLL_FLAT] = alg_allgather_flat,
                        [COLL_RING] = alg_allgather_ring,
                        [COLL_BRUCK] = alg_allgather_bruck,
                        [COLL_HOSTS] = alg_allgather_hosts,
                        [COLL_CAST] = alg_allgather_cast,
                        [COLL_FETCH] = alg_allgather_fetch},
    [COLL_SCATTER] = {[COLL_TREE] = alg_scatter_tree,
                      [COLL_LINEAR] = alg_scatter_linear,
                      [COLL_FLAT] = alg_scatter_flat,
                      [COLL_HOSTS] = alg_scatter_hosts,
                      [COLL_FETCH] = alg_scatter_fetch},
    [COLL_ALLTOALL] = {[COLL_FLAT] = alg_alltoall_flat,
                       [COLL_LINEAR] = alg_alltoall_linear,
                       [COLL_PAIRWISE] = alg_alltoall_pairwise,
                       [COLL_BRUCK] = alg_alltoall_bruck,
                       [COLL_HOSTS] = alg_alltoall_hosts,
                       [COLL_FETCH] = alg_alltoall_fetch},
};

bool coll_has(enum coll_kind kind, enum coll_algorithm algorithm)
{
    return coll_builders[kind][algorithm] != NULL;
}

/* ---- memory ---- */

static void coll_set_memory(struct coll_build *b, size_t *from, size_t *into)
{
    const struct coll_request *r = b->request;
    bool root = b->me == r->root;
    size_t all = 0, own = 0;

    if (r->kind >= COLL_GATHER || r->kind == COLL_REDUCE_SCATTER) {
        all = coll_extent(b);
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
        *into = coll_extent_in(b);
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
    const char *needs;

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
    needs = coll_needs(b->shape, r, b->choice);
    if (needs != NULL)
        return error_set(b->err, -ENOTSUP, "%s by %s needs %s", coll_kind_name(r->kind),
                         coll_algorithm_name(b->choice->algorithm), needs);
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
    b.radix = coll_radix(shape, choice);
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
