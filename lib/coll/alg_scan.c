/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alg_scan.c: member i gets the fold of members 0 to i (scan), or 0 to i - 1 (exscan; member 0 gets
 * nothing).
 */
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

static bool alg_scan_exclusive(const struct coll_build *b)
{
    return b->request->kind == COLL_EXSCAN;
}

/* The prefix with the own contribution: the result of a scan; what an exscan passes on. */
static struct coll_value alg_scan_value(const struct coll_build *b)
{
    return value_of(b->from,
                    alg_scan_exclusive(b) ? graph_at(GRAPH_FROM, 0) : graph_at(GRAPH_INTO, 0),
                    b->bytes);
}

/* From member to member. */
int alg_scan_linear(const struct coll_build *b)
{
    struct coll_value v = alg_scan_value(b);
    int view = GRAPH_NONE;

    if (b->me > 0) {
        view = graph_recv(b->g, b->me - 1, 0, b->bytes);
        if (!alg_scan_exclusive(b) || b->me < b->size - 1)
            value_fold(b, &v, graph_at(view, 0), true);
    }
    if (b->me < b->size - 1)
        value_send(b, &v, b->me + 1, 0);
    if (!alg_scan_exclusive(b))
        value_store(b, &v, graph_at(GRAPH_INTO, 0));
    else if (b->me > 0 && b->bytes > 0) /* in place, INTO is read first */
        graph_after(b->g, graph_copy(b->g, graph_at(GRAPH_INTO, 0), graph_at(view, 0), b->bytes),
                    v.last);
    return 0;
}

/* Recursive doubling: in round d a member has the fold of the 2^d members up to itself, and sends it
 * to the member 2^d after it. */
int alg_scan_exchange(const struct coll_build *b)
{
    struct coll_value v = alg_scan_value(b);
    struct coll_value before = value_of(graph_at(GRAPH_FROM, 0), graph_at(GRAPH_INTO, 0), b->bytes);
    bool any = false;
    uint32_t slot = 0;

    for (int step = 1; step < b->size; step *= 2, slot++) {
        struct graph_ref view;

        if (b->me + step < b->size)
            value_send(b, &v, b->me + step, slot);
        if (b->me < step)
            continue;
        view = graph_at(graph_recv(b->g, b->me - step, slot, b->bytes), 0);
        value_fold(b, &v, view, true);
        if (!alg_scan_exclusive(b))
            continue;
        if (any)
            value_fold(b, &before, view, true);
        else {
            before.at = view;
            before.last = v.last; /* in place, INTO is read first */
        }
        any = true;
    }
    if (!alg_scan_exclusive(b))
        value_store(b, &v, graph_at(GRAPH_INTO, 0));
    else if (any)
        value_store(b, &before, graph_at(GRAPH_INTO, 0));
    return 0;
}

/* Each member sends its contribution to all after it, which fold by themselves. */
int alg_scan_flat(const struct coll_build *b)
{
    bool exclusive = alg_scan_exclusive(b), copies = b->request->in_place && b->bytes > 0;
    int n = exclusive ? b->me : b->me + 1, *to = malloc((size_t)b->size * sizeof(*to));
    struct graph_ref *operand = malloc((size_t)b->size * sizeof(*operand));
    struct coll_value v = value_of(b->from, graph_at(GRAPH_INTO, 0), b->bytes);

    if (to == NULL || operand == NULL) {
        free(to);
        free(operand);
        return -ENOMEM;
    }
    for (int i = b->me + 1; i < b->size; i++)
        to[i - b->me - 1] = i;
    if (b->me < b->size - 1)
        v.last = graph_send(b->g, to, b->size - 1 - b->me, 0, b->from, b->bytes);
    for (int i = 0; i < b->me; i++)
        operand[i] = graph_at(graph_recv(b->g, i, 0, b->bytes), 0);
    operand[b->me] = b->from;
    if (copies && !exclusive && b->me > 0) { /* the result goes where the contribution is */
        int copy;

        operand[b->me] = graph_scratch(b->g, b->bytes);
        copy = graph_copy(b->g, operand[b->me], b->from, b->bytes);
        graph_after(b->g, copy, v.last);
        v.last = copy;
    }
    if (n > 0)
        value_fold_all(b, &v, operand, n);
    free(to);
    free(operand);
    return 0;
}
