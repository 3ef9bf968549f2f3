/* SPDX-License-Identifier: BSD-3-Clause */
/* blocks.c: where the blocks of simulated members are, also where these have different lengths: see state.h. */
#include "tools/sim/state.h"

#include <errno.h>
#include <stdlib.h>

struct coll_request sim_request_of(const struct sim_options *options,
                                   const struct coll_request *request, int member)
{
    return options->request_of != NULL ? options->request_of(options->argument, member) : *request;
}

/* A row of offsets for each member of an alltoall; one for all of anything else. */
static size_t blocks_row(const struct sim *s, int member)
{
    return s->request->kind == COLL_ALLTOALL ? (size_t)member * (size_t)s->shape->size : 0;
}

static void blocks_fill(size_t *row, int n, const size_t *counts, const size_t *offsets)
{
    size_t at = 0;

    for (int i = 0; i < n; i++) {
        row[i] = offsets != NULL ? offsets[i] : at;
        at += counts[i];
    }
}

int sim_blocks_open(struct sim *s)
{
    int n = s->shape->size, rows = s->request->kind == COLL_ALLTOALL ? n : 1;

    if (sim_request_of(s->options, s->request, 0).counts == NULL)
        return 0;
    s->block_at = calloc((size_t)rows * (size_t)n, sizeof(*s->block_at));
    s->block_in_at = calloc((size_t)rows * (size_t)n, sizeof(*s->block_in_at));
    if (s->block_at == NULL || s->block_in_at == NULL)
        return sim_fail(s, -ENOMEM, "no memory for the blocks of %d members", n);
    for (int i = 0; i < rows; i++) {
        struct coll_request r = sim_request_of(s->options, s->request, i);

        blocks_fill(s->block_at + blocks_row(s, i), n, r.counts, r.offsets);
        if (r.counts_in != NULL)
            blocks_fill(s->block_in_at + blocks_row(s, i), n, r.counts_in, r.offsets_in);
    }
    return 0;
}

struct sim_block sim_block_of(const struct sim *s, int member, int i)
{
    const struct coll_request r = sim_request_of(s->options, s->request, member);

    if (r.counts == NULL)
        return (struct sim_block){.at = (size_t)i * r.count * r.element,
                                  .bytes = r.count * r.element};
    return (struct sim_block){.at = s->block_at[blocks_row(s, member) + (size_t)i] * r.element,
                              .bytes = r.counts[i] * r.element};
}

struct sim_block sim_block_in(const struct sim *s, int member, int i)
{
    const struct coll_request r = sim_request_of(s->options, s->request, member);

    if (r.counts_in == NULL || r.in_place)
        return sim_block_of(s, member, i);
    return (struct sim_block){.at = s->block_in_at[blocks_row(s, member) + (size_t)i] * r.element,
                              .bytes = r.counts_in[i] * r.element};
}
