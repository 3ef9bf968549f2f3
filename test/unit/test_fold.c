/* SPDX-License-Identifier: BSD-3-Clause */
/* util/fold.h beside plain C: each operator and type, lengths around a line, any alignment; and both formats of 16 bits, exhaustively. */
#include "util/fold.h"

#include "util/float16.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/lib/random.h"

#include <rpipe.h>

#define MOST 200
#define ROOM ((size_t)MOST * 16 + 64)

static const size_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, MOST};

/* ---- integers ---- */

/* By the widest type there is: `bits` are those of the element. */
static uint64_t cut(uint64_t x, unsigned bits)
{
    return bits == 64 ? x : x & ((UINT64_C(1) << bits) - 1);
}

static int64_t extended(uint64_t x, unsigned bits)
{
    uint64_t sign = UINT64_C(1) << (bits - 1);

    return (int64_t)((x ^ sign) - sign);
}

static uint64_t expected(rgroup_op_t op, bool is_signed, unsigned bits, uint64_t a, uint64_t b)
{
    bool less = is_signed ? extended(a, bits) < extended(b, bits) : a < b;

    switch (op) {
    case RGROUP_SUM:
        return cut(a + b, bits);
    case RGROUP_PROD:
        return cut(a * b, bits);
    case RGROUP_MIN:
        return less ? a : b;
    case RGROUP_MAX:
        return less ? b : a;
    case RGROUP_BAND:
        return a & b;
    case RGROUP_BOR:
        return a | b;
    case RGROUP_BXOR:
        return a ^ b;
    case RGROUP_LAND:
        return a != 0 && b != 0;
    default:
        return a != 0 || b != 0;
    }
}

static uint64_t element(const unsigned char *at, size_t bytes)
{
    uint64_t x = 0;

    memcpy(&x, at, bytes); /* of a little-endian machine; the test program of others needs more */
    return x;
}

static void compare_integers(rgroup_type_t type, bool is_signed, size_t bytes, rgroup_op_t op,
                             size_t n, uint64_t *random)
{
    static unsigned char into[ROOM], from[ROOM], before[ROOM];
    unsigned char *to = into + random_draw(random) % 17, *was = before + (to - into);
    const unsigned char *source = from + random_draw(random) % 17;

    for (size_t i = 0; i < ROOM; i++) {
        into[i] = before[i] =
            (unsigned char)(random_draw(random) % 5 == 0 ? 0 : random_draw(random));
        from[i] = (unsigned char)(random_draw(random) % 5 == 0 ? 0 : random_draw(random));
    }
    if (n > 2) { /* equal, and both 0 */
        memcpy(to, source, bytes);
        memcpy(was, source, bytes);
        memset(to + bytes, 0, bytes);
        memset(was + bytes, 0, bytes);
        memset(from + (source - from) + bytes, 0, bytes);
    }
    fold_function(type, op)(to, source, n * bytes, NULL);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(element(to + i * bytes, bytes),
                         expected(op, is_signed, (unsigned)bytes * 8,
                                  element(was + i * bytes, bytes),
                                  element(source + i * bytes, bytes)));
    assert_memory_equal(into, before, (size_t)(to - into)); /* and nothing beside them */
    assert_memory_equal(to + n * bytes, was + n * bytes, ROOM - (size_t)(to - into) - n * bytes);
}

static void test_integers(void **state)
{
    static const struct {
        rgroup_type_t type;
        bool is_signed;
        size_t bytes;
    } types[] = {{RGROUP_INT8, true, 1},    {RGROUP_INT16, true, 2},  {RGROUP_INT32, true, 4},
                 {RGROUP_INT64, true, 8},   {RGROUP_UINT8, false, 1}, {RGROUP_UINT16, false, 2},
                 {RGROUP_UINT32, false, 4}, {RGROUP_UINT64, false, 8}};
    uint64_t random = 1;

    (void)state;
    for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
        assert_int_equal(fold_element_bytes(types[t].type), types[t].bytes);
        for (rgroup_op_t op = RGROUP_SUM; op <= RGROUP_LOR; op++)
            for (size_t l = 0; l < sizeof(lengths) / sizeof(*lengths); l++)
                for (int again = 0; again < 4; again++)
                    compare_integers(types[t].type, types[t].is_signed, types[t].bytes, op,
                                     lengths[l], &random);
    }
}

/* ---- floating point ---- */

static double any_number(uint64_t *random)
{
    static const double edge[] = {0.0,       -0.0, 1.0,   -1.0,   INFINITY,
                                  -INFINITY, NAN,  1e300, 1e-300, 0.1};
    uint64_t x = random_draw(random);

    return x % 3 == 0 ? edge[(x >> 8) % 10]
                      : ldexp((double)(int64_t)random_draw(random), (int)(x >> 8 & 63) - 80);
}

static bool same(double a, double b)
{
    return (a != a && b != b) || (a == b && signbit(a) == signbit(b));
}

#define COMPARE_FLOATS(type, kind, op, expression)                                                 \
    do {                                                                                           \
        type into[MOST], from[MOST], was[MOST];                                                    \
        for (size_t i = 0; i < MOST; i++) {                                                        \
            into[i] = was[i] = (type)any_number(&random);                                          \
            from[i] = (type)any_number(&random);                                                   \
        }                                                                                          \
        fold_function(kind, op)(into, from, sizeof(into), NULL);                                   \
        for (size_t i = 0; i < MOST; i++) {                                                        \
            type a = was[i], b = from[i];                                                          \
            assert_true(same(into[i], (type)(expression)));                                        \
        }                                                                                          \
    } while (0)

#define COMPARE_FLOAT_TYPE(type, kind)                                                             \
    do {                                                                                           \
        COMPARE_FLOATS(type, kind, RGROUP_SUM, a + b);                                             \
        COMPARE_FLOATS(type, kind, RGROUP_PROD, a *b);                                             \
        COMPARE_FLOATS(type, kind, RGROUP_MIN, isnan(b) ? a : a < b ? a : b);                      \
        COMPARE_FLOATS(type, kind, RGROUP_MAX, isnan(b) ? a : a > b ? a : b);                      \
    } while (0)

static void test_floats(void **state)
{
    uint64_t random = 2;

    (void)state;
    for (int again = 0; again < 50; again++) {
        COMPARE_FLOAT_TYPE(float, RGROUP_FLOAT);
        COMPARE_FLOAT_TYPE(double, RGROUP_DOUBLE);
    }
}

/* CMPLXF and CMPLX of the C library are there for gcc alone. */
static float complex complex_float(float re, float im)
{
    const union {
        float part[2];
        float complex value;
    } both = {{re, im}};

    return both.value;
}

static double complex complex_double(double re, double im)
{
    const union {
        double part[2];
        double complex value;
    } both = {{re, im}};

    return both.value;
}

static void test_complex(void **state)
{
    double complex into[5], from[5];
    float complex small[9], other[9];

    (void)state;
    for (int i = 0; i < 9; i++) {
        small[i] = complex_float((float)i, (float)(1 - i));
        other[i] = complex_float(2.5f, (float)-i);
    }
    for (int i = 0; i < 5; i++) {
        into[i] = complex_double(i, 0.5 - i);
        from[i] = complex_double(1 + i, -3);
    }
    assert_int_equal(fold_element_bytes(RGROUP_COMPLEX_FLOAT), sizeof(*small));
    assert_int_equal(fold_element_bytes(RGROUP_COMPLEX_DOUBLE), sizeof(*into));
    fold_function(RGROUP_COMPLEX_FLOAT, RGROUP_PROD)(small, other, sizeof(small), NULL);
    fold_function(RGROUP_COMPLEX_DOUBLE, RGROUP_PROD)(into, from, sizeof(into), NULL);
    for (int i = 0; i < 9; i++)
        assert_true(small[i] ==
                    complex_float((float)i, (float)(1 - i)) * complex_float(2.5f, (float)-i));
    for (int i = 0; i < 5; i++)
        assert_true(into[i] == complex_double(i, 0.5 - i) * complex_double(1 + i, -3));
    fold_function(RGROUP_COMPLEX_FLOAT, RGROUP_SUM)(small, small + 4, 4 * sizeof(*small), NULL);
    for (int i = 0; i < 4; i++)
        assert_true(small[i] ==
                    complex_float((float)i, (float)(1 - i)) * complex_float(2.5f, (float)-i) +
                        small[i + 4]);
    fold_function(RGROUP_COMPLEX_DOUBLE, RGROUP_SUM)(into, from, sizeof(into), NULL);
    assert_true(into[2] ==
                complex_double(2, 0.5 - 2) * complex_double(3, -3) + complex_double(3, -3));
}

/* ---- values with an index ---- */

#define COMPARE_INDEX(structure, kind, draw, none)                                                 \
    do {                                                                                           \
        struct structure into[MOST], from[MOST], was[MOST];                                        \
        assert_int_equal(fold_element_bytes(kind), sizeof(*into));                                 \
        for (int op = RGROUP_MIN; op <= RGROUP_MAX; op++) {                                        \
            for (size_t i = 0; i < MOST; i++) {                                                    \
                was[i].value = (draw), from[i].value = (draw);                                     \
                was[i].index = (int)(random_draw(&random) % 3);                                    \
                from[i].index = (int)(random_draw(&random) % 3);                                   \
                into[i] = was[i];                                                                  \
            }                                                                                      \
            fold_function(kind, (unsigned)op)(into, from, sizeof(into), NULL);                     \
            for (size_t i = 0; i < MOST; i++) {                                                    \
                struct structure a = was[i], b = from[i];                                          \
                bool first = none(a.value) != none(b.value)        ? none(b.value)                 \
                             : a.value == b.value || none(a.value) ? a.index <= b.index            \
                             : op == RGROUP_MIN                    ? a.value < b.value             \
                                                                   : a.value > b.value;                               \
                assert_memory_equal(&into[i], first ? &a : &b, sizeof(a));                         \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#define NEVER(x) ((x) != (x))
#define SMALL_INTEGER ((int)(random_draw(&random) % 4) - 2)
#define SMALL_NUMBER (random_draw(&random) % 5 == 0 ? NAN : (float)(random_draw(&random) % 3))

static void test_index(void **state)
{
    uint64_t random = 3;

    (void)state;
    COMPARE_INDEX(rgroup_int32_index, RGROUP_INT32_INDEX, SMALL_INTEGER, NEVER);
    COMPARE_INDEX(rgroup_int64_index, RGROUP_INT64_INDEX, SMALL_INTEGER, NEVER);
    COMPARE_INDEX(rgroup_float_index, RGROUP_FLOAT_INDEX, SMALL_NUMBER, isnan);
    COMPARE_INDEX(rgroup_double_index, RGROUP_DOUBLE_INDEX, (double)SMALL_NUMBER, isnan);
}

/* ---- formats of 16 bits ---- */

struct format {
    int exponent_bits, fraction_bits;
    float (*load)(uint16_t);
    uint16_t (*store)(float);
};

static const struct format formats[] = {{5, 10, binary16_load, binary16_store},
                                        {8, 7, bfloat16_load, bfloat16_store}};

/* The value of a pattern by the definition. That of infinity is what would be next if the exponent had no end. */
static double value_of(const struct format *f, unsigned bits)
{
    int bias = (1 << (f->exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> f->fraction_bits) & ((1 << f->exponent_bits) - 1);
    double fraction = bits & ((1u << f->fraction_bits) - 1);
    double size = exponent == 0 ? ldexp(fraction, 1 - bias - f->fraction_bits)
                                : ldexp(fraction + (1 << f->fraction_bits),
                                        exponent - bias - f->fraction_bits);

    return (bits & 0x8000) != 0 ? -size : size;
}

static bool is_nan(const struct format *f, unsigned bits)
{
    unsigned infinity = ((1u << f->exponent_bits) - 1) << f->fraction_bits;

    return (bits & 0x7fff) > infinity;
}

/* The nearest of all patterns, and the even one of two: by bisection. */
static uint16_t nearest(const struct format *f, double x)
{
    unsigned low = 0, high = ((1u << f->exponent_bits) - 1) << f->fraction_bits;
    double size = fabs(x);
    uint16_t sign = signbit(x) ? 0x8000 : 0;

    if (isinf(x) || size >= value_of(f, high))
        return (uint16_t)(sign | high);
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;

        *(value_of(f, middle) <= size ? &low : &high) = middle;
    }
    if (size - value_of(f, low) != value_of(f, high) - size)
        return (uint16_t)(sign | (size - value_of(f, low) < value_of(f, high) - size ? low : high));
    return (uint16_t)(sign | (low % 2 == 0 ? low : high));
}

static void test_formats(void **state)
{
    uint64_t random = 4;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct format *f = &formats[i];
        unsigned infinity = ((1u << f->exponent_bits) - 1) << f->fraction_bits;

        for (unsigned bits = 0; bits < 65536; bits++) {
            float x = f->load((uint16_t)bits);

            if (is_nan(f, bits)) {
                assert_true(isnan(x) && is_nan(f, f->store(x)));
                assert_int_equal(signbit(x) != 0, (bits & 0x8000) != 0);
                continue;
            }
            assert_true((bits & 0x7fff) == infinity ? isinf(x) : same(x, value_of(f, bits)));
            assert_int_equal(f->store(x), bits);
            if ((bits & 0x7fff) >= infinity - 1)
                continue;
            /* half-way to the next, and the two floats beside that */
            float half = (float)((value_of(f, bits) + value_of(f, bits + 1)) / 2);

            assert_int_equal(f->store(half), nearest(f, half));
            assert_int_equal(f->store(nextafterf(half, INFINITY)),
                             nearest(f, nextafterf(half, INFINITY)));
            assert_int_equal(f->store(nextafterf(half, -INFINITY)),
                             nearest(f, nextafterf(half, -INFINITY)));
        }
        for (int again = 0; again < 200000; again++) {
            float x = float_of_bits((uint32_t)random_draw(&random));

            if (!isnan(x))
                assert_int_equal(f->store(x), nearest(f, x));
        }
        assert_int_equal(f->store(value_of(f, infinity) < 1e6 ? 65520.0f : FLT_MAX), infinity);
    }
    assert_int_equal(binary16_store(65519.0f), 0x7bff);
}

/* One rounding: what double computes exactly, or far more precisely, is rounded once. */
static void test_sums_of_16_bits(void **state)
{
    static const rgroup_type_t types[] = {RGROUP_FLOAT16, RGROUP_BFLOAT16};
    uint64_t random = 5;

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (int again = 0; again < 2000; again++) {
            uint16_t into[4][MOST], was[MOST], from[MOST];

            assert_int_equal(fold_element_bytes(types[i]), 2);
            for (int k = 0; k < MOST; k++) {
                was[k] = (uint16_t)random_draw(&random);
                from[k] = (uint16_t)random_draw(&random);
            }
            for (unsigned op = RGROUP_SUM; op <= RGROUP_MAX; op++) {
                memcpy(into[op], was, sizeof(was));
                fold_function(types[i], op)(into[op], from, sizeof(was), NULL);
            }
            for (int k = 0; k < MOST; k++) {
                float a = formats[i].load(was[k]), b = formats[i].load(from[k]);

                assert_true(isnan(a + b) ? is_nan(&formats[i], into[RGROUP_SUM][k])
                                         : into[RGROUP_SUM][k] == nearest(&formats[i], a + b));
                assert_true(isnan(a * b) ? is_nan(&formats[i], into[RGROUP_PROD][k])
                                         : into[RGROUP_PROD][k] == nearest(&formats[i], a * b));
                assert_int_equal(into[RGROUP_MIN][k], isnan(b) || a < b ? was[k] : from[k]);
                assert_int_equal(into[RGROUP_MAX][k], isnan(b) || a > b ? was[k] : from[k]);
            }
        }
}

/* ---- pairs ---- */

/* No element that is a NaN or infinite: of two NaNs a compiler may take either. */
static void fill_finite(unsigned char *at, size_t bytes, uint64_t *random)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(random_draw(random) & (i % 2 == 1 ? 0xbf : 0xff));
}

static void compare_pair(unsigned type, unsigned op, size_t bytes, uint64_t *random)
{
    static unsigned char to[ROOM], expected[ROOM], left[ROOM], right[ROOM];
    size_t to_at = random_draw(random) % 17, left_at = 2 * (random_draw(random) % 17),
           right_at = 2 * (random_draw(random) % 17);

    fill_finite(left, sizeof(left), random);
    fill_finite(right, sizeof(right), random);
    memset(to, 0x5a, sizeof(to));
    memset(expected, 0x5a, sizeof(expected));
    memcpy(expected + to_at, left + left_at, bytes);
    fold_function(type, op)(expected + to_at, right + right_at, bytes, NULL);
    fold_pair_function(type, op)(to + to_at, left + left_at, right + right_at, bytes);
    assert_memory_equal(to, expected, sizeof(to)); /* and nothing beside them */
}

static void test_pairs(void **state)
{
    uint64_t random = 6;

    (void)state;
    for (unsigned type = 0; type < FOLD_TYPES; type++)
        for (unsigned op = 0; op < FOLD_OPERATORS; op++)
            for (size_t l = 0;
                 fold_function(type, op) != NULL && l < sizeof(lengths) / sizeof(*lengths); l++)
                compare_pair(type, op, lengths[l] * fold_element_bytes(type), &random);
}

/* ---- what there is none of ---- */

static void test_none(void **state)
{
    (void)state;
    for (unsigned type = 0; type <= FOLD_TYPES; type++)
        for (unsigned op = 0; op <= FOLD_OPERATORS; op++) {
            bool is_integer =
                type <= RGROUP_UINT64 || (type >= RGROUP_INT8 && type <= RGROUP_UINT16);
            bool is_complex = type == RGROUP_COMPLEX_FLOAT || type == RGROUP_COMPLEX_DOUBLE;
            bool is_index = type >= RGROUP_INT32_INDEX;
            bool there = type < FOLD_TYPES && op < FOLD_OPERATORS &&
                         (is_integer   ? true
                          : is_complex ? op <= RGROUP_PROD
                          : is_index   ? op == RGROUP_MIN || op == RGROUP_MAX
                                       : op <= RGROUP_MAX);

            assert_int_equal(fold_function(type, op) != NULL, there);
            assert_int_equal(fold_pair_function(type, op) != NULL, there);
        }
    assert_int_equal(fold_element_bytes(FOLD_TYPES), 0);
    assert_string_equal(fold_type_name(RGROUP_BFLOAT16), "BFLOAT16");
    assert_string_equal(fold_type_name(RGROUP_DOUBLE_INDEX), "DOUBLE_INDEX");
    assert_string_equal(fold_type_name(FOLD_TYPES), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers), cmocka_unit_test(test_floats),
        cmocka_unit_test(test_complex),  cmocka_unit_test(test_index),
        cmocka_unit_test(test_formats),  cmocka_unit_test(test_sums_of_16_bits),
        cmocka_unit_test(test_pairs),    cmocka_unit_test(test_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
