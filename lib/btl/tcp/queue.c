/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.c: see queue.h.
 *
 * Invariants: first <= end <= TCP_QUEUE_BYTES. The extents from first_extent to end_extent have
 * `at` in first..end, ascending, and at least one byte each. Whatever is empty is at 0.
 * `added - sent` is what waits.
 */
#include "btl/tcp/queue.h"

#include "btl/tcp/failure.h"
#include "btl/tcp/region.h"
#include "btl/tcp/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)
#define RANGES 32u /* of one sendmsg */

/* ---- adding ---- */

static void queue_compact(struct tcp_queue *q)
{
    const uint32_t first = q->first, extents = q->end_extent - q->first_extent;

    memmove(q->bytes, q->bytes + first, q->end - first);
    q->end -= first;
    q->first = 0;
    memmove(q->extent, q->extent + q->first_extent, extents * sizeof(q->extent[0]));
    q->first_extent = 0;
    q->end_extent = extents;
    for (uint32_t i = 0; i < extents; i++)
        q->extent[i].at -= first;
}

bool queue_has_space(struct tcp_queue *q, size_t bytes, uint32_t extents)
{
    if (q->end - q->first + bytes > TCP_QUEUE_BYTES ||
        q->end_extent - q->first_extent + extents > TCP_QUEUE_EXTENTS)
        return false;
    if (q->end + bytes > TCP_QUEUE_BYTES || q->end_extent + extents > TCP_QUEUE_EXTENTS)
        queue_compact(q);
    return true;
}

void *queue_reserve(struct tcp_queue *q, size_t n)
{
    char *at = q->bytes + q->end;

    q->end += (uint32_t)n;
    q->added += n;
    return at;
}

void queue_copy(struct tcp_queue *q, const void *bytes, size_t n)
{
    memcpy(queue_reserve(q, n), bytes, n);
}

void queue_refer_local(struct tcp_queue *q, const char *local, uint64_t bytes)
{
    q->extent[q->end_extent++] = (struct tcp_extent){.at = q->end, .local = local, .bytes = bytes};
    q->added += bytes;
}

void queue_refer_region(struct tcp_queue *q, uint64_t region, uint64_t offset, uint64_t bytes)
{
    q->extent[q->end_extent++] =
        (struct tcp_extent){.at = q->end, .region = region, .offset = offset, .bytes = bytes};
    q->added += bytes;
}

/* ---- sending ---- */

/* The ranges of one sendmsg. */
struct tcp_batch {
    struct iovec range[RANGES];
    size_t ranges;
    uint64_t bytes;
    struct tcp_region
        *entered; /* at most one: two locks of regions could be taken in either order */
};

static void queue_batch_add(struct tcp_batch *b, void *base, uint64_t bytes)
{
    const uint64_t most = TCP_TURN_BYTES - b->bytes;

    b->range[b->ranges++] = (struct iovec){base, (size_t)(bytes < most ? bytes : most)};
    b->bytes += b->range[b->ranges - 1].iov_len;
}

/* Adds an extent. 0; 1: the batch ends before it; -EPROTO: its region is gone. */
static int queue_batch_extent(struct btl_connection *c, struct tcp_batch *b,
                              const struct tcp_extent *x)
{
    union {
        const char *from;
        char *base; /* struct iovec has no pointer to const */
    } local = {x->local};

    if (x->local == NULL) {
        if (b->entered != NULL)
            return 1;
        local.base = region_enter(c, x->region, REGION_READ, x->offset, x->bytes, &b->entered);
        if (local.base == NULL)
            return -EPROTO;
    }
    queue_batch_add(b, local.base, x->bytes);
    return 0;
}

/* Collects what is first in the queue. 0 or -EPROTO. */
static int queue_batch(struct btl_connection *c, struct tcp_batch *b)
{
    struct tcp_queue *q = &c->queue;
    uint32_t at = q->first, extent = q->first_extent;
    int rc = 0;

    b->ranges = 0;
    b->bytes = 0;
    b->entered = NULL;
    while (rc == 0 && b->ranges < RANGES && b->bytes < TCP_TURN_BYTES) {
        const bool extents = extent < q->end_extent;

        if (extents && q->extent[extent].at == at) {
            rc = queue_batch_extent(c, b, &q->extent[extent++]);
        } else if (at < q->end) {
            const uint32_t stop = extents ? q->extent[extent].at : q->end;

            queue_batch_add(b, q->bytes + at, stop - at);
            at = stop;
        } else {
            break;
        }
    }
    return rc < 0 ? rc : 0;
}

/* So many bytes have been sent. */
static void queue_advance(struct tcp_queue *q, uint64_t bytes)
{
    q->sent += bytes;
    while (bytes > 0) {
        struct tcp_extent *x = &q->extent[q->first_extent];
        const bool extents = q->first_extent < q->end_extent;
        uint64_t part;

        if (extents && x->at == q->first) {
            part = bytes < x->bytes ? bytes : x->bytes;
            x->bytes -= part;
            x->offset += part;
            if (x->local != NULL)
                x->local += part;
            q->first_extent += x->bytes == 0;
        } else {
            part = (extents ? x->at : q->end) - q->first;
            part = bytes < part ? bytes : part;
            q->first += (uint32_t)part;
        }
        bytes -= part;
    }
    if (queue_is_empty(q))
        q->first = q->end = q->first_extent = q->end_extent = 0;
}

/* One sendmsg. False: the socket takes no more, or the connection has failed. */
static bool queue_send_batch(struct btl_connection *c, uint64_t *sent)
{
    struct tcp_batch b;
    struct msghdr message = {.msg_iov = b.range};
    int error = -queue_batch(c, &b);
    ssize_t n = -1;

    if (error == 0) {
        message.msg_iovlen = b.ranges;
        n = b.ranges == 1 ? send(c->fd, b.range[0].iov_base, b.range[0].iov_len, FLAGS)
                          : sendmsg(c->fd, &message, FLAGS);
        error = n < 0 ? errno : 0;
    }
    region_leave(b.entered);
    if (error == EPROTO)
        (void)tcp_fail(c, -EIO, "memory that rank %d reads was freed before it had arrived",
                       c->peer);
    else if (c->stage == TCP_GREETING && (error == EPIPE || error == ECONNRESET))
        return false; /* recv(2) reports the end, too, see greeting_lost() */
    else if (error != 0 && error != EAGAIN && error != EWOULDBLOCK && error != EINTR)
        (void)tcp_fail(c, -error, "sending: %s", strerror(error));
    if (error != 0)
        return error == EINTR;
    c->counts.doorbells += c->unposted > 0;
    c->unposted = c->holds = 0;
    *sent += (uint64_t)n;
    queue_advance(&c->queue, (uint64_t)n);
    return (uint64_t)n == b.bytes;
}

/* Has epoll report that the socket takes more, while something waits for that. */
static void queue_watch(struct btl_connection *c)
{
    struct epoll_event event = {.events = EPOLLIN | (c->queue.blocked ? EPOLLOUT : 0u),
                                .data.u64 = tcp_event_of(c)};

    if (event.events == c->events)
        return;
    c->events = event.events;
    if (epoll_ctl(tcp_epoll_of(c), EPOLL_CTL_MOD, c->fd, &event) != 0)
        (void)tcp_fail(c, -errno, "epoll_ctl(2): %s", strerror(errno));
}

void queue_send(struct btl_connection *c)
{
    uint64_t sent = 0;

    while (!queue_is_empty(&c->queue) && sent < TCP_TURN_BYTES)
        if (!queue_send_batch(c, &sent))
            break;
    if (tcp_error_of(c) != 0)
        return;
    c->queue.blocked = !queue_is_empty(&c->queue);
    queue_watch(c);
}
