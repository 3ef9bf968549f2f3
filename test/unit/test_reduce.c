/* SPDX-License-Identifier: BSD-3-Clause */
/* rgroup_combine(3): an operator of each kind beside plain C; what there is no operator for. All of them: test_fold. */
#include "test/lib/check.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <rpipe.h>

#include <cmocka.h>

static void test_operators(void **state)
{
    uint32_t words[2] = {UINT32_MAX, 5}, more[2] = {2, 7};
    struct rgroup_double_index at[2] = {{2.5, 4}, {-1.0, 9}}, other[2] = {{2.5, 3}, {0.0, 0}};
    uint16_t small = 0x3c00; /* 1 */

    (void)state;
    CHECK_OK(NULL, rgroup_combine(words, more, 2, RGROUP_UINT32, RGROUP_SUM));
    assert_true(words[0] == 1 && words[1] == 12);
    CHECK_OK(NULL, rgroup_combine(at, other, 2, RGROUP_DOUBLE_INDEX, RGROUP_MIN));
    assert_true(at[0].index == 3 && at[1].index == 9 && at[1].value == -1.0);
    CHECK_OK(NULL, rgroup_combine(&small, &(uint16_t){0x4000}, 1, RGROUP_FLOAT16, RGROUP_SUM));
    assert_int_equal(small, 0x4200);
}

/* a value that is none loses; what there is no operator for */
static void test_no_numbers(void **state)
{
    double into[3] = {NAN, 1.0, NAN}, nan[3] = {1.0, NAN, NAN};
    uint64_t word = 1;

    (void)state;
    CHECK_OK(NULL, rgroup_combine(into, nan, 3, RGROUP_DOUBLE, RGROUP_MIN));
    assert_true(into[0] == 1.0 && into[1] == 1.0 && isnan(into[2]));
    into[0] = NAN;
    CHECK_OK(NULL, rgroup_combine(into, nan, 3, RGROUP_DOUBLE, RGROUP_MAX));
    assert_true(into[0] == 1.0 && into[1] == 1.0 && isnan(into[2]));
    for (rgroup_op_t op = RGROUP_BAND; op <= RGROUP_LOR; op++) {
        CHECK_RC(-EINVAL, NULL, rgroup_combine(&word, &word, 1, RGROUP_DOUBLE, op));
        CHECK_RC(-EINVAL, NULL, rgroup_combine(&word, &word, 1, RGROUP_FLOAT, op));
    }
    CHECK_RC(-EINVAL, NULL, rgroup_combine(&word, &word, 1, (rgroup_type_t)18, RGROUP_SUM));
    CHECK_RC(-EINVAL, NULL, rgroup_combine(&word, &word, 1, RGROUP_INT64, (rgroup_op_t)9));
    CHECK_RC(-EINVAL, NULL, rgroup_combine(&word, &word, 1, RGROUP_FLOAT_INDEX, RGROUP_SUM));
    assert_non_null(strstr(rerror(NULL), "op is 0, which is not for type 16, RGROUP_FLOAT_INDEX"));
    CHECK_RC(-EINVAL, NULL, rgroup_combine(NULL, &word, 1, RGROUP_INT64, RGROUP_SUM));
    CHECK_RC(-EINVAL, NULL, rgroup_combine(&word, &word, SIZE_MAX / 4, RGROUP_INT64, RGROUP_SUM));
    CHECK_OK(NULL, rgroup_combine(NULL, NULL, 0, RGROUP_INT64, RGROUP_SUM));
    assert_int_equal(word, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_no_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
