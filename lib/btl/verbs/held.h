/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held.h: work requests of writes that are posted together (btl_ops.hold).
 *
 * Invariants
 * 1. A held work request has its number and its place in the queue: `posted` counts it, and its signal is decided. Only the doorbell
 *    is missing. So the held requests are those with the numbers from posted - requests to posted - 1, and all others precede them.
 * 2. Whatever is posted next is posted behind them, by the same call of the device.
 * 3. The device has no completion for a held request: a queue that is full of them is posted before it is waited for.
 */
#ifndef BTL_VERBS_HELD_H
#define BTL_VERBS_HELD_H

#include "btl/verbs/verbs.h"

#define HELD_WRITES 32u
#define HELD_PER_WRITE 2u /* payload and slot; a longer write is not held */

struct verbs_held {
    uint32_t most;     /* writes that may be held; 0: none */
    uint32_t writes;   /* that are held */
    uint32_t requests; /* their work requests */
    struct ibv_send_wr wr[HELD_WRITES * HELD_PER_WRITE];
    struct ibv_sge sge[HELD_WRITES * HELD_PER_WRITE];
};

static inline bool verbs_held_any(const struct btl_connection *connection)
{
    return connection->held != NULL && connection->held->requests > 0;
}

/* A write of n requests may be held. */
static inline bool verbs_held_takes(const struct btl_connection *connection, uint64_t n)
{
    const struct verbs_held *h = connection->held;

    return h != NULL && h->writes < h->most && n <= HELD_PER_WRITE;
}

/* Copies the list of n requests, which are numbered. Returns whether as many are held as may be. */
bool verbs_held_add(struct verbs_held *h, const struct ibv_send_wr *first, uint32_t n);
/* The list of what is held, with `behind` after it, which may be NULL; nothing is held any more. */
struct ibv_send_wr *verbs_held_take(struct verbs_held *h, struct ibv_send_wr *behind);

#endif
