/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.c: see limits.h: bounds, with which test_coll_plans compares all graphs. */
#include "coll/limits.h"

#include "coll/build.h"
#include "coll/cost.h"
#include "coll/model.h"

/* The bytes of all blocks; of an alltoall with counts only those of this member are known. */
static uint64_t limits_of_blocks(const struct shape *shape, const struct coll_request *r)
{
    uint64_t sum = 0;

    if (r->counts == NULL)
        return model_times(model_times(r->count, r->element), (uint64_t)shape->size);
    for (int i = 0; i < shape->size; i++)
        sum = model_add(sum, model_times(r->counts[i], r->element));
    return sum;
}

static uint64_t limits_of_tree(const struct shape *shape, int radix)
{
    return (uint64_t)(radix - 1) * (uint64_t)cost_levels(shape->size, radix) + 2;
}

static uint64_t limits_slots(const struct shape *shape, const struct coll_request *r,
                             const struct coll_choice *choice)
{
    uint64_t n = (uint64_t)shape->size, levels = (uint64_t)cost_levels(shape->size, 2);
    int radix = coll_radix(shape, choice);
    bool blocks = r->kind >= COLL_GATHER;

    switch (choice->algorithm) {
    case COLL_DISSEMINATION:
    case COLL_HALVING:
        return 2 * levels + 3;
    case COLL_EXCHANGE:
        return PART_EXCHANGE_SLOTS + 2;
    case COLL_CAST:
    case COLL_TREE:
        return blocks ? limits_of_tree(shape, radix) : 4;
    case COLL_CHAIN:
        return choice->segment == 0 ? 1 : r->count / choice->segment + 1;
    case COLL_SCATTER_RING:
        return n + levels + 2;
    case COLL_FLAT:
    case COLL_FETCH:
        return 2;
    case COLL_SHARES:
        return 3;
    case COLL_RABENSEIFNER:
        return 2 * levels + 5;
    case COLL_RING:
        return 2 * n;
    case COLL_BRUCK:
        return r->kind == COLL_ALLTOALL ? n + 1 : levels + 1;
    case COLL_PAIRWISE:
    case COLL_LINEAR:
        return n + 1;
    case COLL_HOSTS:
        return PART_EXCHANGE_SLOTS + 4 +
               (blocks || r->kind == COLL_REDUCE_SCATTER
                    ? limits_of_tree(shape, radix) + (uint64_t)shape->hosts +
                          (uint64_t)shape->largest
                    : 0);
    case COLL_HOST_SHARES:
        return 2 * levels + 9;
    }
    return GRAPH_SLOTS_MAX;
}

/* How many times what a member contributes, or all blocks, is sent. */
static uint64_t limits_times(const struct shape *shape, const struct coll_request *r,
                             const struct coll_choice *choice)
{
    uint64_t levels = (uint64_t)cost_levels(shape->size, 2);

    switch (choice->algorithm) {
    case COLL_FETCH: /* what is lent is not copied */
        return 0;
    case COLL_FLAT:
    case COLL_SHARES: /* all shares but the own one, and that when it is folded */
    case COLL_CHAIN:
        return 1;
    case COLL_EXCHANGE:
        return 2 * levels + 2;
    case COLL_BRUCK:
        return r->kind == COLL_ALLTOALL || r->counts != NULL ? levels + 1 : 2;
    case COLL_HOSTS:
        if (r->kind == COLL_ALLTOALL)
            return 2 * (uint64_t)shape->largest + 4;
        return r->kind == COLL_BCAST || r->kind == COLL_REDUCE ? 3 : 2 * levels + 4;
    case COLL_CAST:
        return 3;
    case COLL_RABENSEIFNER:
    case COLL_HOST_SHARES:
    case COLL_HALVING:
        return 3;
    default:
        return 2;
    }
}

struct coll_limits coll_limits(const struct shape *shape, const struct coll_request *request,
                               const struct coll_choice *choice)
{
    uint64_t slots = limits_slots(shape, request, choice), bytes = 0;

    if (request->kind == COLL_ALLGATHER && choice->algorithm == COLL_FLAT) {
        for (int i = 0; request->counts != NULL && i < shape->size; i++)
            bytes = cost_at_least(bytes, model_times(request->counts[i], request->element));
        if (request->counts == NULL)
            bytes = model_times(request->count, request->element);
    } else if (request->kind == COLL_REDUCE_SCATTER || request->kind >= COLL_GATHER)
        bytes = limits_of_blocks(shape, request);
    else if (request->kind != COLL_BARRIER)
        bytes = model_times(request->count, request->element);
    bytes = model_times(bytes, limits_times(shape, request, choice));
    return (struct coll_limits){.slots = slots, .bytes = model_add(bytes, model_times(slots, 64))};
}

const char *coll_needs_here(const struct shape *shape, const struct coll_request *request,
                            const struct coll_choice *choice)
{
    if (shape->slots > 0 && shape->largest > 1 &&
        coll_limits(shape, request, choice).slots > shape->slots)
        return "fewer messages of a member";
    if (choice->algorithm == COLL_FETCH && shape->hosts > 1)
        return "all members on one host";
    if (choice->algorithm == COLL_FETCH && !shape->fetches)
        return "access to the memory of other processes";
    return coll_needs(shape, request, choice);
}
