/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alg_gather.c: blocks to the root, and from the root. In a tree with the root at index 0 a subtree is a
 * row of indices, and one message has the row of its blocks.
 */
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

/* The children of this member in the tree; NULL: none, or the graph has failed. */
static int *alg_gather_children(const struct coll_build *b, const struct group *all, int *n)
{
    int *child;

    *n = tree_children(all->me, all->size, b->radix, NULL);
    child = calloc((size_t)*n + 1, sizeof(*child));
    if (child == NULL) {
        graph_fail(b->g, -ENOMEM);
        *n = 0;
        return NULL;
    }
    tree_children(all->me, all->size, b->radix, child);
    return child;
}

static struct graph_ref alg_gather_into(void) { return graph_at(GRAPH_INTO, 0); }

/* The root receives rows; every other member packs its own block and those of its children. */
int alg_gather_tree(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, b->request->root);
    int span = tree_span(all.me, all.size, b->radix), n, *child = alg_gather_children(b, &all, &n);
    struct coll_value v =
        value_of(coll_own_block(b), graph_at(GRAPH_FROM, 0), coll_row_bytes(b, &all, all.me, span));
    size_t at = coll_block_bytes(b, b->me);

    if (span > 1 && all.me > 0) {
        v.home = graph_scratch(b->g, v.bytes);
        v.last = graph_call(b->g, NULL, NULL); /* all of the row is there */
        if (at > 0)
            graph_after(b->g, v.last, graph_copy(b->g, v.home, v.at, at));
        v.at = v.home;
    } else if (all.me == 0 && !b->request->in_place && at > 0) {
        graph_copy(b->g, graph_plus(alg_gather_into(), coll_block_at(b, b->me)), v.at, at);
    }
    for (int i = 0; i < n; i++) {
        int row = tree_span(child[i], all.size, b->radix);
        size_t bytes = coll_row_bytes(b, &all, child[i], row);
        int view = graph_recv(b->g, group_rank(&all, child[i]), 0, bytes), copy = GRAPH_NONE;

        if (all.me == 0)
            coll_copy_row(b, &all, child[i], row, graph_at(view, 0), true, alg_gather_into(),
                          GRAPH_NONE);
        else if (bytes > 0)
            copy = graph_copy(b->g, graph_plus(v.home, at), graph_at(view, 0), bytes);
        graph_after(b->g, v.last, copy);
        at += bytes;
    }
    if (all.me > 0)
        value_send(b, &v, group_rank(&all, tree_parent(all.me, b->radix)), 0);
    free(child);
    return 0;
}

int alg_gather_linear(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    int root = b->request->root;
    size_t own = coll_block_bytes(b, b->me);

    if (b->me != root) {
        graph_send(b->g, &root, 1, 0, coll_own_block(b), own);
        return 0;
    }
    if (!b->request->in_place && own > 0)
        graph_copy(b->g, graph_plus(alg_gather_into(), coll_block_at(b, b->me)), b->from, own);
    for (int i = 0; i < b->size; i++)
        if (i != root) {
            int view = graph_recv(b->g, i, 0, coll_block_bytes(b, i));

            coll_copy_row(b, &all, i, 1, graph_at(view, 0), true, alg_gather_into(), GRAPH_NONE);
        }
    return 0;
}

/* ---- scatter ---- */

static void alg_scatter_store(const struct coll_build *b, struct graph_ref own)
{
    size_t bytes = coll_block_bytes(b, b->me);

    if (bytes > 0 && !(b->me == b->request->root && b->request->in_place))
        graph_copy(b->g, alg_gather_into(), own, bytes);
}

int alg_scatter_tree(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, b->request->root);
    int span = tree_span(all.me, all.size, b->radix), n, *child = alg_gather_children(b, &all, &n);
    struct graph_ref row = graph_at(GRAPH_FROM, 0);

    if (all.me > 0) {
        int parent = group_rank(&all, tree_parent(all.me, b->radix));

        row = graph_at(graph_recv(b->g, parent, tree_slot(all.me, b->radix),
                                  coll_row_bytes(b, &all, all.me, span)),
                       0);
    }
    for (int i = n - 1; i >= 0; i--) { /* the largest subtree first */
        int length = tree_span(child[i], all.size, b->radix), packed = GRAPH_NONE, send;
        int to = group_rank(&all, child[i]);
        struct graph_ref part;

        if (all.me == 0)
            part = coll_pack_row(b, &all, child[i], length, row, &packed);
        else
            part = graph_plus(row, coll_row_bytes(b, &all, all.me, child[i] - all.me));
        send = graph_send(b->g, &to, 1, tree_slot(child[i], b->radix), part,
                          coll_row_bytes(b, &all, child[i], length));
        graph_after(b->g, send, packed);
    }
    alg_scatter_store(b, all.me > 0 ? row : graph_plus(row, coll_block_at(b, b->me)));
    free(child);
    return 0;
}

int alg_scatter_linear(const struct coll_build *b)
{
    int root = b->request->root;

    if (b->me != root) {
        int view = graph_recv(b->g, root, (uint32_t)b->me, coll_block_bytes(b, b->me));

        alg_scatter_store(b, graph_at(view, 0));
        return 0;
    }
    for (int i = 0; i < b->size; i++)
        if (i != root)
            graph_send(b->g, &i, 1, (uint32_t)i, graph_at(GRAPH_FROM, coll_block_at(b, i)),
                       coll_block_bytes(b, i));
    alg_scatter_store(b, graph_at(GRAPH_FROM, coll_block_at(b, root)));
    return 0;
}

/* One message with all blocks, of which each member reads its own. */
int alg_scatter_flat(const struct coll_build *b)
{
    struct group all = group_all(b->shape, b->me, 0);
    size_t bytes = coll_row_bytes(b, &all, 0, b->size);
    struct graph_ref row = graph_at(GRAPH_FROM, 0);
    int packed = GRAPH_NONE;

    if (b->me != b->request->root) {
        row = graph_at(graph_recv(b->g, b->request->root, 0, bytes), 0);
        alg_scatter_store(b, graph_plus(row, coll_row_bytes(b, &all, 0, b->me)));
        return 0;
    }
    row = coll_pack_row(b, &all, 0, b->size, row, &packed);
    graph_after(b->g, part_send_all(b, &all, 0, row, bytes), packed);
    alg_scatter_store(b, graph_at(GRAPH_FROM, coll_block_at(b, b->me)));
    return 0;
}
