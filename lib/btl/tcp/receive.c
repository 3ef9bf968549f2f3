/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.c: see receive.h.
 *
 * Bytes are read into a buffer on the stack and from there placed. A payload that is not complete
 * in the buffer is read straight to its place by the next call, together with what follows it.
 *
 * Invariants: between two calls either `body.rest` bytes of a frame are still to come, or
 * `part_bytes` bytes of the beginning of a frame have come, or neither. Nothing that has been
 * received is used before it is checked; what fails a check fails the connection.
 */
#include "btl/tcp/receive.h"

#include "btl/tcp/copy.h"
#include "btl/tcp/failure.h"
#include "btl/tcp/greeting.h"
#include "btl/tcp/held.h"
#include "btl/tcp/region.h"
#include "btl/tcp/reply.h"
#include "btl/tcp/request.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define BUFFER_BYTES 16384u

/* An error that only the peer's end can have caused. */
static void receive_refuse(struct btl_connection *c, const char *reason, const struct tcp_head *h)
{
    (void)tcp_fail(c, -EIO,
                   "a frame of rank %d is refused: %s (operation %u, %llu bytes, region %llx, "
                   "offset %llu)",
                   c->peer, reason, tcp_head_code(h), (unsigned long long)tcp_head_length(h),
                   (unsigned long long)h->region, (unsigned long long)h->offset);
}

static void receive_refuse_region(struct btl_connection *c, const struct tcp_head *h)
{
    receive_refuse(c, "it names no memory that this rank may access so", h);
}

/* ---- frames ---- */

static void receive_slot(struct btl_connection *c, const struct tcp_head *h, const uint8_t *slot)
{
    struct tcp_region *entered;
    char *to = region_enter(c, h->region, REGION_WRITE, h->offset, TCP_SLOT_BYTES, &entered);
    const bool aligned = ((uintptr_t)to & 7) == 0;

    if (to == NULL) {
        receive_refuse_region(c, h);
        return;
    }
    if (aligned)
        copy_slot(to, slot);
    c->slots++;
    c->held.slots++;
    region_leave(entered);
    if (!aligned)
        receive_refuse(c, "a slot is not aligned", h);
}

/* Executes an atomic operation. False: there is no such operation. */
static bool receive_execute(uint64_t *word, uint64_t op, uint64_t operand, uint64_t compare,
                            uint64_t *old)
{
    switch (op) {
    case BTL_ATOMIC_ADD:
        *old = __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
        return true;
    case BTL_ATOMIC_CAS:
        *old = compare;
        __atomic_compare_exchange_n(word, old, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return true;
    case BTL_ATOMIC_SWAP:
        *old = __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
        return true;
    case BTL_ATOMIC_AND:
        *old = __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
        return true;
    case BTL_ATOMIC_OR:
        *old = __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
        return true;
    case BTL_ATOMIC_XOR:
        *old = __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
        return true;
    default:
        return false;
    }
}

static void receive_reply(struct btl_connection *c, const struct tcp_head *h,
                          const struct tcp_reply *r)
{
    if (reply_add(c, r) != 0)
        receive_refuse(c, "it has more outstanding requests than it has announced", h);
}

static void receive_atomic(struct btl_connection *c, const struct tcp_head *h,
                           const struct tcp_atomic_frame *frame)
{
    struct tcp_reply r = {.code = TCP_VALUE};
    struct tcp_region *entered;
    char *at = region_enter(c, h->region, REGION_ATOMIC, h->offset, sizeof(uint64_t), &entered);
    bool executed;

    if (at == NULL) {
        receive_refuse_region(c, h);
        return;
    }
    executed =
        ((uintptr_t)at & 7) == 0 && receive_execute((uint64_t *)(void *)at, tcp_head_length(h),
                                                    frame->operand, frame->compare, &r.offset);
    region_leave(entered);
    if (executed)
        receive_reply(c, h, &r);
    else
        receive_refuse(c, "the word is not aligned, or there is no such atomic operation", h);
}

static void receive_get(struct btl_connection *c, const struct tcp_head *h)
{
    const struct tcp_reply r = {TCP_DATA, h->region, h->offset, tcp_head_length(h)};
    struct tcp_region *entered;

    if (r.bytes == 0 ||
        region_enter(c, r.region, REGION_READ, r.offset, r.bytes, &entered) == NULL) {
        receive_refuse_region(c, h);
        return;
    }
    region_leave(entered);
    receive_reply(c, h, &r);
}

/* The beginning of an answer to a get. */
static void receive_data(struct btl_connection *c, const struct tcp_head *h)
{
    const struct tcp_pending *p = request_next(c, TCP_DATA);

    if (p == NULL || p->bytes != tcp_head_length(h))
        receive_refuse(c, "it answers a request that was not made", h);
    else
        c->body = (struct tcp_body){.rest = p->bytes, .local = p->local};
}

static void receive_value(struct btl_connection *c, const struct tcp_head *h)
{
    const struct tcp_pending *p = request_next(c, TCP_VALUE);

    if (p == NULL) {
        receive_refuse(c, "it answers a request that was not made", h);
        return;
    }
    if (p->local != NULL)
        copy_place(p->local, &h->offset, sizeof(h->offset));
    request_complete(c);
}

static void receive_placed(struct btl_connection *c, const struct tcp_head *h)
{
    if (request_next(c, TCP_PLACED) != NULL)
        request_complete(c);
    else
        receive_refuse(c, "it answers a request that was not made", h);
}

/* The beginning of a payload; its bytes are checked when they come. */
static void receive_put(struct btl_connection *c, const struct tcp_head *h)
{
    if (tcp_head_length(h) == 0)
        receive_refuse_region(c, h);
    else
        c->body =
            (struct tcp_body){.rest = tcp_head_length(h), .region = h->region, .offset = h->offset};
}

/* Bytes of a frame that are only processed together. */
static size_t receive_frame_bytes(const struct tcp_head *h)
{
    switch (tcp_head_code(h)) {
    case TCP_SLOT:
        return sizeof(struct tcp_slot_frame);
    case TCP_ATOMIC:
        return sizeof(struct tcp_atomic_frame);
    default:
        return sizeof(*h);
    }
}

static void receive_handle(struct btl_connection *c, const struct tcp_head *h, const uint8_t *frame)
{
    struct tcp_atomic_frame atomic;

    switch (tcp_head_code(h)) {
    case TCP_PUT:
        receive_put(c, h);
        break;
    case TCP_SLOT:
        receive_slot(c, h, frame + sizeof(*h));
        break;
    case TCP_GET:
        receive_get(c, h);
        break;
    case TCP_ATOMIC:
        memcpy(&atomic, frame, sizeof(atomic));
        receive_atomic(c, h, &atomic);
        break;
    case TCP_FLUSH:
        receive_reply(c, h, &(struct tcp_reply){.code = TCP_PLACED});
        break;
    case TCP_DATA:
        receive_data(c, h);
        break;
    case TCP_VALUE:
        receive_value(c, h);
        break;
    case TCP_PLACED:
        receive_placed(c, h);
        break;
    default:
        receive_refuse(c, "there is no such operation", h);
    }
}

/* ---- the stream ---- */

/* Where the rest of the body goes; NULL: it is refused, and the connection has failed. */
static char *receive_body_enter(struct btl_connection *c, struct tcp_region **entered)
{
    const struct tcp_body *b = &c->body;
    char *to = b->local;

    *entered = NULL;
    if (to == NULL) {
        to = region_enter(c, b->region, REGION_WRITE, b->offset, b->rest, entered);
        if (to == NULL) {
            const struct tcp_head h = tcp_head_of(TCP_PUT, b->rest, b->region, b->offset);

            receive_refuse_region(c, &h);
        }
    }
    return to;
}

/* So many bytes of the body have been placed. */
static void receive_body_advance(struct btl_connection *c, size_t bytes)
{
    struct tcp_body *b = &c->body;

    b->rest -= bytes;
    b->offset += bytes;
    if (b->local == NULL)
        return;
    b->local += bytes;
    if (b->rest == 0)
        request_complete(c);
}

static size_t receive_body(struct btl_connection *c, const uint8_t *at, size_t n)
{
    const size_t bytes = c->body.rest < n ? (size_t)c->body.rest : n;
    struct tcp_region *entered;
    char *to = receive_body_enter(c, &entered);

    if (to == NULL)
        return n;
    copy_place(to, at, bytes);
    region_leave(entered);
    receive_body_advance(c, bytes);
    return bytes;
}

/* Handles one frame. Returns its bytes; 0: not all of it is here. */
static size_t receive_frame(struct btl_connection *c, const uint8_t *at, size_t n)
{
    struct tcp_greeting greeting;
    struct tcp_head h;

    if (c->stage != TCP_UP) {
        if (n < sizeof(greeting))
            return 0;
        memcpy(&greeting, at, sizeof(greeting));
        greeting_answered(c, &greeting);
        return sizeof(greeting);
    }
    if (n < sizeof(h))
        return 0;
    memcpy(&h, at, sizeof(h));
    if (n < receive_frame_bytes(&h))
        return 0;
    receive_handle(c, &h, at);
    return receive_frame_bytes(&h);
}

static void receive_parse(struct btl_connection *c, const uint8_t *at, size_t n)
{
    c->part_bytes = 0;
    while (n > 0 && tcp_error_of(c) == 0) {
        const size_t used = c->body.rest > 0 ? receive_body(c, at, n) : receive_frame(c, at, n);

        if (used == 0) { /* less than the longest part */
            memcpy(c->part, at, n);
            c->part_bytes = (uint32_t)n;
            return;
        }
        at += used;
        n -= used;
    }
}

/* One call of the socket: the rest of the body, and what follows it. recvmsg(2) or -errno. */
static ssize_t receive_read(struct btl_connection *c, uint8_t *buffer, size_t *direct)
{
    struct iovec range[2];
    struct msghdr message = {.msg_iov = range};
    struct tcp_region *entered;
    ssize_t n;

    *direct = 0;
    if (c->body.rest == 0)
        return held_read(c, buffer + c->part_bytes, BUFFER_BYTES);
    if (held_take(c) != 0)
        return -EIO;
    range[0].iov_base = receive_body_enter(c, &entered);
    if (range[0].iov_base == NULL)
        return -EAGAIN; /* it has failed */
    *direct = range[0].iov_len =
        (size_t)(c->body.rest < TCP_TURN_BYTES ? c->body.rest : TCP_TURN_BYTES);
    range[1] = (struct iovec){buffer, BUFFER_BYTES};
    message.msg_iovlen = c->body.rest == *direct ? 2 : 1;
    n = recvmsg(c->fd, &message, MSG_DONTWAIT);
    n = n < 0 ? -errno : n;
    region_leave(entered);
    if (n >= 0 && (size_t)n < *direct)
        *direct = (size_t)n;
    return n;
}

bool receive_drive(struct btl_connection *c)
{
    _Alignas(8) uint8_t buffer[TCP_LARGEST_PART + BUFFER_BYTES];
    size_t all = 0, direct;
    ssize_t n;

    do {
        const bool body = c->body.rest > 0;

        memcpy(buffer, c->part, c->part_bytes);
        n = receive_read(c, buffer, &direct);
        if (n <= 0)
            break;
        all += (size_t)n;
        if (body)
            receive_body_advance(c, direct);
        receive_parse(c, buffer, c->part_bytes + (size_t)n - direct);
    } while (tcp_error_of(c) == 0 && all < TCP_TURN_BYTES &&
             ((size_t)n >= BUFFER_BYTES || c->body.rest > 0));
    if (tcp_error_of(c) != 0)
        return all > 0;
    if (c->stage == TCP_GREETING && (n == 0 || n == -ECONNRESET || n == -EPIPE))
        greeting_lost(c);
    else if (n == 0)
        (void)tcp_fail(c, -ECONNRESET, "the other end has closed it, or its process has ended");
    else if (n < 0 && n != -EAGAIN && n != -EINTR)
        (void)tcp_fail(c, (int)n, "recv(2): %s", strerror((int)-n));
    if (tcp_error_of(c) == 0 && c->fd >= 0 && (c->holds == 0 || c->queue.blocked || reply_waits(c)))
        reply_send(c); /* here, because no event may follow that sends the answers */
    return all > 0;
}
