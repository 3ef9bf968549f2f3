/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rule_2.c: the two rpipe of a pipe belong together.
 *
 * Guaranteed: the n-th opening of one end is joined to the n-th of the other, however far one of them is ahead; after rwait both
 * ends are open.
 * Not guaranteed: that the peer has called rpipe when rpipe returns. If rpipe waited for that, this program would not end.
 */
#include "test/litmus/litmus.h"

enum { OPENINGS = 4, BYTES = 256 };

static void guaranteed(rpipe_op_t op)
{
    for (unsigned n = 0; n < OPENINGS; n++) {
        rch_t ch = litmus_open(1, op, 2, BYTES);

        CHECK_OK(ch, rwait(ch)); /* joined: the peer has opened its n-th end, and no other one */
        if (litmus_writer)
            mp_send(ch, BYTES, mp_key(0, 1, 1, n));
        else
            mp_read_free(ch, BYTES, mp_key(0, 1, 1, n));
        litmus_close(ch);
    }
}

static void not_guaranteed(rpipe_op_t op)
{
    rch_t ch;

    if (!litmus_writer)
        litmus_await(); /* until rpipe has returned at the other end */
    ch = litmus_open(2, op, 2, BYTES);
    if (litmus_writer)
        litmus_signal();
    CHECK_OK(ch, rwait(ch));
    litmus_close(ch);
}
