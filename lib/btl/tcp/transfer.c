/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.c: see transfer.h.
 *
 * A transfer is accepted when all of its frames are in the queue; they are sent at once, unless the
 * socket is full or a stream is gathered. A flush is a request behind the writes, which the target
 * answers when it has placed what was before it.
 */
#include "btl/tcp/transfer.h"

#include "btl/tcp/gather.h"
#include "btl/tcp/queue.h"
#include "btl/tcp/receive.h"
#include "btl/tcp/reply.h"
#include "btl/tcp/request.h"

#include "util/failpoint.h"

#include <errno.h>

/* Both ranges of a transfer are within their memory. The target checks its own again. */
static bool transfer_is_valid(const struct btl_transfer *t, size_t bytes)
{
    return bytes <= t->remote->bytes && t->remote_offset <= t->remote->bytes - bytes &&
           bytes <= TCP_LENGTH_MOST &&
           (t->memory == NULL ||
            (bytes <= t->memory->bytes && t->offset <= t->memory->bytes - bytes));
}

static char *transfer_local(const struct btl_transfer *t)
{
    return t->memory != NULL ? (char *)t->memory->base + t->offset : NULL;
}

static struct tcp_head transfer_head(enum tcp_code code, uint64_t length,
                                     const struct btl_transfer *t)
{
    const uint64_t *word = t->remote->key.word;

    return tcp_head_of(code, length, word[KEY_REGION], word[KEY_OFFSET] + t->remote_offset);
}

static int transfer_refuse(struct btl_connection *c)
{
    c->counts.refused++;
    return -EAGAIN;
}

/* 0: the connection is up, and the queue has this space, which no answer waits for. */
static int transfer_has_space(struct btl_connection *c, size_t bytes, uint32_t extents)
{
    if (tcp_error_of(c) != 0)
        return tcp_error_of(c);
    if (c->stage != TCP_UP)
        return -EAGAIN;
    if (!reply_waits(c) && queue_has_space(&c->queue, bytes, extents))
        return 0;
    reply_send(c);
    if (tcp_error_of(c) != 0)
        return tcp_error_of(c);
    return !reply_waits(c) && queue_has_space(&c->queue, bytes, extents) ? 0 : -EAGAIN;
}

/* Sends what has just been added, unless the queue waits for the socket. */
static int transfer_post(struct btl_connection *c, uint32_t requests)
{
    c->counts.work_requests += requests;
    c->unposted += requests;
    if (!c->queue.blocked)
        queue_send(c);
    return tcp_error_of(c);
}

/* ---- writes ---- */

/* The write stays in the queue (btl_ops.hold): one of the later calls sends it. */
static bool transfer_holds(struct btl_connection *c)
{
    return c->hold_most > 0 && ++c->holds < c->hold_most;
}

int transfer_hold(struct btl_connection *c, uint32_t most)
{
    c->hold_most = most;
    if (c->stage == TCP_UP && !c->queue.blocked && !queue_is_empty(&c->queue))
        queue_send(c);
    return tcp_error_of(c);
}

/* The same, but a write of a stream may stay in the queue for a while. */
static int transfer_post_write(struct btl_connection *c, uint32_t requests)
{
    c->counts.work_requests += requests;
    c->unposted += requests;
    c->written = true;
    if (transfer_holds(c) || (c->hold_most == 0 && gather_write(c)))
        return 0;
    if (!c->queue.blocked)
        queue_send(c);
    gather_sent(c);
    return tcp_error_of(c);
}

static void transfer_queue_payload(struct btl_connection *c, const struct btl_transfer *t)
{
    const struct tcp_head head = transfer_head(TCP_PUT, t->bytes, t);

    queue_copy(&c->queue, &head, sizeof(head));
    if (t->bytes <= TCP_COPIED_MOST) {
        queue_copy(&c->queue, transfer_local(t), t->bytes);
        c->counts.inlined++;
    } else {
        queue_refer_local(&c->queue, transfer_local(t), t->bytes);
    }
}

static void transfer_queue_slot(struct btl_connection *c, const struct btl_transfer *t)
{
    const struct tcp_head head = transfer_head(TCP_SLOT, TCP_SLOT_BYTES, t);

    queue_copy(&c->queue, &head, sizeof(head));
    queue_copy(&c->queue, transfer_local(t), TCP_SLOT_BYTES);
    c->counts.inlined++;
}

int transfer_write(struct btl_connection *c, const struct btl_transfer *payload,
                   const struct btl_transfer *slot)
{
    size_t bytes = 0;
    uint32_t extents = 0;
    int rc;

    if (payload != NULL && payload->bytes == 0)
        payload = NULL;
    if ((payload != NULL && !transfer_is_valid(payload, payload->bytes)) ||
        (slot != NULL && !transfer_is_valid(slot, TCP_SLOT_BYTES)))
        return -EINVAL;
    if (slot != NULL)
        bytes += sizeof(struct tcp_slot_frame);
    if (payload != NULL) {
        bytes += sizeof(struct tcp_head) + (payload->bytes <= TCP_COPIED_MOST ? payload->bytes : 0);
        extents = payload->bytes > TCP_COPIED_MOST;
    }
    rc = transfer_has_space(c, bytes, extents);
    if (rc != 0)
        return rc == -EAGAIN ? transfer_refuse(c) : rc;
    if (bytes == 0)
        return 0;
    if (payload != NULL)
        transfer_queue_payload(c, payload);
    if (slot != NULL)
        transfer_queue_slot(c, slot);
    c->unflushed = true;
    return transfer_post_write(c, (payload != NULL ? 1u : 0u) + (slot != NULL ? 1u : 0u));
}

/* ---- requests ---- */

static int transfer_has_request_space(struct btl_connection *c, size_t bytes)
{
    const int rc = transfer_has_space(c, bytes, 0);

    return rc == 0 && !request_has_space(c) ? -EAGAIN : rc;
}

int transfer_get(struct btl_connection *c, const struct btl_transfer *t, struct btl_done *done)
{
    const struct tcp_pending p = {TCP_DATA, transfer_local(t), t->bytes, done, 0};
    const struct tcp_head head = transfer_head(TCP_GET, t->bytes, t);
    int rc;

    if (!transfer_is_valid(t, t->bytes))
        return -EINVAL;
    rc = transfer_has_request_space(c, sizeof(head));
    if (rc != 0)
        return rc == -EAGAIN ? transfer_refuse(c) : rc;
    if (t->bytes == 0)
        return 0;
    queue_copy(&c->queue, &head, sizeof(head));
    request_add(c, &p);
    c->counts.gets++;
    c->counts.signaled++;
    RPIPE_FAILPOINT("tcp: get queued");
    return transfer_post(c, 1);
}

int transfer_atomic(struct btl_connection *c, int op, const struct btl_transfer *at,
                    uint64_t operand, uint64_t compare, struct btl_done *done)
{
    const struct tcp_pending p = {TCP_VALUE, transfer_local(at), sizeof(uint64_t), done, 0};
    struct tcp_atomic_frame frame;
    int rc;

    if (op < BTL_ATOMIC_ADD || op > BTL_ATOMIC_XOR)
        return -ENOTSUP;
    if (!transfer_is_valid(at, sizeof(uint64_t)))
        return -EINVAL;
    rc = transfer_has_request_space(c, sizeof(frame));
    if (rc != 0)
        return rc == -EAGAIN ? transfer_refuse(c) : rc;
    frame =
        (struct tcp_atomic_frame){transfer_head(TCP_ATOMIC, (uint64_t)op, at), operand, compare};
    queue_copy(&c->queue, &frame, sizeof(frame));
    request_add(c, &p);
    c->counts.atomics++;
    c->counts.signaled++;
    return transfer_post(c, 1);
}

/* ---- flush ---- */

/* Requests that everything written before has been placed. */
static int transfer_request_flush(struct btl_connection *c)
{
    const struct tcp_pending p = {.answer = TCP_PLACED};
    const struct tcp_head head = tcp_head_of(TCP_FLUSH, 0, 0, 0);
    const int rc = transfer_has_request_space(c, sizeof(head));

    if (rc != 0)
        return rc;
    queue_copy(&c->queue, &head, sizeof(head));
    request_add(c, &p);
    c->unflushed = false;
    c->counts.flushes++;
    c->counts.signaled++;
    RPIPE_FAILPOINT("tcp: flush queued");
    return transfer_post(c, 1);
}

/* One flush at a time: from the first call until one returns 0, whatever is written meanwhile. */
int transfer_flush(struct btl_connection *c)
{
    int rc = tcp_error_of(c);

    if (rc == 0 && c->stage != TCP_UP)
        return -EAGAIN;
    if (rc == 0 && c->flushing == 0) {
        if (c->unflushed)
            rc = transfer_request_flush(c);
        if (rc == 0)
            c->flushing = c->placing;
    }
    if (rc == 0 && c->answered < c->flushing) {
        (void)receive_drive(c);
        rc = tcp_error_of(c);
    }
    if (rc == 0 && c->answered < c->flushing)
        return -EAGAIN;
    if (rc == 0)
        c->flushing = 0;
    return rc;
}
