/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * type.c: predefined types, and what a type is asked for.
 *
 * A pair of a value and an index is laid out as the structure in C; its size counts the data alone, as MPI has it.
 */
#include "rmpi.h"

#include <complex.h>
#include <wchar.h>

#define BASIC(NAME, CTYPE, COMBINE)                                                                \
    struct rmpi_type rmpi_type_##NAME = {                                                          \
        .solid = true,                                                                             \
        .dense = true,                                                                             \
        .committed = true,                                                                         \
        .combine = COMBINE,                                                                        \
        .size = sizeof(CTYPE),                                                                     \
        .basics = 1,                                                                               \
        .align = _Alignof(CTYPE),                                                                  \
        .extent = sizeof(CTYPE),                                                                   \
        .true_extent = sizeof(CTYPE),                                                              \
    }

/* of the same width: rgroup names types by width */
#define SIGNED(CTYPE)                                                                              \
    (sizeof(CTYPE) == 8   ? RGROUP_INT64                                                           \
     : sizeof(CTYPE) == 4 ? RGROUP_INT32                                                           \
     : sizeof(CTYPE) == 2 ? RGROUP_INT16                                                           \
                          : RGROUP_INT8)
#define UNSIGNED(CTYPE)                                                                            \
    (sizeof(CTYPE) == 8   ? RGROUP_UINT64                                                          \
     : sizeof(CTYPE) == 4 ? RGROUP_UINT32                                                          \
     : sizeof(CTYPE) == 2 ? RGROUP_UINT16                                                          \
                          : RGROUP_UINT8)

BASIC(char, char, -1);
BASIC(signed_char, signed char, RGROUP_INT8);
BASIC(unsigned_char, unsigned char, RGROUP_UINT8);
BASIC(byte, unsigned char, RGROUP_UINT8);
BASIC(packed, unsigned char, -1);
BASIC(wchar, wchar_t, -1);
BASIC(short, short, RGROUP_INT16);
BASIC(unsigned_short, unsigned short, RGROUP_UINT16);
BASIC(int, int, RGROUP_INT32);
BASIC(unsigned, unsigned, RGROUP_UINT32);
BASIC(long, long, SIGNED(long));
BASIC(unsigned_long, unsigned long, UNSIGNED(unsigned long));
BASIC(long_long, long long, RGROUP_INT64);
BASIC(unsigned_long_long, unsigned long long, RGROUP_UINT64);
BASIC(float, float, RGROUP_FLOAT);
BASIC(double, double, RGROUP_DOUBLE);
BASIC(long_double, long double, -1);
BASIC(int8_t, int8_t, RGROUP_INT8);
BASIC(int16_t, int16_t, RGROUP_INT16);
BASIC(int32_t, int32_t, RGROUP_INT32);
BASIC(int64_t, int64_t, RGROUP_INT64);
BASIC(uint8_t, uint8_t, RGROUP_UINT8);
BASIC(uint16_t, uint16_t, RGROUP_UINT16);
BASIC(uint32_t, uint32_t, RGROUP_UINT32);
BASIC(uint64_t, uint64_t, RGROUP_UINT64);
BASIC(aint, MPI_Aint, SIGNED(MPI_Aint));
BASIC(count, MPI_Count, RGROUP_INT64);
BASIC(c_bool, _Bool, -1);
BASIC(c_float_complex, float _Complex, RGROUP_COMPLEX_FLOAT);
BASIC(c_double_complex, double _Complex, RGROUP_COMPLEX_DOUBLE);
BASIC(c_long_double_complex, long double _Complex, -1);

#define PAIR(NAME, VALUE)                                                                          \
    struct pair_##NAME {                                                                           \
        VALUE value;                                                                               \
        int index;                                                                                 \
    };                                                                                             \
    struct rmpi_type rmpi_type_##NAME = {                                                          \
        .solid = true,                                                                             \
        .dense = sizeof(VALUE) + sizeof(int) == sizeof(struct pair_##NAME),                        \
        .committed = true,                                                                         \
        .combine = -1,                                                                             \
        .size = sizeof(VALUE) + sizeof(int),                                                       \
        .basics = 2,                                                                               \
        .align = _Alignof(struct pair_##NAME),                                                     \
        .extent = sizeof(struct pair_##NAME),                                                      \
        .true_extent = sizeof(VALUE) + sizeof(int),                                                \
    }

PAIR(float_int, float);
PAIR(double_int, double);
PAIR(long_int, long);
PAIR(2int, int);
PAIR(long_double_int, long double);

/* The only one with memory between value and index */
static struct rmpi_part type_short_int[2] = {{0, 1, &rmpi_type_short},
                                             {sizeof(int), 1, &rmpi_type_int}};
struct rmpi_type rmpi_type_short_int = {
    .shape = RMPI_LIST,
    .committed = true,
    .combine = -1,
    .size = sizeof(short) + sizeof(int),
    .basics = 2,
    .align = _Alignof(int),
    .extent = 2 * sizeof(int),
    .true_extent = 2 * sizeof(int),
    .count = 2,
    .parts = type_short_int,
};

/* ---- references ---- */

bool rmpi_type_usable(const struct rmpi_type *type) { return type != NULL && type->committed; }

MPI_Aint rmpi_span(const struct rmpi_type *type, size_t count)
{
    MPI_Aint span, extent = type->extent < 0 ? -type->extent : type->extent;

    if ((MPI_Aint)type->size > extent)
        extent = (MPI_Aint)type->size;
    return __builtin_mul_overflow(extent, count, &span) || span > RMPI_SPAN ? -1 : span;
}

void rmpi_type_keep(struct rmpi_type *type)
{
    if (type != NULL && type->refs > 0)
        type->refs++;
}

void rmpi_type_drop(struct rmpi_type *type)
{
    if (type == NULL || type->refs == 0 || --type->refs > 0)
        return;
    rmpi_type_drop(type->of);
    for (size_t i = 0; type->shape == RMPI_LIST && i < type->count; i++)
        rmpi_type_drop(type->parts[i].of);
    free(type->parts);
    free(type);
}

int MPI_Type_commit(MPI_Datatype *type)
{
    if (*type == NULL)
        return rmpi_fail(NULL, MPI_ERR_TYPE, "MPI_Type_commit", "the type is null");
    (*type)->committed = true;
    return MPI_SUCCESS;
}

int MPI_Type_free(MPI_Datatype *type)
{
    if (*type == NULL || (*type)->refs == 0)
        return rmpi_fail(NULL, MPI_ERR_TYPE, "MPI_Type_free", "the type is %s",
                         *type == NULL ? "null" : "predefined");
    rmpi_type_drop(*type);
    *type = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

/* ---- what a type is asked for ---- */

static int type_check(const char *call, MPI_Datatype type)
{
    return type != NULL ? MPI_SUCCESS : rmpi_fail(NULL, MPI_ERR_TYPE, call, "the type is null");
}

int MPI_Type_size(MPI_Datatype type, int *bytes)
{
    int rc = type_check("MPI_Type_size", type);

    if (rc == MPI_SUCCESS)
        *bytes = type->size > INT32_MAX ? MPI_UNDEFINED : (int)type->size;
    return rc;
}

int MPI_Type_get_extent(MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent)
{
    int rc = type_check("MPI_Type_get_extent", type);

    if (rc != MPI_SUCCESS)
        return rc;
    *lb = type->lb;
    *extent = type->extent;
    return rc;
}

int MPI_Type_get_true_extent(MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent)
{
    int rc = type_check("MPI_Type_get_true_extent", type);

    if (rc != MPI_SUCCESS)
        return rc;
    *lb = type->true_lb;
    *extent = type->true_extent;
    return rc;
}

int MPI_Type_extent(MPI_Datatype type, MPI_Aint *extent)
{
    MPI_Aint lb;

    return MPI_Type_get_extent(type, &lb, extent);
}

int MPI_Type_lb(MPI_Datatype type, MPI_Aint *lb)
{
    MPI_Aint extent;

    return MPI_Type_get_extent(type, lb, &extent);
}

int MPI_Type_ub(MPI_Datatype type, MPI_Aint *ub)
{
    MPI_Aint lb, extent;
    int rc = MPI_Type_get_extent(type, &lb, &extent);

    if (rc == MPI_SUCCESS)
        *ub = lb + extent;
    return rc;
}
