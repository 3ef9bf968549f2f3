/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alg_reduce_scatter.c: block i of the result at member i. In place, the result is where contributions
 * are, so it is folded in SCRATCH and stored when all of them have been read.
 */
#include "coll/alg_halving.h"
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

static struct graph_ref alg_rs_block(const struct coll_build *b, int i)
{
    return graph_plus(b->from, coll_block_at(b, i));
}

/* Where blocks are not one after the other, an algorithm that sends several in one message begins with copies. */
static int alg_rs_packed(const struct coll_build *b,
                         int (*build)(const struct coll_build *b, int packed))
{
    struct coll_build row = *b;
    int packed, rc = coll_pack_blocks(&row, &packed);

    if (rc != 0)
        return rc;
    rc = build(&row, packed);
    if (row.offsets != b->offsets)
        free(row.offsets);
    return rc;
}

/* Folds what views of all others have at `at`, with the own block, into INTO. `sent`: the last SEND. */
static int alg_rs_fold(const struct coll_build *b, const int *view, size_t at, int sent)
{
    size_t bytes = coll_block_bytes(b, b->me);
    struct graph_ref *operand = malloc((size_t)b->size * sizeof(*operand));
    struct coll_value v = value_of(b->from, graph_at(GRAPH_INTO, 0), bytes);

    if (operand == NULL)
        return -ENOMEM;
    if (b->request->in_place)
        v.home = graph_scratch(b->g, bytes);
    for (int i = 0; i < b->size; i++)
        operand[i] = i == b->me ? alg_rs_block(b, i) : graph_at(view[i], at);
    v.last = sent;
    value_fold_all(b, &v, operand, b->size);
    value_store(b, &v, graph_at(GRAPH_INTO, 0));
    free(operand);
    return 0;
}

static int alg_rs_flat(const struct coll_build *b, int packed)
{
    struct group members = group_all(b->shape, b->me, 0);
    int *view = malloc((size_t)b->size * sizeof(*view)), sent, rc;
    size_t all = coll_extent(b);

    if (view == NULL)
        return -ENOMEM;
    sent = part_send_all(b, &members, 0, b->from, all);
    graph_after(b->g, sent, packed);
    for (int i = 0; i < b->size; i++)
        view[i] = i == b->me ? GRAPH_NONE : graph_recv(b->g, i, 0, all);
    rc = alg_rs_fold(b, view, coll_block_at(b, b->me), sent != GRAPH_NONE ? sent : packed);
    free(view);
    return rc;
}

/* One message with all blocks to all. */
int alg_reduce_scatter_flat(const struct coll_build *b) { return alg_rs_packed(b, alg_rs_flat); }

/* Each block to its member. */
int alg_reduce_scatter_pairwise(const struct coll_build *b)
{
    int n = b->size, *view = calloc((size_t)n, sizeof(*view)), sent = GRAPH_NONE, rc;

    if (view == NULL)
        return -ENOMEM;
    for (int s = 1; s < n; s++) {
        int to = (b->me + s) % n, from = (b->me - s + n) % n;
        int send =
            graph_send(b->g, &to, 1, (uint32_t)s, alg_rs_block(b, to), coll_block_bytes(b, to));

        graph_after(b->g, send, sent);
        sent = send;
        view[from] = graph_recv(b->g, from, (uint32_t)s, coll_block_bytes(b, b->me));
    }
    rc = alg_rs_fold(b, view, 0, sent);
    free(view);
    return rc;
}

/* Block p begins at member p + 1, is folded once around the ring, and ends at member p. */
int alg_reduce_scatter_ring(const struct coll_build *b)
{
    int n = b->size, left = (b->me - 1 + n) % n, right = (b->me + 1) % n, join;
    struct coll_value v;

    v = value_of(alg_rs_block(b, left), graph_at(GRAPH_FROM, 0), coll_block_bytes(b, left));
    join = graph_call(b->g, NULL, NULL); /* all contributions have been read */
    for (int s = 0; s < n - 1; s++) {
        int part = (left - s - 1 + 2 * n) % n;

        value_send(b, &v, right, (uint32_t)s);
        graph_after(b->g, join, v.last);
        v = value_of(alg_rs_block(b, part), graph_at(GRAPH_FROM, 0), coll_block_bytes(b, part));
        value_fold(b, &v, graph_at(graph_recv(b->g, left, (uint32_t)s, v.bytes), 0), false);
    }
    graph_after(b->g, join, v.last);
    v.last = join;
    value_store(b, &v, graph_at(GRAPH_INTO, 0));
    return 0;
}

/* ---- recursive halving ---- */

/* The members whose blocks part p has: those of the index whose bits are p reversed. */
static int alg_rs_members(const struct halving *h, int part, int member[2])
{
    int index = halving_part(h, part);

    member[0] = group_rank(&h->pairs.even, index);
    member[1] = member[0] + 1;
    return index < h->pairs.even.pairs ? 2 : 1;
}

/* Contributions in the order of parts: copied to v; those of the extra, in `view`, are folded. */
static void alg_rs_arrange(const struct coll_build *b, const struct halving *h, int view,
                           struct coll_value *v, size_t *edges)
{
    size_t at = 0;

    for (int p = 0; p < h->pairs.even.size; p++) {
        int member[2], n = alg_rs_members(h, p, member);

        edges[p] = at;
        for (int i = 0; i < n; i++) {
            size_t bytes = coll_block_bytes(b, member[i]), from = coll_block_at(b, member[i]);
            int node;

            if (bytes == 0)
                continue;
            node = graph_copy(b->g, graph_plus(v->home, at), graph_plus(b->from, from), bytes);
            graph_after(b->g, node, v->last);
            v->last = node;
            if (view != GRAPH_NONE) {
                node =
                    graph_fold(b->g, graph_plus(v->home, at), graph_at(view, from), bytes, false);
                graph_after(b->g, node, v->last);
                v->last = node;
            }
            at += bytes;
        }
    }
    edges[h->pairs.even.size] = at;
    v->at = v->home;
}

static int alg_rs_halving(const struct coll_build *b, int packed)
{
    struct group all = group_all(b->shape, b->me, 0);
    struct halving h = {.pairs = group_pairs(&all)};
    size_t extent = coll_extent(b), own = coll_block_bytes(b, b->me), *edges;
    uint32_t answer = (uint32_t)h.pairs.rounds + 1;
    struct coll_value v = value_of(b->from, graph_at(GRAPH_FROM, 0), extent);

    v.last = packed;
    if (h.pairs.extra) {
        int view = graph_recv(b->g, h.pairs.partner, answer, own);

        value_send(b, &v, h.pairs.partner, 0);
        v.at = graph_at(view, 0);
        v.bytes = own;
        value_store(b, &v, graph_at(GRAPH_INTO, 0));
        return 0;
    }
    edges = malloc(((size_t)h.pairs.even.size + 1) * sizeof(*edges));
    if (edges == NULL)
        return -ENOMEM;
    v.home = graph_scratch(b->g, extent);
    alg_rs_arrange(b, &h,
                   h.pairs.partner >= 0 ? graph_recv(b->g, h.pairs.partner, 0, extent) : GRAPH_NONE,
                   &v, edges);
    h.edges = edges;
    halving_rounds(b, 1, &v, &h);
    v.at = graph_plus(v.home, edges[halving_part(&h, h.pairs.even.me)]);
    if (h.pairs.partner >= 0)
        value_send_range(
            b, &v, (struct coll_range){.at = own, .bytes = coll_block_bytes(b, h.pairs.partner)},
            h.pairs.partner, answer);
    v.bytes = own;
    value_store(b, &v, graph_at(GRAPH_INTO, 0));
    free(edges);
    return 0;
}

int alg_reduce_scatter_halving(const struct coll_build *b)
{
    return alg_rs_packed(b, alg_rs_halving);
}
