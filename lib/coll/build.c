/* SPDX-License-Identifier: BSD-3-Clause */
/* build.c: see build.h and coll.h: names, and what an algorithm needs. */
#include "coll/build.h"

static const char *const coll_kind_names[COLL_KINDS] = {
    "barrier", "bcast",  "reduce",    "allreduce", "reduce_scatter", "scan",
    "exscan",  "gather", "allgather", "scatter",   "alltoall"};

static const char *const coll_algorithm_names[COLL_ALGORITHMS] = {
    "dissemination", "exchange",     "tree",        "chain", "scatter-ring", "flat",
    "shares",        "rabenseifner", "ring",        "bruck", "pairwise",     "linear",
    "halving",       "hosts",        "host-shares", "cast",  "fetch"};

const char *coll_kind_name(enum coll_kind kind) { return coll_kind_names[kind]; }

const char *coll_algorithm_name(enum coll_algorithm algorithm)
{
    return coll_algorithm_names[algorithm];
}

int coll_radix(const struct shape *shape, const struct coll_choice *choice)
{
    int radix = choice->radix < shape->size ? choice->radix : shape->size;

    return radix < 2 ? 2 : radix;
}

static bool coll_hosts_keep_order(const struct shape *s, enum coll_order order)
{
    bool equal = s->size == s->hosts * s->largest && (s->size & (s->size - 1)) == 0;

    return order == COLL_ANY_ORDER || (s->in_rows && (order == COLL_MEMBER_ORDER || equal));
}

/* What an algorithm needs to fold in the order of the request. */
static const char *coll_order_needs(const struct shape *shape, const struct coll_request *r,
                                    const struct coll_choice *choice)
{
    bool fixed = r->order == COLL_FIXED_ORDER;

    if (r->kind == COLL_SCAN || r->kind == COLL_EXSCAN) {
        if (choice->algorithm == COLL_HOSTS && !shape->in_rows)
            return "members of a host in a row";
        return fixed && choice->algorithm != COLL_FLAT ? "an order that is not fixed" : NULL;
    }
    switch (choice->algorithm) {
    case COLL_TREE:
    case COLL_CAST:
        return fixed && coll_radix(shape, choice) != 2 ? "radix 2 for a fixed order" : NULL;
    case COLL_RING:
        return r->order != COLL_ANY_ORDER ? "a commutative operator" : NULL;
    case COLL_HOST_SHARES:
        if (shape->size != shape->hosts * shape->largest)
            return "as many members on each host";
        return coll_hosts_keep_order(shape, r->order)
                   ? NULL
                   : "members of a host in a row, and powers of two for a fixed order";
    case COLL_HOSTS:
        return coll_hosts_keep_order(shape, r->order)
                   ? NULL
                   : "members of a host in a row, and powers of two for a fixed order";
    default:
        return NULL;
    }
}

const char *coll_needs(const struct shape *shape, const struct coll_request *r,
                       const struct coll_choice *choice)
{
    if (r->kind >= COLL_REDUCE && r->kind <= COLL_EXSCAN)
        return coll_order_needs(shape, r, choice);
    if (r->kind == COLL_ALLTOALL && r->counts != NULL &&
        (choice->algorithm == COLL_FLAT || choice->algorithm == COLL_BRUCK ||
         choice->algorithm == COLL_HOSTS || choice->algorithm == COLL_FETCH))
        return "blocks of one length";
    if (choice->algorithm == COLL_CHAIN && choice->segment > 0 &&
        r->count / choice->segment >= GRAPH_SLOTS_MAX)
        return "fewer segments";
    return NULL;
}
