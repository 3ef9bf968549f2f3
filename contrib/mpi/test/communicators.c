/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * communicators.c: split, dup, groups, grids, attributes; that messages of one communicator are not received by another; and that
 * the numbers of freed ones are used again: more are made than there are numbers.
 */
#include "check.h"

static int deleted;

static int copies(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)keyval;
    *(void **)out = (char *)in + *(int *)extra;
    *flag = 1;
    return MPI_SUCCESS;
}

static int deletes(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)value;
    (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static void attributes(void)
{
    static char memory[10];
    int keyval, flag, extra = 3, *limit;
    void *found;
    MPI_Comm copy;

    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &flag);
    CHECK(flag && *limit >= 32767);
    MPI_Comm_create_keyval(copies, deletes, &keyval, &extra);
    MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, &found, &flag);
    CHECK(!flag);
    MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, memory);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_get_attr(copy, keyval, &found, &flag);
    CHECK(flag && found == memory + 3);
    MPI_Comm_free(&copy);
    CHECK(deleted == 1 && copy == MPI_COMM_NULL);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
    CHECK(deleted == 2);
    MPI_Comm_free_keyval(&keyval);
    CHECK(keyval == MPI_KEYVAL_INVALID);
}

static void apart(void)
{
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    int a = check_rank, b = check_rank + 100, got, result;
    MPI_Comm copy;
    MPI_Request r[2];

    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_compare(MPI_COMM_WORLD, copy, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_compare(copy, copy, &result);
    CHECK(result == MPI_IDENT);
    MPI_Isend(&a, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(&b, 1, MPI_INT, next, 1, copy, &r[1]);
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, MPI_STATUS_IGNORE);
    CHECK(got == previous + 100);
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == previous);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&copy);
}

static void splits(void)
{
    int rank, size, sum, result, mine = check_rank;
    MPI_Comm part;
    MPI_Status status;

    MPI_Comm_split(MPI_COMM_WORLD, check_rank % 3 == 2 ? MPI_UNDEFINED : check_rank % 3,
                   -check_rank, &part);
    CHECK((part == MPI_COMM_NULL) == (check_rank % 3 == 2));
    if (part == MPI_COMM_NULL)
        return;
    MPI_Comm_rank(part, &rank);
    MPI_Comm_size(part, &size);
    CHECK(size == (check_size - check_rank % 3 + 2) / 3);
    CHECK(rank == size - 1 - check_rank / 3);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, part);
    CHECK(sum == size * (check_rank % 3) + 3 * size * (size - 1) / 2);
    /* sources are ranks of the communicator */
    MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, 2, &sum, 1, MPI_INT, MPI_ANY_SOURCE, 2, part,
                 &status);
    CHECK(status.MPI_SOURCE == (rank + size - 1) % size);
    CHECK(sum == (size - 1 - status.MPI_SOURCE) * 3 + check_rank % 3);
    MPI_Comm_compare(part, MPI_COMM_WORLD, &result);
    CHECK(result == (check_size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL));
    MPI_Comm_free(&part);
}

static void groups(void)
{
    int range[1][3] = {{0, 0, 1}}, ranks[1] = {0}, there[1], size, rank, result;
    MPI_Group all, first, others, both;
    MPI_Comm comm;

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, ranks, &first);
    MPI_Group_range_excl(all, 1, range, &others);
    MPI_Group_size(others, &size);
    MPI_Group_rank(others, &rank);
    CHECK(size == check_size - 1 && rank == (check_rank == 0 ? MPI_UNDEFINED : check_rank - 1));
    MPI_Group_union(others, first, &both);
    MPI_Group_compare(both, all, &result);
    CHECK(result == (check_size == 1 ? MPI_IDENT : MPI_SIMILAR));
    MPI_Group_translate_ranks(all, 1, ranks, both, there);
    CHECK(there[0] == check_size - 1);
    MPI_Comm_create(MPI_COMM_WORLD, others, &comm);
    CHECK((comm == MPI_COMM_NULL) == (check_rank == 0));
    if (comm != MPI_COMM_NULL) {
        MPI_Comm_rank(comm, &rank);
        CHECK(rank == check_rank - 1);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&first);
    MPI_Group_free(&others);
    MPI_Group_free(&both);
}

static void grids(void)
{
    int dims[2] = {0, 0}, periods[2] = {1, 0}, coords[2], rank, source, dest, remain[2] = {0, 1};
    int dims3[3] = {0, 0, 0}, size, status;
    MPI_Comm grid, row;

    MPI_Dims_create(12, 2, dims);
    CHECK(dims[0] == 4 && dims[1] == 3);
    MPI_Dims_create(24, 3, dims3);
    CHECK(dims3[0] == 4 && dims3[1] == 3 && dims3[2] == 2);
    dims[0] = dims[1] = 0;
    MPI_Dims_create(check_size, 2, dims);
    CHECK(dims[0] * dims[1] == check_size && dims[0] >= dims[1]);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    MPI_Topo_test(grid, &status);
    CHECK(status == MPI_CART);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, coords);
    CHECK(coords[0] * dims[1] + coords[1] == rank);
    MPI_Cart_rank(grid, coords, &source);
    CHECK(source == rank);
    MPI_Cart_shift(grid, 0, 1, &source, &dest);
    CHECK(dest == (rank + dims[1]) % check_size);
    CHECK(source == (rank + check_size - dims[1]) % check_size);
    MPI_Cart_shift(grid, 1, 1, &source, &dest);
    CHECK(dest == (coords[1] + 1 < dims[1] ? rank + 1 : MPI_PROC_NULL));
    CHECK(source == (coords[1] > 0 ? rank - 1 : MPI_PROC_NULL));
    MPI_Cart_sub(grid, remain, &row);
    MPI_Comm_size(row, &size);
    MPI_Comm_rank(row, &rank);
    CHECK(size == dims[1] && rank == coords[1]);
    MPI_Comm_free(&row);
    MPI_Comm_free(&grid);
}

/* More than there are numbers; a message that no receive takes does not reach a later communicator. */
static void many(int rounds)
{
    int sum, one = 1;
    MPI_Comm comm, held[8];

    for (int i = 0; i < 8; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &held[i]);
    for (int i = 0; i < rounds; i++) {
        MPI_Comm_split(MPI_COMM_WORLD, i % 7 == 0 ? check_rank : 0, 0, &comm);
        if (i % 100 == 0) {
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
            CHECK(sum == (i % 7 == 0 ? 1 : check_size));
        }
        MPI_Comm_free(&comm);
    }
    for (int i = 0; i < 8; i++)
        MPI_Comm_free(&held[i]);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    attributes();
    apart();
    splits();
    groups();
    grids();
    many(argc > 1 ? atoi(argv[1]) : 300);
    return check_end("communicators");
}
