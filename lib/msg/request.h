/* SPDX-License-Identifier: BSD-3-Clause */
/* request.h: requests: making, completing and freeing them. */
#ifndef MSG_REQUEST_H
#define MSG_REQUEST_H

#include "msg/msg.h"

#include <errno.h>

/* A new object of the pool of requests. */
void msg_request_made(void *object);

/* The state, and no flag but `send`. */
static inline void msg_request_begin(struct msg_request *r, enum msg_state state, bool send)
{
    r->state = state;
    r->send = send;
    r->sync = r->persistent = r->abandoned = false;
    r->advertised = r->wishing = r->undoing = r->blocking = false;
}

/*
 * INACTIVE. What a free request has is not set; undo_queue is set where it is used; lent, window, transfer and earlier are 0 in a new request,
 * and in one that has completed.
 */
static inline void msg_request_init(struct msg_request *r, bool send, int peer, uint32_t space,
                                    uint32_t tag, void *buf, size_t bytes)
{
    msg_request_begin(r, MSG_INACTIVE, send);
    r->peer = peer;
    r->space = space;
    r->tag = tag;
    r->link = NULL;
    r->buf = buf;
    r->bytes = bytes;
}

void msg_request_no_memory(const struct rmsg *msg, const char *call) __attribute__((cold));

/* A request that is free until now; NULL: no memory, the message is set. */
static inline struct msg_request *msg_request_get(struct rmsg *msg, const char *call)
{
    struct msg_request *r = pool_get(&msg->requests);

    if (MSG_UNLIKELY(r == NULL))
        msg_request_no_memory(msg, call);
    return r;
}

/* A new request; NULL: no memory, the message is set. */
static inline struct msg_request *msg_request_make(struct rmsg *msg, const char *call, bool send,
                                                   int peer, uint32_t space, uint32_t tag,
                                                   void *buf, size_t bytes)
{
    struct msg_request *r = msg_request_get(msg, call);

    if (MSG_LIKELY(r != NULL))
        msg_request_init(r, send, peer, space, tag, buf, bytes);
    return r;
}

static inline void msg_request_free(struct rmsg *msg, struct msg_request *r)
{
    pool_put(&msg->requests, &r->item);
}

/* A request that is DONE has a cell or a registered buffer, or its receive was cancelled, or it was abandoned: then it is freed. */
void msg_request_leave(struct rmsg *msg, struct msg_request *r) __attribute__((noinline));

static inline void msg_request_complete(struct rmsg *msg, struct msg_request *r, int code)
{
    r->state = MSG_DONE;
    r->status.error = code;
    r->rtr = 0; /* numbers begin at 1: a REFUSED that comes later is not for its next start */
    if (MSG_UNLIKELY(r->cell != NULL || r->lent != NULL || r->undoing || r->abandoned))
        msg_request_leave(msg, r);
}

/* A send has completed; frees it if it was abandoned. */
static inline void msg_request_sent(struct msg_request *r, int code)
{
    struct rmsg *msg = r->link->msg;

    r->status =
        (rmsg_status_t){.from = msg->rank, .space = r->space, .tag = r->tag, .bytes = r->bytes};
    msg_request_complete(msg, r, code);
}

/* A send that has left before it had a request: this one is DONE, and was begun as such. */
static inline void msg_request_sent_already(const struct rmsg *msg, struct msg_request *r,
                                            uint32_t space, uint32_t tag, size_t bytes)
{
    r->status = (rmsg_status_t){.from = msg->rank, .space = space, .tag = tag, .bytes = bytes};
}

/* A receive has completed: code, or 0 and the length of the message decides. */
static inline void msg_request_received(struct rmsg *msg, struct msg_request *r, int code)
{
    if (code == 0 && r->status.bytes > r->bytes)
        code = -EMSGSIZE;
    if (code == 0)
        msg->counts.bytes_in += r->status.bytes;
    msg_request_complete(msg, r, code);
}

/* Completes all sends of a link with a code. */
void msg_request_end_sends(struct msg_link *l, int code);

static inline bool msg_request_done(const struct msg_request *r)
{
    return r->state == MSG_DONE && !r->undoing;
}

/* Both ends have copied all chunks of its payload. */
static inline bool msg_request_is_moved(const struct msg_request *r)
{
    return r->cell != NULL && (r->send ? r->state == MSG_MOVING : r->state == MSG_ARRIVING) &&
           cell_done(r->cell) == r->chunks;
}

/* A send ends now: if its payload has not moved, the peer must not take it for complete. */
static inline void msg_request_stop(struct msg_request *r)
{
    if (r->cell != NULL && !msg_request_is_moved(r))
        (void)cell_stop(r->cell, CELL_SENDER_STOPS, r->chunks);
}

/* What the program does not wait for is completed by the peer, and freed then. */
void msg_request_abandon(struct rmsg *msg, struct msg_request *r);

/* The message of a receive is known. */
static inline void msg_request_matched(struct msg_request *r, struct msg_link *l, uint32_t space,
                                       uint32_t tag, size_t bytes)
{
    r->link = l;
    r->status.from = l->peer;
    r->status.space = space;
    r->status.tag = tag;
    r->status.bytes = bytes;
    r->total = bytes < r->bytes ? bytes : r->bytes;
    r->moved = 0;
}

#endif
