/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_operator.c: the operators of rgroup_reduce, and rgroup_combine.
 */
#include "group/group.h"

#include <errno.h>
#include <string.h>

/*
 * Messages are aligned to their unit only, so elements are loaded by memcpy, which the compiler makes the plain load that it
 * is. Sums and products of integers wrap, so signed ones are computed without sign.
 */
#define OPERATOR(name, type, expression)                                                           \
    static void name(void *into, const void *from, size_t bytes, void *argument)                   \
    {                                                                                              \
        char *restrict to = into;                                                                  \
        const char *restrict source = from;                                                        \
        size_t i;                                                                                  \
                                                                                                   \
        (void)argument;                                                                            \
        for (i = 0; i < bytes; i += sizeof(type)) {                                                \
            type a, b, r;                                                                          \
                                                                                                   \
            memcpy(&a, to + i, sizeof(a));                                                         \
            memcpy(&b, source + i, sizeof(b));                                                     \
            r = (expression);                                                                      \
            memcpy(to + i, &r, sizeof(r));                                                         \
        }                                                                                          \
    }

/* a number wins against a NaN */
#define MIN_OF_FLOATS (a < b || b != b ? a : b)
#define MAX_OF_FLOATS (a > b || b != b ? a : b)

OPERATOR(operator_sum_u32, uint32_t, a + b)
OPERATOR(operator_sum_u64, uint64_t, a + b)
OPERATOR(operator_sum_float, float, a + b)
OPERATOR(operator_sum_double, double, a + b)
OPERATOR(operator_prod_u32, uint32_t, a *b)
OPERATOR(operator_prod_u64, uint64_t, a *b)
OPERATOR(operator_prod_float, float, a *b)
OPERATOR(operator_prod_double, double, a *b)
OPERATOR(operator_min_i32, int32_t, a < b ? a : b)
OPERATOR(operator_min_i64, int64_t, a < b ? a : b)
OPERATOR(operator_min_u32, uint32_t, a < b ? a : b)
OPERATOR(operator_min_u64, uint64_t, a < b ? a : b)
OPERATOR(operator_min_float, float, MIN_OF_FLOATS)
OPERATOR(operator_min_double, double, MIN_OF_FLOATS)
OPERATOR(operator_max_i32, int32_t, a > b ? a : b)
OPERATOR(operator_max_i64, int64_t, a > b ? a : b)
OPERATOR(operator_max_u32, uint32_t, a > b ? a : b)
OPERATOR(operator_max_u64, uint64_t, a > b ? a : b)
OPERATOR(operator_max_float, float, MAX_OF_FLOATS)
OPERATOR(operator_max_double, double, MAX_OF_FLOATS)
OPERATOR(operator_band_u32, uint32_t, a &b)
OPERATOR(operator_band_u64, uint64_t, a &b)
OPERATOR(operator_bor_u32, uint32_t, a | b)
OPERATOR(operator_bor_u64, uint64_t, a | b)
OPERATOR(operator_bxor_u32, uint32_t, a ^ b)
OPERATOR(operator_bxor_u64, uint64_t, a ^ b)
OPERATOR(operator_land_u32, uint32_t, a != 0 && b != 0)
OPERATOR(operator_land_u64, uint64_t, a != 0 && b != 0)
OPERATOR(operator_lor_u32, uint32_t, a != 0 || b != 0)
OPERATOR(operator_lor_u64, uint64_t, a != 0 || b != 0)

#define OPERATORS (RGROUP_LOR + 1)
#define TYPES (RGROUP_DOUBLE + 1)

static const rgroup_function_t operator_table[OPERATORS][TYPES] = {
    /* in the order of rgroup_type_t: int32, int64, uint32, uint64, float, double */
    [RGROUP_SUM] = {operator_sum_u32, operator_sum_u64, operator_sum_u32, operator_sum_u64,
                    operator_sum_float, operator_sum_double},
    [RGROUP_PROD] = {operator_prod_u32, operator_prod_u64, operator_prod_u32, operator_prod_u64,
                     operator_prod_float, operator_prod_double},
    [RGROUP_MIN] = {operator_min_i32, operator_min_i64, operator_min_u32, operator_min_u64,
                    operator_min_float, operator_min_double},
    [RGROUP_MAX] = {operator_max_i32, operator_max_i64, operator_max_u32, operator_max_u64,
                    operator_max_float, operator_max_double},
    [RGROUP_BAND] = {operator_band_u32, operator_band_u64, operator_band_u32, operator_band_u64,
                     NULL, NULL},
    [RGROUP_BOR] = {operator_bor_u32, operator_bor_u64, operator_bor_u32, operator_bor_u64, NULL,
                    NULL},
    [RGROUP_BXOR] = {operator_bxor_u32, operator_bxor_u64, operator_bxor_u32, operator_bxor_u64,
                     NULL, NULL},
    [RGROUP_LAND] = {operator_land_u32, operator_land_u64, operator_land_u32, operator_land_u64,
                     NULL, NULL},
    [RGROUP_LOR] = {operator_lor_u32, operator_lor_u64, operator_lor_u32, operator_lor_u64, NULL,
                    NULL},
};

static const size_t operator_type_bytes[TYPES] = {4, 8, 4, 8, 4, 8};

int group_operator(size_t count, rgroup_type_t type, rgroup_op_t op, rgroup_function_t *function,
                   size_t *bytes)
{
    if ((unsigned)type >= TYPES || (unsigned)op >= OPERATORS)
        return call_error(NULL, -EINVAL,
                          "type is %d, op is %d; there are types 0 to %d and operators 0 to %d",
                          (int)type, (int)op, TYPES - 1, OPERATORS - 1);
    if (operator_table[op][type] == NULL)
        return call_error(NULL, -EINVAL, "op is %d, which is for integers; type is %s", (int)op,
                          type == RGROUP_FLOAT ? "RGROUP_FLOAT" : "RGROUP_DOUBLE");
    if (count > SIZE_MAX / operator_type_bytes[type])
        return call_error(NULL, -EINVAL, "count is %zu; elements of %zu bytes allow at most %zu",
                          count, (size_t)operator_type_bytes[type],
                          SIZE_MAX / operator_type_bytes[type]);
    *function = operator_table[op][type];
    *bytes = count * operator_type_bytes[type];
    return 0;
}

int rgroup_combine(void *into, const void *from, size_t count, rgroup_type_t type, rgroup_op_t op)
{
    rgroup_function_t function = NULL;
    struct call call;
    size_t bytes = 0;
    int rc;

    call_enter(&call, "rgroup_combine");
    rc = group_operator(count, type, op, &function, &bytes);
    if (rc == 0 && bytes > 0 && (into == NULL || from == NULL))
        rc = call_error(NULL, -EINVAL, "%s is NULL", into == NULL ? "into" : "from");
    if (rc == 0 && function != NULL)
        function(into, from, bytes, NULL);
    return call_end(&call, rc);
}
