/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rfree_queues.c: channel mode over a network whose queues are nearly always full: rfree does not wait for them, and every
 * freed block comes back to the writer, although the reader makes no further call.
 */
#include "test/lib/pair.h"

#define MESSAGES 64
#define BYTES 512
#define HEAP (MESSAGES * BYTES)

static void freed_blocks_come_back(rpipe_op_t op)
{
    rpipe_config_t cfg = pair_config(op, HEAP);
    raddr_t held[MESSAGES];
    size_t size;
    struct pair p;

    cfg.mode = RPIPE_SYNC_CHANNEL;
    cfg.heuristic = RMALLOC_FIRST_FIT;
    cfg.sync_queue = MESSAGES;
    cfg.unit_bytes = BYTES;
    cfg.slots = MESSAGES;
    cfg.max_cqe = 1;
    pair_open_with(&p, &cfg);
    for (int lap = 0; lap < 3; lap++) {
        for (int i = 0; i < MESSAGES; i++) {
            raddr_t d = rmalloc(p.w, BYTES);

            assert_true(d != ADDR_NULL);
            CHECK_OK(p.w, rwrite(p.w, d));
        }
        for (int i = 0; i < MESSAGES; i++)
            CHECK_OK(p.r, rread(p.r, &held[i], &size));
        for (int i = MESSAGES; i-- > 0;)
            CHECK_OK(p.r, rfree(p.r, held[i]));
    }
    held[0] = rmalloc(p.w, HEAP); /* all of it: waits until the last block is back */
    assert_true(held[0] != ADDR_NULL);
    CHECK_OK(p.w, rfree(p.w, held[0]));
    pair_close(&p);
}

static void test_freed_blocks_come_back_put(void **state)
{
    (void)state;
    freed_blocks_come_back(RPIPE_PUT);
}

static void test_freed_blocks_come_back_get(void **state)
{
    (void)state;
    freed_blocks_come_back(RPIPE_GET);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_freed_blocks_come_back_put),
        cmocka_unit_test(test_freed_blocks_come_back_get),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
