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

/* ---- a message for each block ---- */

/*
 * Round s: to me + s, from me - s, slot s - 1. With `counted` (coll.h) each pair has the word of its sender, too: before a short block in
 * the same message, on one host, where a second message would be a second line; else in slot n - 1, one message for all others. What has
 * both is marked: a longer block may be as long.
 */
struct alg_rounds {
    const struct coll_build *b;
    int *send, *view; /* SEND and RECV of each round */
    int most;         /* the last operation on the largest word; GRAPH_NONE: no words */
};

#define ALG_ALLTOALL_WINDOW 2
#define ALG_ALLTOALL_PACKED 96 /* bytes of a block that is copied behind the word */
#define ALG_ALLTOALL_BEFORE 16 /* of word and zeros: the block is aligned as a whole message is */
#define ALG_ALLTOALL_WORD sizeof(uint64_t)

static const struct graph_ref alg_alltoall_word = {.base = GRAPH_SCRATCH, .at = 0};
static const struct graph_ref alg_alltoall_most = {.base = GRAPH_SCRATCH,
                                                   .at = ALG_ALLTOALL_BEFORE};

static int alg_rounds_to(const struct coll_build *b, int s) { return (b->me + s) % b->size; }

static int alg_rounds_from(const struct coll_build *b, int s)
{
    return (b->me - s + b->size) % b->size;
}

/* Bytes of a message that are before its block. */
static size_t alg_rounds_before(const struct coll_build *b, size_t bytes)
{
    return b->request->counted && b->shape->hosts == 1 && bytes <= ALG_ALLTOALL_PACKED
               ? ALG_ALLTOALL_BEFORE
               : 0;
}

/* The own word, to all that do not get it with their blocks; and as the largest one so far. */
static int alg_rounds_send_word(struct alg_rounds *a)
{
    const struct coll_build *b = a->b;
    int *to = malloc((size_t)b->size * sizeof(*to)), n = 0;

    if (to == NULL)
        return -ENOMEM;
    (void)graph_scratch(b->g, ALG_ALLTOALL_BEFORE + ALG_ALLTOALL_WORD);
    for (int s = 1; s < b->size; s++)
        if (alg_rounds_before(b, coll_block_bytes(b, alg_rounds_to(b, s))) == 0)
            to[n++] = alg_rounds_to(b, s);
    if (n > 0)
        graph_send(b->g, to, n, (uint32_t)b->size - 1, alg_alltoall_word, ALG_ALLTOALL_WORD);
    a->most = graph_copy(b->g, alg_alltoall_most, alg_alltoall_word, ALG_ALLTOALL_WORD);
    free(to);
    return 0;
}

static void alg_rounds_send(struct alg_rounds *a, int s)
{
    const struct coll_build *b = a->b;
    int to = alg_rounds_to(b, s), word, block = GRAPH_NONE;
    size_t bytes = coll_block_bytes(b, to), before = alg_rounds_before(b, bytes);
    struct graph_ref from = graph_plus(b->from, coll_block_at(b, to)), packed;

    if (before == 0) {
        a->send[s] = graph_send(b->g, &to, 1, (uint32_t)s - 1, from, bytes);
        return;
    }
    packed = graph_scratch(b->g, before + bytes);
    word = graph_copy(b->g, packed, alg_alltoall_word, before);
    if (bytes > 0)
        block = graph_copy(b->g, graph_plus(packed, before), from, bytes);
    a->send[s] =
        graph_mark(b->g, graph_send(b->g, &to, 1, (uint32_t)s - 1, packed, before + bytes));
    graph_after(b->g, a->send[s], word);
    graph_after(b->g, a->send[s], block);
}

static void alg_rounds_recv(struct alg_rounds *a, int s)
{
    const struct coll_build *b = a->b;
    int from = alg_rounds_from(b, s), word, fold;
    size_t bytes = coll_block_in_bytes(b, from), before = alg_rounds_before(b, bytes);

    word = a->view[s] = graph_recv(b->g, from, (uint32_t)s - 1, before + bytes);
    if (a->most == GRAPH_NONE)
        return;
    if (before > 0)
        (void)graph_mark(b->g, word);
    else
        word = graph_recv(b->g, from, (uint32_t)b->size - 1, ALG_ALLTOALL_WORD);
    fold = graph_fold(b->g, alg_alltoall_most, graph_at(word, 0), ALG_ALLTOALL_WORD, false);
    graph_after(b->g, fold, a->most);
    a->most = fold;
}

/* In place the block that is replaced has been sent. */
static void alg_rounds_store(struct alg_rounds *a, int s)
{
    const struct coll_build *b = a->b;
    int from = alg_rounds_from(b, s), copy;
    size_t bytes = coll_block_in_bytes(b, from);

    if (bytes == 0)
        return;
    copy = graph_copy(b->g, graph_at(GRAPH_INTO, coll_block_in_at(b, from)),
                      graph_at(a->view[s], alg_rounds_before(b, bytes)), bytes);
    graph_after(b->g, copy, b->request->in_place ? a->send[b->size - s] : GRAPH_NONE);
}

/* A round begins when that `window` before it has received. */
static int alg_alltoall_rounds(const struct coll_build *b, int window)
{
    int n = b->size, *nodes = malloc(2 * (size_t)n * sizeof(*nodes)), rc = 0;
    struct alg_rounds a = {.b = b, .send = nodes, .view = nodes + n, .most = GRAPH_NONE};

    if (nodes == NULL)
        return -ENOMEM;
    alg_alltoall_store_own(b);
    if (b->request->counted)
        rc = alg_rounds_send_word(&a);
    for (int s = 1; s < n + window - 1 && rc == 0; s++) {
        if (s < n)
            alg_rounds_send(&a, s);
        if (s < n && s > window)
            graph_after(b->g, a.send[s], a.view[s - window]);
        if (s >= window)
            alg_rounds_recv(&a, s - window + 1);
    }
    for (int s = 1; s < n && rc == 0; s++)
        alg_rounds_store(&a, s);
    free(nodes);
    return rc;
}

/* All at once. */
int alg_alltoall_linear(const struct coll_build *b) { return alg_alltoall_rounds(b, b->size); }

int alg_alltoall_pairwise(const struct coll_build *b)
{
    return alg_alltoall_rounds(b, ALG_ALLTOALL_WINDOW);
}

/* ---- one message ---- */

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
