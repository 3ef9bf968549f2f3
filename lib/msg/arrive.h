/* SPDX-License-Identifier: BSD-3-Clause */
/* arrive.h: messages of a pipe that have arrived on a link: those for receives, and those about sends. */
#ifndef MSG_ARRIVE_H
#define MSG_ARRIVE_H

#include "msg/msg.h"

/*
 * Handles what rread_nb has returned, other than R_PENDING: 0; or a negative code: the link has ended. The message d is freed, or
 * stays in the memory of the pipe until a receive matches it.
 */
int msg_arrive(struct msg_link *l, int rc, raddr_t d, size_t size);

/* Messages about sends: RTR, CTS, FIN, UNDO, CREDIT. NULL, or what is wrong with it. */
const char *msg_arrive_about_send(struct msg_link *l, const struct msg_wire *w,
                                  const struct msg_wire_fields *f);

/* A message that waits is matched by a receive, which completes, or whose payload begins to move. The message is freed. */
void msg_arrive_take(struct rmsg *msg, struct msg_message *m, struct msg_request *r);
/* Frees a message that is not in msg->waiting; one whose payload is at the sender is reported as matched. */
void msg_arrive_drop(struct rmsg *msg, struct msg_message *m);
/* So many units are not kept any more. */
void msg_arrive_consumed(struct msg_link *l, size_t bytes);
/* Frees the messages of a link whose payload is at the sender. */
void msg_arrive_end(struct msg_link *l);

/* The payload of a message that is here. */
static inline const void *msg_arrive_payload(const struct msg_message *m)
{
    return m->d != ADDR_NULL ? rmalloc_ptr(m->link->in, m->d) : m->slot;
}

#endif
