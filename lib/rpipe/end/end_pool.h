/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * end_pool.h: type-stable memory of ends (end_pool.c).
 */
#ifndef RPIPE_END_END_POOL_H
#define RPIPE_END_END_POOL_H

#include <stddef.h>

struct rch;

struct rch *end_pool_take(void);            /* zeroed, STATE_CLOSED; NULL: no memory */
void end_pool_put(struct rch *ch);          /* closed and released: may be taken again */
void end_pool_put_unopened(struct rch *ch); /* the program has no handle of it */
struct rch *end_pool_next(size_t *cursor);  /* every end that was ever taken */
void end_pool_publish(void);                /* publishes the ends of an earlier job */
void end_pool_forked(void);                 /* in the child of a fork, before any store to an end */

#endif
