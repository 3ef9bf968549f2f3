/* SPDX-License-Identifier: BSD-3-Clause */
/* alg_halving.c: see alg_halving.h. */
#include "coll/alg_halving.h"

static struct coll_range halving_range(const struct coll_build *b, const struct halving *h,
                                       int first, int last)
{
    size_t element = b->request->element, count = b->request->count;
    int parts = h->pairs.even.size;
    size_t at = h->edges != NULL ? h->edges[first] : split_at(count, parts, first) * element;
    size_t end = h->edges != NULL ? h->edges[last] : split_at(count, parts, last) * element;

    return (struct coll_range){.at = at, .bytes = end - at};
}

int halving_part(const struct halving *h, int index)
{
    int part = 0;

    for (int d = 0; d < h->pairs.rounds; d++)
        part = part << 1 | (index >> d & 1);
    return part;
}

void halving_rounds(const struct coll_build *b, uint32_t slot, struct coll_value *v,
                    struct halving *h)
{
    int first = 0, parts = h->pairs.even.size;

    h->kept[0] = value_all(v);
    for (int d = 0; d < h->pairs.rounds; d++, slot++) {
        int other = h->pairs.even.me ^ (1 << d), rank = group_rank(&h->pairs.even, other), view;
        bool upper = other < h->pairs.even.me;
        struct coll_range low, high;

        parts /= 2;
        low = halving_range(b, h, first, first + parts);
        high = halving_range(b, h, first + parts, first + 2 * parts);
        first += upper ? parts : 0;
        h->kept[d + 1] = upper ? high : low;
        value_send_range(b, v, upper ? low : high, rank, slot);
        view = graph_recv(b->g, rank, slot, h->kept[d + 1].bytes);
        value_fold_range(b, v, h->kept[d + 1], graph_at(view, 0), upper);
    }
    if (h->pairs.rounds > 0) /* a member whose part is empty has folded nothing */
        value_go_home(b, v);
}

void halving_fold(const struct coll_build *b, const struct group *group, uint32_t slot,
                  struct coll_value *v, struct halving *h)
{
    h->pairs = group_pairs(group);
    if (h->pairs.extra) {
        value_send(b, v, h->pairs.partner, slot);
        return;
    }
    if (h->pairs.partner >= 0)
        value_fold(b, v, graph_at(graph_recv(b->g, h->pairs.partner, slot, v->bytes), 0), false);
    halving_rounds(b, slot + 1, v, h);
}

/* What the partner of round d has after that round. */
static struct coll_range halving_other(const struct halving *h, int d)
{
    const struct coll_range *all = &h->kept[d], *own = &h->kept[d + 1];
    struct coll_range other = {.at = all->at, .bytes = all->bytes - own->bytes};

    if ((h->pairs.even.me & 1 << d) == 0)
        other.at += own->bytes;
    return other;
}

static void halving_take(const struct coll_build *b, const struct halving *h, int d, int rank,
                         uint32_t slot, struct coll_value *v)
{
    struct coll_range other = halving_other(h, d);
    int view = graph_recv(b->g, rank, slot, other.bytes), copy;

    if (other.bytes == 0)
        copy = graph_call(b->g, NULL, NULL);
    else
        copy = graph_copy(b->g, graph_plus(v->at, other.at), graph_at(view, 0), other.bytes);
    graph_after(b->g, copy, view);
    graph_after(b->g, copy, v->last);
    v->last = copy;
}

void halving_double(const struct coll_build *b, const struct halving *h, uint32_t slot,
                    struct coll_value *v)
{
    for (int d = h->pairs.rounds - 1; d >= 0; d--, slot++) {
        int rank = group_rank(&h->pairs.even, h->pairs.even.me ^ (1 << d));

        value_send_range(b, v, h->kept[d + 1], rank, slot);
        halving_take(b, h, d, rank, slot, v);
    }
}

void halving_collect(const struct coll_build *b, const struct halving *h, uint32_t slot, int top,
                     struct coll_value *v)
{
    int me = h->pairs.even.me;

    /* round d: of the indices that equal top above bit d ... the sender's bit d differs from top's */
    for (int d = h->pairs.rounds - 1; d >= 0; d--, slot++) {
        int rank = group_rank(&h->pairs.even, me ^ (1 << d));

        if (((me ^ top) & 1 << d) != 0) {
            value_send_range(b, v, h->kept[d + 1], rank, slot);
            return;
        }
        halving_take(b, h, d, rank, slot, v);
    }
}
