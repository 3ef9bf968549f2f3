/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op_basic.c: predefined operators for types that rgroup does not have them for: exclusive or of truth values, truth values of
 * C_BOOL, values with an index, long double.
 *
 * Of equal values the lower index is the result.
 */
#include "rmpi.h"

#include <complex.h>

#define EACH(NAME, CTYPE, EXPRESSION)                                                              \
    static void NAME(void *in, void *inout, int *len, MPI_Datatype *type)                          \
    {                                                                                              \
        const CTYPE *x = in;                                                                       \
        CTYPE *y = inout;                                                                          \
                                                                                                   \
        (void)type;                                                                                \
        for (int i = 0; i < *len; i++)                                                             \
            y[i] = (EXPRESSION);                                                                   \
    }

EACH(lxor_8, uint8_t, (x[i] != 0) != (y[i] != 0))
EACH(lxor_16, uint16_t, (x[i] != 0) != (y[i] != 0))
EACH(lxor_32, uint32_t, (x[i] != 0) != (y[i] != 0))
EACH(lxor_64, uint64_t, (x[i] != 0) != (y[i] != 0))
EACH(land_bool, uint8_t, x[i] && y[i])
EACH(lor_bool, uint8_t, x[i] || y[i])
EACH(max_long_double, long double, x[i] > y[i] ? x[i] : y[i])
EACH(min_long_double, long double, x[i] < y[i] ? x[i] : y[i])
EACH(sum_long_double, long double, x[i] + y[i])
EACH(prod_long_double, long double, x[i] * y[i])
EACH(sum_long_complex, long double _Complex, x[i] + y[i])
EACH(prod_long_complex, long double _Complex, x[i] * y[i])

#define BEST(NAME, VALUE, BETTER)                                                                  \
    static void NAME(void *in, void *inout, int *len, MPI_Datatype *type)                          \
    {                                                                                              \
        struct pair {                                                                              \
            VALUE value;                                                                           \
            int index;                                                                             \
        };                                                                                         \
        const struct pair *x = in;                                                                 \
        struct pair *y = inout;                                                                    \
                                                                                                   \
        (void)type;                                                                                \
        for (int i = 0; i < *len; i++) {                                                           \
            bool better = x[i].value BETTER y[i].value;                                            \
                                                                                                   \
            if (better || (!(y[i].value BETTER x[i].value) && x[i].index < y[i].index)) {          \
                y[i].value = x[i].value;                                                           \
                y[i].index = x[i].index;                                                           \
            }                                                                                      \
        }                                                                                          \
    }

BEST(maxloc_float, float, >)
BEST(minloc_float, float, <)
BEST(maxloc_double, double, >)
BEST(minloc_double, double, <)
BEST(maxloc_long, long, >)
BEST(minloc_long, long, <)
BEST(maxloc_int, int, >)
BEST(minloc_int, int, <)
BEST(maxloc_short, short, >)
BEST(minloc_short, short, <)
BEST(maxloc_long_double, long double, >)
BEST(minloc_long_double, long double, <)

static const struct {
    const struct rmpi_op *op;
    const struct rmpi_type *type;
    MPI_User_function *function;
} op_table[] = {
    {MPI_LAND, MPI_C_BOOL, land_bool},
    {MPI_LOR, MPI_C_BOOL, lor_bool},
    {MPI_LXOR, MPI_C_BOOL, lxor_8},
    {MPI_MAX, MPI_LONG_DOUBLE, max_long_double},
    {MPI_MIN, MPI_LONG_DOUBLE, min_long_double},
    {MPI_SUM, MPI_LONG_DOUBLE, sum_long_double},
    {MPI_PROD, MPI_LONG_DOUBLE, prod_long_double},
    {MPI_SUM, MPI_C_LONG_DOUBLE_COMPLEX, sum_long_complex},
    {MPI_PROD, MPI_C_LONG_DOUBLE_COMPLEX, prod_long_complex},
    {MPI_MAXLOC, MPI_FLOAT_INT, maxloc_float},
    {MPI_MINLOC, MPI_FLOAT_INT, minloc_float},
    {MPI_MAXLOC, MPI_DOUBLE_INT, maxloc_double},
    {MPI_MINLOC, MPI_DOUBLE_INT, minloc_double},
    {MPI_MAXLOC, MPI_LONG_INT, maxloc_long},
    {MPI_MINLOC, MPI_LONG_INT, minloc_long},
    {MPI_MAXLOC, MPI_2INT, maxloc_int},
    {MPI_MINLOC, MPI_2INT, minloc_int},
    {MPI_MAXLOC, MPI_SHORT_INT, maxloc_short},
    {MPI_MINLOC, MPI_SHORT_INT, minloc_short},
    {MPI_MAXLOC, MPI_LONG_DOUBLE_INT, maxloc_long_double},
    {MPI_MINLOC, MPI_LONG_DOUBLE_INT, minloc_long_double},
};

static bool op_is_integer(const struct rmpi_type *type)
{
    return type->combine >= 0 && type->combine != RGROUP_FLOAT && type->combine != RGROUP_DOUBLE &&
           type->combine != RGROUP_COMPLEX_FLOAT && type->combine != RGROUP_COMPLEX_DOUBLE &&
           type != MPI_BYTE;
}

MPI_User_function *rmpi_op_basic(const struct rmpi_op *op, const struct rmpi_type *type)
{
    for (size_t i = 0; i < sizeof(op_table) / sizeof(op_table[0]); i++)
        if (op_table[i].op == op && op_table[i].type == type)
            return op_table[i].function;
    if (op != MPI_LXOR || !op_is_integer(type))
        return NULL;
    return type->size == 8   ? lxor_64
           : type->size == 4 ? lxor_32
           : type->size == 2 ? lxor_16
                             : lxor_8;
}
