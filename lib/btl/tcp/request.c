/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c: see request.h.
 *
 * Invariants: answered <= asked <= answered + depth, flushing <= placing <= asked. No flush or
 * atomic is pending when `answered` has reached `placing`.
 */
#include "btl/tcp/request.h"

static struct tcp_pending *request_at(const struct btl_connection *c, uint64_t number)
{
    return &c->pending[number & (c->depth - 1)];
}

void request_add(struct btl_connection *c, const struct tcp_pending *p)
{
    struct tcp_pending *added = request_at(c, c->asked++);

    *added = *p;
    added->end = c->queue.added;
    if (p->answer != TCP_DATA)
        c->placing = c->asked;
    if (p->done != NULL)
        atomic_fetch_add_explicit(&p->done->pending, 1, memory_order_relaxed);
}

const struct tcp_pending *request_next(const struct btl_connection *c, enum tcp_code answer)
{
    const struct tcp_pending *p = request_at(c, c->answered);

    return c->asked != c->answered && p->answer == answer && p->end <= c->queue.sent ? p : NULL;
}

static void request_finish(struct btl_connection *c, int error)
{
    struct tcp_pending *p = request_at(c, c->answered++);
    int none = 0;

    if (p->done == NULL)
        return;
    if (error != 0)
        atomic_compare_exchange_strong_explicit(&p->done->error, &none, error, memory_order_relaxed,
                                                memory_order_relaxed);
    /* release: the data and the error; pairs with the acquire of a caller that reads 0 */
    atomic_fetch_sub_explicit(&p->done->pending, 1, memory_order_release);
}

void request_complete(struct btl_connection *c) { request_finish(c, 0); }

void request_fail_all(struct btl_connection *c, int error)
{
    while (c->asked != c->answered)
        request_finish(c, error);
}
