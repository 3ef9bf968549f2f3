/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op.c: operators, and how they are applied.
 *
 * A function of rcoll computes into = into o from. A function of MPI computes inout = in o inout. So an operator that does
 * not commute is applied with a copy of `from`, which becomes the result.
 */
#include "rmpi.h"

#define OP_STACK 4096

/* ---- predefined ---- */

#define PREDEFINED(NAME, COMBINE)                                                                  \
    struct rmpi_op rmpi_op_##NAME = {.commutes = true, .combine = COMBINE}

PREDEFINED(max, RGROUP_MAX);
PREDEFINED(min, RGROUP_MIN);
PREDEFINED(sum, RGROUP_SUM);
PREDEFINED(prod, RGROUP_PROD);
PREDEFINED(land, RGROUP_LAND);
PREDEFINED(band, RGROUP_BAND);
PREDEFINED(lor, RGROUP_LOR);
PREDEFINED(bor, RGROUP_BOR);
PREDEFINED(lxor, -1);
PREDEFINED(bxor, RGROUP_BXOR);
PREDEFINED(maxloc, -1);
PREDEFINED(minloc, -1);

bool rmpi_op_is_native(const struct rmpi_op *op, const struct rmpi_type *type)
{
    bool bits =
        op->combine == RGROUP_BAND || op->combine == RGROUP_BOR || op->combine == RGROUP_BXOR;

    if (op->combine < 0 || type->combine < 0 || op->function != NULL)
        return false;
    if (type == MPI_BYTE)
        return bits;
    switch (type->combine) {
    case RGROUP_FLOAT:
    case RGROUP_DOUBLE:
        return op->combine <= RGROUP_MAX;
    case RGROUP_COMPLEX_FLOAT:
    case RGROUP_COMPLEX_DOUBLE:
        return op->combine <= RGROUP_PROD;
    default:
        return true;
    }
}

/* ---- application ---- */

bool rmpi_op_apply(struct rmpi_apply *apply, const struct rmpi_op *op, struct rmpi_type *type)
{
    apply->commutes = op->commutes;
    apply->type = type;
    apply->element = (size_t)type->extent;
    apply->function = op->function != NULL ? op->function : rmpi_op_basic(op, type);
    return apply->function != NULL;
}

static void op_ordered(char *into, const char *from, size_t bytes, const struct rmpi_apply *a)
{
    char stack[OP_STACK] __attribute__((aligned(16)));
    size_t piece = sizeof(stack) / a->element * a->element;
    void *heap = NULL;
    char *copy = stack;

    if (piece == 0) {
        piece = a->element;
        copy = heap = malloc(piece);
        if (heap == NULL)
            (void)rmpi_fail(NULL, MPI_ERR_NO_MEM, "a reduction", "no memory for %zu bytes", piece);
    }
    for (size_t at = 0; copy != NULL && at < bytes; at += piece) {
        size_t now = bytes - at < piece ? bytes - at : piece;
        int n = (int)(now / a->element);
        MPI_Datatype type = a->type;

        memcpy(copy, from + at, now);
        a->function(into + at, copy, &n, &type);
        memcpy(into + at, copy, now);
    }
    free(heap);
}

void rmpi_op_call(void *into, const void *from, size_t bytes, void *argument)
{
    const struct rmpi_apply *a = argument;
    int n = (int)(bytes / a->element);
    MPI_Datatype type = a->type;

    if (a->commutes)
        a->function((void *)(uintptr_t)from, into, &n, &type);
    else
        op_ordered(into, from, bytes, a);
}

/* ---- public ---- */

int MPI_Op_create(MPI_User_function *function, int commute, MPI_Op *op)
{
    struct rmpi_op *made = malloc(sizeof(*made));

    if (made == NULL || function == NULL) {
        free(made);
        return rmpi_fail(NULL, function == NULL ? MPI_ERR_ARG : MPI_ERR_NO_MEM, "MPI_Op_create",
                         "%s", function == NULL ? "the function is NULL" : "no memory");
    }
    *made =
        (struct rmpi_op){.function = function, .refs = 1, .commutes = commute != 0, .combine = -1};
    *op = made;
    return MPI_SUCCESS;
}

int MPI_Op_free(MPI_Op *op)
{
    if (*op == NULL || (*op)->refs == 0)
        return rmpi_fail(NULL, MPI_ERR_OP, "MPI_Op_free", "the operator is %s",
                         *op == NULL ? "null" : "predefined");
    if (--(*op)->refs == 0)
        free(*op);
    *op = MPI_OP_NULL;
    return MPI_SUCCESS;
}

int MPI_Op_commutative(MPI_Op op, int *commute)
{
    if (op == NULL)
        return rmpi_fail(NULL, MPI_ERR_OP, "MPI_Op_commutative", "the operator is null");
    *commute = op->commutes;
    return MPI_SUCCESS;
}

int MPI_Reduce_local(const void *in, void *inout, int count, MPI_Datatype type, MPI_Op op)
{
    int rc = rmpi_check_data("MPI_Reduce_local", in, count, type, MPI_COMM_WORLD);
    struct rmpi_apply apply;

    if (rc != MPI_SUCCESS)
        return rc;
    if (op != NULL && rmpi_op_is_native(op, type)) {
        /* inout = in o inout; these operators commute */
        (void)rgroup_combine(inout, in, (size_t)count, (rgroup_type_t)type->combine,
                             (rgroup_op_t)op->combine);
        return MPI_SUCCESS;
    }
    if (op == NULL || !rmpi_op_apply(&apply, op, type))
        return rmpi_fail(NULL, MPI_ERR_OP, "MPI_Reduce_local", "the operator is %s",
                         op == NULL ? "null" : "not defined for the type");
    apply.function((void *)(uintptr_t)in, inout, &count, &type);
    return MPI_SUCCESS;
}
