/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cork.c: see cork.h.
 */
#include "rpipe/end/cork.h"

#include "rpipe/end/call_context.h"
#include "rpipe/end/path.h"

/* Corked ends of a thread between two of its waits. One more, and the messages of all are posted. */
#define CORK_ENDS 64

static _Thread_local struct rch *cork_table[CORK_ENDS];
_Thread_local uint32_t cork_entries;
_Atomic bool cork_used;

void cork_note(struct rch *ch)
{
    if (LIKELY(ch->cork_table == cork_table))
        return;
    if (cork_entries == CORK_ENDS)
        cork_release();
    atomic_store_explicit(&cork_used, true, memory_order_relaxed);
    ch->cork_table = cork_table;
    cork_table[cork_entries++] = ch;
}

void cork_forget(struct rch *ch) { ch->cork_table = NULL; }

/*
 * A failure of the connection is reported by the next call on the end. Counted, since it posts, and fast paths call it too; once a
 * thread is in rexit, that posts what is held.
 */
void cork_release(void)
{
    uint32_t i, n = cork_entries;
    struct call call;

    call_enter(&call, call_name());
    cork_entries = 0;
    if (calls_ended())
        n = 0;
    for (i = 0; i < n; i++) {
        struct rch *ch = cork_table[i];
        uint32_t state = atomic_load_explicit(&ch->state, memory_order_relaxed);

        if (ch->cork_table != cork_table || (state & (STATE_CLOSED | STATE_FORKED)) != 0)
            continue;
        ch->cork_table = NULL;
        ch->path->hold(ch, ch->corked);
    }
    call_leave(&call);
}
