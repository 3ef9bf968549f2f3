/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.h: links to peers: opening, accepting, greeting, their end.
 *
 *     CLOSED -> OPENING    both pipes are open, in one step
 *     OPENING -> OPEN      the own greeting has left, and that of the peer has come
 *     any -> ENDED         for ever: the peer has died, or has closed its context, or has ended the link; or this process ends it,
 *                          because the peer has violated the protocol, or memory of a message is not accessible
 *
 * A process that ends a link sends END, and closes the pipe that it writes: so the peer does not wait for it.
 */
#ifndef MSG_LINK_H
#define MSG_LINK_H

#include "msg/msg.h"

struct msg_link *msg_link_open(struct rmsg *msg, int peer, const char *call, int *rc);

/* The link to a rank, opened if it is not; NULL: *rc is the code, and the message is set. */
static inline struct msg_link *msg_link_to(struct rmsg *msg, int peer, const char *call, int *rc)
{
    struct msg_link *l = msg->link[peer];

    *rc = 0;
    return MSG_LIKELY(l != NULL && l->state != LINK_CLOSED) ? l
                                                            : msg_link_open(msg, peer, call, rc);
}
/* Opens links to peers that have opened one to this process; sends greetings. */
void msg_link_accept(struct rmsg *msg);
/* The first message of a peer: its greeting. 0 or the code of the end of the link. */
int msg_link_greeted(struct msg_link *l, const struct msg_wire *w, const rtaken_t *m);
/* Ends a link; returns code. Its requests complete with it; messages that are here stay. */
int msg_link_end(struct msg_link *l, int code, const char *why);
/* The same where it is this process that ends it; the peer is informed. Returns the code of the reason. */
int msg_link_abort(struct msg_link *l, enum msg_wire_reason reason, const char *why)
    __attribute__((cold));
int msg_link_violation(struct msg_link *l, const char *what) __attribute__((cold)); /* -EPROTO */
/* END has arrived. NULL. */
const char *msg_link_ended(struct msg_link *l, enum msg_wire_reason reason) __attribute__((cold));
/* The code of a send or receive on a link that has ended; sets the message. */
int msg_link_failed(const struct msg_link *l, const char *call) __attribute__((cold));
/* The context is closed: sends whose payload has not moved are not complete at the peer. */
void msg_link_stop(struct msg_link *l);
void msg_link_close(struct msg_link *l); /* and frees it */

#endif
