/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * credit.c: the writer picks up credits (DESIGN §5 "Backward", thesis §4.4.1 block synchronization).
 *
 * The two words of the credit line are independent: neither is ever checked against the other. Each may only grow, up to
 * what has been sent. The prefix of freed messages is applied to the writer's own FIFO of blocks, oldest slot first.
 */
#include "rpipe/channel.h"

#include <errno.h>
#include <stdio.h>

static int cannot_be(struct rch *ch, const char *what, uint64_t there, uint64_t least, uint64_t most)
{
    char reason[192];

    snprintf(reason, sizeof(reason), "rank %d says that %llu %s; it can only be %llu to %llu", ch->peer,
             (unsigned long long)there, what, (unsigned long long)least, (unsigned long long)most);
    join_fail(ch, -EPROTO, reason);
    return fail(ch, -EPROTO, "%s", reason);
}

/* At the watermark; once it is passed, not before the ring is full: each look takes the line away from the reader. */
static void schedule(struct writer *w, uint64_t sent, uint64_t read)
{
    w->look_at = sent - read < w->look_step ? read + w->look_step : UINT64_MAX;
}

int credit_fetch(struct rch *ch)
{
    struct writer *w = &ch->w;
    uint64_t sent = atomic_load_explicit(&w->sent, memory_order_relaxed), slots = (uint64_t)ch->mask + 1,
             known = w->limit - slots;
    /* acquire: pairs with the release in read_take, so that a slot is copied out before it is overwritten, */
    uint64_t read = atomic_load_explicit(&ch->credit->line.slots_read, memory_order_acquire);
    /* and with the release in the reader's rfree: its last look at a block comes before our next store there */
    uint64_t freed = atomic_load_explicit(&ch->credit->line.heap_freed, memory_order_acquire);

    ch->credit_fetches++;
    if (read - known > sent - known)
        return cannot_be(ch, "slots are read", read, known, sent);
    if (freed - w->heap_applied > w->heap_sent - w->heap_applied)
        return cannot_be(ch, "heap messages are freed", freed, w->heap_applied, w->heap_sent);
    w->limit = read + slots;
    schedule(w, sent, read);
    for (; w->heap_applied != freed; w->heap_applied++) {
        struct rdesc *d = w->oldest;

        w->oldest = d->link;
        if (w->oldest == NULL)
            w->newest = NULL;
        heap_free(w->heap, d);
    }
    return 0;
}
