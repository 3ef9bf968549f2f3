/* SPDX-License-Identifier: BSD-3-Clause */
/* request.c: see request.h. */
#include "msg/request.h"

#include "msg/fail.h"

#include <errno.h>

static inline void request_init(struct msg_request *r, bool send, int peer, uint32_t space,
                                uint32_t tag, void *buf, size_t bytes)
{
    r->state = MSG_INACTIVE;
    r->send = send;
    r->sync = r->persistent = r->abandoned = false;
    r->advertised = r->wishing = r->undoing = r->blocking = false;
    r->peer = peer;
    r->space = space;
    r->tag = tag;
    r->rtr = 0;
    r->link = NULL;
    r->cell = NULL;
    r->held = 0;
    r->buf = buf;
    r->bytes = bytes;
    list_init(&r->queue);
    list_init(&r->undo_queue);
}

struct msg_request *msg_request_make(struct rmsg *msg, const char *call, bool send, int peer,
                                     uint32_t space, uint32_t tag, void *buf, size_t bytes)
{
    struct msg_request *r = pool_get(&msg->requests);

    if (MSG_UNLIKELY(r == NULL)) {
        (void)msg_fail(-ENOMEM, "%s: no memory for a request; %u are active, at most %u can be",
                       call, msg->requests.used, RMSG_REQUESTS);
        return NULL;
    }
    request_init(r, send, peer, space, tag, buf, bytes);
    return r;
}

void msg_request_free(struct rmsg *msg, struct msg_request *r)
{
    pool_put(&msg->requests, &r->item);
}

/*
 * A receive that is cancelled has got its message: it is complete, whether or not the sender answers the UNDO. A request that nothing
 * else refers to waits for the answer; without memory for one the receive does.
 */
static __attribute__((cold, noinline)) void request_leave_undo(struct rmsg *msg,
                                                               struct msg_request *r)
{
    struct msg_request *g = pool_get(&msg->requests);

    if (g == NULL)
        return;
    request_init(g, false, r->peer, r->space, r->tag, NULL, 0);
    g->state = MSG_DONE;
    g->abandoned = g->undoing = true;
    g->undo = r->undo;
    list_insert(&r->undo_queue, &g->undo_queue);
    list_remove(&r->undo_queue);
    r->undoing = false;
}

static inline void msg_request_complete(struct rmsg *msg, struct msg_request *r, int code)
{
    r->state = MSG_DONE;
    if (MSG_UNLIKELY(r->undoing))
        request_leave_undo(msg, r);
    r->status.error = code;
    r->rtr = 0; /* numbers begin at 1: a REFUSED that comes later is not for its next start */
    if (r->cell != NULL) {
        list_remove(&r->queue);
        if (r->send)
            r->link->cell_of[r->cell_number] = NULL;
        r->cell = NULL;
    }
    if (MSG_UNLIKELY(r->abandoned && !r->undoing))
        msg_request_free(msg, r);
}

void msg_request_sent(struct msg_request *r, int code)
{
    struct rmsg *msg = r->link->msg;

    r->status =
        (rmsg_status_t){.from = msg->rank, .space = r->space, .tag = r->tag, .bytes = r->bytes};
    msg_request_complete(msg, r, code);
}

void msg_request_received(struct rmsg *msg, struct msg_request *r, int code)
{
    if (code == 0 && r->status.bytes > r->bytes)
        code = -EMSGSIZE;
    if (code == 0)
        msg->counts.bytes_in += r->status.bytes;
    msg_request_complete(msg, r, code);
}

void msg_request_end_sends(struct msg_link *l, int code)
{
    struct rmsg *msg = l->msg;

    for (uint32_t i = 1; i < msg->requests.chunks * POOL_CHUNK; i++) {
        struct msg_request *r = pool_by_index(&msg->requests, i);

        if (r == NULL || !r->send || r->link != l || r->state == MSG_DONE ||
            r->state == MSG_INACTIVE)
            continue;
        list_remove(&r->queue);
        msg_request_stop(r);
        msg_request_sent(r, msg_request_is_moved(r) ? 0 : code);
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
