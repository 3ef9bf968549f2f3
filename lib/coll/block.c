/* SPDX-License-Identifier: BSD-3-Clause */
/* block.c: see build.h: the blocks of members: where they are, and rows of them in messages. */
#include "coll/build.h"

#include <errno.h>
#include <stdlib.h>

/* Where blocks of `counts` begin that follow each other. NULL: no memory. */
static size_t *block_add_counts(const size_t *counts, const size_t *offsets, int size)
{
    size_t *offset = malloc((size_t)size * sizeof(*offset)), at = 0;

    for (int i = 0; i < size && offset != NULL; i++) {
        offset[i] = offsets == NULL ? at : offsets[i];
        at += counts[i];
    }
    return offset;
}

int coll_find_offsets(struct coll_build *b)
{
    const struct coll_request *r = b->request;

    if (r->counts != NULL) {
        b->offsets = block_add_counts(r->counts, r->offsets, b->size);
        if (b->offsets == NULL)
            return -ENOMEM;
    }
    if (r->counts_in != NULL) {
        b->offsets_in = block_add_counts(r->counts_in, r->offsets_in, b->size);
        if (b->offsets_in == NULL)
            return -ENOMEM;
    }
    return 0;
}

size_t coll_block_at(const struct coll_build *b, int i)
{
    const struct coll_request *r = b->request;

    return (r->counts == NULL ? r->count * (size_t)i : b->offsets[i]) * r->element;
}

size_t coll_block_bytes(const struct coll_build *b, int i)
{
    const struct coll_request *r = b->request;

    return (r->counts == NULL ? r->count : r->counts[i]) * r->element;
}

size_t coll_block_in_at(const struct coll_build *b, int i)
{
    const struct coll_request *r = b->request;

    if (r->in_place)
        return coll_block_at(b, i);
    return (r->counts_in == NULL ? r->count * (size_t)i : b->offsets_in[i]) * r->element;
}

size_t coll_block_in_bytes(const struct coll_build *b, int i)
{
    const struct coll_request *r = b->request;

    if (r->in_place)
        return coll_block_bytes(b, i);
    return (r->counts_in == NULL ? r->count : r->counts_in[i]) * r->element;
}

size_t coll_extent(const struct coll_build *b)
{
    size_t extent = 0;

    if (b->request->counts == NULL)
        return b->bytes * (size_t)b->size;
    for (int i = 0; i < b->size; i++) {
        size_t end = coll_block_at(b, i) + coll_block_bytes(b, i);

        extent = coll_block_bytes(b, i) > 0 && end > extent ? end : extent;
    }
    return extent;
}

size_t coll_extent_in(const struct coll_build *b)
{
    size_t extent = 0;

    if (b->request->counts == NULL)
        return b->bytes * (size_t)b->size;
    for (int i = 0; i < b->size; i++) {
        size_t end = coll_block_in_at(b, i) + coll_block_in_bytes(b, i);

        extent = coll_block_in_bytes(b, i) > 0 && end > extent ? end : extent;
    }
    return extent;
}

struct graph_ref coll_own_block(const struct coll_build *b)
{
    return b->from.base == GRAPH_INTO ? graph_at(GRAPH_INTO, coll_block_at(b, b->me)) : b->from;
}

/* ---- rows ---- */

size_t coll_row_bytes(const struct coll_build *b, const struct group *group, int first, int count)
{
    size_t bytes = 0;

    if (b->request->counts == NULL)
        return b->bytes * (size_t)count;
    for (int i = first; i < first + count; i++)
        bytes += coll_block_bytes(b, group_rank(group, i % group->size));
    return bytes;
}

/* How many blocks of the row, from `first` on, follow each other in memory, and their bytes. */
static int block_run(const struct coll_build *b, const struct group *group, int first, int count,
                     size_t *bytes)
{
    int rank = group_rank(group, first % group->size), n = 1;
    size_t end = coll_block_at(b, rank) + coll_block_bytes(b, rank);

    *bytes = coll_block_bytes(b, rank);
    for (; n < count; n++) {
        rank = group_rank(group, (first + n) % group->size);
        if (coll_block_at(b, rank) != end)
            break;
        end += coll_block_bytes(b, rank);
        *bytes += coll_block_bytes(b, rank);
    }
    return n;
}

int coll_copy_row(const struct coll_build *b, const struct group *group, int first, int count,
                  struct graph_ref packed, bool unpack, struct graph_ref blocks, int after)
{
    for (int i = first, n; i < first + count; i += n) {
        struct graph_ref at =
            graph_plus(blocks, coll_block_at(b, group_rank(group, i % group->size)));
        size_t bytes;

        n = block_run(b, group, i, first + count - i, &bytes);
        if (bytes > 0) {
            int copy =
                unpack ? graph_copy(b->g, at, packed, bytes) : graph_copy(b->g, packed, at, bytes);

            graph_after(b->g, copy, after);
            after = copy;
        }
        packed = graph_plus(packed, bytes);
    }
    return after;
}

struct graph_ref coll_pack_row(const struct coll_build *b, const struct group *group, int first,
                               int count, struct graph_ref blocks, int *after)
{
    struct graph_ref packed;
    size_t bytes;

    if (block_run(b, group, first, count, &bytes) == count)
        return graph_plus(blocks, coll_block_at(b, group_rank(group, first % group->size)));
    packed = graph_scratch(b->g, coll_row_bytes(b, group, first, count));
    *after = coll_copy_row(b, group, first, count, packed, false, blocks, *after);
    return packed;
}

int coll_pack_blocks(struct coll_build *b, int *after)
{
    struct group all = group_all(b->shape, b->me, 0);
    size_t *offset;

    *after = GRAPH_NONE;
    if (b->request->counts == NULL)
        return 0;
    offset = block_add_counts(b->request->counts, NULL, b->size);
    if (offset == NULL)
        return -ENOMEM;
    b->from = coll_pack_row(b, &all, 0, b->size, b->from, after);
    b->offsets = offset;
    return 0;
}
