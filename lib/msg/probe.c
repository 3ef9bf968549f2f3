/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.c: rmsg_probe, rmsg_mprobe, rmsg_mrecv, rmsg_peek, rmsg_free. */
#include "msg/arrive.h"
#include "msg/fail.h"
#include "msg/kept.h"
#include "msg/link.h"
#include "msg/progress.h"
#include "msg/request.h"
#include "msg/wait.h"
#include "util/last_error.h"

#include <errno.h>
#include <stdio.h>

static void probe_status(const struct msg_message *m, rmsg_status_t *status)
{
    struct match_key key = m->match.node[MATCH_EXACT].key;

    if (status != NULL)
        *status = (rmsg_status_t){
            .from = key.source, .space = key.space, .tag = key.tag, .bytes = m->bytes};
}

/* The message that a receive would match; NULL: *rc is the code. */
static struct msg_message *probe_find(struct rmsg *msg, const char *call, int from, uint32_t space,
                                      uint32_t tag, int flags, int *rc)
{
    const struct match_key key = {tag, from, space};
    struct match_message *waits;
    struct msg_link *l = NULL;
    struct msg_wait w = {0};

    *rc = msg_check_call(msg, call, flags, R_NOWAIT);
    if (*rc == 0)
        *rc = msg_check(msg, call, from, space, tag, NULL, 0, false);
    if (*rc == 0 && from != RMSG_ANY_SOURCE)
        l = msg_link_to(msg, from, call, rc);
    if (*rc == 0 && (flags & R_NOWAIT) != 0)
        (void)msg_progress_all(msg);
    while (*rc == 0) {
        waits = match_waiting_find(&msg->waiting, key);
        if (waits != NULL)
            return container_of(waits, struct msg_message, match);
        if (l != NULL && l->state == LINK_ENDED)
            *rc = msg_link_failed(l, call);
        else if ((flags & R_NOWAIT) != 0)
            *rc = R_PENDING;
        else
            *rc = msg_progress_wait(msg, l, &w);
        if (*rc == -ETIMEDOUT)
            (void)msg_fail(*rc, "%s: no message has come within %d ms", call, msg->timeout_ms);
    }
    return NULL;
}

static int probe_call(struct rmsg *msg, int from, uint32_t space, uint32_t tag,
                      rmsg_status_t *status, int flags)
{
    int rc;
    const struct msg_message *m = probe_find(msg, "rmsg_probe", from, space, tag, flags, &rc);

    if (m == NULL)
        return rc;
    probe_status(m, status);
    return 0;
}

int rmsg_probe(rmsg_t msg, int from, uint32_t space, uint32_t tag, rmsg_status_t *status, int flags)
{
    int rc = msg_enter(msg, "rmsg_probe");

    return rc != 0 ? rc : msg_leave(msg, probe_call(msg, from, space, tag, status, flags));
}

static int probe_take(struct rmsg *msg, int from, uint32_t space, uint32_t tag,
                      rmsg_message_t *message, rmsg_status_t *status, int flags)
{
    struct msg_message *m;
    int rc;

    if (message == NULL)
        return msg_fail(-EINVAL, "rmsg_mprobe: message is NULL");
    m = probe_find(msg, "rmsg_mprobe", from, space, tag, flags, &rc);
    if (m == NULL)
        return rc;
    match_unwait(&msg->waiting, &m->match);
    m->taken = true;
    probe_status(m, status);
    *message = pool_handle(&m->item);
    return 0;
}

int rmsg_mprobe(rmsg_t msg, int from, uint32_t space, uint32_t tag, rmsg_message_t *message,
                rmsg_status_t *status, int flags)
{
    int rc = msg_enter(msg, "rmsg_mprobe");

    return rc != 0 ? rc : msg_leave(msg, probe_take(msg, from, space, tag, message, status, flags));
}

/* The message of a handle; NULL: *rc is the code. */
static struct msg_message *probe_message(struct rmsg *msg, const char *call, rmsg_message_t handle,
                                         int *rc)
{
    struct msg_message *m;

    *rc = msg_check_call(msg, call, 0, 0);
    if (*rc != 0)
        return NULL;
    m = pool_by_handle(&msg->messages, handle);
    if (m != NULL && m->taken)
        return m;
    *rc = msg_fail(-EINVAL, "%s: there is no message 0x%llx, or it has been received or freed",
                   call, (unsigned long long)handle);
    return NULL;
}

static int probe_receive(struct rmsg *msg, rmsg_message_t *message, void *buf, size_t room,
                         rmsg_status_t *status)
{
    struct msg_message *m;
    struct msg_request *r;
    struct match_key key;
    int rc;

    if (message == NULL || (buf == NULL && room > 0))
        return msg_fail(-EINVAL, "rmsg_mrecv: %s is NULL", message == NULL ? "message" : "buf");
    m = probe_message(msg, "rmsg_mrecv", *message, &rc);
    if (m == NULL)
        return rc;
    key = m->match.node[MATCH_EXACT].key;
    r = msg_request_make(msg, "rmsg_mrecv", false, key.source, key.space, key.tag, buf, room);
    if (r == NULL)
        return -ENOMEM;
    *message = 0;
    r->blocking = true;
    msg_arrive_take(msg, m, r);
    return msg_wait_blocking(msg, r, status, "rmsg_mrecv");
}

int rmsg_mrecv(rmsg_t msg, rmsg_message_t *message, void *buf, size_t room, rmsg_status_t *status)
{
    int rc = msg_enter(msg, "rmsg_mrecv");

    return rc != 0 ? rc : msg_leave(msg, probe_receive(msg, message, buf, room, status));
}

static int probe_peek(struct rmsg *msg, rmsg_message_t message, const void **where)
{
    struct msg_message *m;
    int rc;

    if (where == NULL)
        return msg_fail(-EINVAL, "rmsg_peek: where is NULL");
    m = probe_message(msg, "rmsg_peek", message, &rc);
    if (m == NULL)
        return rc;
    if (m->offered)
        return msg_fail(-ENOTSUP,
                        "rmsg_peek: the %zu bytes of the message are still at rank %d; "
                        "rmsg_mrecv receives them",
                        m->bytes, m->link->peer);
    *where = msg_kept_payload(m);
    return 0;
}

int rmsg_peek(rmsg_t msg, rmsg_message_t message, const void **where)
{
    int rc = msg_enter(msg, "rmsg_peek");

    return rc != 0 ? rc : msg_leave(msg, probe_peek(msg, message, where));
}

static int probe_free(struct rmsg *msg, rmsg_message_t *message)
{
    struct msg_message *m;
    int rc;

    if (message == NULL)
        return msg_fail(-EINVAL, "rmsg_free: message is NULL");
    m = probe_message(msg, "rmsg_free", *message, &rc);
    if (m == NULL)
        return rc;
    *message = 0;
    msg_kept_drop(msg, m);
    return 0;
}

int rmsg_free(rmsg_t msg, rmsg_message_t *message)
{
    int rc = msg_enter(msg, "rmsg_free");

    return rc != 0 ? rc : msg_leave(msg, probe_free(msg, message));
}
