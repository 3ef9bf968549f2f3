/* SPDX-License-Identifier: BSD-3-Clause */
/* request.h: requests: making, completing and freeing them. */
#ifndef MSG_REQUEST_H
#define MSG_REQUEST_H

#include "msg/msg.h"

/* A new request, INACTIVE; NULL: no memory, the message is set. */
struct msg_request *msg_request_make(struct rmsg *msg, const char *call, bool send, int peer,
                                     uint32_t space, uint32_t tag, void *buf, size_t bytes);
void msg_request_free(struct rmsg *msg, struct msg_request *r);

/* A send has completed; frees it if it was abandoned. */
void msg_request_sent(struct msg_request *r, int code);
/* A receive has completed: code, or 0 and the length of the message decides. */
void msg_request_received(struct rmsg *msg, struct msg_request *r, int code);

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
