/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast_reader.h: a reader's end of the path from another host. `lock` held. */
#ifndef CAST_MCAST_READER_H
#define CAST_MCAST_READER_H

#include "cast/mcast_end.h"

struct mcast_offer { /* what a reader learns of the writer */
    uint64_t key;
    struct medium_address root[MCAST_CARRIERS], group[MCAST_CARRIERS];
    uint32_t payload, member;
};

int mcast_reader_open(struct mcast *p, struct error *err);
void mcast_reader_close(struct mcast *p);
void mcast_reader_attach(struct mcast *p, const struct mcast_offer *offer);
void mcast_reader_receive(struct mcast *p, const struct nak_head *head, const void *payload,
                          const struct mcast_arrival *a, int64_t now);

#endif
