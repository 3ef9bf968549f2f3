/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alg_hosts.c: blocks with a leader for each host, the root for its own. Between two hosts goes one message
 * with the blocks of all their members. On a host a leader sends one message to all, of which each
 * member reads its part.
 */
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

/* What a member is in such a plan. */
struct hosts {
    struct group leaders, all; /* `all` has the members of each host in a row, as messages do */
    struct group mine;         /* the leader has index 0 */
    int leader;                /* rank */
    int begin, end;            /* the members of this host, in `all` */
};

static struct hosts hosts_of(const struct coll_build *b, int root)
{
    const struct shape *s = b->shape;
    int host = s->host[b->me];
    bool with_root = host == s->host[root];
    struct hosts h = {.leaders = group_leaders(s, b->me, root),
                      .all = group_by_host(s, b->me, root),
                      .mine =
                          group_host(s, b->me, host, with_root ? shape_index_on_host(s, root) : 0),
                      .leader = with_root ? root : s->leaders[host]};
    int index = (host - s->host[root] + s->hosts) % s->hosts;

    h.begin = group_host_begin(s, root, index);
    h.end = group_host_begin(s, root, index + 1);
    return h;
}

/* Children of this leader in the binomial tree of leaders; NULL: no memory. */
static int *hosts_children(const struct coll_build *b, const struct hosts *h, int *n)
{
    int *child =
        malloc(((size_t)tree_children(h->leaders.me, h->leaders.size, b->radix, NULL) + 1) *
               sizeof(*child));

    if (child != NULL)
        *n = tree_children(h->leaders.me, h->leaders.size, b->radix, child);
    return child;
}

/* The row of the members of a subtree of leaders: where it begins, and its length. */
static int hosts_row(const struct coll_build *b, const struct hosts *h, int leader, int *count)
{
    int root = b->request->root, span = tree_span(leader, h->leaders.size, b->radix);
    int begin = group_host_begin(b->shape, root, leader);

    *count = group_host_begin(b->shape, root, leader + span) - begin;
    return begin;
}

/* The members of the host of a leader. */
static int hosts_members(const struct coll_build *b, int root, int leader)
{
    return group_host_begin(b->shape, root, leader + 1) - group_host_begin(b->shape, root, leader);
}

/* ---- gather ---- */

/* Where the root puts the row that came in a message: among the blocks; elsewhere: behind what came before. */
static int hosts_take_row(const struct coll_build *b, const struct hosts *h, int first, int count,
                          int view, struct graph_ref packed)
{
    size_t bytes = coll_row_bytes(b, &h->all, first, count);

    if (b->me == b->request->root)
        return coll_copy_row(b, &h->all, first, count, graph_at(view, 0), true,
                             graph_at(GRAPH_INTO, 0), GRAPH_NONE);
    if (bytes == 0)
        return GRAPH_NONE;
    return graph_copy(b->g,
                      graph_plus(packed, coll_row_bytes(b, &h->all, h->begin, first - h->begin)),
                      graph_at(view, 0), bytes);
}

/* The own block of a leader, to its place in the row; the root in place has it there. */
static int hosts_take_own(const struct coll_build *b, const struct hosts *h,
                          struct graph_ref packed)
{
    size_t bytes = coll_block_bytes(b, b->me);
    bool root = b->me == b->request->root;
    struct graph_ref to =
        root ? graph_at(GRAPH_INTO, coll_block_at(b, b->me))
             : graph_plus(packed, coll_row_bytes(b, &h->all, h->begin, h->all.me - h->begin));

    if (bytes == 0 || (root && b->request->in_place))
        return GRAPH_NONE;
    return graph_copy(b->g, to, coll_own_block(b), bytes);
}

int alg_gather_hosts(const struct coll_build *b)
{
    struct hosts h = hosts_of(b, b->request->root);
    struct graph_ref packed = graph_at(GRAPH_SCRATCH, 0);
    int n = 0, count, all, *child, parent, send;

    if (b->me != h.leader) {
        graph_send(b->g, &h.leader, 1, 0, coll_own_block(b), coll_block_bytes(b, b->me));
        return 0;
    }
    child = hosts_children(b, &h, &n);
    if (child == NULL)
        return -ENOMEM;
    hosts_row(b, &h, h.leaders.me, &count);
    if (h.leaders.me > 0)
        packed = graph_scratch(b->g, coll_row_bytes(b, &h.all, h.begin, count));
    all = graph_call(b->g, NULL, NULL); /* all of the row is there */
    graph_after(b->g, all, hosts_take_own(b, &h, packed));
    for (int i = h.begin; i < h.end; i++) {
        int rank = group_rank(&h.all, i);

        if (rank != b->me)
            graph_after(b->g, all,
                        hosts_take_row(b, &h, i, 1,
                                       graph_recv(b->g, rank, 0, coll_block_bytes(b, rank)),
                                       packed));
    }
    for (int i = 0; i < n; i++) {
        int row, first = hosts_row(b, &h, child[i], &row);

        graph_after(b->g, all,
                    hosts_take_row(b, &h, first, row,
                                   graph_recv(b->g, group_rank(&h.leaders, child[i]), 1,
                                              coll_row_bytes(b, &h.all, first, row)),
                                   packed));
    }
    if (h.leaders.me > 0) {
        parent = group_rank(&h.leaders, tree_parent(h.leaders.me, b->radix));
        send = graph_send(b->g, &parent, 1, 1, packed, coll_row_bytes(b, &h.all, h.begin, count));
        graph_after(b->g, send, all);
    }
    free(child);
    return 0;
}

/* ---- scatter ---- */

/* The part of a row that begins with this host, or of the blocks of the root. */
static struct graph_ref hosts_part(const struct coll_build *b, const struct hosts *h,
                                   struct graph_ref row, int first, int count, int *packed)
{
    *packed = GRAPH_NONE;
    if (b->me == b->request->root)
        return coll_pack_row(b, &h->all, first, count, row, packed);
    return graph_plus(row, coll_row_bytes(b, &h->all, h->begin, first - h->begin));
}

static int hosts_scatter_leaders(const struct coll_build *b, const struct hosts *h,
                                 struct graph_ref row)
{
    int n = 0, packed, *child = hosts_children(b, h, &n);

    if (child == NULL)
        return -ENOMEM;
    for (int i = n - 1; i >= 0; i--) { /* the largest subtree first */
        int count, first = hosts_row(b, h, child[i], &count), to;
        struct graph_ref part = hosts_part(b, h, row, first, count, &packed);

        to = group_rank(&h->leaders, child[i]);
        graph_after(b->g,
                    graph_send(b->g, &to, 1, 1 + tree_slot(child[i], b->radix), part,
                               coll_row_bytes(b, &h->all, first, count)),
                    packed);
    }
    free(child);
    return 0;
}

int alg_scatter_hosts(const struct coll_build *b)
{
    struct hosts h = hosts_of(b, b->request->root);
    bool root = b->me == b->request->root;
    struct graph_ref row = graph_at(GRAPH_FROM, 0), own;
    size_t bytes = coll_row_bytes(b, &h.all, h.begin, h.end - h.begin);
    int rc = 0, count, packed;

    if (b->me == h.leader) {
        if (!root) {
            int parent = group_rank(&h.leaders, tree_parent(h.leaders.me, b->radix));

            hosts_row(b, &h, h.leaders.me, &count);
            row = graph_at(graph_recv(b->g, parent, 1 + tree_slot(h.leaders.me, b->radix),
                                      coll_row_bytes(b, &h.all, h.begin, count)),
                           0);
        }
        rc = hosts_scatter_leaders(b, &h, row);
        if (h.mine.size > 1) {
            struct graph_ref part = hosts_part(b, &h, row, h.begin, h.end - h.begin, &packed);

            graph_after(b->g, part_send_all(b, &h.mine, 0, part, bytes), packed);
        }
    } else {
        row = graph_at(graph_recv(b->g, h.leader, 0, bytes), 0);
    }
    own = root ? graph_plus(row, coll_block_at(b, b->me))
               : graph_plus(row, coll_row_bytes(b, &h.all, h.begin, h.all.me - h.begin));
    if (coll_block_bytes(b, b->me) > 0 && !(root && b->request->in_place))
        graph_copy(b->g, graph_at(GRAPH_INTO, 0), own, coll_block_bytes(b, b->me));
    return rc;
}

/* ---- reduce_scatter ---- */

/* Each leader sends to each other the blocks of that one's host, of its host's fold, and folds its own. */
static struct coll_value hosts_reduce_rows(const struct coll_build *b, const struct hosts *h,
                                           struct coll_value *v, struct graph_ref *operand)
{
    int n = h->leaders.size, me = h->leaders.me;
    size_t bytes = coll_row_bytes(b, &h->all, h->begin, h->end - h->begin);
    struct coll_value row = value_of(v->at, graph_at(GRAPH_FROM, 0), bytes);
    int done = graph_call(b->g, NULL, NULL);

    graph_after(b->g, done, v->last);
    for (int i = 0; i < n; i++) {
        int to = (me + i) % n, first = group_host_begin(b->shape, 0, to), rank, last = v->last,
            send;
        int count = hosts_members(b, 0, to);
        struct graph_ref part = coll_pack_row(b, &h->all, first, count, v->at, &last);

        graph_after(b->g, done, last);
        if (to == me) {
            operand[me] = part;
            continue;
        }
        rank = group_rank(&h->leaders, to);
        send = graph_send(b->g, &rank, 1, 1 + (uint32_t)i, part,
                          coll_row_bytes(b, &h->all, first, count));
        graph_after(b->g, send, last);
        graph_after(b->g, done, send);
        rank = (me - i + n) % n;
        operand[rank] =
            graph_at(graph_recv(b->g, group_rank(&h->leaders, rank), 1 + (uint32_t)i, bytes), 0);
    }
    row.last = done;
    row.at = operand[0];
    if (n > 1)
        value_fold_all(b, &row, operand, n);
    return row;
}

static int hosts_reduce_scatter(const struct coll_build *b, int packed)
{
    struct hosts h = hosts_of(b, 0);
    size_t own = coll_block_bytes(b, b->me);
    struct coll_value v = value_of(b->from, graph_at(GRAPH_FROM, 0), coll_extent(b)), row;
    struct graph_ref *operand;
    int sent;

    v.last = packed;
    part_fold_ordered(b, &h.mine, b->request->order == COLL_FIXED_ORDER ? 2 : b->radix, 0, &v);
    sent = v.last;
    if (b->me == h.leader) {
        operand = malloc((size_t)h.leaders.size * sizeof(*operand));
        if (operand == NULL)
            return -ENOMEM;
        row = hosts_reduce_rows(b, &h, &v, operand);
        free(operand);
        sent = part_send_all(b, &h.mine, 1 + (uint32_t)h.leaders.size, row.at, row.bytes);
        sent = sent == GRAPH_NONE ? row.last : sent;
        graph_after(b->g, sent, row.last == sent ? GRAPH_NONE : row.last);
        v.at = row.at;
    } else {
        v.at = graph_at(graph_recv(b->g, h.leader, 1 + (uint32_t)h.leaders.size,
                                   coll_row_bytes(b, &h.all, h.begin, h.end - h.begin)),
                        0);
    }
    if (own > 0)
        graph_after(
            b->g,
            graph_copy(b->g, graph_at(GRAPH_INTO, 0),
                       graph_plus(v.at, coll_row_bytes(b, &h.all, h.begin, h.all.me - h.begin)),
                       own),
            sent); /* in place, INTO is sent first */
    return 0;
}

int alg_reduce_scatter_hosts(const struct coll_build *b)
{
    struct coll_build row = *b;
    int packed, rc = coll_pack_blocks(&row, &packed);

    if (rc != 0)
        return rc;
    rc = hosts_reduce_scatter(&row, packed);
    if (row.offsets != b->offsets)
        free(row.offsets);
    return rc;
}

/* ---- alltoall ---- */

/* What all members of this host send to those of another one, as [from][to]. *last: it is complete. */
static struct graph_ref hosts_pack_alltoall(const struct coll_build *b, const struct hosts *h,
                                            const struct graph_ref *blocks, int to, int *last)
{
    int first = group_host_begin(b->shape, 0, to);
    int count = hosts_members(b, 0, to);
    struct graph_ref packed, at;

    *last = GRAPH_NONE;
    if (h->mine.size == 1)
        return coll_pack_row(b, &h->all, first, count, blocks[0], last);
    packed = at = graph_scratch(b->g, b->bytes * (size_t)(count * h->mine.size));
    for (int m = 0; m < h->mine.size; m++) {
        *last = coll_copy_row(b, &h->all, first, count, at, false, blocks[m], *last);
        at = graph_plus(at, b->bytes * (size_t)count);
    }
    return packed;
}

/* From the message of a host, [from][to], the blocks for this member. */
static void hosts_store_alltoall(const struct coll_build *b, const struct hosts *h, int from,
                                 int view, int read)
{
    int first = group_host_begin(b->shape, 0, from);
    int count = hosts_members(b, 0, from);

    for (int m = 0; m < count && b->bytes > 0; m++)
        graph_after(
            b->g,
            graph_copy(
                b->g, graph_at(GRAPH_INTO, coll_block_in_at(b, group_rank(&h->all, first + m))),
                graph_at(view, b->bytes * (size_t)(m * h->mine.size + h->mine.me)), b->bytes),
            read);
}

/* Between leaders; what comes from another host goes on to all of this one. `read` waits for what reads FROM. */
static void hosts_exchange_alltoall(const struct coll_build *b, const struct hosts *h,
                                    const struct graph_ref *blocks, int read)
{
    int n = h->leaders.size, me = h->leaders.me;

    for (int i = 1; i < n; i++) {
        int to = (me + i) % n, rank = group_rank(&h->leaders, to), last;
        struct graph_ref packed = hosts_pack_alltoall(b, h, blocks, to, &last);
        int count = hosts_members(b, 0, to);
        int send = graph_send(b->g, &rank, 1, 1 + (uint32_t)to, packed,
                              b->bytes * (size_t)(count * h->mine.size));

        graph_after(b->g, send, last);
        graph_after(b->g, read, send);
    }
    for (int i = 1; i < n; i++) {
        int from = (me - i + n) % n;
        int count = hosts_members(b, 0, from);
        size_t bytes = b->bytes * (size_t)(count * h->mine.size);
        int view = graph_recv(b->g, group_rank(&h->leaders, from), 1 + (uint32_t)me, bytes);

        part_send_all(b, &h->mine, 1 + (uint32_t)(n + from), graph_at(view, 0), bytes);
        hosts_store_alltoall(b, h, from, view, read);
    }
}

/* On each host every member sends all blocks to all; leaders send those between their hosts in one message. */
int alg_alltoall_hosts(const struct coll_build *b)
{
    struct hosts h = hosts_of(b, 0);
    size_t all = b->bytes * (size_t)b->size, own = coll_block_at(b, b->me);
    int read = graph_call(b->g, NULL, NULL), q = h.mine.size;
    struct graph_ref *blocks = malloc((size_t)q * sizeof(*blocks));

    if (blocks == NULL)
        return -ENOMEM;
    for (int k = 1; k < q; k++) {
        int i = (h.mine.me + k) % q, rank = group_rank(&h.mine, i);

        blocks[i] = graph_at(graph_recv(b->g, rank, 0, all), 0);
        if (b->bytes > 0)
            graph_after(b->g,
                        graph_copy(b->g, graph_at(GRAPH_INTO, coll_block_in_at(b, rank)),
                                   graph_plus(blocks[i], own), b->bytes),
                        read);
    }
    blocks[h.mine.me] = b->from;
    graph_after(b->g, read, part_send_all(b, &h.mine, 0, b->from, all));
    if (b->bytes > 0 && !b->request->in_place)
        graph_copy(b->g, graph_at(GRAPH_INTO, own), graph_plus(b->from, own), b->bytes);
    if (b->me == h.leader)
        hosts_exchange_alltoall(b, &h, blocks, read);
    for (int from = 0; from < h.leaders.size && b->me != h.leader; from++)
        if (from != b->shape->host[b->me])
            hosts_store_alltoall(b, &h, from,
                                 graph_recv(b->g, h.leader, 1 + (uint32_t)(h.leaders.size + from),
                                            b->bytes * (size_t)(q * hosts_members(b, 0, from))),
                                 read);
    free(blocks);
    return 0;
}
