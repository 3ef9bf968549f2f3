/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * end.h: all headers of rpipe/end at once, and declarations of rpipe/data, for sources that do not name yet what they need.
 */
#ifndef RPIPE_END_END_H
#define RPIPE_END_END_H

#include "rpipe/connect/join.h"
#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "rpipe/end/connector.h"
#include "rpipe/end/debug_check.h"
#include "rpipe/end/end_pool.h"
#include "rpipe/end/error.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/message.h"
#include "rpipe/end/rch.h"
#include "rpipe/end/state.h"

#include "alloc/heap.h"
#include "rpipe/end/counters.h"
#include "util/error.h"

/* ---- credit.c: the writer's view of the credit line ---- */
int credit_open(struct rch *ch); /* the books of blocks that are out; 0 or -ENOMEM */
void credit_close(struct rch *ch);
void credit_rescale(struct rch *ch); /* the heap has grown */
enum credit_need {
    NEED_SLOT,   /* what stands in the way is the ring */
    NEED_SOON,   /* nothing yet (watermark) */
    NEED_MEMORY, /* the heap, or the bound on messages outstanding (sync_queue) */
};
int credit_fetch(struct rch *ch,
                 enum credit_need need); /* 0, or -EPROTO: what the reader says cannot be */
int credit_apply(
    struct rch *ch); /* over a network: all that the mirror says; not while it is being fetched */
int credit_take_named(
    struct rch *ch); /* over a network: blocks that the reader has named in this end's own memory */

/* ---- read.c ---- */
bool reader_message_before_join(
    struct rch *ch); /* the writer is joined and has written, this end is not joined yet */
bool reader_message_ready(struct rch *ch);       /* rread would not wait for one. Joined */
uint64_t reader_delivered(const struct rch *ch); /* messages that rread has returned */
/* Takes the message of a slot that is complete, and that nobody changes, out of the ring. */
int read_take(struct rch *ch, const char *call, const struct slot *s, raddr_t *d);

/* ---- write.c ---- */
/* A block has been handed over: one more is out. */
static FORCE_INLINE void writer_count_block(struct writer *w, struct rdesc *d)
{
    d->state = DESC_SENT;
    if (w->table.entry == NULL) {
        d->link = NULL;
        if (w->newest != NULL)
            w->newest->link = d;
        else
            w->oldest = d;
        w->newest = d;
    }
    w->heap_sent++;
    w->units_out += d->units;
    if (UNLIKELY(w->units_out >= w->units_look))
        w->look_at = 0; /* behind this message */
}
int write_unalloc(struct rch *ch, struct rdesc *d);              /* rfree of the writer */
int end_flush(struct rch *ch, const char *call, enum side side); /* side 0: an end with cells */

#endif
