/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * grow.h: growth of a heap, for the calls of writer and reader and for the service thread (grow.c).
 */
#ifndef RPIPE_GROW_GROW_H
#define RPIPE_GROW_GROW_H

#include "rpipe/end/feature.h"
#include "rpipe/end/message.h"
#include "rpipe/end/rch.h"

/* On the wire, in both directions. head.number: k; head.code: of the reply. */
struct grow_message {
    struct end_message_head head;
    uint64_t bytes;
    struct btl_key key; /* of the end whose memory it is */
};
static_assert(sizeof(struct grow_message) == 72, "on the wire");

/* Only where max_heap_bytes allows growth. */
extern const struct end_feature growth_feature;
uint64_t grow_heap_bytes(struct rch *ch); /* of the heap now, all segments */

/* ---- writer ---- */
void grow_apply(struct rch *ch); /* STATE_GROW_REPLY: takes up a granted segment */
/* A segment for a request of `size` is allowed, or one is in flight. */
bool grow_could(const struct rch *ch, size_t size);
uint64_t grow_left(const struct rch *ch); /* bytes up to the limit */

enum grow_outlook {
    GROW_AGAIN,   /* it has grown: try again */
    GROW_PENDING, /* requested */
    GROW_LATER,   /* it has not been full for grow_after */
    GROW_REFUSED, /* an end had no memory, less than a second ago */
    GROW_NEVER,   /* at its limit */
};
/* No block of `size` bytes is free. `urgent`: waiting for the reader cannot help. Only with ch->growth, joined. */
enum grow_outlook grow_when_full(struct rch *ch, size_t size, bool urgent);
void grow_not_needed(struct rch *ch, size_t size); /* `size` was allocated. Only with ch->growth */
int64_t grow_after(const struct rch *ch); /* ns that it has to be full. Only with ch->growth */

/* ---- reader ---- */
/* Takes note of new segments; returns how many there are. Only with ch->growth. */
uint32_t grow_refresh(struct rch *ch);
/* Where a message beyond the first segment is; NULL: in no segment. */
void *grow_find(struct rch *ch, uint64_t offset, uint64_t size) NOINLINE;

/* ---- both, over a network ---- */
/* Where an offset beyond the first segment is: fills all of `t` but its length. False: in no segment. */
bool grow_locate(struct rch *ch, uint64_t offset, struct btl_transfer *t);

#endif
