/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Classes of sizes, and sets of them.
 */
#include "alloc/size_class.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void size_classes_ascend_and_are_exact_where_small(void **state)
{
    uint32_t last = 0;

    (void)state;
    for (uint32_t units = 1; units <= 15; units++)
        assert_int_equal(size_class(units), units);
    for (uint64_t units = 16; units <= UINT32_MAX; units += units < 100000 ? 1 : units / 999) {
        uint32_t c = size_class((uint32_t)units), octave = c / 8 - 1;

        assert_true(c == last || c == last + 1 || last == 0);
        last = c;
        assert_true(c < SIZE_CLASSES);
        assert_int_equal(units >> octave, c % 8 + 8); /* an eighth of an octave */
    }
    assert_int_equal(size_class(UINT32_MAX), SIZE_CLASSES - 1);
}

static void listed_classes_ascend_and_are_exact_up_to_their_lists(void **state)
{
    uint32_t last = 0;

    (void)state;
    for (uint32_t units = 1; units <= LISTED_UNITS; units++)
        assert_int_equal(listed_class(units), units - 1);
    assert_int_equal(listed_class(LISTED_UNITS + 1), LISTED_UNITS);
    for (uint64_t units = 1; units <= UINT32_C(1) << 31; units += 1 + units / 999) {
        const uint32_t c = listed_class((uint32_t)units);

        assert_true((c == last || c == last + 1) && c < FINE_CLASSES);
        if (units > LISTED_UNITS)
            assert_int_equal(c - LISTED_UNITS, size_class((uint32_t)units) - size_class(65));
        last = c;
    }
}

static void a_set_of_classes_is_searched(void **state)
{
    struct class_set set = {.words = 0};
    bool there[SIZE_CLASSES] = {false};
    unsigned random = 1;

    (void)state;
    assert_int_equal(class_set_from(&set, 0), SIZE_CLASS_NONE);
    assert_int_equal(class_set_last(&set), SIZE_CLASS_NONE);
    for (unsigned i = 0; i < 50000; i++) {
        uint32_t c, from, expected, last = SIZE_CLASS_NONE;

        random = random * 1664525u + 1013904223u;
        c = (random >> 8) % SIZE_CLASSES;
        there[c] = (random >> 20) % (i / 1000 % 10 + 2) == 0;
        if (there[c])
            class_set_add(&set, c);
        else
            class_set_remove(&set, c);
        from = (random >> 4) % SIZE_CLASSES;
        for (expected = from; expected < SIZE_CLASSES && !there[expected];)
            expected++;
        assert_int_equal(class_set_from(&set, from),
                         expected < SIZE_CLASSES ? expected : SIZE_CLASS_NONE);
        for (uint32_t k = 0; k < SIZE_CLASSES; k++)
            last = there[k] ? k : last;
        assert_int_equal(class_set_last(&set), last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_classes_ascend_and_are_exact_where_small),
        cmocka_unit_test(listed_classes_ascend_and_are_exact_up_to_their_lists),
        cmocka_unit_test(a_set_of_classes_is_searched),
    };

    return cmocka_run_group_tests_name("size classes", tests, NULL, NULL);
}
