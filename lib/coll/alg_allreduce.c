/* SPDX-License-Identifier: BSD-3-Clause */
/* alg_allreduce.c: the result at all members. */
#include "coll/alg_halving.h"
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

static struct coll_value alg_allreduce_value(const struct coll_build *b)
{
    return value_of(b->from, graph_at(GRAPH_INTO, 0), b->bytes);
}

int alg_allreduce_exchange(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct coll_value v = alg_allreduce_value(b);

    part_exchange(b, &all, 0, &v);
    value_store(b, &v, graph_at(GRAPH_INTO, 0));
    return 0;
}

/* To member 0 and back. */
static int alg_allreduce_up_and_down(const struct coll_build *b, bool by_cast)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct coll_value v = alg_allreduce_value(b);
    int sent;

    part_fold_ordered(b, &all, b->radix, 0, &v);
    sent = v.last;
    if (by_cast)
        part_cast(b, 0, 1, &v);
    else
        part_spread(b, &all, b->radix, 1, &v);
    graph_after(b->g, v.last, all.me > 0 ? sent : GRAPH_NONE);
    value_store(b, &v, graph_at(GRAPH_INTO, 0));
    return 0;
}

int alg_allreduce_tree(const struct coll_build *b) { return alg_allreduce_up_and_down(b, false); }

int alg_allreduce_cast(const struct coll_build *b) { return alg_allreduce_up_and_down(b, true); }

int alg_allreduce_hosts(const struct coll_build *b)
{
    int host = b->shape->host[b->me], radix, sent;
    struct group mine = group_host(b->shape, b->me, host, 0);
    struct group leaders = group_leaders(b->shape, b->me, 0);
    struct coll_value v = alg_allreduce_value(b);

    radix = b->request->order == COLL_FIXED_ORDER ? 2 : b->radix;
    part_fold_ordered(b, &mine, radix, 0, &v);
    part_exchange(b, &leaders, 2, &v);
    sent = v.last;
    part_spread(b, &mine, mine.size < 2 ? 2 : mine.size, 1, &v);
    graph_after(b->g, v.last, mine.me > 0 ? sent : GRAPH_NONE);
    value_store(b, &v, graph_at(GRAPH_INTO, 0));
    return 0;
}

/* All of v at all of a group: fold by recursive halving, collect by doubling; extras get it at the end. */
static void alg_halving_all(const struct coll_build *b, const struct group *group, uint32_t slot,
                            struct coll_value *v, struct halving *h)
{
    uint32_t answer;

    halving_fold(b, group, slot, v, h);
    slot += HALVING_SLOTS((uint32_t)h->pairs.rounds);
    answer = slot + (uint32_t)h->pairs.rounds;
    if (h->pairs.extra) {
        int view = graph_recv(b->g, h->pairs.partner, answer, v->bytes);

        graph_after(b->g, view, v->last);
        v->at = graph_at(view, 0);
        v->last = view;
    } else {
        halving_double(b, h, slot, v);
        if (h->pairs.partner >= 0)
            value_send(b, v, h->pairs.partner, answer);
    }
}

int alg_allreduce_rabenseifner(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct coll_value v = alg_allreduce_value(b);
    struct halving h = {.edges = NULL};

    alg_halving_all(b, &all, 0, &v, &h);
    value_store(b, &v, graph_at(GRAPH_INTO, 0));
    return 0;
}

/* ---- every member reads what all have sent ---- */

/* Slots: the contribution, or of shares what is before the own one; what is behind it; the folded share. */
enum { SHARES_BEFORE, SHARES_BEHIND, SHARES_RESULT, SHARES_SLOTS };

/* The share of an index of a group. */
static struct coll_range alg_share(const struct coll_build *b, const struct group *group, int index)
{
    size_t element = b->request->element, count = b->request->count;

    return (struct coll_range){.at = split_at(count, group->size, index) * element,
                               .bytes = split_length(count, group->size, index) * element};
}

/* Receives the contribution of index i of a group, from `at` on: all of it was sent to all, or, of shares, what is on this side of its own one. */
static struct graph_ref alg_recv_contribution(const struct coll_build *b, const struct group *group,
                                              int i, size_t at, bool shares)
{
    struct coll_range own = alg_share(b, group, i);
    uint32_t slot = shares && group->me > i ? SHARES_BEHIND : SHARES_BEFORE;
    size_t first = slot == SHARES_BEHIND ? own.at + own.bytes : 0;
    size_t end = shares && slot == SHARES_BEFORE ? own.at : b->bytes;

    return graph_at(graph_recv(b->g, group_rank(group, i), slot, end - first), at - first);
}

/* Folds range [at, at + v->bytes) of the contributions of a group into v, whose home is within INTO. */
static int alg_allreduce_fold_range(const struct coll_build *b, const struct group *group,
                                    size_t at, bool shares, struct coll_value *v)
{
    struct graph_ref *operand = malloc((size_t)group->size * sizeof(*operand)), own;
    bool any = b->request->order == COLL_ANY_ORDER;
    int n = 0;

    if (operand == NULL)
        return -ENOMEM;
    own = graph_plus(b->from, at);
    if (any) /* the own one first: in place it is where the result goes */
        operand[n++] = own;
    else if (b->request->in_place && v->bytes > 0) {
        struct graph_ref copy = graph_scratch(b->g, v->bytes);
        int node = graph_copy(b->g, copy, own, v->bytes);

        graph_after(b->g, node, v->last);
        v->last = node;
        own = copy;
    }
    for (int i = 0; i < group->size; i++) {
        if (i != group->me)
            operand[n++] = alg_recv_contribution(b, group, i, at, shares);
        else if (!any)
            operand[n++] = own;
    }
    value_fold_all(b, v, operand, n);
    free(operand);
    return 0;
}

int alg_allreduce_flat(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct coll_value v = alg_allreduce_value(b);

    v.last = part_send_all(b, &all, SHARES_BEFORE, b->from, b->bytes);
    return alg_allreduce_fold_range(b, &all, 0, false, &v);
}

/* Sends bytes [at, end) of the contribution to indices first to last - 1 of a group, after a node. Returns the SEND, or the node. */
static int alg_send_contribution(const struct coll_build *b, const struct group *group,
                                 uint32_t slot, size_t at, size_t end, int first, int last,
                                 int after)
{
    int *to = malloc((size_t)group->size * sizeof(*to)), send;

    if (to == NULL)
        return graph_fail(b->g, -ENOMEM);
    for (int i = first; i < last; i++)
        to[i - first] = group_rank(group, i);
    send = first == last
               ? after
               : graph_send(b->g, to, last - first, slot, graph_plus(b->from, at), end - at);
    if (send != after)
        graph_after(b->g, send, after);
    free(to);
    return send;
}

/*
 * All contributions to all of a group, of which index i folds share i, into v; the own share stays here, so those before this member get
 * what is before it, and those behind what is behind it. Returns the last SEND.
 */
static int alg_shares_fold(const struct coll_build *b, const struct group *group,
                           struct coll_value *v, int *contributed)
{
    struct coll_range own = alg_share(b, group, group->me);
    int sent;

    *v = value_of(graph_plus(b->from, own.at), graph_at(GRAPH_INTO, own.at), own.bytes);
    sent = alg_send_contribution(b, group, SHARES_BEFORE, 0, own.at, 0, group->me, GRAPH_NONE);
    sent = alg_send_contribution(b, group, SHARES_BEHIND, own.at + own.bytes, b->bytes,
                                 group->me + 1, group->size, sent);
    *contributed = sent;
    v->last = sent;
    return alg_allreduce_fold_range(b, group, own.at, true, v);
}

/* All shares to all. In place, what was contributed is in INTO, so it is sent first. */
static void alg_shares_spread(const struct coll_build *b, const struct group *group,
                              const struct coll_value *v, int contributed)
{
    graph_after(b->g, part_send_all(b, group, SHARES_RESULT, v->home, v->bytes), v->last);
    for (int i = 0; i < group->size; i++) {
        struct coll_range share = alg_share(b, group, i);
        int view;

        if (i == group->me)
            continue;
        view = graph_recv(b->g, group_rank(group, i), SHARES_RESULT, share.bytes);
        if (share.bytes > 0)
            graph_after(
                b->g,
                graph_copy(b->g, graph_at(GRAPH_INTO, share.at), graph_at(view, 0), share.bytes),
                contributed);
    }
}

int alg_allreduce_shares(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct coll_value v;
    int contributed, rc = alg_shares_fold(b, &all, &v, &contributed);

    if (rc == 0)
        alg_shares_spread(b, &all, &v, contributed);
    return rc;
}

/* Of all hosts the members with the same index: they have the same share, and each its host's fold of it. */
static int alg_shares_between_hosts(const struct coll_build *b, struct coll_value *v)
{
    const struct shape *s = b->shape;
    int index = shape_index_on_host(s, b->me), hosts = s->hosts, rc = -ENOMEM;
    int *ranks = calloc((size_t)hosts, sizeof(*ranks));
    size_t *edges = calloc((size_t)hosts + 1, sizeof(*edges)), element = b->request->element;
    struct group column = {.size = hosts, .me = s->host[b->me], .ranks = ranks, .replaced = -1};
    struct halving h = {.edges = edges};

    if (ranks == NULL || edges == NULL)
        goto out;
    for (int i = 0; i < hosts; i++)
        ranks[i] = s->members[s->first[i] + index];
    h.pairs = group_pairs(&column);
    for (int i = 0; i <= h.pairs.even.size; i++)
        edges[i] = split_at(v->bytes / element, h.pairs.even.size, i) * element;
    alg_halving_all(b, &column, SHARES_SLOTS, v, &h);
    value_store(b, v, v->home);
    rc = 0;
out:
    free(ranks);
    free(edges);
    return rc;
}

/* Shares on each host, with a leader for each: it exchanges its share with those of the other hosts. */
int alg_allreduce_host_shares(const struct coll_build *b)
{
    struct group mine = group_host(b->shape, b->me, b->shape->host[b->me], 0);
    struct coll_value v;
    int contributed, rc = alg_shares_fold(b, &mine, &v, &contributed);

    if (rc == 0 && b->shape->hosts > 1)
        rc = alg_shares_between_hosts(b, &v);
    if (rc == 0)
        alg_shares_spread(b, &mine, &v, contributed);
    return rc;
}

/* ---- ring ---- */

struct alg_ring {
    const struct coll_build *b;
    int left, right;
    int *last; /* the last operation on each part */
};

static struct coll_range alg_ring_part(const struct coll_build *b, int part)
{
    size_t element = b->request->element, count = b->request->count;

    return (struct coll_range){.at = split_at(count, b->size, part) * element,
                               .bytes = split_length(count, b->size, part) * element};
}

static void alg_ring_send(struct alg_ring *r, int part, uint32_t slot, struct graph_ref from,
                          bool is_view)
{
    size_t bytes = alg_ring_part(r->b, part).bytes;
    int send = graph_send(r->b->g, &r->right, 1, slot, from, bytes);

    if (!is_view)
        graph_after(r->b->g, send, r->last[part]);
    r->last[part] = send;
}

static void alg_ring_fold(struct alg_ring *r, int part, uint32_t slot)
{
    const struct coll_build *b = r->b;
    struct coll_range range = alg_ring_part(b, part);
    struct coll_value v =
        value_of(graph_plus(b->from, range.at), graph_at(GRAPH_INTO, range.at), range.bytes);

    v.last = r->last[part];
    value_fold(b, &v, graph_at(graph_recv(b->g, r->left, slot, range.bytes), 0), true);
    r->last[part] = v.last;
}

/*
 * Part p begins at member p, is folded once around the ring, and is complete at member p - 1; then it
 * goes around once more.
 */
static void alg_ring_run(struct alg_ring *r)
{
    const struct coll_build *b = r->b;
    int n = b->size, me = b->me, view = GRAPH_NONE;
    uint32_t slot = 0;

    for (int s = 0; s < n - 1; s++, slot++) {
        int part = (me - s + n) % n;

        alg_ring_send(
            r, part, slot,
            graph_plus(s == 0 ? b->from : graph_at(GRAPH_INTO, 0), alg_ring_part(b, part).at),
            false);
        alg_ring_fold(r, (part - 1 + n) % n, slot);
    }
    for (int s = 0; s < n; s++, slot++) {
        int part = (me + 1 - s + n) % n, before = r->last[part];
        struct coll_range range = alg_ring_part(b, part);

        if (s < n - 1)
            alg_ring_send(r, part, slot,
                          s == 0 ? graph_at(GRAPH_INTO, range.at) : graph_at(view, 0), s > 0);
        if (s > 0 && range.bytes > 0)
            graph_after(
                b->g,
                graph_copy(b->g, graph_at(GRAPH_INTO, range.at), graph_at(view, 0), range.bytes),
                before);
        if (s < n - 1)
            view = graph_recv(b->g, r->left, slot, alg_ring_part(b, (me - s + n) % n).bytes);
    }
}

int alg_allreduce_ring(const struct coll_build *b)
{
    struct coll_value v = alg_allreduce_value(b);
    struct alg_ring r = {
        .b = b, .left = (b->me - 1 + b->size) % b->size, .right = (b->me + 1) % b->size};

    if (b->size == 1) {
        value_store(b, &v, graph_at(GRAPH_INTO, 0));
        return 0;
    }
    r.last = malloc((size_t)b->size * sizeof(*r.last));
    if (r.last == NULL)
        return -ENOMEM;
    for (int i = 0; i < b->size; i++)
        r.last[i] = GRAPH_NONE;
    alg_ring_run(&r);
    free(r.last);
    return 0;
}
