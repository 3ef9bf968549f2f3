/* SPDX-License-Identifier: BSD-3-Clause */
/* request.c: see request.h. */
#include "msg/request.h"

#include "msg/buffer.h"
#include "msg/fail.h"

#include <errno.h>

void msg_request_made(void *object)
{
    struct msg_request *r = object;

    list_init(&r->queue);
}

void msg_request_no_memory(const struct rmsg *msg, const char *call)
{
    (void)msg_fail(-ENOMEM, "%s: no memory for a request; %u are active, at most %u can be", call,
                   msg->requests.used, RMSG_REQUESTS);
}

/*
 * A receive that is cancelled has got its message: it is complete, whether or not the sender answers the UNDO. A request that nothing
 * else refers to waits for the answer; without memory for one the receive does.
 */
static void request_leave_undo(struct rmsg *msg, struct msg_request *r)
{
    struct msg_request *g = pool_get(&msg->requests);

    if (g == NULL)
        return;
    msg_request_init(g, false, r->peer, r->space, r->tag, NULL, 0);
    g->state = MSG_DONE;
    g->abandoned = g->undoing = true;
    g->undo = r->undo;
    list_insert(&r->undo_queue, &g->undo_queue);
    list_remove(&r->undo_queue);
    r->undoing = false;
}

void msg_request_leave(struct rmsg *msg, struct msg_request *r)
{
    if (r->undoing)
        request_leave_undo(msg, r);
    if (r->cell != NULL) {
        list_remove(&r->queue);
        if (r->send)
            r->link->cell_of[r->cell_number] = NULL;
        r->cell = NULL;
    }
    if (r->lent != NULL)
        msg_buffer_leave(r);
    if (r->abandoned && !r->undoing)
        msg_request_free(msg, r);
}

void msg_request_end_sends(struct msg_link *l, int code)
{
    struct rmsg *msg = l->msg;

    for (uint32_t i = 1; i < msg->requests.objects; i++) {
        struct msg_request *r = pool_by_index(&msg->requests, i);

        if (r == NULL || !r->send || r->link != l || r->state == MSG_DONE ||
            r->state == MSG_INACTIVE)
            continue;
        list_remove(&r->queue);
        msg_request_stop(r);
        msg_request_sent(r, msg_request_is_moved(r) || msg_buffer_is_moved(r) ? 0 : code);
    }
}

void msg_request_abandon(struct rmsg *msg, struct msg_request *r)
{
    r->persistent = false;
    r->abandoned = true;
    if (r->state == MSG_DONE || r->state == MSG_INACTIVE) {
        if (!r->undoing)
            msg_request_free(msg, r);
        return;
    }
    if (r->state == MSG_QUEUED) {
        list_remove(&r->queue);
        msg_request_sent(r, -ECANCELED);
        return;
    }
    r->buf = NULL;
}
