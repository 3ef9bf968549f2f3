/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * type_make.c: constructors of types. All are made of two shapes: elements at a constant stride, and a list of parts.
 *
 * What they share: a type covers [lb, lb + extent), its data [true_lb, true_lb + true_extent). A limit that MPI_Type_create_resized has
 * set is marked, and so is that of any type made of it: where a part has a marked limit, those of the others do not count, and nothing is
 * added for the alignment. No limit and no size is beyond RMPI_SPAN, so sums of a few of them do not overflow.
 */
#include "rmpi.h"

#include <stdio.h>

/* ---- limits ---- */

struct limits {
    bool any, any_data, lb_marked, ub_marked, huge;
    MPI_Aint lb, ub, true_lb, true_ub;
};

static bool limits_far(MPI_Aint at) { return at > RMPI_SPAN || at < -RMPI_SPAN; }

/* Lower and upper limit; a marked one replaces those that are not, and is not replaced by them. */
static void limits_cover(struct limits *l, MPI_Aint lb, bool lb_marked, MPI_Aint ub, bool ub_marked)
{
    if (lb_marked != l->lb_marked ? lb_marked : !l->any || lb < l->lb)
        l->lb = lb;
    if (ub_marked != l->ub_marked ? ub_marked : !l->any || ub > l->ub)
        l->ub = ub;
    l->lb_marked = l->lb_marked || lb_marked;
    l->ub_marked = l->ub_marked || ub_marked;
    l->any = true;
}

/* Adds count elements of a type, `stride` apart, from `at` on. */
static void limits_add(struct limits *l, const struct rmpi_type *of, size_t count, MPI_Aint at,
                       MPI_Aint stride)
{
    MPI_Aint last, low, high;

    if (count == 0)
        return;
    if (limits_far(at) || __builtin_mul_overflow((MPI_Aint)(count - 1), stride, &last) ||
        limits_far(last)) {
        l->huge = true;
        return;
    }
    last += at;
    low = last < at ? last : at;
    high = last < at ? at : last;
    limits_cover(l, low + of->lb, of->lb_marked, high + of->lb + of->extent, of->ub_marked);
    if (of->size == 0)
        return;
    if (!l->any_data || low + of->true_lb < l->true_lb)
        l->true_lb = low + of->true_lb;
    if (!l->any_data || high + of->true_lb + of->true_extent > l->true_ub)
        l->true_ub = high + of->true_lb + of->true_extent;
    l->any_data = true;
}

static void type_finish(struct rmpi_type *t, const struct limits *l)
{
    t->lb = l->lb;
    t->extent = l->ub - l->lb;
    t->true_lb = l->true_lb;
    t->true_extent = l->true_ub - l->true_lb;
    t->lb_marked = l->lb_marked;
    t->ub_marked = l->ub_marked;
    if (l->huge || limits_far(l->lb) || limits_far(l->ub) || limits_far(l->true_lb) ||
        limits_far(l->true_ub) || t->size > (size_t)RMPI_SPAN)
        t->wrong = "it is larger than an address space";
    t->dense = t->solid && t->lb == 0 && t->true_lb == 0 && t->extent == (MPI_Aint)t->size;
}

/* A type is made of another one. */
static void type_contain(struct rmpi_type *t, struct rmpi_type *of)
{
    rmpi_type_keep(of);
    if (t->depth <= of->depth)
        t->depth = of->depth + 1;
    if (t->depth > RMPI_DEPTH && t->wrong == NULL)
        t->wrong = "too many types are in one another";
    if (t->wrong == NULL)
        t->wrong = of->wrong;
    if (of->align > t->align)
        t->align = of->align;
}

/* Adds the data of count elements; a sum that overflows stays larger than any type can be. */
static void type_add_data(struct rmpi_type *t, size_t count, const struct rmpi_type *of)
{
    size_t bytes, basics;

    if (__builtin_mul_overflow(count, of->size, &bytes) ||
        __builtin_mul_overflow(count, of->basics, &basics) || bytes > (size_t)RMPI_SPAN ||
        t->size > (size_t)RMPI_SPAN) {
        t->size = (size_t)RMPI_SPAN + 1;
        return;
    }
    t->size += bytes;
    t->basics += basics;
}

/* A new type that is not committed; NULL: no memory. */
static struct rmpi_type *type_new(enum rmpi_shape shape, size_t count)
{
    struct rmpi_type *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return NULL;
    t->shape = shape;
    t->refs = 1;
    t->combine = -1;
    t->count = count;
    t->align = 1;
    if (shape == RMPI_LIST)
        t->parts = calloc(count > 0 ? count : 1, sizeof(*t->parts));
    if (shape == RMPI_LIST && t->parts == NULL) {
        free(t);
        return NULL;
    }
    return t;
}

static struct rmpi_type *type_strided(struct rmpi_type *of, size_t count, MPI_Aint at,
                                      MPI_Aint stride)
{
    struct rmpi_type *t = of == NULL ? NULL : type_new(RMPI_STRIDED, count);
    struct limits l = {0};

    if (t == NULL)
        return NULL;
    type_contain(t, of);
    t->of = of;
    t->at = at;
    t->stride = stride;
    type_add_data(t, count, of);
    t->solid = count == 0 || (of->solid && (count == 1 || stride == (MPI_Aint)of->size));
    limits_add(&l, of, count, at, stride);
    type_finish(t, &l);
    return t;
}

/* Whether count elements of a type, one after the other, are one block. */
static bool type_is_run(const struct rmpi_type *of, size_t count)
{
    return of->solid && (count == 1 || of->extent == (MPI_Aint)of->size);
}

/* The parts are set. padded: the extent ends at the alignment of the data, as that of a structure in C. */
static void type_list(struct rmpi_type *t, bool padded)
{
    struct limits l = {0};
    MPI_Aint end = 0;

    t->solid = true;
    for (size_t i = 0; i < t->count; i++) {
        const struct rmpi_part *p = &t->parts[i];
        const size_t before = t->size;

        type_contain(t, p->of);
        type_add_data(t, p->count, p->of);
        limits_add(&l, p->of, p->count, p->at, p->of->extent);
        if (t->size > before && !l.huge) {
            if (!type_is_run(p->of, p->count) || (before > 0 && p->at + p->of->true_lb != end))
                t->solid = false;
            end = p->at + p->of->true_lb + (MPI_Aint)(t->size - before);
        }
    }
    if (padded && l.any && !l.ub_marked) {
        MPI_Aint beyond = (l.ub - l.lb) % (MPI_Aint)t->align;

        l.ub += beyond == 0 ? 0 : (MPI_Aint)t->align - beyond;
    }
    type_finish(t, &l);
}

/* ---- checks, results ---- */

static int type_check(const char *call, int count, MPI_Datatype of)
{
    if (count < 0)
        return rmpi_fail(NULL, MPI_ERR_COUNT, call, "count is %d", count);
    return of != NULL ? MPI_SUCCESS : rmpi_fail(NULL, MPI_ERR_TYPE, call, "the type is null");
}

static int type_result(const char *call, struct rmpi_type *made, MPI_Datatype *type)
{
    char why[80];

    if (made == NULL)
        return rmpi_fail(NULL, MPI_ERR_NO_MEM, call, "no memory for a type");
    if (made->wrong != NULL) {
        snprintf(why, sizeof(why), "%s", made->wrong);
        rmpi_type_drop(made);
        return rmpi_fail(NULL, MPI_ERR_ARG, call, "the type cannot be made: %s", why);
    }
    *type = made;
    return MPI_SUCCESS;
}

/* ---- constant stride ---- */

int MPI_Type_contiguous(int count, MPI_Datatype of, MPI_Datatype *type)
{
    int rc = type_check("MPI_Type_contiguous", count, of);

    if (rc != MPI_SUCCESS)
        return rc;
    return type_result("MPI_Type_contiguous", type_strided(of, (size_t)count, 0, of->extent), type);
}

static int type_blocks(const char *call, int count, int blocklength, MPI_Aint stride,
                       MPI_Datatype of, MPI_Datatype *type)
{
    int rc = type_check(call, count < blocklength ? count : blocklength, of);
    struct rmpi_type *block, *made;

    if (rc != MPI_SUCCESS)
        return rc;
    block = type_strided(of, (size_t)blocklength, 0, of->extent);
    made = type_strided(block, blocklength == 0 ? 0 : (size_t)count, 0, stride);
    rmpi_type_drop(block);
    return type_result(call, made, type);
}

int MPI_Type_vector(int count, int blocklength, int stride, MPI_Datatype of, MPI_Datatype *type)
{
    MPI_Aint bytes = 0;

    if (of != NULL && __builtin_mul_overflow(of->extent, stride, &bytes))
        bytes = RMPI_SPAN + 1;
    return type_blocks("MPI_Type_vector", count, blocklength, bytes, of, type);
}

int MPI_Type_create_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype of,
                            MPI_Datatype *type)
{
    return type_blocks("MPI_Type_create_hvector", count, blocklength, stride, of, type);
}

static int type_resized(const char *call, MPI_Datatype of, MPI_Aint lb, MPI_Aint extent,
                        MPI_Datatype *type)
{
    struct rmpi_type *made = type_strided(of, 1, 0, 0);

    if (made != NULL) {
        if (limits_far(lb) || limits_far(extent))
            made->wrong = "it is larger than an address space";
        made->lb = lb;
        made->extent = extent;
        made->lb_marked = made->ub_marked = true;
        made->dense =
            made->solid && lb == 0 && made->true_lb == 0 && extent == (MPI_Aint)made->size;
    }
    return type_result(call, made, type);
}

int MPI_Type_dup(MPI_Datatype of, MPI_Datatype *type)
{
    int rc = type_check("MPI_Type_dup", 0, of);

    if (rc != MPI_SUCCESS)
        return rc;
    rc = type_resized("MPI_Type_dup", of, of->lb, of->extent, type);
    if (rc == MPI_SUCCESS) {
        (*type)->committed = of->committed;
        (*type)->lb_marked = of->lb_marked;
        (*type)->ub_marked = of->ub_marked;
    }
    return rc;
}

int MPI_Type_create_resized(MPI_Datatype of, MPI_Aint lb, MPI_Aint extent, MPI_Datatype *type)
{
    int rc = type_check("MPI_Type_create_resized", 0, of);

    return rc == MPI_SUCCESS ? type_resized("MPI_Type_create_resized", of, lb, extent, type) : rc;
}

/* A block of a larger array: from the dimension that is dense outwards. */
int MPI_Type_create_subarray(int ndims, const int *sizes, const int *subsizes, const int *starts,
                             int order, MPI_Datatype of, MPI_Datatype *type)
{
    int rc = type_check("MPI_Type_create_subarray", ndims, of);
    struct rmpi_type *made = of, *inner;
    MPI_Aint bytes, extent;
    bool huge = false;

    if (rc != MPI_SUCCESS)
        return rc;
    extent = of->extent;
    rmpi_type_keep(of);
    for (int i = 0; i < ndims && made != NULL; i++) {
        int d = order == MPI_ORDER_FORTRAN ? i : ndims - 1 - i;

        if (sizes[d] < 1 || subsizes[d] < 1 || starts[d] < 0 ||
            subsizes[d] > sizes[d] - starts[d]) {
            rmpi_type_drop(made);
            return rmpi_fail(NULL, MPI_ERR_ARG, "MPI_Type_create_subarray",
                             "dimension %d: %d elements from %d on of %d", d, subsizes[d],
                             starts[d], sizes[d]);
        }
        huge = huge || __builtin_mul_overflow(extent, starts[d], &bytes);
        inner = made;
        made = type_strided(inner, (size_t)subsizes[d], huge ? 0 : bytes, extent);
        rmpi_type_drop(inner);
        huge = huge || __builtin_mul_overflow(extent, sizes[d], &extent);
    }
    if (made == NULL)
        return type_result("MPI_Type_create_subarray", NULL, type);
    rc = type_resized("MPI_Type_create_subarray", made, 0, huge ? RMPI_SPAN + 1 : extent, type);
    rmpi_type_drop(made);
    return rc;
}

/* ---- lists ---- */

int MPI_Type_create_struct(int count, const int *lengths, const MPI_Aint *disps,
                           const MPI_Datatype *of, MPI_Datatype *type)
{
    int rc = type_check("MPI_Type_create_struct", count, MPI_BYTE);
    struct rmpi_type *made;

    for (int i = 0; i < count && rc == MPI_SUCCESS; i++)
        rc = type_check("MPI_Type_create_struct", lengths[i], of[i]);
    if (rc != MPI_SUCCESS)
        return rc;
    made = type_new(RMPI_LIST, (size_t)count);
    if (made != NULL) {
        for (int i = 0; i < count; i++)
            made->parts[i] = (struct rmpi_part){disps[i], (size_t)lengths[i], of[i]};
        type_list(made, true);
    }
    return type_result("MPI_Type_create_struct", made, type);
}

/* lengths NULL: all are `length`. Displacements are in units of `unit` bytes. */
static int type_indexed(const char *call, int count, const int *lengths, int length,
                        const int *disps, const MPI_Aint *bytes, MPI_Datatype of,
                        MPI_Datatype *type)
{
    int rc = type_check(call, count, of);
    struct rmpi_type *made;

    for (int i = 0; i < count && rc == MPI_SUCCESS; i++)
        rc = type_check(call, lengths == NULL ? length : lengths[i], of);
    if (rc != MPI_SUCCESS)
        return rc;
    made = type_new(RMPI_LIST, (size_t)count);
    if (made != NULL) {
        for (int i = 0; i < count; i++) {
            struct rmpi_part *p = &made->parts[i];

            *p = (struct rmpi_part){0, (size_t)(lengths == NULL ? length : lengths[i]), of};
            if (bytes != NULL)
                p->at = bytes[i];
            else if (__builtin_mul_overflow(of->extent, disps[i], &p->at))
                p->at = RMPI_SPAN + 1;
        }
        type_list(made, false);
    }
    return type_result(call, made, type);
}

int MPI_Type_indexed(int count, const int *lengths, const int *disps, MPI_Datatype of,
                     MPI_Datatype *type)
{
    return type_indexed("MPI_Type_indexed", count, lengths, 0, disps, NULL, of, type);
}

int MPI_Type_create_hindexed(int count, const int *lengths, const MPI_Aint *disps, MPI_Datatype of,
                             MPI_Datatype *type)
{
    return type_indexed("MPI_Type_create_hindexed", count, lengths, 0, NULL, disps, of, type);
}

int MPI_Type_create_indexed_block(int count, int length, const int *disps, MPI_Datatype of,
                                  MPI_Datatype *type)
{
    return type_indexed("MPI_Type_create_indexed_block", count, NULL, length, disps, NULL, of,
                        type);
}

/* the names of MPI-1 */

int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype of,
                     MPI_Datatype *type)
{
    return MPI_Type_create_hvector(count, blocklength, stride, of, type);
}

int MPI_Type_hindexed(int count, int *lengths, MPI_Aint *disps, MPI_Datatype of, MPI_Datatype *type)
{
    return MPI_Type_create_hindexed(count, lengths, disps, of, type);
}

int MPI_Type_struct(int count, int *lengths, MPI_Aint *disps, MPI_Datatype *of, MPI_Datatype *type)
{
    return MPI_Type_create_struct(count, lengths, disps, of, type);
}
