/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * debug_guard.h: RMALLOC_DEBUG=1: stores beyond a message, and to one that the program does not own any more (debug_guard.c).
 *
 * The functions are for an end that is `checked`. What they find is logged once, where it is found.
 */
#ifndef RPIPE_END_DEBUG_GUARD_H
#define RPIPE_END_DEBUG_GUARD_H

#include "rpipe/end/rch.h"

/* The program gets a message, or its size has changed: fills the bytes behind it. */
void debug_guard_fill(struct rch *ch, struct rdesc *d);
/* It gives it away: 0, or -EUCLEAN and the message, once. */
int debug_guard_check(struct rch *ch, struct rdesc *d);

/* Writer, before the flag of the slot: a message of the heap at d->mem. */
void debug_guard_seal(const struct rch *ch, struct slot *s, const struct rdesc *d, size_t bytes);
/* Reader: keeps what the writer has stored into the slot, a private copy, with the message. */
void debug_guard_keep(const struct slot *copy, struct rdesc *d);
/* Reader, before the program gets message `number`. `behind`: the bytes behind it are mapped too. */
void debug_guard_arrived(struct rch *ch, struct rdesc *d, uint64_t number, bool behind);

/* A message without a block has been given away; the next one is about to be taken from the pool. */
void debug_guard_poison(struct rdesc *d);
void debug_guard_check_poison(struct rch *ch);

#endif
