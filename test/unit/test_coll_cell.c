/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_coll_cell.c: the board of a member of a team: cells are disjoint, and those of slot 0 pairs of lines; what `started` shows of an operation,
 * also where its 16 bits of a lap wrap.
 */
#include "coll/engine/cell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define CHECK_A UINT32_C(0x12345678)
#define CHECK_B UINT32_C(0x12345679)
#define ROUND (UINT64_C(65536) * HEAD_STARTED) /* operations until a word is as it was */

static void cells_are_disjoint(void **state)
{
    static unsigned char used[32 * 1024 / CACHE_LINE];

    (void)state;
    for (uint32_t depth = 4; depth <= HEAD_STARTED; depth *= 2) {
        memset(used, 0, sizeof(used));
        for (uint32_t slot = 0; slot < CELL_SLOTS; slot++)
            for (uint64_t number = 1; number <= cell_depth(depth, slot); number++) {
                size_t at = cell_index(depth, number, slot);

                assert_true(at % 2 == 0 || slot > 0);
                assert_int_equal(at, cell_index(depth, number + cell_depth(depth, slot), slot));
                for (uint32_t line = 0; line < cell_lines(slot); line++)
                    assert_int_equal(used[at + line]++, 0);
            }
        assert_null(memchr(used, 0, cell_count(depth)));
        assert_int_equal(used[cell_count(depth)], 0);
    }
}

static void a_word_shows_what_has_begun(void **state)
{
    const uint64_t numbers[] = {1, 63, 64, 1000, ROUND - 65, ROUND - 64, ROUND, 3 * ROUND + 7};

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        uint64_t number = numbers[i], later = number + HEAD_STARTED;
        uint32_t word = head_started(number, CHECK_A), next = head_started(later, CHECK_A);

        assert_true(head_has_begun(word, number));
        assert_true(head_has_begun(next, number));
        assert_false(head_has_begun(word, later));
        assert_false(head_contradicts(word, number, CHECK_A));
        assert_true(head_contradicts(word, number, CHECK_B));
        assert_false(head_contradicts(word, later, CHECK_B));
    }
}

/* Whatever the number is: the word that it would have with a check of 0 may be 0 too. */
static void no_word_shows_nothing(void **state)
{
    (void)state;
    for (uint64_t number = 1; number < 2 * ROUND; number += HEAD_STARTED) {
        assert_false(head_has_begun(0, number));
        assert_false(head_contradicts(0, number, CHECK_A));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_disjoint),
        cmocka_unit_test(a_word_shows_what_has_begun),
        cmocka_unit_test(no_word_shows_nothing),
    };

    return cmocka_run_group_tests_name("the board of a team", tests, NULL, NULL);
}
