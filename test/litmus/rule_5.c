/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rule_5.c: a write becomes visible to the read that belongs to it.
 *
 * Guaranteed: a reader that waits gets the message, all of its bytes, and each once and in order, without any further call of the
 * writer.
 * Not guaranteed: a time. A reader that does not wait finds nothing, and one that waits with a deadline may meet it.
 */
#include "test/litmus/litmus.h"

enum { BLOCKS = 4, BYTES = 4096, MESSAGES = 200 };

static void guaranteed(rpipe_op_t op)
{
    rch_t ch = litmus_open(1, op, BLOCKS, BYTES);

    for (unsigned i = 0; i < MESSAGES; i++) {
        size_t bytes = 1 + i * 37 % BYTES;

        if (litmus_writer)
            mp_send(ch, bytes, mp_key(0, 1, 1, i));
        else
            mp_read_free(ch, bytes, mp_key(0, 1, 1, i));
    }
    if (litmus_writer)
        mp_send(ch, BYTES, mp_key(0, 1, 1, MESSAGES));
    else
        mp_read_free(ch, BYTES, mp_key(0, 1, 1, MESSAGES));
    if (litmus_writer)
        litmus_await(); /* no call on ch while the last message travels */
    else
        litmus_signal();
    litmus_close(ch);
}

static void not_guaranteed(rpipe_op_t op)
{
    rch_t ch = litmus_open(2, op, BLOCKS, BYTES);
    raddr_t d;

    CHECK_OK(ch, rwait(ch));
    if (litmus_writer) {
        litmus_await(); /* the reader has asked before there is a message */
        mp_send(ch, BYTES, mp_key(0, 1, 2, 0));
    } else {
        CHECK_RC(R_PENDING, ch, rread_nb(ch, &d, NULL));
        CHECK_OK(ch, rset_timeout(ch, 1));
        CHECK_RC(-ETIMEDOUT, ch, rread(ch, &d, NULL));
        CHECK_OK(ch, rset_timeout(ch, 0));
        litmus_signal();
        mp_read_free(ch, BYTES, mp_key(0, 1, 2, 0)); /* and nothing is lost by that */
    }
    litmus_close(ch);
}
