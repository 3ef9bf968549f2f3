/* SPDX-License-Identifier: BSD-3-Clause */
/* value.c: see build.h: a vector on its way through a graph. */
#include "coll/build.h"

struct coll_value value_of(struct graph_ref at, struct graph_ref home, size_t bytes)
{
    return (struct coll_value){.at = at, .home = home, .bytes = bytes, .last = GRAPH_NONE};
}

struct coll_range value_all(const struct coll_value *v)
{
    return (struct coll_range){.at = 0, .bytes = v->bytes};
}

static bool value_is_at(const struct coll_value *v, struct graph_ref ref)
{
    return v->at.base == ref.base && v->at.at == ref.at;
}

static void value_did(const struct coll_build *b, struct coll_value *v, int node)
{
    graph_after(b->g, node, v->last);
    v->last = node;
}

void value_send_range(const struct coll_build *b, struct coll_value *v, struct coll_range range,
                      int to, uint32_t slot)
{
    value_did(b, v, graph_send(b->g, &to, 1, slot, graph_plus(v->at, range.at), range.bytes));
}

void value_send(const struct coll_build *b, struct coll_value *v, int to, uint32_t slot)
{
    value_send_range(b, v, value_all(v), to, slot);
}

static void value_find_home(const struct coll_build *b, struct coll_value *v)
{
    if (v->home.base == GRAPH_FROM)
        v->home = graph_scratch(b->g, v->bytes);
}

void value_go_home(const struct coll_build *b, struct coll_value *v)
{
    value_find_home(b, v);
    v->at = v->home;
}

void value_fold_range(const struct coll_build *b, struct coll_value *v, struct coll_range range,
                      struct graph_ref from, bool reversed)
{
    if (range.bytes == 0) { /* nothing to compute, but what follows is to wait for it */
        int join = graph_call(b->g, NULL, NULL);

        graph_after(b->g, join, from.base);
        value_did(b, v, join);
        return;
    }
    value_find_home(b, v);
    if (!value_is_at(v, v->home)) {
        value_did(b, v,
                  graph_copy(b->g, graph_plus(v->home, range.at), graph_plus(v->at, range.at),
                             range.bytes));
        v->at = v->home;
    }
    value_did(b, v, graph_fold(b->g, graph_plus(v->at, range.at), from, range.bytes, reversed));
}

void value_fold(const struct coll_build *b, struct coll_value *v, struct graph_ref from,
                bool reversed)
{
    value_fold_range(b, v, value_all(v), from, reversed);
}

void value_store(const struct coll_build *b, struct coll_value *v, struct graph_ref into)
{
    if (v->bytes == 0 || value_is_at(v, into))
        return;
    value_did(b, v, graph_copy(b->g, into, v->at, v->bytes));
    v->at = into;
}

/* ---- many operands ---- */

#define VALUE_LEVELS 32
#define VALUE_SLICE                                                                                \
    16384 /* bytes that are folded before the next ones: they stay in the cache of their processor */
#define VALUE_SLICES 32 /* at most */

struct value_tree {
    const struct coll_build *b;
    const struct graph_ref *operand;
    struct group_pairs pairs;
    struct graph_ref home[VALUE_LEVELS]; /* of the right operand of each level */
    int last;
};

/* Operand `leaf` of the tree: one operand or two. */
static struct coll_value value_leaf(struct value_tree *tree, int leaf, struct graph_ref home,
                                    size_t bytes)
{
    int i = group_rank(&tree->pairs.even, leaf);
    struct coll_value v = value_of(tree->operand[i], home, bytes);

    v.last = tree->last;
    if (leaf < tree->pairs.even.pairs)
        value_fold(tree->b, &v, tree->operand[i + 1], false);
    return v;
}

/* The 2^level leaves from `leaf` on: the left ones at `home`, the right ones at that of the level. */
static struct coll_value value_subtree( // NOLINT(misc-no-recursion): one call per level, 32 at most
    struct value_tree *tree, int leaf, int level, struct graph_ref home, size_t bytes)
{
    struct coll_value left, right;

    if (level == 0)
        return value_leaf(tree, leaf, home, bytes);
    left = value_subtree(tree, leaf, level - 1, home, bytes);
    tree->last = left.last;
    right = value_subtree(tree, leaf + (1 << (level - 1)), level - 1, tree->home[level - 1], bytes);
    tree->home[level - 1] = right.home;
    left.last = right.last; /* all is one sequence: homes of a level are used again */
    value_fold(tree->b, &left, right.at, false);
    tree->last = left.last;
    return left;
}

static void value_fold_slice(const struct coll_build *b, struct coll_value *v,
                             const struct graph_ref *operand, int n)
{
    struct value_tree tree = {.b = b, .operand = operand, .last = v->last};
    struct group all = {.size = n, .me = -1, .replaced = -1};

    if (b->request->order == COLL_FIXED_ORDER) {
        tree.pairs = group_pairs(&all);
        for (int i = 0; i < VALUE_LEVELS; i++)
            tree.home[i] = graph_at(GRAPH_FROM, 0); /* taken when it is needed */
        *v = value_subtree(&tree, 0, tree.pairs.rounds, v->home, v->bytes);
    } else {
        v->at = operand[0];
        for (int i = 1; i < n; i++)
            value_fold(b, v, operand[i], false);
    }
    value_store(b, v, v->home);
}

/* Whole elements: about VALUE_SLICE bytes, or more where there would be too many slices. */
static size_t value_slice(const struct coll_build *b, size_t bytes)
{
    size_t least = bytes / VALUE_SLICES + 1, element = b->request->element;
    size_t slice = least > VALUE_SLICE ? least : VALUE_SLICE;

    return (slice + element - 1) / element * element;
}

void value_fold_all(const struct coll_build *b, struct coll_value *v, struct graph_ref *operand,
                    int n)
{
    const size_t most = value_slice(b, v->bytes);
    struct coll_value slice = *v;

    if (n < 2 || v->bytes <= most) {
        value_fold_slice(b, v, operand, n);
        return;
    }
    value_find_home(b, v);
    for (size_t at = 0; at < v->bytes; at += most) {
        slice.bytes = v->bytes - at < most ? v->bytes - at : most;
        slice.home = graph_plus(v->home, at);
        value_fold_slice(b, &slice, operand, n);
        for (int i = 0; i < n; i++)
            operand[i] = graph_plus(operand[i], most);
    }
    v->at = v->home;
    v->last = slice.last;
}
