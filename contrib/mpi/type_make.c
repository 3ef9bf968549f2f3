/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * type_make.c: constructors of types. All are made of two shapes: elements at a constant stride, and a list of parts.
 *
 * What they share: a type covers [lb, lb + extent), its data [true_lb, true_lb + true_extent).
 */
#include "rmpi.h"

/* ---- limits ---- */

struct limits {
    bool any, any_data;
    MPI_Aint lb, ub, true_lb, true_ub;
};

/* Adds count elements of a type, `stride` apart, from `at` on. */
static void limits_add(struct limits *l, const struct rmpi_type *of, size_t count, MPI_Aint at,
                       MPI_Aint stride)
{
    MPI_Aint last, low, high;

    if (count == 0)
        return;
    last = at + (MPI_Aint)(count - 1) * stride;
    low = last < at ? last : at;
    high = last < at ? at : last;
    if (!l->any || low + of->lb < l->lb)
        l->lb = low + of->lb;
    if (!l->any || high + of->lb + of->extent > l->ub)
        l->ub = high + of->lb + of->extent;
    l->any = true;
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
    t->dense = t->solid && t->lb == 0 && t->true_lb == 0 && t->extent == (MPI_Aint)t->size;
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
    rmpi_type_keep(of);
    t->of = of;
    t->at = at;
    t->stride = stride;
    t->size = count * of->size;
    t->basics = count * of->basics;
    t->align = of->align;
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
        size_t bytes = p->count * p->of->size;

        rmpi_type_keep(p->of);
        limits_add(&l, p->of, p->count, p->at, p->of->extent);
        if (bytes > 0) {
            if (!type_is_run(p->of, p->count) || (t->size > 0 && p->at + p->of->true_lb != end))
                t->solid = false;
            end = p->at + p->of->true_lb + (MPI_Aint)bytes;
        }
        t->size += bytes;
        t->basics += p->count * p->of->basics;
        t->align = p->of->align > t->align ? p->of->align : t->align;
    }
    if (padded && l.any) {
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
    if (made == NULL)
        return rmpi_fail(NULL, MPI_ERR_NO_MEM, call, "no memory for a type");
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
    return type_blocks("MPI_Type_vector", count, blocklength,
                       stride * (of == NULL ? 0 : of->extent), of, type);
}

int MPI_Type_create_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype of,
                            MPI_Datatype *type)
{
    return type_blocks("MPI_Type_create_hvector", count, blocklength, stride, of, type);
}

int MPI_Type_dup(MPI_Datatype of, MPI_Datatype *type)
{
    int rc = type_check("MPI_Type_dup", 0, of);

    if (rc != MPI_SUCCESS)
        return rc;
    rc = MPI_Type_create_resized(of, of->lb, of->extent, type);
    if (rc == MPI_SUCCESS)
        (*type)->committed = of->committed;
    return rc;
}

int MPI_Type_create_resized(MPI_Datatype of, MPI_Aint lb, MPI_Aint extent, MPI_Datatype *type)
{
    int rc = type_check("MPI_Type_create_resized", 0, of);
    struct rmpi_type *made;

    if (rc != MPI_SUCCESS)
        return rc;
    made = type_strided(of, 1, 0, 0);
    if (made != NULL) {
        made->lb = lb;
        made->extent = extent;
        made->dense =
            made->solid && lb == 0 && made->true_lb == 0 && extent == (MPI_Aint)made->size;
    }
    return type_result("MPI_Type_create_resized", made, type);
}

/* A block of a larger array: from the dimension that is dense outwards. */
int MPI_Type_create_subarray(int ndims, const int *sizes, const int *subsizes, const int *starts,
                             int order, MPI_Datatype of, MPI_Datatype *type)
{
    int rc = type_check("MPI_Type_create_subarray", ndims, of);
    struct rmpi_type *made = of, *inner;
    MPI_Aint bytes, extent;

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
        bytes = extent * starts[d];
        inner = made;
        made = type_strided(inner, (size_t)subsizes[d], bytes, extent);
        rmpi_type_drop(inner);
        extent *= sizes[d];
    }
    if (made == NULL)
        return type_result("MPI_Type_create_subarray", NULL, type);
    rc = MPI_Type_create_resized(made, 0, extent, type);
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
        for (int i = 0; i < count; i++)
            made->parts[i] =
                (struct rmpi_part){bytes != NULL ? bytes[i] : disps[i] * of->extent,
                                   (size_t)(lengths == NULL ? length : lengths[i]), of};
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
