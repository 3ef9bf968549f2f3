/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alg_fetch.c: long blocks on one host, by one copy: a message is lent (graph.h), each receiver copies its part of it, and answers
 * when it has; the graph of a sender is over when all have. Slot 0 has the messages, slot 1 the answers.
 */
#include "coll/build.h"

#include <errno.h>

enum { FETCH_DATA, FETCH_ANSWER };

/* To all other members. */
static void fetch_lend(const struct coll_build *b, struct graph_ref from, size_t bytes, int after)
{
    struct group all = group_all(b->shape, b->me, 0);
    int send = part_send_all(b, &all, FETCH_DATA, from, bytes);

    graph_after(b->g, graph_lend(b->g, send), after);
}

/* Bytes [at, at + bytes) of what `member` lends, a message of `all` bytes. The RECV, or the COPY. */
static int fetch_part(const struct coll_build *b, int member, size_t all, size_t at,
                      struct graph_ref into, size_t bytes)
{
    int view = graph_lend(b->g, graph_recv(b->g, member, FETCH_DATA, all));

    return bytes > 0 ? graph_copy(b->g, into, graph_at(view, at), bytes) : view;
}

/* Answers of all other members are awaited. */
static void fetch_await(const struct coll_build *b)
{
    for (int i = 1; i < b->size; i++)
        (void)graph_recv(b->g, (b->me + i) % b->size, FETCH_ANSWER, 0);
}

static void fetch_copy_own(const struct coll_build *b, struct graph_ref into, struct graph_ref from,
                           size_t bytes, int after)
{
    if (bytes > 0)
        graph_after(b->g, graph_copy(b->g, into, from, bytes), after);
}

/* One lends, and all others copy: `at` and `bytes` are of this member's part. */
static void fetch_from_root(const struct coll_build *b, size_t all, size_t at, size_t bytes)
{
    int root = b->request->root, last, answer;

    if (b->me == root) {
        fetch_lend(b, graph_at(GRAPH_FROM, 0), all, GRAPH_NONE);
        return;
    }
    last = fetch_part(b, root, all, at, graph_at(GRAPH_INTO, 0), bytes);
    answer = graph_send(b->g, &root, 1, FETCH_ANSWER, graph_at(GRAPH_SCRATCH, 0), 0);
    graph_after(b->g, answer, last);
}

int alg_bcast_fetch(const struct coll_build *b)
{
    fetch_from_root(b, b->bytes, 0, b->bytes);
    if (b->me == b->request->root)
        fetch_await(b);
    return 0;
}

int alg_scatter_fetch(const struct coll_build *b)
{
    size_t at = coll_block_at(b, b->me), bytes = coll_block_bytes(b, b->me);

    fetch_from_root(b, coll_extent(b), at, bytes);
    if (b->me != b->request->root)
        return 0;
    if (!b->request->in_place)
        fetch_copy_own(b, graph_at(GRAPH_INTO, 0), graph_at(GRAPH_FROM, at), bytes, GRAPH_NONE);
    fetch_await(b);
    return 0;
}

/* The blocks of all others into INTO, and one answer to all. */
static void fetch_all(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    int join = graph_call(b->g, NULL, NULL), answer;

    for (int k = 1; k < b->size; k++) {
        int i = (b->me + k) % b->size;
        size_t bytes = coll_block_bytes(b, i);

        graph_after(b->g, join,
                    fetch_part(b, i, bytes, 0, graph_at(GRAPH_INTO, coll_block_at(b, i)), bytes));
    }
    answer = part_send_all(b, &all, FETCH_ANSWER, graph_at(GRAPH_SCRATCH, 0), 0);
    graph_after(b->g, answer, join);
}

int alg_gather_fetch(const struct coll_build *b)
{
    size_t own = coll_block_bytes(b, b->me);
    int root = b->request->root, send;

    if (b->me != root) {
        send = graph_send(b->g, &root, 1, FETCH_DATA, coll_own_block(b), own);
        (void)graph_lend(b->g, send);
        (void)graph_recv(b->g, root, FETCH_ANSWER, 0);
        return 0;
    }
    fetch_all(b);
    if (!b->request->in_place)
        fetch_copy_own(b, graph_at(GRAPH_INTO, coll_block_at(b, root)), b->from, own, GRAPH_NONE);
    return 0;
}

int alg_allgather_fetch(const struct coll_build *b)
{
    size_t own = coll_block_bytes(b, b->me);

    fetch_lend(b, coll_own_block(b), own, GRAPH_NONE);
    fetch_all(b);
    if (!b->request->in_place)
        fetch_copy_own(b, graph_at(GRAPH_INTO, coll_block_at(b, b->me)), b->from, own, GRAPH_NONE);
    fetch_await(b);
    return 0;
}

/* In place, what is lent is a copy: INTO gets the blocks of others. */
int alg_alltoall_fetch(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    size_t bytes = b->bytes, row = bytes * (size_t)b->size;
    struct graph_ref from = b->from;
    int packed = GRAPH_NONE, join, answer;

    if (b->request->in_place && row > 0) {
        from = graph_scratch(b->g, row);
        packed = graph_copy(b->g, from, b->from, row);
    }
    fetch_lend(b, from, row, packed);
    join = graph_call(b->g, NULL, NULL);
    for (int k = 1; k < b->size; k++) {
        int i = (b->me + k) % b->size;
        int copy = fetch_part(b, i, row, bytes * (size_t)b->me,
                              graph_at(GRAPH_INTO, bytes * (size_t)i), bytes);

        graph_after(b->g, copy, packed);
        graph_after(b->g, join, copy);
    }
    answer = part_send_all(b, &all, FETCH_ANSWER, graph_at(GRAPH_SCRATCH, 0), 0);
    graph_after(b->g, answer, join);
    if (!b->request->in_place)
        fetch_copy_own(b, graph_at(GRAPH_INTO, bytes * (size_t)b->me),
                       graph_plus(from, bytes * (size_t)b->me), bytes, GRAPH_NONE);
    fetch_await(b);
    return 0;
}
