/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rredux_reduce(3): one message of every writer, combined. The operators beside plain C; order of arrival and of places; rounds that
 * are interrupted and go on. All of it to oneself. PUT and GET, in several modes, with RMALLOC_DEBUG=1 and without.
 */
#include "test/lib/group_pair.h"
#include <math.h>
#include "test/lib/group.h"
#include <rpipe.h>

enum { N = 4 };

struct fan {
    rgroup_t rx;
    rch_t writer[FAN_MOST];
};

static void fan_open(struct fan *f, rpipe_op_t op, int n)
{
    rpipe_config_t cfg = fan_config(op, 8192, n);

    CHECK_OK(NULL, redux_open(&f->rx, &cfg, fan_self, n));
    fan_partners(f->writer, &cfg, n, true);
    CHECK_OK(NULL, rgroup_wait(f->rx));
    for (int i = 0; i < n; i++)
        CHECK_OK(f->writer[i], rwait(f->writer[i]));
}

static void give(const struct fan *f, int place, const void *data, size_t size)
{
    raddr_t d = rmalloc(f->writer[place], size);

    assert_true(d != ADDR_NULL);
    memcpy(rmem(f->writer[place], d), data, size);
    CHECK_OK(f->writer[place], rwrite(f->writer[place], d));
}

static void give_double(const struct fan *f, int place, double value)
{
    give(f, place, &value, sizeof(value));
}

/* ---- operators ---- */

/* one operator of each kind of type; all of them: test_fold */
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

/* ---- rounds ---- */

/* one message of each, whichever is ahead; small and large */
static void test_rounds(void **state)
{
    struct fan f;

    fan_open(&f, op_of(state), N);
    for (size_t count = 1; count <= 60; count += 59) {
        int64_t data[60] = {0}, into[60];
        int combined = 0;

        for (int64_t ahead = 0; ahead < 3; ahead++)
            for (int i = N - 1; i >= 0; i--) {
                for (size_t k = 0; k < count; k++)
                    data[k] = (ahead + 1) * 1000 * (i + 1) + (int64_t)k;
                give(&f, i, data, count * sizeof(*data));
            }
        for (int64_t round = 0; round < 3; round++) {
            bool own = round == 1;

            for (size_t k = 0; k < count; k++)
                into[k] = 7;
            CHECK_OK(NULL, rgroup_reduce(f.rx, into, count, RGROUP_INT64, RGROUP_SUM, &combined,
                                         own ? RGROUP_OWN : 0));
            assert_int_equal(combined, N);
            for (size_t k = 0; k < count; k++)
                assert_int_equal(into[k], (round + 1) * 10000 + 4 * (int64_t)k + (own ? 7 : 0));
        }
    }
    fan_end(f.rx, f.writer, N);
}

/* sums of these depend on the order */
static void test_ordered(void **state)
{
    static const double value[N] = {1e100, 1.0, -1e100, 3.0};
    static const int arrival[][N] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}, {1, 3, 0, 2}};
    struct fan f;

    fan_open(&f, op_of(state), N);
    for (size_t k = 0; k < 4; k++) {
        double sum = 0.5;

        for (int i = 0; i < N; i++)
            give_double(&f, arrival[k][i], value[arrival[k][i]]);
        CHECK_OK(NULL,
                 rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, NULL, RGROUP_ORDERED));
        assert_true(sum == ((value[0] + value[1]) + value[2]) + value[3]);
        sum = 0.5;
        for (int i = 0; i < N; i++)
            give_double(&f, arrival[k][i], value[arrival[k][i]]);
        CHECK_OK(NULL, rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, NULL,
                                     RGROUP_ORDERED | RGROUP_OWN));
        assert_true(sum == (((0.5 + value[0]) + value[1]) + value[2]) + value[3]);
    }
    fan_end(f.rx, f.writer, N);
}

/* a function of the user's: appends, so that the order shows */
struct list {
    char text[64];
};

static void append(void *into, const void *from, size_t bytes, void *argument)
{
    struct list *a = into;

    assert_int_equal(bytes, sizeof(*a));
    strcat(a->text, ((const struct list *)from)->text);
    ++*(int *)argument;
}

static void test_function(void **state)
{
    struct list result = {""}, word[N] = {{"a"}, {"b"}, {"c"}, {"d"}};
    int calls = 0, combined = 0;
    struct fan f;

    fan_open(&f, op_of(state), N);
    for (int flags = 0; flags < 4; flags++) {
        bool own = (flags & RGROUP_OWN) != 0;

        calls = 0;
        strcpy(result.text, "x");
        for (int i = N - 1; i >= 0; i--)
            give(&f, i, &word[i], sizeof(word[i]));
        CHECK_OK(NULL,
                 rgroup_apply(f.rx, &result, sizeof(result), append, &calls, &combined, flags));
        assert_string_equal(result.text,
                            own ? "xabcd" : "abcd"); /* all were there: in the order of places */
        assert_int_equal(calls, own ? 4 : 3);
        assert_int_equal(combined, 4);
    }
    fan_end(f.rx, f.writer, N);
}

/* a deadline in the middle: what has come is in the result, and the round goes on */
static void test_goes_on(void **state)
{
    struct fan f;
    int place, combined = 99;
    raddr_t d;

    fan_open(&f, op_of(state), N);
    for (int ordered = 0; ordered < 2; ordered++) {
        int flags = ordered ? RGROUP_ORDERED : 0;
        double sum = 0.5, other;

        CHECK_OK(NULL, rgroup_set_timeout(f.rx, 5));
        CHECK_RC(-ETIMEDOUT, NULL,
                 rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, flags));
        assert_true(sum == 0.5); /* nothing has come */
        give_double(&f, 1, 1.0);
        give_double(&f, 1, 100.0); /* is ahead */
        CHECK_RC(-ETIMEDOUT, NULL,
                 rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, flags));
        assert_int_equal(rgroup_lost(f.rx), 0);
        assert_true(sum == (ordered ? 0.5 : 1.0));
        give_double(&f, 3, 2.0);
        give_double(&f, 0, 3.0);
        CHECK_RC(-ETIMEDOUT, NULL,
                 rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, flags));
        assert_int_equal(rgroup_lost(f.rx), 2);
        /* nothing else meanwhile */
        CHECK_RC(-EBUSY, NULL,
                 rgroup_reduce(f.rx, &other, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, flags));
        CHECK_RC(-EBUSY, NULL,
                 rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_MAX, &combined, flags));
        CHECK_RC(-EBUSY, NULL, rgroup_read(f.rx, &place, &d, NULL, R_NOWAIT));
        assert_int_equal(combined, 99);
        give_double(&f, 2, 4.0);
        CHECK_OK(NULL, rgroup_set_timeout(f.rx, FAN_LIMIT_MS));
        CHECK_OK(NULL, rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, flags));
        assert_true(sum == 10.0);
        assert_int_equal(combined, 4);
        combined = 99;
        CHECK_OK(NULL, rgroup_read(f.rx, &place, &d, NULL, 0));
        assert_int_equal(place, 1);
        assert_true(*(double *)rmem(rgroup_pipe(f.rx, 1), d) == 100.0);
        CHECK_OK(NULL, rfree(rgroup_pipe(f.rx, 1), d));
    }
    fan_end(f.rx, f.writer, N);
}

/* a member that closes takes part no more, and the round goes on without it; at last R_EOF */
static void test_writers_close(void **state)
{
    struct fan f;
    int combined = 99;
    double sum = 0.5;

    for (int flags = 0; flags < 4; flags++) {
        double own = (flags & RGROUP_OWN) != 0 ? 1000.0 : 0.0;

        fan_open(&f, op_of(state), N);
        give_double(&f, 0, 1.0);
        CHECK_OK(f.writer[0], rclose(f.writer[0])); /* after its contribution */
        CHECK_OK(f.writer[1], rclose(f.writer[1])); /* before it */
        give_double(&f, 2, 2.0);
        give_double(&f, 3, 4.0);
        give_double(&f, 3, 8.0);
        sum = 1000.0;
        CHECK_OK(NULL, rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, flags));
        assert_true(sum == 7.0 + own);
        assert_int_equal(combined, 3);
        CHECK_OK(f.writer[2], rclose(f.writer[2]));
        sum = 1000.0;
        CHECK_OK(NULL, rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, flags));
        assert_true(sum == 8.0 + own);
        assert_int_equal(combined, 1);
        CHECK_OK(f.writer[3], rclose(f.writer[3]));
        sum = 1000.0;
        CHECK_RC(R_EOF, NULL,
                 rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, flags));
        assert_true(sum == 1000.0);
        assert_int_equal(combined, 1);
        CHECK_RC(R_EOF, NULL,
                 rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, flags));
        CHECK_OK(NULL, rgroup_close(f.rx));
    }
}

/* a message of another size is left out, and reported */
static void test_wrong_size(void **state)
{
    struct fan f;
    int combined = 99;
    double sum = 0.5;

    fan_open(&f, op_of(state), N);
    give_double(&f, 0, 1.0);
    give(&f, 1, "abcd", 4);
    give_double(&f, 2, 2.0);
    give_double(&f, 3, 4.0);
    CHECK_RC(-EMSGSIZE, NULL,
             rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, 0));
    assert_int_equal(rgroup_lost(f.rx), 1);
    assert_int_equal(combined, 99);
    CHECK_OK(NULL, rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, 0));
    assert_true(sum == 7.0);
    assert_int_equal(combined, 3);
    assert_int_equal(rgroup_count(f.rx), N);
    for (int i = 0; i < N; i++)
        give_double(&f, i, 1.0);
    CHECK_OK(NULL, rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, 0));
    assert_true(sum == 4.0);
    fan_end(f.rx, f.writer, N);
}

static void test_refused(void **state)
{
    struct fan f;
    int combined;
    double sum;

    fan_open(&f, op_of(state), 1);
    CHECK_RC(-EINVAL, NULL, rgroup_reduce(NULL, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, 0));
    CHECK_RC(-EINVAL, NULL, rgroup_reduce(f.rx, NULL, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, 0));
    CHECK_RC(-EINVAL, NULL, rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_BAND, &combined, 0));
    CHECK_RC(-EINVAL, NULL, rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, &combined, 8));
    CHECK_RC(-EINVAL, NULL, rgroup_apply(f.rx, &sum, 8, NULL, NULL, &combined, 0));
    give_double(&f, 0, 1.0);
    CHECK_OK(NULL, rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, NULL, 0));
    assert_true(sum == 1.0);
    CHECK_OK(NULL, rgroup_close(f.rx));
    CHECK_RC(-ENOTCONN, NULL, rgroup_reduce(f.rx, &sum, 1, RGROUP_DOUBLE, RGROUP_SUM, NULL, 0));
    fan_close(f.writer, 1);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators), cmocka_unit_test(test_no_numbers),
        PUT_AND_GET(test_rounds),         PUT_AND_GET(test_ordered),
        PUT_AND_GET(test_function),       PUT_AND_GET(test_goes_on),
        PUT_AND_GET(test_writers_close),  PUT_AND_GET(test_wrong_size),
        PUT_AND_GET(test_refused),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
