/* SPDX-License-Identifier: BSD-3-Clause */
/* arrive.h: messages of a pipe that have arrived on a link, and messages that have waited for a receive. */
#ifndef MSG_ARRIVE_H
#define MSG_ARRIVE_H

#include "msg/kept.h"
#include "msg/msg.h"

/*
 * Handles what rtake has returned, other than R_PENDING: 0; or a negative code: the link has ended. The message is freed, or stays in
 * the memory of the pipe until a receive matches it.
 */
int msg_arrive(struct msg_link *l, int rc, const rtaken_t *m);

/* msg_arrive, and then of what else has arrived on the link: up to `most` messages together. */
void msg_arrive_several(struct msg_link *l, int rc, rtaken_t *m, int most);

/* Takes what has arrived on a link, up to so many messages. True: something was there. An error completes its requests. */
static inline bool msg_arrive_some(struct msg_link *l, int most)
{
    rtaken_t m;
    int rc = MSG_LIKELY(l->state != LINK_ENDED) ? rpipe_take(l->in, &m) : R_PENDING;

    if (rc == R_PENDING)
        return false;
    msg_arrive_several(l, rc, &m, most);
    return true;
}

/* The share of the sender here allows a message with its payload, and it has a tag. */
static inline bool msg_arrive_allows(const struct msg_link *l, uint32_t tag, size_t bytes)
{
    return tag != RMSG_ANY_TAG &&
           l->in_units + msg_wire_units(bytes) - l->in_reported <= l->msg->share;
}

/* Such a message has arrived. */
static inline void msg_arrive_count(struct msg_link *l, size_t bytes)
{
    l->in_units += msg_wire_units(bytes);
    l->seen++;
}

/* It is for a receive that waits: its first bytes are copied, and it is not needed any more. */
static inline void msg_arrive_copy(struct msg_link *l, const rtaken_t *m, char *to, size_t bytes)
{
    l->msg->counts.received_posted++;
    if (MSG_LIKELY(bytes == sizeof(uint64_t)))
        memcpy(to, m->mem, sizeof(uint64_t));
    else if (bytes > 0)
        memcpy(to, m->mem, bytes);
    msg_taken_free(l, m);
    msg_kept_consumed(l, m->bytes);
}

/* A message that waits is matched by a receive, which completes, or whose payload begins to move. The message is freed. */
void msg_arrive_take(struct rmsg *msg, struct msg_message *m, struct msg_request *r);

#endif
