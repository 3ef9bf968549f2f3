/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_coll_names.c: members of a team agree on its name, whatever other teams each of them has been in: teams of another context
 * or of other ranks do not count.
 */
#include "coll/engine/names.h"

#include <rpipe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define CONTEXTS 64
#define RANKS 16

/* A team is the first of its ranks and context, and gets the name that it would get in a process that was in no other. */
static void other_teams_do_not_count(void **state)
{
    uint64_t name, expected;
    struct error err = {""};
    char text[80];

    (void)state;
    for (uint64_t context = 0; context < CONTEXTS; context++)
        for (int rank = 0; rank < RANKS; rank++) {
            const int ranks[2] = {rank, 20};

            assert_int_equal(name_take(&name, context, ranks, 2, &err), 0);
            snprintf(text, sizeof(text), "rcoll %llx.%llx.0", (unsigned long long)context,
                     (unsigned long long)name_key(context, ranks, 2));
            expected = rcontext(text);
            assert_int_equal(name, expected);
        }
}

/* The second one of the same ranks and context has another name. */
static void the_same_team_counts(void **state)
{
    const int ranks[3] = {5, 6, 7};
    uint64_t first, second;
    struct error err = {""};

    (void)state;
    assert_int_equal(name_take(&first, 1000, ranks, 3, &err), 0);
    assert_int_equal(name_take(&second, 1000, ranks, 3, &err), 0);
    assert_int_not_equal(first, second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_teams_do_not_count),
        cmocka_unit_test(the_same_team_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
