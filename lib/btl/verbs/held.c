/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held.c: see held.h.
 */
#include "btl/verbs/held.h"

bool verbs_held_add(struct verbs_held *h, const struct ibv_send_wr *first, uint32_t n)
{
    for (; n > 0; n--, first = first->next) {
        struct ibv_send_wr *wr = &h->wr[h->requests];

        *wr = *first;
        h->sge[h->requests] = *first->sg_list;
        wr->sg_list = &h->sge[h->requests];
        wr->next = NULL;
        if (h->requests > 0)
            h->wr[h->requests - 1].next = wr;
        h->requests++;
    }
    h->writes++;
    return h->writes >= h->most;
}

struct ibv_send_wr *verbs_held_take(struct verbs_held *h, struct ibv_send_wr *behind)
{
    h->wr[h->requests - 1].next = behind;
    h->requests = h->writes = 0;
    return &h->wr[0];
}
