/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gather.h: writes that follow each other closely are sent together.
 *
 * A sendmsg(2) costs more than everything else of a short write. So when several writes have
 * followed each other at once, further ones stay in the queue until there are GATHER_BYTES. What
 * stays is sent by a following call of progress, on any connection (not by the first one behind a
 * write, see progress.c), or by the service thread GATHER_US later, rounded up to the milliseconds
 * that it waits in. A write after a pause is sent at once; behind a short one, as where the writer
 * had no credits, a long stream is gathered again from the second write on.
 */
#ifndef BTL_TCP_GATHER_H
#define BTL_TCP_GATHER_H

#include "btl/tcp/tcp.h"

#define GATHER_BYTES 4096u /* then they are sent */
#define GATHER_US 100

void gather_init(struct btl *btl);
void gather_stop(struct btl *btl);
/* In the child of a fork: makes the lock usable. */
void gather_forked(struct btl *btl);

/*
 * Lock of the connection held, a write has been queued: whether it may stay there. Then the
 * service thread sends it, if no other thread does.
 */
bool gather_write(struct btl_connection *c);
/* Lock of the connection held: a write that may not has been sent. */
void gather_sent(struct btl_connection *c);
/* Lock of the connection held: nothing is to be sent for it any more. */
void gather_forget(struct btl_connection *c);
/* No lock held: sends what stays in the queues of all connections. */
void gather_send_all(struct btl *btl);

static inline bool gather_is_empty(const struct btl *btl)
{
    /* relaxed: what is added at this moment is sent by the service thread */
    return atomic_load_explicit(&btl->gathered_count, memory_order_relaxed) == 0;
}

#endif
