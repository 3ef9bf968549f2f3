/* SPDX-License-Identifier: BSD-3-Clause */
/* alg_allgather.c: the blocks of all to all. */
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

static struct graph_ref alg_allgather_into(void) { return graph_at(GRAPH_INTO, 0); }

static void alg_allgather_store_own(const struct coll_build *b)
{
    size_t bytes = coll_block_bytes(b, b->me);

    if (bytes > 0 && !b->request->in_place)
        graph_copy(b->g, graph_plus(alg_allgather_into(), coll_block_at(b, b->me)), b->from, bytes);
}

static void alg_allgather_store(const struct coll_build *b, int rank, struct graph_ref from)
{
    size_t bytes = coll_block_bytes(b, rank);

    if (bytes > 0)
        graph_copy(b->g, graph_plus(alg_allgather_into(), coll_block_at(b, rank)), from, bytes);
}

int alg_allgather_flat(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);

    part_send_all(b, &all, 0, coll_own_block(b), coll_block_bytes(b, b->me));
    alg_allgather_store_own(b);
    for (int i = 0; i < b->size; i++)
        if (i != b->me)
            alg_allgather_store(b, i, graph_at(graph_recv(b->g, i, 0, coll_block_bytes(b, i)), 0));
    return 0;
}

/* A block is forwarded from the view in which it came. */
int alg_allgather_ring(const struct coll_build *b)
{
    int n = b->size, right = (b->me + 1) % n, left = (b->me - 1 + n) % n;
    struct graph_ref block = coll_own_block(b);

    for (int s = 0; s < n - 1; s++) {
        int sent = (b->me - s + n) % n, received = (sent - 1 + n) % n;

        graph_send(b->g, &right, 1, (uint32_t)s, block, coll_block_bytes(b, sent));
        if (s == 0)
            alg_allgather_store_own(b);
        else
            alg_allgather_store(b, sent, block);
        block = graph_at(graph_recv(b->g, left, (uint32_t)s, coll_block_bytes(b, received)), 0);
    }
    if (n > 1)
        alg_allgather_store(b, (b->me + 1) % n, block);
    else
        alg_allgather_store_own(b);
    return 0;
}

/*
 * Bruck: after round d a member has the row of 2^(d + 1) blocks that begins with its own; it sends
 * the first of them to the member 2^d before it. ceil(log2 n) rounds for every n.
 */
int alg_allgather_bruck(const struct coll_build *b)
{
    struct group row = group_all(b->shape, b->me, b->me);
    struct graph_ref packed = graph_scratch(b->g, coll_row_bytes(b, &row, 0, row.size));
    size_t own = coll_block_bytes(b, b->me);
    int last = GRAPH_NONE;
    uint32_t slot = 0;

    if (own > 0)
        last = graph_copy(b->g, packed, coll_own_block(b), own);
    for (int n = 1; n < row.size; n *= 2, slot++) {
        int count = n < row.size - n ? n : row.size - n, view, copy;
        int to = group_rank(&row, row.size - n), from = group_rank(&row, n);
        size_t bytes = coll_row_bytes(b, &row, n, count);

        graph_after(b->g, graph_send(b->g, &to, 1, slot, packed, coll_row_bytes(b, &row, 0, count)),
                    last);
        view = graph_recv(b->g, from, slot, bytes);
        if (bytes == 0)
            continue;
        copy = graph_copy(b->g, graph_plus(packed, coll_row_bytes(b, &row, 0, n)),
                          graph_at(view, 0), bytes);
        graph_after(b->g, copy, last);
        last = copy;
    }
    coll_copy_row(b, &row, 0, row.size, packed, true, alg_allgather_into(), last);
    return 0;
}

/* ---- hosts ---- */

/* The row of the members of a host. */
static size_t alg_allgather_host_bytes(const struct coll_build *b, int host)
{
    struct group group = group_host(b->shape, b->me, host, 0);

    return coll_row_bytes(b, &group, 0, group.size);
}

/* Hosts are packed one after the other, each with its row. */
static size_t alg_allgather_host_at(const struct coll_build *b, int host)
{
    size_t at = 0;

    if (b->request->counts == NULL)
        return b->bytes * (size_t)b->shape->first[host];
    for (int h = 0; h < host; h++)
        at += alg_allgather_host_bytes(b, h);
    return at;
}

/* The rows of all hosts, by a ring of leaders. The last operation on `packed`. */
static int alg_allgather_leaders(const struct coll_build *b, struct graph_ref packed, int last)
{
    const struct shape *s = b->shape;
    int n = s->hosts, host = s->host[b->me], right = s->leaders[(host + 1) % n],
        left = s->leaders[(host - 1 + n) % n], join = graph_call(b->g, NULL, NULL);
    struct graph_ref row = graph_plus(packed, alg_allgather_host_at(b, host));

    graph_after(b->g, join, last);
    for (int i = 0; i < n; i++) {
        int here = (host - i + n) % n, left_of_it = (here - 1 + n) % n;
        size_t bytes = alg_allgather_host_bytes(b, here);
        uint32_t slot = 2 + (uint32_t)i;

        if (i < n - 1)
            graph_after(b->g, graph_send(b->g, &right, 1, slot, row, bytes), last);
        if (i > 0 && bytes > 0)
            graph_after(
                b->g, join,
                graph_copy(b->g, graph_plus(packed, alg_allgather_host_at(b, here)), row, bytes));
        if (i < n - 1)
            row =
                graph_at(graph_recv(b->g, left, slot, alg_allgather_host_bytes(b, left_of_it)), 0);
    }
    return join;
}

/* The same, the row of each host by one message of its leader to all other leaders. */
static int alg_allgather_casts(const struct coll_build *b, struct graph_ref packed, int last)
{
    const struct shape *s = b->shape;
    int host = s->host[b->me], others = 0, *to = malloc((size_t)s->hosts * sizeof(*to)),
        join = graph_call(b->g, NULL, NULL), send;

    if (to == NULL)
        return graph_fail(b->g, -ENOMEM);
    for (int h = 0; h < s->hosts; h++)
        if (h != host)
            to[others++] = s->leaders[h];
    send = graph_send(b->g, to, others, 2, graph_plus(packed, alg_allgather_host_at(b, host)),
                      alg_allgather_host_bytes(b, host));
    free(to);
    graph_after(b->g, graph_by_cast(b->g, send), last);
    graph_after(b->g, join, last);
    for (int h = 0; h < s->hosts; h++) {
        size_t bytes = alg_allgather_host_bytes(b, h);
        int view;

        if (h == host)
            continue;
        view = graph_by_cast(b->g, graph_recv(b->g, s->leaders[h], 2, bytes));
        if (bytes > 0)
            graph_after(b->g, join,
                        graph_copy(b->g, graph_plus(packed, alg_allgather_host_at(b, h)),
                                   graph_at(view, 0), bytes));
        else
            graph_after(b->g, join, view);
    }
    return join;
}

/* To the leader of each host, among the leaders, and from each leader to its host in one message. */
static int alg_allgather_by_hosts(const struct coll_build *b, bool by_cast)
{
    const struct shape *s = b->shape;
    int host = s->host[b->me];
    struct group mine = group_host(s, b->me, host, 0), all = group_all(s, b->me, 0);
    struct coll_value v = value_of(graph_at(GRAPH_SCRATCH, 0), graph_at(GRAPH_FROM, 0),
                                   coll_row_bytes(b, &all, 0, all.size));
    size_t own = coll_block_bytes(b, b->me), at = alg_allgather_host_at(b, host);

    if (mine.me > 0) {
        int leader = s->leaders[host];

        v.last = graph_send(b->g, &leader, 1, 0, coll_own_block(b), own);
    } else {
        v.at = graph_scratch(b->g, v.bytes);
        v.last = graph_call(b->g, NULL, NULL);
        for (int i = 0; i < mine.size; i++) {
            int rank = group_rank(&mine, i);
            size_t bytes = coll_block_bytes(b, rank);
            struct graph_ref from = coll_own_block(b);

            if (i > 0)
                from = graph_at(graph_recv(b->g, rank, 0, bytes), 0);
            if (bytes > 0)
                graph_after(b->g, v.last, graph_copy(b->g, graph_plus(v.at, at), from, bytes));
            at += bytes;
        }
        if (s->hosts > 1)
            v.last = by_cast ? alg_allgather_casts(b, v.at, v.last)
                             : alg_allgather_leaders(b, v.at, v.last);
    }
    if (mine.me > 0) {
        int sent = v.last;

        part_spread(b, &mine, mine.size, 1, &v);
        graph_after(b->g, v.last,
                    sent); /* in place, the own block is stored where it was sent from */
    } else {
        part_spread(b, &mine, mine.size < 2 ? 2 : mine.size, 1, &v);
    }
    for (int h = 0; h < s->hosts; h++) {
        struct group row = group_host(s, b->me, h, 0);

        v.last = coll_copy_row(b, &row, 0, row.size, graph_plus(v.at, alg_allgather_host_at(b, h)),
                               true, alg_allgather_into(), v.last);
    }
    return 0;
}

int alg_allgather_hosts(const struct coll_build *b) { return alg_allgather_by_hosts(b, false); }
int alg_allgather_cast(const struct coll_build *b) { return alg_allgather_by_hosts(b, true); }
