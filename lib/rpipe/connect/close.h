/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * close.h: closing an end, its close message, and the release of its memory (close.c, deferred_close.c).
 */
#ifndef RPIPE_CONNECT_CLOSE_H
#define RPIPE_CONNECT_CLOSE_H

#include "rpipe/end/message.h"
#include "rpipe/end/rch.h"

/* rclose and rcells_close, named `name`. `force`: also while transfers from or to the program's memory are in flight. */
int end_close(struct rch *ch, const char *name, bool force);

/* Allocates the close message, so that closing never fails for lack of memory. 0 or -ENOMEM. */
int close_prepare(struct rch *ch);
/* Rendezvous lock held: sets CLOSED; the service thread does not use the end's descriptors any more. */
void close_set_closed_locked(struct rch *ch);
/* Rendezvous lock held: `final` messages were written, or read. */
void close_post_locked(struct rch *ch, uint64_t final);

/* Gives back the memory of an end that was never registered. */
void end_release_unopened(struct rch *ch);
/* Releases a closed end that is not needed any more: it may be gone afterwards. */
void end_release_if_done(struct rch *ch);
void end_release_locked(struct rch *ch); /* the same with the rendezvous lock held */
/* rexit, without a service thread: releases all ends and clears the rendezvous table. */
void end_release_all(void);

extern const struct message_handler close_message_handler;

/* ---- deferred_close.c ---- */

int deferred_close_start(void);                            /* rinit: 0 or -ENOMEM */
void deferred_close_begin(struct rch *ch, uint64_t final); /* closes it; the message follows */
void deferred_close_finish(int64_t deadline);              /* rexit: waits for all */

#endif
