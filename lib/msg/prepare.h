/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prepare.h: memory for the next message, whose lines this process has before the message is there.
 *
 * A message of more bytes than a slot has is copied into memory of the pipe, which the receiver has read when it was last used: each
 * line is taken away from the cache of the receiver while the copy waits for it. A process that has sent and waits for an answer has the
 * time to do that before. So if two messages of equal length have left for a rank of this host, the next call that waits and finds
 * nothing allocates a block for a third one, and fetches a few of its lines for writing in each poll. That message takes the block.
 *
 * Invariants
 * 1. A link has at most one such block, of at most PREPARE_MOST bytes: allocated, not written. It is freed before anything of another
 *    length is allocated from the pipe, so it keeps memory from no message and no part.
 * 2. Calls that do not wait prepare nothing, and neither do messages of different lengths one after the other.
 * 3. msg->preparing is the link whose block is to be allocated, or has lines that were not fetched; or NULL.
 */
#ifndef MSG_PREPARE_H
#define MSG_PREPARE_H

#include "msg/msg.h"

#define PREPARE_MOST (16u << 10)

/* A poll that has found nothing: a step, if there is any. */
void msg_prepare_step(struct rmsg *msg) __attribute__((noinline));
static inline void msg_prepare(struct rmsg *msg)
{
    if (msg->preparing != NULL)
        msg_prepare_step(msg);
}

/* A message of so many bytes has left through memory of the pipe. */
static inline void msg_prepare_next(struct msg_link *l, size_t bytes)
{
    if (bytes != l->prepared.last)
        l->prepared.last = bytes;
    else if (l->mapped && bytes <= PREPARE_MOST)
        l->msg->preparing = l;
}

/* Frees the block. */
void msg_prepare_drop(struct msg_link *l) __attribute__((noinline));

/* The pipe `out` is about to be closed. */
static inline void msg_prepare_end(struct msg_link *l)
{
    if (l->msg->preparing == l)
        l->msg->preparing = NULL;
    if (l->prepared.bytes != 0)
        msg_prepare_drop(l);
}

/* True: *d is the block for a message of so many bytes. False: there is none. */
static inline bool msg_prepare_take(struct msg_link *l, size_t bytes, raddr_t *d)
{
    if (l->prepared.bytes == 0)
        return false;
    if (l->prepared.bytes != bytes) {
        msg_prepare_drop(l);
        return false;
    }
    *d = l->prepared.d;
    l->prepared.bytes = 0;
    l->msg->counts.prepared++;
    return true;
}

#endif
