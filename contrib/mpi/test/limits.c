/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limits.c: what is larger than an address space, or deeper than the subset permits, is an error, and never a wrong result. About the
 * subset alone: another MPI may have no such limits, or no such checks.
 */
#include "check.h"

#include <limits.h>

#define LONG_WAY ((MPI_Aint)1 << 40)

static void is_error(int rc, int expected)
{
    int error_class = MPI_SUCCESS;

    MPI_Error_class(rc, &error_class);
    CHECK(error_class == expected);
}

/* Elements so far apart that their number times their distance wraps around to a small number. */
static void reductions(void)
{
    static int in[16], out[16];
    MPI_Datatype far, gap, partial;
    MPI_Request request;
    MPI_Aint behind = 8;
    int counts[8], one = 1;

    MPI_Type_create_resized(MPI_INT, 0, LONG_WAY, &far);
    MPI_Type_commit(&far);
    is_error(MPI_Allreduce(in, out, 1 << 24, far, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT);
    is_error(MPI_Iallreduce(in, out, 1 << 24, far, MPI_SUM, MPI_COMM_WORLD, &request),
             MPI_ERR_COUNT);
    is_error(MPI_Scan(in, out, 1 << 24, far, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT);
    is_error(MPI_Send(in, 1 << 24, far, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    is_error(MPI_Bcast(in, 1 << 24, far, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    for (int i = 0; i < check_size; i++)
        counts[i] = INT_MAX / 2 + 1;
    /* the sum does not fit into an int, and its product with the extent into no word */
    is_error(MPI_Reduce_scatter(in, out, counts, far, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT);
    is_error(MPI_Reduce_scatter_block(in, out, 1 << 23, far, MPI_SUM, MPI_COMM_WORLD),
             MPI_ERR_COUNT);
    /* data beyond the extent: the next element would overlap it */
    MPI_Type_create_hindexed(1, &one, &behind, MPI_INT, &gap);
    MPI_Type_create_resized(gap, 0, 8, &partial);
    MPI_Type_commit(&partial);
    is_error(MPI_Allreduce(in, out, 1, partial, MPI_SUM, MPI_COMM_WORLD),
             MPI_ERR_UNSUPPORTED_OPERATION);
    MPI_Type_free(&partial);
    MPI_Type_free(&gap);
    MPI_Type_free(&far);
}

static void types(void)
{
    MPI_Aint at[2] = {0, LONG_WAY << 22};
    int lengths[2] = {1, 1}, sizes[3] = {INT_MAX, INT_MAX, INT_MAX}, part[3] = {1, 1, 1},
        start[3] = {1, 1, 1}, disps[1] = {INT_MAX};
    MPI_Datatype type, far, two[2] = {MPI_INT, MPI_INT};

    MPI_Type_create_resized(MPI_INT, 0, LONG_WAY, &far);
    is_error(MPI_Type_vector(INT_MAX, 1, INT_MAX, far, &type), MPI_ERR_ARG);
    is_error(MPI_Type_contiguous(INT_MAX, far, &type), MPI_ERR_ARG);
    is_error(MPI_Type_create_hvector(3, 1, LONG_WAY << 22, MPI_INT, &type), MPI_ERR_ARG);
    is_error(MPI_Type_create_resized(MPI_INT, 0, LONG_WAY << 20, &type), MPI_ERR_ARG);
    is_error(MPI_Type_create_struct(2, lengths, at, two, &type), MPI_ERR_ARG);
    is_error(MPI_Type_create_subarray(3, sizes, part, start, MPI_ORDER_C, MPI_INT, &type),
             MPI_ERR_ARG);
    is_error(MPI_Type_indexed(1, lengths, disps, far, &type), MPI_ERR_ARG);
    MPI_Type_free(&far);
    /* data that wraps around */
    MPI_Type_contiguous(INT_MAX, MPI_DOUBLE, &far);
    is_error(MPI_Type_contiguous(INT_MAX, far, &type), MPI_ERR_ARG);
    MPI_Type_free(&far);
}

/* Walks of types recurse: one that is too deep cannot be made, and the deepest one works. */
static void depth(void)
{
    static int from[4000], into[4000];
    MPI_Datatype type, deeper;
    int rc = MPI_SUCCESS, levels = 0, position = 0, size;

    MPI_Type_dup(MPI_INT, &type);
    for (; levels < 5000; levels++) {
        int length = 1;
        MPI_Aint at = 4;

        rc = MPI_Type_create_struct(1, &length, &at, &type, &deeper);
        if (rc != MPI_SUCCESS)
            break;
        MPI_Type_free(&type);
        type = deeper;
    }
    is_error(rc, MPI_ERR_ARG);
    CHECK(levels >= 64 && levels < 4000);
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    CHECK(size == 4);
    from[levels] = 4711;
    MPI_Pack(from, 1, type, into, sizeof(into), &position, MPI_COMM_WORLD);
    CHECK(position == 4 && into[0] == 4711);
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    CHECK(check_size <= 8);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    reductions();
    types();
    depth();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    return check_end("limits");
}
