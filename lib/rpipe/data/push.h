/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * push.h: the payload of a message is pushed out of the writer's cache for a reader that waits (doc/protocol.md "Pushed payloads").
 *
 * A line that one processor has stored to and another one loads comes from the first one's cache, 140 ns away. One that has been
 * pushed to the cache that they share (CLDEMOTE, a hint) is nearer. In a stream that is a loss: the writer, which is what a stream
 * waits for, has to fetch the line again a lap later. So the reader decides. It counts the polls of its waits, and stores into the
 * control line for payloads of how many bytes the last 8 waits were long enough, each for one message or two. A stream never gets
 * there, also one whose reader waits for each message, and whose payloads have been pushed.
 *
 * Nothing of that is on the way of a message: the count is stored with each poll, before the flag is loaded again, and a wait is
 * judged when the next one begins, if a block has been read since. A pipe of small messages judges nothing.
 *
 * It is a hint at both ends: whatever the peer stores changes how long a message takes, and nothing else.
 */
#ifndef RPIPE_DATA_PUSH_H
#define RPIPE_DATA_PUSH_H

#include "rpipe/end/rch.h"

#define PUSH_MOST 2048     /* bytes of a payload; the writer does not rely on the reader for it */
#define PUSH_WHOLE_WAIT 64 /* polls: a wait that took the slow path */

/* A wait for message `number` begins, and blocks have been read since the last one that was judged: the wait before it is judged. */
void push_judge(struct ring_control *control, struct push_waits *waits, uint64_t number,
                uint64_t taken) NOINLINE;

/* The writer, after the flag. */
void push_lines(const char *payload, size_t bytes);

/* The reader begins to wait, and has time. */
static FORCE_INLINE bool push_judges(const struct rch *ch)
{
    return ch->r.waits.taken != ch->r.blocks.taken;
}

static inline void push_wait(struct rch *ch)
{
    push_judge(&ch->ring->control, &ch->r.waits, ch->r.nread, ch->r.blocks.taken);
}

static FORCE_INLINE bool push_is_due(const struct rch *ch, const struct rdesc *d)
{
    return d->size < atomic_load_explicit(&ch->ring->control.push_below, memory_order_relaxed);
}

#endif
