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

struct alg_scan {
    struct coll_value all;    /* the fold up to this member */
    struct coll_value before; /* without this member, where it is needed */
    bool has_before;          /* there are members before this one */
};

/*
 * Recursive doubling: in round d a member has the fold of the 2^d members up to itself, and sends it to
 * the member 2^d after it. Returns the first slot that is not used.
 */
static uint32_t alg_scan_double(const struct coll_build *b, const struct group *group,
                                uint32_t slot, bool before, struct alg_scan *scan)
{
    for (int step = 1; step < group->size; step *= 2, slot++) {
        struct graph_ref view;

        if (group->me + step < group->size)
            value_send(b, &scan->all, group_rank(group, group->me + step), slot);
        if (group->me < step)
            continue;
        view = graph_at(graph_recv(b->g, group_rank(group, group->me - step), slot, b->bytes), 0);
        value_fold(b, &scan->all, view, true);
        if (before && scan->has_before)
            value_fold(b, &scan->before, view, true);
        if (before && !scan->has_before) {
            scan->before.at = view;
            scan->before.last = scan->all.last; /* in place, INTO is read first */
        }
        scan->has_before = true;
    }
    return slot;
}

static struct alg_scan alg_scan_values(const struct coll_build *b)
{
    return (struct alg_scan){
        .all = alg_scan_value(b),
        .before = value_of(graph_at(GRAPH_FROM, 0), graph_at(GRAPH_INTO, 0), b->bytes)};
}

int alg_scan_exchange(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct alg_scan scan = alg_scan_values(b);

    alg_scan_double(b, &all, 0, alg_scan_exclusive(b), &scan);
    if (!alg_scan_exclusive(b))
        value_store(b, &scan.all, graph_at(GRAPH_INTO, 0));
    else if (scan.has_before)
        value_store(b, &scan.before, graph_at(GRAPH_INTO, 0));
    return 0;
}

/* ---- hosts ---- */

/* The fold of the hosts before this one, in `view`, comes before what this member has. */
static void alg_scan_after_hosts(const struct coll_build *b, struct alg_scan *scan, int view)
{
    struct graph_ref from = graph_at(view, 0);

    if (!alg_scan_exclusive(b))
        value_fold(b, &scan->all, from, true);
    else if (scan->has_before)
        value_fold(b, &scan->before, from, true);
    else {
        scan->before.at = from;
        scan->before.last = scan->all.last; /* in place, INTO is sent first */
        scan->has_before = true;
    }
}

/* The last member of a host, which has its fold: among those of all hosts, then to its host. */
static void alg_scan_last(const struct coll_build *b, const struct group *mine, uint32_t slot,
                          struct alg_scan *scan)
{
    const struct shape *s = b->shape;
    int host = s->host[b->me], to = mine->size - 1, send;
    struct group last = {.size = s->hosts, .me = host, .ranks = s->last, .replaced = -1};
    struct alg_scan hosts = {.all = scan->all};

    hosts.before = value_of(graph_at(GRAPH_FROM, 0), graph_at(GRAPH_FROM, 0), b->bytes);
    alg_scan_double(b, &last, slot, true, &hosts);
    scan->all = hosts.all; /* the fold up to this member, as it is the last of its host */
    if (!hosts.has_before)
        return;
    if (to > 0) {
        send = graph_send(b->g, mine->ranks, to, 0, hosts.before.at, b->bytes);
        graph_after(b->g, send, hosts.before.last);
        hosts.before.last = send;
    }
    if (!alg_scan_exclusive(b))
        return;
    if (scan->has_before) {
        value_fold(b, &scan->before, hosts.before.at, true);
        graph_after(b->g, scan->before.last, hosts.before.last);
    } else {
        scan->before.at = hosts.before.at;
        scan->before.last = hosts.before.last;
        scan->has_before = true;
    }
}

/* On each host; then among the last members of hosts; then what was before a host is folded there. */
int alg_scan_hosts(const struct coll_build *b)
{
    const struct shape *s = b->shape;
    int host = s->host[b->me];
    struct group mine = group_host(s, b->me, host, 0);
    struct alg_scan scan = alg_scan_values(b);
    uint32_t slot = 1;

    alg_scan_double(b, &mine, slot, alg_scan_exclusive(b), &scan);
    for (int step = 1; step < s->largest; step *= 2)
        slot++;
    if (b->me == s->last[host])
        alg_scan_last(b, &mine, slot, &scan);
    else if (host > 0)
        alg_scan_after_hosts(b, &scan, graph_recv(b->g, s->last[host], 0, b->bytes));
    if (!alg_scan_exclusive(b))
        value_store(b, &scan.all, graph_at(GRAPH_INTO, 0));
    else if (scan.has_before)
        value_store(b, &scan.before, graph_at(GRAPH_INTO, 0));
    return 0;
}

/* ---- flat ---- */

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
