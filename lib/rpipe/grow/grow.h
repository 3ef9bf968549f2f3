/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * grow.h: growth of a heap, as the writer's and the reader's calls and the service thread see it (grow.c).
 */
#ifndef RPIPE_GROW_GROW_H
#define RPIPE_GROW_GROW_H

#include "rpipe/end/end.h"
#include "rpipe/end/feature.h"

#include <rpipe_transitional.h>

/* Only where max_alloc_size allows growth. */
extern const struct end_feature growth_feature;
void grow_stats(struct rch *ch, rpipe_stats_t *st);
uint64_t grow_heap_bytes(struct rch *ch); /* of the heap now, all segments */

/* ---- writer ---- */
void grow_apply(struct rch *ch); /* STATE_GROW_REPLY: takes up what has been granted */
bool grow_could(const struct rch *ch,
                size_t size); /* a segment for this request is allowed, or one is under way */
uint64_t grow_left(const struct rch *ch); /* bytes up to the limit */

enum grow_outlook {
    GROW_AGAIN,   /* it has grown: try again */
    GROW_PENDING, /* asked */
    GROW_LATER,   /* it has not been full for long */
    GROW_REFUSED, /* there was no memory, less than a second ago */
    GROW_NEVER,   /* at its limit */
};
/* There is no room for `size`. `urgent`: waiting for the reader would be in vain. Only with ch->growth, joined. */
enum grow_outlook grow_when_full(struct rch *ch, size_t size, bool urgent);
void grow_not_needed(struct rch *ch, size_t size); /* there was, after all. Only with ch->growth */
int64_t grow_after(const struct rch *ch); /* how long it has to be full, ns. Only with ch->growth */

/* ---- reader ---- */
uint32_t grow_refresh(
    struct rch *ch); /* takes note of new segments: how many there are. Only with ch->growth */
/* A message beyond the first segment: where it lies; NULL: nowhere. */
void *grow_find(struct rch *ch, uint64_t offset, uint64_t size) NOINLINE;

/* ---- both, over a network ---- */
/* Where an offset beyond the first segment lies: fills all of t but its length. False: nowhere. */
bool grow_locate(struct rch *ch, uint64_t offset, struct btl_transfer *t);

#endif
