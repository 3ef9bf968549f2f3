/* SPDX-License-Identifier: BSD-3-Clause */
/* send.c: rmsg_send, rmsg_isend, and the start of a persistent send. */
#include "msg/send.h"

#include "msg/direct.h"
#include "msg/fail.h"
#include "msg/link.h"
#include "msg/out.h"
#include "msg/progress.h"
#include "msg/request.h"
#include "msg/wait.h"

#include <errno.h>

int msg_send_start(struct rmsg *msg, struct msg_request *r, const char *call)
{
    struct msg_link *l;
    int rc;

    l = msg_link_to(msg, r->peer, call, &rc);
    if (l == NULL)
        return rc;
    if (MSG_UNLIKELY(l->state == LINK_ENDED || l->out_code != 0))
        return msg_link_failed(l, call);
    r->link = l;
    r->state = MSG_QUEUED;
    if (MSG_LIKELY(msg_out_clear(l))) {
        rc = msg_out_send(l, r->space, r->tag, r->buf, r->bytes, r);
        if (MSG_LIKELY(rc == 0)) {
            if (MSG_UNLIKELY(r->state == MSG_MOVING && r->window != 0))
                (void)msg_direct_turn(r);
            return 0;
        }
        if (rc != R_PENDING) {
            r->state = MSG_INACTIVE;
            return msg_link_failed(l, call);
        }
    }
    list_append(&l->waiting, &r->queue);
    msg_out_busy(l);
    return 0;
}

/* Opens the link to a rank, if it is not open; 0, or why it takes no messages. */
static int send_possible(struct rmsg *msg, int to, const char *call)
{
    int rc;
    const struct msg_link *l = msg_link_to(msg, to, call, &rc);

    if (l == NULL)
        return rc;
    return l->state == LINK_ENDED || l->out_code != 0 ? msg_link_failed(l, call) : 0;
}

/* send_now of more bytes than a slot has, or where something is in the way. */
static __attribute__((noinline)) int send_now_heap(struct rmsg *msg, int to, uint32_t space,
                                                   uint32_t tag, const void *buf, size_t bytes,
                                                   const char *call)
{
    struct msg_link *l = msg->link[to];
    int rc;

    if (l != NULL && msg_out_clear(l) && l->out_code == 0) {
        rc = msg_out_send(l, space, tag, buf, bytes, NULL);
        return rc == 0 || rc == R_PENDING ? rc : msg_link_failed(l, call);
    }
    rc = send_possible(msg, to, call);
    return rc != 0 ? rc : R_PENDING;
}

/* Without waiting, and without a request: only what fits into the memory of the peer now. */
static MSG_INLINE int send_now(struct rmsg *msg, int to, uint32_t space, uint32_t tag,
                               const void *buf, size_t bytes, const char *call)
{
    struct msg_link *l = msg->link[to];
    int rc;

    if (MSG_UNLIKELY(l == NULL || bytes > MSG_WIRE_SLOT_BYTES || !msg_out_clear(l) ||
                     l->out_code != 0 || !msg_out_share(l, bytes)))
        return send_now_heap(msg, to, space, tag, buf, bytes, call);
    rc = msg_out_send_slot(l, space, tag, buf, bytes);
    return MSG_LIKELY(rc == 0 || rc == R_PENDING) ? rc : msg_link_failed(l, call);
}

/* What has not left at once, or must not: a request that is started, unless it is persistent. */
static __attribute__((noinline)) int send_later(struct rmsg *msg, struct msg_request *r, int to,
                                                uint32_t space, uint32_t tag, const void *buf,
                                                size_t bytes, int flags)
{
    msg_request_init(r, true, to, space, tag, (void *)(uintptr_t)buf, bytes);
    r->sync = (flags & RMSG_SYNC) != 0;
    r->persistent = (flags & RMSG_PERSISTENT) != 0;
    return r->persistent ? 0 : msg_send_start(msg, r, "rmsg_isend");
}

static int send_isend(struct rmsg *msg, int to, uint32_t space, uint32_t tag, const void *buf,
                      size_t bytes, rmsg_request_t *request, int flags)
{
    struct msg_request *r;
    int rc = msg_check_call(msg, "rmsg_isend", flags, RMSG_SYNC | RMSG_PERSISTENT);

    if (rc == 0 && request == NULL)
        rc = msg_fail(-EINVAL, "rmsg_isend: request is NULL");
    if (rc == 0)
        rc = msg_check(msg, "rmsg_isend", to, space, tag, buf, bytes, true);
    if (MSG_UNLIKELY(rc != 0))
        return rc;
    r = msg_request_get(msg, "rmsg_isend");
    if (MSG_UNLIKELY(r == NULL))
        return -ENOMEM;
    msg_request_begin(r, MSG_DONE, true);
    rc = MSG_LIKELY(flags == 0 && bytes <= MSG_WIRE_SLOT_BYTES)
             ? send_now(msg, to, space, tag, buf, bytes, "rmsg_isend")
             : R_PENDING;
    if (MSG_LIKELY(rc == 0))
        msg_request_sent_already(msg, r, space, tag, bytes);
    else if (rc == R_PENDING)
        rc = send_later(msg, r, to, space, tag, buf, bytes, flags);
    if (MSG_UNLIKELY(rc != 0)) {
        msg_request_free(msg, r);
        return rc;
    }
    *request = pool_handle(&r->item);
    return 0;
}

int rmsg_isend(rmsg_t msg, int to, uint32_t space, uint32_t tag, const void *buf, size_t bytes,
               rmsg_request_t *request, int flags)
{
    int rc = msg_enter(msg, "rmsg_isend");

    return rc != 0 ? rc
                   : msg_leave(msg, send_isend(msg, to, space, tag, buf, bytes, request, flags));
}

static int send_send(struct rmsg *msg, int to, uint32_t space, uint32_t tag, const void *buf,
                     size_t bytes, int flags)
{
    struct msg_request *r;
    int rc = msg_check_call(msg, "rmsg_send", flags, RMSG_SYNC | R_NOWAIT);

    if (rc == 0)
        rc = msg_check(msg, "rmsg_send", to, space, tag, buf, bytes, true);
    if (MSG_UNLIKELY(rc != 0))
        return rc;
    if (MSG_LIKELY((flags & RMSG_SYNC) == 0)) {
        rc = send_now(msg, to, space, tag, buf, bytes, "rmsg_send");
        if (MSG_LIKELY(rc != R_PENDING))
            return rc;
    }
    if ((flags & R_NOWAIT) != 0) {
        (void)msg_progress_all(msg);
        rc = send_possible(msg, to, "rmsg_send");
        return rc != 0 ? rc : R_PENDING;
    }
    r = msg_request_make(msg, "rmsg_send", true, to, space, tag, (void *)(uintptr_t)buf, bytes);
    if (r == NULL)
        return -ENOMEM;
    r->sync = (flags & RMSG_SYNC) != 0;
    r->blocking = true;
    rc = msg_send_start(msg, r, "rmsg_send");
    if (rc != 0) {
        msg_request_free(msg, r);
        return rc;
    }
    return msg_wait_blocking(msg, r, NULL, "rmsg_send");
}

int rmsg_send(rmsg_t msg, int to, uint32_t space, uint32_t tag, const void *buf, size_t bytes,
              int flags)
{
    int rc = msg_enter(msg, "rmsg_send");

    return rc != 0 ? rc : msg_leave(msg, send_send(msg, to, space, tag, buf, bytes, flags));
}
