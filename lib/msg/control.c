/* SPDX-License-Identifier: BSD-3-Clause */
/* control.c: rmsg_cancel, rmsg_start, rmsg_request_free. */
#include "msg/advertise.h"
#include "msg/buffer.h"
#include "msg/fail.h"
#include "msg/request.h"
#include "msg/send.h"

#include <errno.h>

/* The request of a handle; NULL: *rc is the code. */
static struct msg_request *control_request(struct rmsg *msg, const char *call,
                                           rmsg_request_t handle, int *rc)
{
    struct msg_request *r;

    *rc = msg_check_call(msg, call, 0, 0);
    if (*rc != 0)
        return NULL;
    r = pool_by_handle(&msg->requests, handle);
    if (r != NULL && !r->abandoned)
        return r;
    *rc = msg_fail(-EINVAL, "%s: there is no request 0x%llx, or it has completed already", call,
                   (unsigned long long)handle);
    return NULL;
}

static int control_cancel(struct rmsg *msg, rmsg_request_t request)
{
    struct msg_request *r;
    int rc;

    r = control_request(msg, "rmsg_cancel", request, &rc);
    if (r == NULL)
        return rc;
    switch (r->state) {
    case MSG_QUEUED:
        list_remove(&r->queue);
        msg_request_sent(r, -ECANCELED);
        return 0;
    case MSG_POSTED:
        msg_advertise_cancel(msg, r);
        return 0;
    case MSG_OFFERED:
    case MSG_MOVING:
        return msg_fail(-EBUSY, "rmsg_cancel: the message to rank %d has left", r->peer);
    default:
        return 0; /* it completes as if it had not been cancelled */
    }
}

int rmsg_cancel(rmsg_t msg, rmsg_request_t request)
{
    int rc = msg_enter(msg, "rmsg_cancel");

    return rc != 0 ? rc : msg_leave(msg, control_cancel(msg, request));
}

static int control_start(struct rmsg *msg, const rmsg_request_t *requests, int n)
{
    int rc = msg_check_call(msg, "rmsg_start", 0, 0);

    if (rc == 0 && (n < 0 || (n > 0 && requests == NULL)))
        rc = msg_fail(-EINVAL, "rmsg_start: requests is %s for n = %d",
                      requests == NULL ? "NULL" : "given", n);
    for (int i = 0; i < n && rc == 0; i++) {
        struct msg_request *r = control_request(msg, "rmsg_start", requests[i], &rc);

        if (r == NULL)
            break;
        if (!r->persistent || r->state != MSG_INACTIVE)
            rc = msg_fail(-EBUSY, "rmsg_start: request %d of %d is %s", i, n,
                          r->persistent ? "active" : "not persistent");
        else
            rc = r->send ? msg_send_start(msg, r, "rmsg_start")
                         : msg_receive_start(msg, r, "rmsg_start");
    }
    return rc;
}

int rmsg_start(rmsg_t msg, const rmsg_request_t *requests, int n)
{
    int rc = msg_enter(msg, "rmsg_start");

    return rc != 0 ? rc : msg_leave(msg, control_start(msg, requests, n));
}

static int control_free(struct rmsg *msg, rmsg_request_t *request)
{
    struct msg_request *r;
    int rc;

    if (request == NULL)
        return msg_fail(-EINVAL, "rmsg_request_free: request is NULL");
    r = control_request(msg, "rmsg_request_free", *request, &rc);
    if (r == NULL)
        return rc;
    if (!r->persistent || r->state != MSG_INACTIVE)
        return msg_fail(-EBUSY, "rmsg_request_free: the request is %s",
                        r->persistent ? "active; wait for it first" : "not persistent");
    *request = 0;
    if (r->bytes >= BUFFER_LEAST)
        msg_buffer_forget(msg, r->buf);
    msg_request_free(msg, r);
    return 0;
}

int rmsg_request_free(rmsg_t msg, rmsg_request_t *request)
{
    int rc = msg_enter(msg, "rmsg_request_free");

    return rc != 0 ? rc : msg_leave(msg, control_free(msg, request));
}
