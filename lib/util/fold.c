/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fold.c: the operators of reductions: a loop for each of them and each type.
 *
 * Messages are aligned to their unit only, so elements are loaded by memcpy, which the compiler makes the plain load that it is.
 * The loop over a line has a constant length, which compilers make vector instructions of at -O2. Sums and products of integers wrap, so
 * signed ones are computed without sign. No result depends on how the elements are grouped. Lines are fetched FOLD_AHEAD bytes
 * before they are needed: mostly another processor has written them, and what a processor fetches by itself is too late then.
 */
#include "util/fold.h"

#include "util/cpu.h"
#include "util/float16.h"

#include <stdint.h>
#include <string.h>

#define FOLD_AHEAD 1024

#define FOLD(name, type, expression)                                                               \
    static FORCE_INLINE void name##_pair_part(char *restrict to, const char *restrict left,        \
                                              const char *restrict right, size_t bytes)            \
    {                                                                                              \
        for (size_t i = 0; i < bytes; i += sizeof(type)) {                                         \
            type a, b, r;                                                                          \
                                                                                                   \
            memcpy(&a, left + i, sizeof(a));                                                       \
            memcpy(&b, right + i, sizeof(b));                                                      \
            r = (expression);                                                                      \
            memcpy(to + i, &r, sizeof(r));                                                         \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static FORCE_INLINE void name##_part(char *restrict to, const char *restrict source,           \
                                         size_t bytes)                                             \
    {                                                                                              \
        for (size_t i = 0; i < bytes; i += sizeof(type)) {                                         \
            type a, b, r;                                                                          \
                                                                                                   \
            memcpy(&a, to + i, sizeof(a));                                                         \
            memcpy(&b, source + i, sizeof(b));                                                     \
            r = (expression);                                                                      \
            memcpy(to + i, &r, sizeof(r));                                                         \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void name(void *into, const void *from, size_t bytes, void *argument)                   \
    {                                                                                              \
        const char *source = from;                                                                 \
        char *to = into;                                                                           \
        size_t at;                                                                                 \
                                                                                                   \
        (void)argument;                                                                            \
        for (at = 0; bytes - at >= CACHE_LINE; at += CACHE_LINE) {                                 \
            if (bytes - at > FOLD_AHEAD)                                                           \
                cpu_prefetch(source + at + FOLD_AHEAD);                                            \
            name##_part(to + at, source + at, CACHE_LINE);                                         \
        }                                                                                          \
        name##_part(to + at, source + at, bytes - at);                                             \
    }                                                                                              \
                                                                                                   \
    static void name##_pair(void *into, const void *a, const void *b, size_t bytes)                \
    {                                                                                              \
        const char *left = a, *right = b;                                                          \
        char *to = into;                                                                           \
        size_t at;                                                                                 \
                                                                                                   \
        for (at = 0; bytes - at >= CACHE_LINE; at += CACHE_LINE) {                                 \
            if (bytes - at > FOLD_AHEAD) {                                                         \
                cpu_prefetch(left + at + FOLD_AHEAD);                                              \
                cpu_prefetch(right + at + FOLD_AHEAD);                                             \
            }                                                                                      \
            name##_pair_part(to + at, left + at, right + at, CACHE_LINE);                          \
        }                                                                                          \
        name##_pair_part(to + at, left + at, right + at, bytes - at);                              \
    }

/* ---- integers ---- */

#define FOLD_UNSIGNED(bits)                                                                        \
    FOLD(sum_##bits, uint##bits##_t, (uint##bits##_t)(a + b))                                      \
    FOLD(prod_##bits, uint##bits##_t, (uint##bits##_t)(1u * a * b))                                \
    FOLD(band_##bits, uint##bits##_t, (uint##bits##_t)(a & b))                                     \
    FOLD(bor_##bits, uint##bits##_t, (uint##bits##_t)(a | b))                                      \
    FOLD(bxor_##bits, uint##bits##_t, (uint##bits##_t)(a ^ b))                                     \
    FOLD(land_##bits, uint##bits##_t, (uint##bits##_t)((a != 0) & (b != 0)))                       \
    FOLD(lor_##bits, uint##bits##_t, (uint##bits##_t)((a | b) != 0))                               \
    FOLD(min_u##bits, uint##bits##_t, a < b ? a : b)                                               \
    FOLD(max_u##bits, uint##bits##_t, a > b ? a : b)                                               \
    FOLD(min_i##bits, int##bits##_t, a < b ? a : b)                                                \
    FOLD(max_i##bits, int##bits##_t, a > b ? a : b)

FOLD_UNSIGNED(8)
FOLD_UNSIGNED(16)
FOLD_UNSIGNED(32)
FOLD_UNSIGNED(64)

/* ---- floating point: a number wins against a NaN ---- */

#define FOLD_FLOAT(type)                                                                           \
    FOLD(sum_##type, type, a + b)                                                                  \
    FOLD(prod_##type, type, a *b)                                                                  \
    FOLD(min_##type, type, ((a < b) | (b != b)) ? a : b)                                           \
    FOLD(max_##type, type, ((a > b) | (b != b)) ? a : b)

FOLD_FLOAT(float)
FOLD_FLOAT(double)

/* Each operation is one of float, and is rounded once. */
#define FOLD_FLOAT16(format)                                                                       \
    static inline uint16_t format##_min(uint16_t a, uint16_t b)                                    \
    {                                                                                              \
        float x = format##_load(a), y = format##_load(b);                                          \
                                                                                                   \
        return ((x < y) | (y != y)) ? a : b;                                                       \
    }                                                                                              \
                                                                                                   \
    static inline uint16_t format##_max(uint16_t a, uint16_t b)                                    \
    {                                                                                              \
        float x = format##_load(a), y = format##_load(b);                                          \
                                                                                                   \
        return ((x > y) | (y != y)) ? a : b;                                                       \
    }                                                                                              \
                                                                                                   \
    FOLD(sum_##format, uint16_t, format##_store(format##_load(a) + format##_load(b)))              \
    FOLD(prod_##format, uint16_t, format##_store(format##_load(a) * format##_load(b)))             \
    FOLD(min_##format, uint16_t, format##_min(a, b))                                               \
    FOLD(max_##format, uint16_t, format##_max(a, b))

FOLD_FLOAT16(binary16)
FOLD_FLOAT16(bfloat16)

/* Without the rules for infinities of C, annex G. */
#define FOLD_COMPLEX(type)                                                                         \
    struct complex_##type {                                                                        \
        type re, im;                                                                               \
    };                                                                                             \
    FOLD(sum_complex_##type, struct complex_##type,                                                \
         ((struct complex_##type){a.re + b.re, a.im + b.im}))                                      \
    FOLD(prod_complex_##type, struct complex_##type,                                               \
         ((struct complex_##type){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}))

FOLD_COMPLEX(float)
FOLD_COMPLEX(double)

/* ---- a value and where it is: of equal values the one with the lower index ---- */

#define FOLD_INDEX(name, type, index_type)                                                         \
    struct name##_index {                                                                          \
        type value;                                                                                \
        index_type index;                                                                          \
    };                                                                                             \
                                                                                                   \
    /* neither is before the other: equal, or two NaNs */                                          \
    static inline struct name##_index name##_lower(struct name##_index a, struct name##_index b)   \
    {                                                                                              \
        return a.index <= b.index ? a : b;                                                         \
    }                                                                                              \
                                                                                                   \
    static inline struct name##_index name##_index_min(struct name##_index a,                      \
                                                       struct name##_index b)                      \
    {                                                                                              \
        if ((a.value < b.value) | ((b.value != b.value) & (a.value == a.value)))                   \
            return a;                                                                              \
        if ((b.value < a.value) | ((a.value != a.value) & (b.value == b.value)))                   \
            return b;                                                                              \
        return name##_lower(a, b);                                                                 \
    }                                                                                              \
                                                                                                   \
    static inline struct name##_index name##_index_max(struct name##_index a,                      \
                                                       struct name##_index b)                      \
    {                                                                                              \
        if ((a.value > b.value) | ((b.value != b.value) & (a.value == a.value)))                   \
            return a;                                                                              \
        if ((b.value > a.value) | ((a.value != a.value) & (b.value == b.value)))                   \
            return b;                                                                              \
        return name##_lower(a, b);                                                                 \
    }                                                                                              \
                                                                                                   \
    FOLD(min_##name##_index, struct name##_index, name##_index_min(a, b))                          \
    FOLD(max_##name##_index, struct name##_index, name##_index_max(a, b))

FOLD_INDEX(int32, int32_t, int32_t)
FOLD_INDEX(int64, int64_t, int64_t)
FOLD_INDEX(float, float, int32_t)
FOLD_INDEX(double, double, int64_t)

/* ---- tables ---- */

struct fold_operator {
    fold_function_t into;
    fold_pair_function_t pair;
};

struct fold_type {
    const char *name;
    size_t bytes;
    struct fold_operator operator[FOLD_OPERATORS]; /* in the order of rgroup_op_t */
};

#define BOTH(name)                                                                                 \
    {                                                                                              \
        name, name##_pair                                                                          \
    }
#define INTEGER(sign, bits)                                                                        \
    {                                                                                              \
        BOTH(sum_##bits), BOTH(prod_##bits), BOTH(min_##sign##bits), BOTH(max_##sign##bits),       \
            BOTH(band_##bits), BOTH(bor_##bits), BOTH(bxor_##bits), BOTH(land_##bits),             \
            BOTH(lor_##bits)                                                                       \
    }
#define FLOATING(type)                                                                             \
    {                                                                                              \
        BOTH(sum_##type), BOTH(prod_##type), BOTH(min_##type), BOTH(max_##type)                    \
    }
#define SUM_PROD(type)                                                                             \
    {                                                                                              \
        BOTH(sum_##type), BOTH(prod_##type)                                                        \
    }
#define INDEX(type)                                                                                \
    {                                                                                              \
        {NULL, NULL}, {NULL, NULL}, BOTH(min_##type##_index), BOTH(max_##type##_index)             \
    }

static const struct fold_type fold_types[FOLD_TYPES] = {
    {"INT32", 4, INTEGER(i, 32)},
    {"INT64", 8, INTEGER(i, 64)},
    {"UINT32", 4, INTEGER(u, 32)},
    {"UINT64", 8, INTEGER(u, 64)},
    {"FLOAT", 4, FLOATING(float)},
    {"DOUBLE", 8, FLOATING(double)},
    {"INT8", 1, INTEGER(i, 8)},
    {"INT16", 2, INTEGER(i, 16)},
    {"UINT8", 1, INTEGER(u, 8)},
    {"UINT16", 2, INTEGER(u, 16)},
    {"FLOAT16", 2, FLOATING(binary16)},
    {"BFLOAT16", 2, FLOATING(bfloat16)},
    {"COMPLEX_FLOAT", 8, SUM_PROD(complex_float)},
    {"COMPLEX_DOUBLE", 16, SUM_PROD(complex_double)},
    {"INT32_INDEX", sizeof(struct int32_index), INDEX(int32)},
    {"INT64_INDEX", sizeof(struct int64_index), INDEX(int64)},
    {"FLOAT_INDEX", sizeof(struct float_index), INDEX(float)},
    {"DOUBLE_INDEX", sizeof(struct double_index), INDEX(double)},
};

fold_function_t fold_function(unsigned type, unsigned op)
{
    return type < FOLD_TYPES && op < FOLD_OPERATORS ? fold_types[type].operator[op].into : NULL;
}

fold_pair_function_t fold_pair_function(unsigned type, unsigned op)
{
    return type < FOLD_TYPES && op < FOLD_OPERATORS ? fold_types[type].operator[op].pair : NULL;
}

size_t fold_element_bytes(unsigned type) { return type < FOLD_TYPES ? fold_types[type].bytes : 0; }

const char *fold_type_name(unsigned type)
{
    return type < FOLD_TYPES ? fold_types[type].name : "unknown";
}
