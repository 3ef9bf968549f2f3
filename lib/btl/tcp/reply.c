/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reply.c: see reply.h.
 */
#include "btl/tcp/reply.h"

#include "btl/tcp/copy.h"
#include "btl/tcp/failure.h"
#include "btl/tcp/queue.h"
#include "btl/tcp/region.h"

#include <errno.h>

int reply_add(struct btl_connection *c, const struct tcp_reply *r)
{
    if (c->requested - c->replied == c->peer_depth)
        return -EPROTO;
    c->reply[c->requested++ & (c->peer_depth - 1)] = *r;
    return 0;
}

/* Copies a short answer to a get. */
static int reply_copy(struct btl_connection *c, const struct tcp_reply *r)
{
    struct tcp_region *entered;
    const char *from = region_enter(c, r->region, REGION_READ, r->offset, r->bytes, &entered);

    if (from == NULL)
        return tcp_fail(c, -EIO, "memory that rank %d reads was freed before it was sent", c->peer);
    copy_words(queue_reserve(&c->queue, r->bytes), from, r->bytes);
    region_leave(entered);
    return 0;
}

/* Puts one answer into the queue. False: there is no space, or the connection has failed. */
static bool reply_queue(struct btl_connection *c, const struct tcp_reply *r)
{
    const bool copied = r->bytes <= TCP_COPIED_MOST;
    const size_t bytes = sizeof(struct tcp_head) + (copied ? r->bytes : 0);
    const struct tcp_head head =
        tcp_head_of(r->code, r->bytes, 0, r->code == TCP_VALUE ? r->offset : 0);

    if (!queue_has_space(&c->queue, bytes, copied ? 0 : 1))
        return false;
    queue_copy(&c->queue, &head, sizeof(head));
    if (!copied)
        queue_refer_region(&c->queue, r->region, r->offset, r->bytes);
    else if (r->bytes > 0 && reply_copy(c, r) != 0)
        return false;
    return true;
}

static void reply_queue_all(struct btl_connection *c)
{
    while (reply_waits(c) && reply_queue(c, &c->reply[c->replied & (c->peer_depth - 1)]))
        c->replied++;
}

void reply_send(struct btl_connection *c)
{
    do {
        reply_queue_all(c);
        if (tcp_error_of(c) == 0 && !queue_is_empty(&c->queue))
            queue_send(c);
    } while (tcp_error_of(c) == 0 && reply_waits(c) && !c->queue.blocked);
    if (tcp_error_of(c) == 0)
        reply_queue_all(c); /* before writes of this end take the space that is free now */
}
