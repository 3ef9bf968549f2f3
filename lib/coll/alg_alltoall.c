/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alg_alltoall.c: a block from each member to each. In place, block i is sent to member i and then
 * replaced by the block of member i, which has the same length.
 */
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

static void alg_alltoall_store_own(const struct coll_build *b)
{
    size_t bytes = coll_block_bytes(b, b->me);

    if (bytes > 0 && !b->request->in_place)
        graph_copy(b->g, graph_at(GRAPH_INTO, coll_block_in_at(b, b->me)),
                   graph_plus(b->from, coll_block_at(b, b->me)), bytes);
}

static int alg_alltoall_send(const struct coll_build *b, int to, uint32_t slot)
{
    return graph_send(b->g, &to, 1, slot, graph_plus(b->from, coll_block_at(b, to)),
                      coll_block_bytes(b, to));
}

/* Receives the block of a member; it is stored after `sent`. Returns the RECV. */
static int alg_alltoall_recv(const struct coll_build *b, int from, uint32_t slot, int sent)
{
    size_t bytes = coll_block_in_bytes(b, from);
    int view = graph_recv(b->g, from, slot, bytes);

    if (bytes > 0)
        graph_after(b->g,
                    graph_copy(b->g, graph_at(GRAPH_INTO, coll_block_in_at(b, from)),
                               graph_at(view, 0), bytes),
                    b->request->in_place ? sent : GRAPH_NONE);
    return view;
}

/* All at once. */
int alg_alltoall_linear(const struct coll_build *b)
{
    alg_alltoall_store_own(b);
    for (int s = 1; s < b->size; s++) {
        int to = (b->me + s) % b->size;

        alg_alltoall_recv(b, to, (uint32_t)b->me, alg_alltoall_send(b, to, (uint32_t)to));
    }
    return 0;
}

#define ALG_ALLTOALL_WINDOW 2

/* Round s: to me + s, from me - s. A round begins when that WINDOW before it has received. */
int alg_alltoall_pairwise(const struct coll_build *b)
{
    int n = b->size, *send = malloc((size_t)n * sizeof(*send)), view[ALG_ALLTOALL_WINDOW];

    if (send == NULL)
        return -ENOMEM;
    for (int i = 0; i < ALG_ALLTOALL_WINDOW; i++)
        view[i] = GRAPH_NONE;
    alg_alltoall_store_own(b);
    for (int s = 1; s < n; s++) {
        send[(b->me + s) % n] = alg_alltoall_send(b, (b->me + s) % n, (uint32_t)s);
        graph_after(b->g, send[(b->me + s) % n], view[s % ALG_ALLTOALL_WINDOW]);
        view[s % ALG_ALLTOALL_WINDOW] = graph_recv(b->g, (b->me - s + n) % n, (uint32_t)s,
                                                   coll_block_in_bytes(b, (b->me - s + n) % n));
        send[b->me] = GRAPH_NONE;
    }
    for (uint32_t i = 0, count = b->g->count; i < count && b->g->failed == 0; i++) {
        const struct graph_node *node = &b->g->nodes[i];
        int from = (int)node->peer, copy;

        if (node->kind != GRAPH_RECV || node->bytes == 0)
            continue;
        copy = graph_copy(b->g, graph_at(GRAPH_INTO, coll_block_in_at(b, from)),
                          graph_at((int)i, 0), node->bytes);
        graph_after(b->g, copy, b->request->in_place ? send[from] : GRAPH_NONE);
    }
    free(send);
    return 0;
}

/* One message with all blocks, of which each member reads its own. */
int alg_alltoall_flat(const struct coll_build *b)
{
    struct group members = group_all(b->shape, b->me, 0);
    size_t all = b->bytes * (size_t)b->size;
    int sent = part_send_all(b, &members, 0, b->from, all);

    alg_alltoall_store_own(b);
    for (int i = 0; i < b->size; i++) {
        int view;

        if (i == b->me)
            continue;
        view = graph_recv(b->g, i, 0, all);
        if (b->bytes > 0)
            graph_after(b->g,
                        graph_copy(b->g, graph_at(GRAPH_INTO, coll_block_in_at(b, i)),
                                   graph_at(view, coll_block_at(b, b->me)), b->bytes),
                        b->request->in_place ? sent : GRAPH_NONE);
    }
    return 0;
}

/* ---- Bruck ---- */

/* Copies `bytes`, after what was last. */
static void alg_bruck_copy(const struct coll_build *b, struct graph_ref into, struct graph_ref from,
                           int *last)
{
    int copy = graph_copy(b->g, into, from, b->bytes);

    graph_after(b->g, copy, *last);
    *last = copy;
}

/*
 * Block i of the row is what goes i members further. In round d all blocks whose i has bit d go
 * 2^d members further in one message: ceil(log2 n) messages, each of about n / 2 blocks.
 */
static void alg_bruck_round(const struct coll_build *b, int step, uint32_t slot,
                            struct graph_ref row, struct graph_ref packed, int *last)
{
    int n = b->size, to = (b->me + step) % n, send, view, moved = 0;

    for (int i = step; i < n; i++)
        if ((i & step) != 0)
            alg_bruck_copy(b, graph_plus(packed, b->bytes * (size_t)moved++),
                           graph_plus(row, b->bytes * (size_t)i), last);
    send = graph_send(b->g, &to, 1, slot, packed, b->bytes * (size_t)moved);
    graph_after(b->g, send, *last);
    *last = send;
    view = graph_recv(b->g, (b->me - step + n) % n, slot, b->bytes * (size_t)moved);
    moved = 0;
    for (int i = step; i < n; i++)
        if ((i & step) != 0)
            alg_bruck_copy(b, graph_plus(row, b->bytes * (size_t)i),
                           graph_at(view, b->bytes * (size_t)moved++), last);
}

int alg_alltoall_bruck(const struct coll_build *b)
{
    struct graph_ref row, packed;
    int n = b->size, last = GRAPH_NONE;
    uint32_t slot = 0;

    if (b->bytes == 0)
        return alg_alltoall_linear(b);
    row = graph_scratch(b->g, b->bytes * (size_t)n);
    packed = graph_scratch(b->g, b->bytes * (size_t)(n / 2 + 1));
    for (int i = 0; i < n; i++)
        alg_bruck_copy(b, graph_plus(row, b->bytes * (size_t)i),
                       graph_plus(b->from, b->bytes * (size_t)((b->me + i) % n)), &last);
    for (int step = 1; step < n; step *= 2, slot++)
        alg_bruck_round(b, step, slot, row, packed, &last);
    for (int i = 0; i < n; i++)
        alg_bruck_copy(b, graph_at(GRAPH_INTO, b->bytes * (size_t)((b->me - i + n) % n)),
                       graph_plus(row, b->bytes * (size_t)i), &last);
    return 0;
}
