/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks of a payload that two ends copy (lib/msg/cell.h): every byte belongs to one chunk, no chunk is copied twice, and an end that
 * gives up is noticed by the other one, with a number of taken chunks that are all done in the end.
 */
#include "msg/cell.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { CHUNKS = 64, ROUNDS = 3000 };

static struct msg_cell cell;
static _Atomic unsigned char copied[CHUNKS];
static _Atomic int round_of[2];

static void lengths(void **state)
{
    static const uint64_t bytes[] = {1,
                                     4097,
                                     CELL_SHORT_CHUNK,
                                     CELL_SHORT,
                                     CELL_SHORT + 1,
                                     UINT64_C(1) << 30,
                                     (UINT64_C(1) << 40) + 4095,
                                     SIZE_MAX / 2};

    (void)state;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        const uint64_t chunk = cell_chunk_bytes(bytes[i]), chunks = cell_chunks(bytes[i]);

        assert_true(chunk % 4096 == 0 && chunks <= CELL_CHUNKS_MOST && chunks >= 1);
        assert_true((chunks - 1) * chunk < bytes[i] && bytes[i] - (chunks - 1) * chunk <= chunk);
    }
}

static void copy_all(void)
{
    uint64_t chunk;

    while (cell_take(&cell, CHUNKS, &chunk)) {
        atomic_fetch_add(&copied[chunk], 1);
        cell_copied(&cell);
    }
}

/* Both threads begin a round together: each waits for the number of the other one. */
static void meet(int who, int round)
{
    atomic_store(&round_of[who], round);
    while (atomic_load(&round_of[1 - who]) < round)
        sched_yield();
}

static void *other_end(void *argument)
{
    (void)argument;
    for (int round = 1; round <= 2 * ROUNDS; round++) {
        meet(1, 2 * round);
        copy_all();
        meet(1, 2 * round + 1);
    }
    return NULL;
}

static void chunks_are_copied_once(int round)
{
    cell_begin(&cell, true);
    memset((void *)copied, 0, sizeof(copied));
    meet(0, 2 * round);
    copy_all();
    while (cell_done(&cell) != CHUNKS)
        sched_yield();
    for (int i = 0; i < CHUNKS; i++)
        assert_int_equal(atomic_load(&copied[i]), 1);
    meet(0, 2 * round + 1);
}

static void an_end_gives_up(int round)
{
    const uint64_t who = round % 2 ? CELL_SENDER_STOPS : CELL_RECEIVER_STOPS;
    uint64_t taken, chunk;

    cell_begin(&cell, false);
    assert_false(cell_is_open(&cell));
    cell_open(&cell);
    meet(0, 2 * round);
    for (int i = round % 7; i > 0 && cell_take(&cell, CHUNKS, &chunk); i--)
        cell_copied(&cell);
    taken = cell_stop(&cell, who, CHUNKS);
    assert_true(taken <= CHUNKS && !cell_take(&cell, CHUNKS, &chunk));
    while ((cell_done(&cell) & CELL_COUNT) < taken)
        sched_yield();
    assert_true((cell_done(&cell) & who) != 0);
    assert_true(cell_stop(&cell, who, CHUNKS) >= taken); /* the other end may count attempts */
    meet(0, 2 * round + 1);
    assert_int_equal(cell_done(&cell) & CELL_COUNT, taken);
}

static void both_ends(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, other_end, NULL), 0);
    for (int round = 1; round <= ROUNDS; round++)
        chunks_are_copied_once(round);
    for (int round = ROUNDS + 1; round <= 2 * ROUNDS; round++)
        an_end_gives_up(round);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths),
        cmocka_unit_test(both_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
