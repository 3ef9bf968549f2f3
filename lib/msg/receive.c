/* SPDX-License-Identifier: BSD-3-Clause */
/* receive.c: rmsg_recv, rmsg_irecv, and the start of a persistent receive. */
#include "msg/advertise.h"
#include "msg/arrive.h"
#include "msg/fail.h"
#include "msg/link.h"
#include "msg/progress.h"
#include "msg/request.h"
#include "msg/send.h"
#include "msg/wait.h"

#include <errno.h>

/* True: a message that waits has been matched. */
static bool receive_waiting(struct rmsg *msg, struct msg_request *r)
{
    struct match_message *waits;

    if (msg->waiting.first == NULL)
        return false;
    waits = match_waiting_find(&msg->waiting, (struct match_key){r->tag, r->peer, r->space});
    if (waits == NULL)
        return false;
    match_unwait(&msg->waiting, waits);
    msg_arrive_take(msg, container_of(waits, struct msg_message, match), r);
    return true;
}

int msg_receive_start(struct rmsg *msg, struct msg_request *r, const char *call)
{
    struct msg_link *l = NULL;
    int rc;

    if (receive_waiting(msg, r))
        return 0;
    if (r->peer != RMSG_ANY_SOURCE) {
        l = msg_link_to(msg, r->peer, call, &rc);
        if (l == NULL)
            return rc;
        if (MSG_UNLIKELY(l->state == LINK_ENDED))
            return msg_link_failed(l, call);
    }
    msg_post(msg, r, l);
    return 0;
}

int rmsg_irecv(rmsg_t msg, int from, uint32_t space, uint32_t tag, void *buf, size_t room,
               rmsg_request_t *request, int flags)
{
    struct msg_request *r;
    int rc = msg_check_call(msg, "rmsg_irecv", flags, RMSG_PERSISTENT);

    if (rc == 0 && request == NULL)
        rc = msg_fail(-EINVAL, "rmsg_irecv: request is NULL");
    if (rc == 0)
        rc = msg_check(msg, "rmsg_irecv", from, space, tag, buf, room, false);
    if (rc != 0)
        return rc;
    r = msg_request_make(msg, "rmsg_irecv", false, from, space, tag, buf, room);
    if (r == NULL)
        return -ENOMEM;
    r->persistent = (flags & RMSG_PERSISTENT) != 0;
    rc = r->persistent ? 0 : msg_receive_start(msg, r, "rmsg_irecv");
    if (rc != 0) {
        msg_request_free(msg, r);
        return rc;
    }
    *request = pool_handle(&r->item);
    return 0;
}

int rmsg_recv(rmsg_t msg, int from, uint32_t space, uint32_t tag, void *buf, size_t room,
              rmsg_status_t *status, int flags)
{
    struct msg_request *r;
    int rc = msg_check_call(msg, "rmsg_recv", flags, R_NOWAIT);

    if (rc == 0)
        rc = msg_check(msg, "rmsg_recv", from, space, tag, buf, room, false);
    if (MSG_UNLIKELY(rc != 0))
        return rc;
    if ((flags & R_NOWAIT) != 0) {
        (void)msg_progress_all(msg);
        if (match_waiting_find(&msg->waiting, (struct match_key){tag, from, space}) == NULL &&
            (from == RMSG_ANY_SOURCE || msg->link[from] == NULL ||
             msg->link[from]->state != LINK_ENDED))
            return msg_fail(R_PENDING, "rmsg_recv: no message has come");
    }
    r = msg_request_make(msg, "rmsg_recv", false, from, space, tag, buf, room);
    if (r == NULL)
        return -ENOMEM;
    r->blocking = true;
    rc = msg_receive_start(msg, r, "rmsg_recv");
    if (MSG_UNLIKELY(rc != 0)) {
        msg_request_free(msg, r);
        return rc;
    }
    return msg_wait_blocking(msg, r, status, "rmsg_recv");
}
