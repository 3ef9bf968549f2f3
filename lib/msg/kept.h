/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kept.h: messages that no receive has matched: in memory of the pipe, in a copy of their slot, or offered by the sender.
 *
 * What is consumed is reported to the sender (CREDIT), a quarter of its share at a time.
 */
#ifndef MSG_KEPT_H
#define MSG_KEPT_H

#include "msg/msg.h"

/* Keeps a message: what rtake has handed over, or (offer not NULL) one whose payload is at the sender. NULL, or what is wrong. */
const char *msg_kept_add(struct msg_link *l, const struct msg_wire *w, const rtaken_t *taken,
                         const struct msg_wire_fields *offer);
/* Frees a message that is not in msg->waiting. */
void msg_kept_free(struct rmsg *msg, struct msg_message *m);
/* The same; one whose payload is at the sender is reported as matched. */
void msg_kept_drop(struct rmsg *msg, struct msg_message *m);
/* Reports to the sender how much has been consumed. */
void msg_kept_report(struct msg_link *l);

/* A message of so many bytes takes no memory of its share any more. */
static inline void msg_kept_consumed(struct msg_link *l, size_t bytes)
{
    l->in_consumed += msg_wire_units(bytes);
    if (MSG_UNLIKELY(l->in_consumed - l->in_reported >= l->msg->share / 4))
        msg_kept_report(l);
}
/* Frees the messages of a link whose payload is at the sender. */
void msg_kept_end(struct msg_link *l);

/* The payload of a message that is here. */
static inline const void *msg_kept_payload(const struct msg_message *m)
{
    return m->d != ADDR_NULL ? rmalloc_ptr(m->link->in, m->d) : m->slot;
}

#endif
