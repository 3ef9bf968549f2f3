/* SPDX-License-Identifier: BSD-3-Clause */
/* alg_halving.c: see alg_halving.h. */
#include "coll/alg_halving.h"

void halving_fold(const struct coll_build *b, const struct group *group, uint32_t slot,
                  struct coll_value *v, struct halving *h)
{
    size_t element = b->request->element;

    h->pairs = group_pairs(group);
    h->kept[0] = value_all(v);
    if (h->pairs.extra) {
        value_send(b, v, h->pairs.partner, slot);
        return;
    }
    if (h->pairs.partner >= 0)
        value_fold(b, v, graph_at(graph_recv(b->g, h->pairs.partner, slot, v->bytes), 0), false);
    for (int d = 0; d < h->pairs.rounds; d++) {
        struct coll_range low = h->kept[d], high;
        int other = h->pairs.even.me ^ (1 << d), rank = group_rank(&h->pairs.even, other);
        bool upper = other < h->pairs.even.me;
        int view;

        low.bytes = (low.bytes / element + 1) / 2 * element;
        high.at = low.at + low.bytes;
        high.bytes = h->kept[d].bytes - low.bytes;
        h->kept[d + 1] = upper ? high : low;
        slot++;
        value_send_range(b, v, upper ? low : high, rank, slot);
        view = graph_recv(b->g, rank, slot, h->kept[d + 1].bytes);
        value_fold_range(b, v, h->kept[d + 1], graph_at(view, 0), upper);
    }
    if (h->pairs.rounds > 0) /* a member whose part is empty has folded nothing */
        value_go_home(b, v);
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
