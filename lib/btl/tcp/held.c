/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held.c: see held.h.
 *
 * Invariant: the first `held.bytes` bytes in the socket have been processed; its peek offset is
 * behind them.
 *
 * Whether a read will find one message is not known before: the last SHORTS decide, so that streams,
 * in which some reads do, take their bytes by one call. An end that has sent something since the
 * last read takes them too: the acknowledgement goes with what it sends next.
 */
#include "btl/tcp/held.h"

#include <errno.h>
#include <sys/socket.h>

#define SHORT_BYTES 512u /* a read of no more is short, whatever it found */
#define LONG_BYTES 8192u /* of so many or fewer too, if it found one slot; of more it is taken */
#define SHORTS 2u
/* A peer may send 10 segments, TCP's initial window, before the first acknowledgement. */
#define READS_MOST 8u
#define BYTES_MOST LONG_BYTES
#define READS_IDLE 5u    /* so many are taken by the first read that finds nothing, */
#define BYTES_IDLE 440u  /* and several of so many bytes: one can have found several segments */
#define PENDING_MOST 64u /* reads that find nothing before fewer are taken: some 20 us */
#define TAKEN_BYTES (2 * LONG_BYTES) /* by one call */

void held_begin(struct btl_connection *c)
{
    static const int beginning = 0;

    c->held.possible =
        setsockopt(c->fd, SOL_SOCKET, SO_PEEK_OFF, &beginning, sizeof(beginning)) == 0;
}

int held_take(struct btl_connection *c)
{
    char taken[TAKEN_BYTES]; /* not written to: MSG_TRUNC */

    while (c->held.bytes > 0) {
        const size_t most = c->held.bytes < sizeof(taken) ? c->held.bytes : sizeof(taken);
        const ssize_t n = recv(c->fd, taken, most, MSG_DONTWAIT | MSG_TRUNC);

        if (n <= 0)
            return -EIO;
        c->held.bytes -= (uint32_t)n;
    }
    c->held.reads = c->held.pending = 0;
    return 0;
}

/* What a read that leaves its bytes in the socket has found. */
static ssize_t held_found(struct btl_connection *c, ssize_t n)
{
    struct tcp_held *h = &c->held;
    bool take;

    if (n > 0) {
        h->bytes += (uint32_t)n;
        h->reads++;
        h->pending = 0;
        take = n > LONG_BYTES;
    } else {
        h->pending++;
        take = h->reads >= READS_IDLE || (h->reads > 1 && h->bytes >= BYTES_IDLE) ||
               h->pending >= PENDING_MOST;
    }
    return take && held_take(c) != 0 ? -EIO : n;
}

/* What the last read has found is known now. */
static void held_count(struct tcp_held *h)
{
    if (h->last == 0)
        return;
    if (h->last <= SHORT_BYTES || (h->last <= LONG_BYTES && h->slots == 1))
        h->shorts++;
    else
        h->shorts = 0;
    h->last = 0;
}

ssize_t held_read(struct btl_connection *c, void *to, size_t bytes)
{
    struct tcp_held *h = &c->held;
    bool hold;
    ssize_t n;

    held_count(h);
    hold = h->possible && h->shorts >= SHORTS && h->reads < READS_MOST && h->bytes < BYTES_MOST &&
           h->added == c->queue.added;
    if (!hold && held_take(c) != 0)
        return -EIO;
    n = recv(c->fd, to, bytes, MSG_DONTWAIT | (hold ? MSG_PEEK : 0));
    n = n < 0 ? -errno : n;
    if (n > 0) {
        h->last = (uint32_t)n;
        h->slots = 0;
        h->added = c->queue.added;
    }
    return hold ? held_found(c, n) : n;
}
