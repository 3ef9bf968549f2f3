/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rule_3.c: an allocation is before the loads and stores of its memory.
 *
 * Guaranteed: the memory that rmem returns belongs to this message alone: what is stored into others is not found in it.
 * Not guaranteed: its contents. It is as the last message left it.
 */
#include "test/litmus/litmus.h"

enum { MESSAGES = 8, BYTES = 256, ROUNDS = 50 };

static void guaranteed(rpipe_op_t op)
{
    rch_t ch = litmus_open(1, op, MESSAGES, BYTES);
    raddr_t d[MESSAGES];

    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; litmus_writer && i < MESSAGES; i++) {
            CHECK(ch, (d[i] = rmalloc(ch, BYTES)) != ADDR_NULL);
            pattern_fill(mp_mem(ch, d[i]), BYTES, mp_key(0, 1, round, i));
        }
        for (unsigned i = 0; i < MESSAGES; i++) {
            if (litmus_writer) {
                CHECK(ch, pattern_same(mp_mem(ch, d[i]), BYTES, mp_key(0, 1, round, i)));
                CHECK_OK(ch, rwrite(ch, d[i]));
            } else {
                mp_read_free(ch, BYTES, mp_key(0, 1, round, i));
            }
        }
    }
    litmus_close(ch);
}

static bool litmus_zero(const void *p)
{
    static const uint8_t zero[BYTES];

    return memcmp(p, zero, BYTES) == 0;
}

static void not_guaranteed(rpipe_op_t op)
{
    rch_t ch = litmus_open(2, op, 1, BYTES); /* memory for one message */
    raddr_t d;

    if (litmus_writer) {
        mp_send(ch, BYTES, mp_key(0, 1, 2, 0));
        CHECK(ch, (d = rmalloc(ch, BYTES)) != ADDR_NULL); /* the same memory again */
        CHECK(ch, !litmus_zero(mp_mem(ch, d)));
        CHECK_OK(ch, rfree(ch, d));
    } else {
        mp_read_free(ch, BYTES, mp_key(0, 1, 2, 0));
    }
    litmus_close(ch);
}
