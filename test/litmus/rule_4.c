/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rule_4.c: a remote allocation is before the write into its memory, and the write before the communication that it causes.
 *
 * Guaranteed: rmalloc returns no memory of a message that the reader has not freed; after rflush the message is at the peer.
 * Not guaranteed: that it is there when rwrite returns.
 */
#include "test/litmus/litmus.h"

enum { BLOCKS = 4, BYTES = 256, ROUNDS = 50 };

static void full_until_freed(rpipe_op_t op)
{
    rch_t ch = litmus_open(1, op, BLOCKS, BYTES);
    raddr_t d;

    if (litmus_writer) {
        for (unsigned i = 0; i < BLOCKS; i++)
            mp_send(ch, BYTES, mp_key(0, 1, 1, i));
        CHECK_RC(R_PENDING, ch, rmalloc_nb(ch, BYTES, &d)); /* nothing is freed */
        litmus_signal();
        CHECK(ch, (d = rmalloc(ch, BYTES)) != ADDR_NULL); /* waits for the first rfree */
        CHECK_OK(ch, rfree(ch, d));
    } else {
        litmus_await();
        for (unsigned i = 0; i < BLOCKS; i++)
            mp_read_free(ch, BYTES, mp_key(0, 1, 1, i));
    }
    litmus_close(ch);
}

/* Is the message there at the first poll, when the writer is known to be behind rwrite, and rflush? */
static int not_there(rch_t ch, bool flush)
{
    raddr_t d;
    int n = 0, rc;

    for (unsigned i = 0; i < ROUNDS; i++) {
        if (litmus_writer) {
            mp_send(ch, BYTES, mp_key(0, 1, 2, i));
            if (flush)
                CHECK_OK(ch, rflush(ch));
            litmus_signal();
            litmus_await();
            continue;
        }
        litmus_await();
        rc = rread_nb(ch, &d, NULL);
        n += rc == R_PENDING;
        if (rc == R_PENDING)
            CHECK_OK(ch, rread(ch, &d, NULL));
        CHECK(ch, pattern_same(mp_mem(ch, d), BYTES, mp_key(0, 1, 2, i)));
        CHECK_OK(ch, rfree(ch, d));
        litmus_signal();
    }
    return n;
}

static void guaranteed(rpipe_op_t op)
{
    rch_t ch = litmus_open(2, op, BLOCKS, BYTES);
    int n = not_there(ch, true);

    /* GET over a network: the notification is there, and the reader may have to fetch the payload */
    CHECK(ch, op == RPIPE_GET || n == 0);
    litmus_close(ch);
    full_until_freed(op);
}

static void not_guaranteed(rpipe_op_t op)
{
    rch_t ch = litmus_open(3, op, BLOCKS, BYTES);
    int n = not_there(ch, false);

    if (!litmus_writer)
        litmus_seen("not there when rwrite had returned", op, n, ROUNDS);
    litmus_close(ch);
}
