/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rule_1.c: the actions of a process take effect in program order.
 *
 * Guaranteed: within a pipe messages are read in the order of rwrite, whatever the order of rmalloc.
 * Not guaranteed: an order between two pipes. The reader finds the second message in its pipe, and may have neither read the first one in
 * the other pipe nor be able to.
 */
#include "test/litmus/litmus.h"

enum { MESSAGES = 8, BYTES = 256, ROUNDS = 50 };

static void guaranteed(rpipe_op_t op)
{
    rch_t ch = litmus_open(1, op, MESSAGES, BYTES);
    raddr_t d[MESSAGES];
    size_t order[MESSAGES];
    uint64_t draw = (uint64_t)op;

    for (unsigned round = 0; round < ROUNDS; round++) {
        mp_shuffle(order, MESSAGES, &draw);
        for (size_t i = 0; litmus_writer && i < MESSAGES; i++)
            CHECK(ch, (d[i] = rmalloc(ch, BYTES)) != ADDR_NULL);
        for (size_t i = 0; i < MESSAGES; i++) {
            uint64_t key = mp_key(0, 1, round, i);

            if (litmus_writer) {
                pattern_fill(mp_mem(ch, d[order[i]]), BYTES, key);
                CHECK_OK(ch, rwrite(ch, d[order[i]]));
            } else {
                mp_read_free(ch, BYTES, key);
            }
        }
    }
    litmus_close(ch);
}

static void not_guaranteed(rpipe_op_t op)
{
    rch_t first = litmus_open(2, op, MESSAGES, BYTES), second = litmus_open(3, op, MESSAGES, BYTES);
    raddr_t d;
    int not_there = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t key = mp_key(0, 1, 100, round);

        if (litmus_writer) {
            mp_send(first, BYTES, key);
            mp_send(second, BYTES, key + 1);
            continue;
        }
        mp_read_free(second, BYTES, key + 1); /* the younger one is read, the older one is not */
        if (rread_nb(first, &d, NULL) == R_PENDING) {
            not_there++;
            CHECK_OK(first, rread(first, &d, NULL));
        }
        CHECK(first, pattern_same(mp_mem(first, d), BYTES, key));
        CHECK_OK(first, rfree(first, d));
    }
    if (!litmus_writer)
        litmus_seen("the older message of another pipe had not arrived", op, not_there, ROUNDS);
    litmus_close(first);
    litmus_close(second);
}
