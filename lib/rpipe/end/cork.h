/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cork.h: corked ends: their messages may be held, and are then posted together (doc/threads.md).
 *
 * A thread has a table of the ends in which it has left messages that may be held, and posts them before it waits, and before a call
 * returns R_PENDING to it: what it waits for may be the answer to one of them.
 *
 * Invariants
 * 1. An end that holds a message is in the table of the thread that wrote it, and `cork_table` of the end is that table.
 * 2. Only the thread of a table reads it. An entry counts as long as `cork_table` of its end is this table: an end that was closed,
 *    and whose memory another rpipe() has now, has another value or NULL. The memory of ends is type-stable (end_pool.c).
 * 3. What is held is also posted by flush, get and atomic of its connection, and when CORK_MOST messages are.
 * 4. A thread whose table has an entry has set `cork_used` before. So polls of a process that has never corked anything, which is most of
 *    them, do without the address of a variable of their thread: in a shared library that is a call, a tenth of such a poll.
 */
#ifndef RPIPE_END_CORK_H
#define RPIPE_END_CORK_H

#include "util/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CORK_MOST 32u /* messages that are posted together */

struct rch;

/* Entries of the table of this thread. */
extern _Thread_local uint32_t cork_entries;
/* A thread of this process has had an entry. */
extern _Atomic bool cork_used;

/* A message has been written to this end, which is corked, by this thread. */
void cork_note(struct rch *ch);
/* The end is not corked any more, or closed: it holds nothing. */
void cork_forget(struct rch *ch);
/* Posts all that this thread has left in corked ends. */
void cork_release(void) NOINLINE;

static inline void cork_before_wait(void)
{
    /* relaxed: set by this thread, if its table has entries */
    if (UNLIKELY(atomic_load_explicit(&cork_used, memory_order_relaxed)) && cork_entries != 0)
        cork_release();
}

#endif
