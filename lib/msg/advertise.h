/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * advertise.h: posted receives, and which of them the sender is informed about (RTR).
 *
 * A receive whose source and tag are given, and whose buffer is large, is advertised with its place (places.h), in the order of
 * posting; not while a receive with a wildcard that was posted earlier could take its message, and not while an UNDO of this link is
 * not answered. It is advertised at most once, unless an UNDO has taken that back.
 */
#ifndef MSG_ADVERTISE_H
#define MSG_ADVERTISE_H

#include "msg/msg.h"

/* Posts a receive, for which no message waits. l: the link of its source, or NULL. */
void msg_advertise_posted(struct msg_link *l, struct msg_request *r) __attribute__((noinline));
static inline void msg_post(struct rmsg *msg, struct msg_request *r, struct msg_link *l)
{
    r->state = MSG_POSTED;
    r->node.key = (struct match_key){r->tag, r->peer, r->space};
    match_post(&msg->posted, &r->node);
    if (MSG_UNLIKELY(r->bytes >= msg->advertise_least) && l != NULL && r->tag != RMSG_ANY_TAG)
        msg_advertise_posted(l, r);
}

/* A posted receive is matched, or ends: it is not advertised any more. */
void msg_advertise_unposted(struct rmsg *msg, struct msg_request *r) __attribute__((noinline));
static inline void msg_unpost(struct rmsg *msg, struct msg_request *r)
{
    match_unpost(&msg->posted, &r->node);
    if (MSG_UNLIKELY(r->wishing | r->advertised | (msg->wishing > 0)))
        msg_advertise_unposted(msg, r);
}

/* Sends the RTRs that are possible now. */
void msg_advertise(struct msg_link *l);
/* Cancels a posted receive: it completes now, or when the peer has answered. */
void msg_advertise_cancel(struct rmsg *msg, struct msg_request *r);
/* UNDONE has come. False: there is no UNDO with this number. */
bool msg_advertise_undone(struct msg_link *l, uint32_t number);
/* REFUSED has come for a receive that is posted. */
void msg_advertise_refused(struct msg_link *l, struct msg_request *r);

/* Completes all receives from the peer of a link, or whose message came from it, with a code. */
void msg_advertise_end(struct msg_link *l, int code);

#endif
