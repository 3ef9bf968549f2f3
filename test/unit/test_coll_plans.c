/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_coll_plans.c: the plans of all collectives, run by the interpreter (coll_run.h) and compared with
 * one loop for each kind (coll_case.h).
 *
 *     test_coll_plans [CASES [SEED]]
 */
#include "test/unit/coll_run.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t plans_cases = 5000, plans_seed = 1;

static void random_cases_give_what_the_model_gives(void **state)
{
    static struct coll_case c;
    uint64_t run_by[COLL_KINDS][COLL_ALGORITHMS] = {0}, refused = 0;

    (void)state;
    for (uint64_t i = 0; i < plans_cases; i++) {
        struct coll_run run = {.seed = i, .ops = 1, .depth = 1, .races = i % 8 == 0};
        int rc;

        coll_case_draw(&c, plans_seed + i);
        rc = coll_run(&run, &c);
        if (rc != 0 && rc != -ENOTSUP)
            fail_msg("%s\n%s", coll_case_describe(&c), run.error);
        if (rc == 0)
            run_by[c.request.kind][c.choice.algorithm]++;
        refused += rc != 0;
        coll_case_free(&c);
    }
    print_message("%llu cases from seed %llu, %llu of them refused\n",
                  (unsigned long long)plans_cases, (unsigned long long)plans_seed,
                  (unsigned long long)refused);
    for (int k = 0; k < COLL_KINDS && plans_cases >= 5000; k++)
        for (int a = 0; a < COLL_ALGORITHMS; a++)
            if (coll_has((enum coll_kind)k, (enum coll_algorithm)a) && run_by[k][a] < 10)
                fail_msg("%s by %s was run %llu times only", coll_kind_name((enum coll_kind)k),
                         coll_algorithm_name((enum coll_algorithm)a),
                         (unsigned long long)run_by[k][a]);
}

/* ---- sequences of one collective: cells that are used again ---- */

/* Runs of the case with different orders, of which the first that fails is kept. */
static int plans_run_many(struct coll_run *run, const struct coll_case *c, uint64_t orders)
{
    int rc = 0;

    for (uint64_t i = 0; i < orders && rc == 0; i++) {
        run->seed = i;
        rc = coll_run(run, c);
    }
    return rc;
}

static struct coll_case *plans_case(enum coll_kind kind, enum coll_algorithm algorithm, int size,
                                    int radix)
{
    static struct coll_case c;

    memset(&c, 0, sizeof(c));
    assert_int_equal(shape_init(&c.shape, size, NULL, 1), 0);
    c.request = (struct coll_request){.kind = kind, .element = 8, .count = 3};
    c.choice = (struct coll_choice){.algorithm = algorithm, .radix = radix};
    return &c;
}

static bool plans_synchronizes(enum coll_kind kind)
{
    return kind == COLL_BARRIER || kind == COLL_ALLREDUCE || kind == COLL_ALLGATHER ||
           kind == COLL_ALLTOALL;
}

/* Each member's operation ends only when all have begun theirs: so two cells, the even and the odd
 * one, are enough, and no member checks that a cell is free. */
static void two_cells_are_enough_where_all_wait_for_all(void **state)
{
    (void)state;
    for (int k = 0; k < COLL_KINDS; k++)
        for (int a = 0; a < COLL_ALGORITHMS; a++)
            for (int size = 2; size <= 9; size++) {
                struct coll_run run = {.ops = 7, .depth = 2};
                struct coll_case *c;
                int rc;

                if (!coll_has((enum coll_kind)k, (enum coll_algorithm)a) ||
                    !plans_synchronizes((enum coll_kind)k))
                    continue;
                c = plans_case((enum coll_kind)k, (enum coll_algorithm)a, size, 2);
                rc = plans_run_many(&run, c, 20);
                if (rc != 0 && rc != -ENOTSUP)
                    fail_msg("%s\n%s", coll_case_describe(c), run.error);
                coll_case_free(c);
            }
}

static void one_cell_is_not_enough(void **state)
{
    struct coll_run run = {.ops = 7, .depth = 1};
    struct coll_case *c = plans_case(COLL_BARRIER, COLL_DISSEMINATION, 4, 2);

    (void)state;
    assert_int_equal(plans_run_many(&run, c, 50), -1);
    run.floor = true;
    assert_int_equal(plans_run_many(&run, c, 50), 0);
    coll_case_free(c);
}

static void a_root_is_ahead_by_more_than_two_cells(void **state)
{
    struct coll_run run = {.ops = 7, .depth = 2};
    struct coll_case *c = plans_case(COLL_BCAST, COLL_TREE, 4, 2);

    (void)state;
    assert_int_equal(plans_run_many(&run, c, 50), -1);
    assert_non_null(strstr(run.error, "overwritten"));
    run.floor = true;
    assert_int_equal(plans_run_many(&run, c, 50), 0);
    coll_case_free(c);
}

/* ---- the fixed order ---- */

/* What member 0 gets of an allreduce of doubles by an algorithm; false: it does not have the order. */
static bool plans_result(const int *host, enum coll_algorithm algorithm, int size, double *result,
                         size_t count)
{
    struct coll_case c = {.seed = 3, .typed = true, .type = 5, .op = 0};
    struct coll_run run = {.ops = 1, .depth = 1, .seed = (uint64_t)size, .result = result};
    int rc;

    assert_int_equal(shape_init(&c.shape, size, host, 1), 0);
    c.request = (struct coll_request){
        .kind = COLL_ALLREDUCE, .order = COLL_FIXED_ORDER, .element = 8, .count = count};
    c.choice.algorithm = algorithm;
    rc = coll_run(&run, &c);
    if (rc != 0 && rc != -ENOTSUP)
        fail_msg("%s\n%s", coll_case_describe(&c), run.error);
    coll_case_free(&c);
    return rc == 0;
}

/* Sums of doubles that are rounded: the same bits by each algorithm, wherever members are. */
static void a_fixed_order_gives_the_same_bits(void **state)
{
    enum { COUNT = 37, LAYOUTS = 4 };
    int layouts = 0;

    (void)state;
    for (int size = 1; size <= COLL_CASE_MEMBERS; size++) {
        double first[COUNT] = {0}, other[COUNT] = {0};
        bool some = false;

        for (int layout = 0; layout < LAYOUTS; layout++) {
            int host[COLL_CASE_MEMBERS], algorithms = 0;

            for (int i = 0; i < size; i++)
                host[i] = layout == 0 ? 0 : layout == 1 ? i : layout == 2 ? i / 4 : i % 3;
            for (int a = 0; a < COLL_ALGORITHMS; a++) {
                if (!coll_has(COLL_ALLREDUCE, (enum coll_algorithm)a) ||
                    !plans_result(host, (enum coll_algorithm)a, size, some ? other : first, COUNT))
                    continue;
                if (some && memcmp(first, other, sizeof(first)) != 0)
                    fail_msg("%s of %d members, layout %d",
                             coll_algorithm_name((enum coll_algorithm)a), size, layout);
                some = true;
                algorithms++;
            }
            assert_true(algorithms >= 5);
            layouts += algorithms > 5;
        }
    }
    assert_true(layouts > 0); /* with a leader for each host, too */
}

/* ---- what algorithms cost ---- */

static void plans_expect_messages(enum coll_kind kind, enum coll_algorithm algorithm, int size,
                                  int radix, size_t count, uint64_t messages, uint64_t bytes)
{
    struct coll_run run = {.ops = 1, .depth = 1};
    struct coll_case *c = plans_case(kind, algorithm, size, radix);

    c->request.count = count;
    if (coll_run(&run, c) != 0)
        fail_msg("%s\n%s", coll_case_describe(c), run.error);
    if (run.messages != messages || run.bytes != bytes)
        fail_msg("%s: %llu messages and %llu bytes, not %llu and %llu", coll_case_describe(c),
                 (unsigned long long)run.messages, (unsigned long long)run.bytes,
                 (unsigned long long)messages, (unsigned long long)bytes);
    coll_case_free(c);
}

static void algorithms_send_what_their_authors_count(void **state)
{
    (void)state;
    plans_expect_messages(COLL_BARRIER, COLL_DISSEMINATION, 8, 2, 0, 8 * 3, 0);
    plans_expect_messages(COLL_BARRIER, COLL_DISSEMINATION, 9, 3, 0, 9 * 2 * 2, 0);
    plans_expect_messages(COLL_BARRIER, COLL_DISSEMINATION, 6, 6, 0, 6 * 5, 0);
    plans_expect_messages(COLL_BARRIER, COLL_EXCHANGE, 8, 2, 0, 8 * 3, 0);
    plans_expect_messages(COLL_BARRIER, COLL_EXCHANGE, 6, 2, 0, 4 * 2 + 2 * 2, 0);
    plans_expect_messages(COLL_BARRIER, COLL_TREE, 16, 8, 0, 15 * 2, 0);
    plans_expect_messages(COLL_BCAST, COLL_TREE, 13, 2, 100, 12, 12 * 800);
    plans_expect_messages(COLL_REDUCE, COLL_TREE, 13, 2, 100, 12, 12 * 800);
    plans_expect_messages(COLL_ALLREDUCE, COLL_EXCHANGE, 8, 2, 100, 24, 24 * 800);
    /* 2 (N - 1) / N of the vector at each of N members */
    plans_expect_messages(COLL_ALLREDUCE, COLL_RABENSEIFNER, 8, 2, 64, 8 * 6, 8 * 2 * 7 * 64);
    plans_expect_messages(COLL_ALLREDUCE, COLL_RING, 8, 2, 64, 8 * 14, 8 * 2 * 7 * 64);
    plans_expect_messages(COLL_ALLREDUCE, COLL_RING, 5, 2, 100, 5 * 8, 5 * 2 * 4 * 160);
    /* blocks of 24 bytes; N - 1 of them at each of N members, however many messages they are */
    plans_expect_messages(COLL_REDUCE_SCATTER, COLL_PAIRWISE, 8, 2, 3, 8 * 7, 8 * 7 * 24);
    plans_expect_messages(COLL_REDUCE_SCATTER, COLL_RING, 8, 2, 3, 8 * 7, 8 * 7 * 24);
    plans_expect_messages(COLL_REDUCE_SCATTER, COLL_HALVING, 8, 2, 3, 8 * 3, 8 * 7 * 24);
    plans_expect_messages(COLL_ALLGATHER, COLL_RING, 7, 2, 3, 7 * 6, 7 * 6 * 24);
    plans_expect_messages(COLL_ALLGATHER, COLL_BRUCK, 7, 2, 3, 7 * 3, 7 * 6 * 24);
    plans_expect_messages(COLL_GATHER, COLL_LINEAR, 8, 2, 3, 7, 7 * 24);
    plans_expect_messages(COLL_GATHER, COLL_TREE, 8, 2, 3, 7, (4 * 1 + 2 * 2 + 1 * 4) * 24);
    plans_expect_messages(COLL_SCATTER, COLL_TREE, 8, 2, 3, 7, (4 * 1 + 2 * 2 + 1 * 4) * 24);
    plans_expect_messages(COLL_ALLTOALL, COLL_PAIRWISE, 8, 2, 3, 8 * 7, 8 * 7 * 24);
    plans_expect_messages(COLL_ALLTOALL, COLL_BRUCK, 8, 2, 3, 8 * 3, 8 * 3 * 4 * 24);
    plans_expect_messages(COLL_SCAN, COLL_LINEAR, 8, 2, 3, 7, 7 * 24);
    plans_expect_messages(COLL_SCAN, COLL_EXCHANGE, 8, 2, 3, 7 + 6 + 4, (7 + 6 + 4) * 24);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_cases_give_what_the_model_gives),
        cmocka_unit_test(two_cells_are_enough_where_all_wait_for_all),
        cmocka_unit_test(one_cell_is_not_enough),
        cmocka_unit_test(a_root_is_ahead_by_more_than_two_cells),
        cmocka_unit_test(a_fixed_order_gives_the_same_bits),
        cmocka_unit_test(algorithms_send_what_their_authors_count),
    };

    if (argc > 1)
        plans_cases = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        plans_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests_name("plans of collectives", tests, NULL, NULL);
}
