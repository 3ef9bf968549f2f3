/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rule_6.c: between two uses of the same memory there is an rfree.
 *
 * Guaranteed: what the reader holds stays as it is, however many messages come meanwhile.
 * Not guaranteed: anything about memory behind rfree. Within a host the next message is found there, at an address that the reader has
 * kept. RMALLOC_DEBUG=1 makes such memory a pattern.
 */
#include "test/litmus/litmus.h"

enum { BLOCKS = 4, BYTES = 256, MESSAGES = 100 };

static void guaranteed(rpipe_op_t op)
{
    rch_t ch = litmus_open(1, op, BLOCKS, BYTES);
    raddr_t held[BLOCKS - 1];

    if (litmus_writer) {
        for (unsigned i = 0; i < BLOCKS - 1 + MESSAGES; i++)
            mp_send(ch, BYTES, mp_key(0, 1, 1, i));
    } else {
        for (unsigned i = 0; i < BLOCKS - 1; i++)
            held[i] = mp_receive(ch, BYTES, mp_key(0, 1, 1, i));
        for (unsigned i = 0; i < MESSAGES; i++)
            mp_read_free(ch, BYTES, mp_key(0, 1, 1, BLOCKS - 1 + i)); /* through the last block */
        for (unsigned i = 0; i < BLOCKS - 1; i++) {
            CHECK(ch, pattern_same(mp_mem(ch, held[i]), BYTES, mp_key(0, 1, 1, i)));
            CHECK_OK(ch, rfree(ch, held[i]));
        }
    }
    litmus_close(ch);
}

static void not_guaranteed(rpipe_op_t op)
{
    rch_t ch = litmus_open(2, op, 1, BYTES); /* memory for one message */
    const void *kept;
    raddr_t d;

    if (litmus_writer) {
        mp_send(ch, BYTES, mp_key(0, 1, 2, 0));
        mp_send(ch, BYTES, mp_key(0, 1, 2, 1));
    } else {
        d = mp_receive(ch, BYTES, mp_key(0, 1, 2, 0));
        kept = mp_mem(ch, d);
        CHECK_OK(ch, rfree(ch, d));
        d = mp_receive(ch, BYTES, mp_key(0, 1, 2, 1));
        if (mp_mem(ch, d) == kept) /* the heap has one place; receive buffers of GET have several */
            CHECK(ch, !pattern_same(kept, BYTES, mp_key(0, 1, 2, 0)));
        else
            CHECK(ch, op == RPIPE_GET && !mp_at_once(ch));
        CHECK_OK(ch, rfree(ch, d));
    }
    litmus_close(ch);
}
