/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collectives.c: every collective operation, with results computed by each process for itself; in place; types with gaps;
 * operators of the program, also one that does not commute; several at a time.
 */
#include "check.h"

#include <stdint.h>

static MPI_Comm comm;
static int me, n;

/* element i of the contribution of member k */
static long value(int k, int i) { return (long)(k + 1) * 1001 + (long)i * (k + 3) % 97; }

static void fill(long *data, int k, int count)
{
    for (int i = 0; i < count; i++)
        data[i] = value(k, i);
}

static long sum_to(int last, int i)
{
    long sum = 0;

    for (int k = 0; k <= last; k++)
        sum += value(k, i);
    return sum;
}

/* Where the buffer of the result is not significant it is NULL. */
static void without_results(long *in, long *out, int count)
{
    MPI_Request request;

    fill(in, me, count);
    MPI_Exscan(in, me == 0 ? NULL : out, count, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; i < count && me > 0; i++)
        CHECK(out[i] == sum_to(me - 1, i));
    for (int root = 0; root < n; root++) {
        fill(in, me, count);
        MPI_Ireduce(in, me == root ? out : NULL, count, MPI_LONG, MPI_SUM, root, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < count && me == root; i++)
            CHECK(out[i] == sum_to(n - 1, i));
        MPI_Ireduce(me == root ? MPI_IN_PLACE : in, me == root ? in : NULL, count, MPI_LONG,
                    MPI_SUM, root, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < count && me == root; i++)
            CHECK(in[i] == sum_to(n - 1, i));
    }
}

static void reductions(int count)
{
    size_t bytes = sizeof(long) * (size_t)(count > 0 ? count : 1);
    long *in = malloc(bytes), *out = malloc(bytes);

    for (int root = 0; root < n; root++) {
        fill(in, me, count);
        MPI_Reduce(in, out, count, MPI_LONG, MPI_SUM, root, comm);
        for (int i = 0; i < count && me == root; i++)
            CHECK(out[i] == sum_to(n - 1, i));
        if (me == root)
            MPI_Reduce(MPI_IN_PLACE, in, count, MPI_LONG, MPI_MAX, root, comm);
        else
            MPI_Reduce(in, NULL, count, MPI_LONG, MPI_MAX, root, comm);
        for (int i = 0; i < count && me == root; i++) {
            long most = value(0, i);

            for (int k = 1; k < n; k++)
                most = value(k, i) > most ? value(k, i) : most;
            CHECK(in[i] == most);
        }
    }
    fill(in, me, count);
    MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == sum_to(n - 1, i));
    MPI_Allreduce(MPI_IN_PLACE, in, count, MPI_LONG, MPI_SUM, comm);
    CHECK(memcmp(in, out, sizeof(long) * (size_t)count) == 0);
    fill(in, me, count);
    MPI_Scan(in, out, count, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == sum_to(me, i));
    memset(out, 0x11, bytes);
    MPI_Exscan(in, out, count, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; i < count && me > 0; i++)
        CHECK(out[i] == sum_to(me - 1, i));
    without_results(in, out, count);
    free(in);
    free(out);
}

static void scattered_reductions(void)
{
    int *counts = malloc(sizeof(int) * (size_t)n), total = 0, before = 0;
    long *in, out[4096];

    for (int k = 0; k < n; k++) {
        counts[k] = 3 + 100 * k;
        total += counts[k];
        before += k < me ? counts[k] : 0;
    }
    in = malloc(sizeof(long) * (size_t)(total + 700 * n));
    fill(in, me, total);
    MPI_Reduce_scatter(in, out, counts, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; i < counts[me]; i++)
        CHECK(out[i] == sum_to(n - 1, before + i));
    MPI_Reduce_scatter(MPI_IN_PLACE, in, counts, MPI_LONG, MPI_SUM, comm);
    CHECK(memcmp(in, out, sizeof(long) * (size_t)counts[me]) == 0);
    for (int block = 1; block <= 700; block += 699) {
        fill(in, me, block * n);
        MPI_Reduce_scatter_block(in, out, block, MPI_LONG, MPI_SUM, comm);
        for (int i = 0; i < block; i++)
            CHECK(out[i] == sum_to(n - 1, me * block + i));
    }
    free(in);
    free(counts);
}

/* ---- operators ---- */

struct affine {
    uint64_t a, b; /* x -> a x + b; the composition does not commute */
    char unused[8];
};

static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    struct affine *x = in, *y = inout;

    (void)type;
    for (int i = 0; i < *len; i++) {
        uint64_t a = x[i].a * y[i].a, b = x[i].b * y[i].a + y[i].b;

        y[i].a = a;
        y[i].b = b;
    }
}

static void operators(void)
{
    struct affine mine[300], all[300];
    struct {
        double value;
        int index;
    } pair, best;
    int logical, result, lengths[1] = {2};
    MPI_Aint at[1] = {0};
    MPI_Datatype uint64 = MPI_UINT64_T, inner, type;
    MPI_Op op;

    MPI_Type_create_struct(1, lengths, at, &uint64, &inner);
    MPI_Type_create_resized(inner, 0, sizeof(struct affine), &type);
    MPI_Type_commit(&type);
    MPI_Op_create(compose, 0, &op);
    for (int i = 0; i < 300; i++)
        mine[i] = (struct affine){.a = (uint64_t)(2 * me + 3 + i), .b = (uint64_t)(me * 7 + i)};
    memset(all, 0x33, sizeof(all));
    MPI_Allreduce(mine, all, 300, type, op, comm);
    for (int i = 0; i < 300; i++) {
        struct affine want = {.a = (uint64_t)(3 + i), .b = (uint64_t)i};

        for (int k = 1; k < n; k++) {
            struct affine next = {.a = (uint64_t)(2 * k + 3 + i), .b = (uint64_t)(k * 7 + i)};
            int one = 1;

            compose(&want, &next, &one, &type);
            want = next;
        }
        CHECK(all[i].a == want.a && all[i].b == want.b);
        CHECK(all[i].unused[0] == 0x33); /* memory between the data is not touched */
    }
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    MPI_Type_free(&inner);

    pair.value = me == n / 2 ? -5.5 : me;
    pair.index = 100 + me;
    MPI_Allreduce(&pair, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, comm);
    CHECK(best.value == -5.5 && best.index == 100 + n / 2);
    pair.value = 1;
    MPI_Reduce(&pair, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, n - 1, comm);
    CHECK(me != n - 1 || best.index == 100);
    logical = me == 0 ? 0 : 7;
    MPI_Allreduce(&logical, &result, 1, MPI_INT, MPI_LAND, comm);
    CHECK(result == 0);
    MPI_Allreduce(&logical, &result, 1, MPI_INT, MPI_LOR, comm);
    CHECK(result == (n > 1));
    MPI_Allreduce(&logical, &result, 1, MPI_INT, MPI_LXOR, comm);
    CHECK(result == (n - 1) % 2);
}

/* ---- blocks ---- */

static void blocks(int count)
{
    size_t bytes = sizeof(long) * (size_t)(count > 0 ? count : 1);
    long *mine = malloc(bytes), *all = malloc(bytes * (size_t)n),
         *other = malloc(bytes * (size_t)n);

    for (int root = 0; root < n; root++) {
        fill(mine, root == me ? me : me + 50, count);
        MPI_Bcast(mine, count, MPI_LONG, root, comm);
        for (int i = 0; i < count; i++)
            CHECK(mine[i] == value(root, i));
        fill(mine, me, count);
        MPI_Gather(mine, count, MPI_LONG, all, count, MPI_LONG, root, comm);
        for (int k = 0; k < n && me == root; k++)
            for (int i = 0; i < count; i++)
                CHECK(all[k * count + i] == value(k, i));
        memset(mine, 0, bytes);
        if (me == root)
            MPI_Scatter(all, count, MPI_LONG, MPI_IN_PLACE, count, MPI_LONG, root, comm);
        else
            MPI_Scatter(NULL, 0, MPI_LONG, mine, count, MPI_LONG, root, comm);
        for (int i = 0; i < count && me != root; i++)
            CHECK(mine[i] == value(me, i));
    }
    fill(mine, me, count);
    memset(all, 0, bytes * (size_t)n);
    MPI_Allgather(mine, count, MPI_LONG, all, count, MPI_LONG, comm);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < count; i++)
            CHECK(all[k * count + i] == value(k, i));
    memset(other, 0, bytes * (size_t)n);
    memcpy(other + me * count, mine, sizeof(long) * (size_t)count);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_LONG, other, count, MPI_LONG, comm);
    CHECK(memcmp(other, all, sizeof(long) * (size_t)(count * n)) == 0);
    for (int k = 0; k < n; k++)
        fill(all + k * count, me * n + k, count);
    MPI_Alltoall(all, count, MPI_LONG, other, count, MPI_LONG, comm);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < count; i++)
            CHECK(other[k * count + i] == value(k * n + me, i));
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_LONG, all, count, MPI_LONG, comm);
    CHECK(memcmp(other, all, sizeof(long) * (size_t)(count * n)) == 0);
    free(mine);
    free(all);
    free(other);
}

/* Blocks of different lengths, apart from each other, in reverse order. */
static void different_blocks(void)
{
    int *counts = malloc(4 * sizeof(int) * (size_t)n), *at = counts + n, *to = at + n,
        *to_at = to + n, total = 0;
    long mine[2000], *all, *other;

    for (int k = n - 1; k >= 0; k--) {
        counts[k] = k == 1 ? 0 : 5 + 300 * k;
        at[k] = total + 2;
        total += counts[k] + 2;
    }
    all = malloc(sizeof(long) * (size_t)(total + 1));
    for (int root = 0; root < n; root++) {
        fill(mine, me, counts[me]);
        memset(all, 0, sizeof(long) * (size_t)total);
        MPI_Gatherv(mine, counts[me], MPI_LONG, all, counts, at, MPI_LONG, root, comm);
        for (int k = 0; k < n && me == root; k++)
            for (int i = 0; i < counts[k]; i++)
                CHECK(all[at[k] + i] == value(k, i));
        memset(mine, 0, sizeof(mine));
        MPI_Scatterv(all, counts, at, MPI_LONG, mine, counts[me], MPI_LONG, root, comm);
        for (int i = 0; i < counts[me]; i++)
            CHECK(mine[i] == value(me, i));
    }
    memset(all, 0, sizeof(long) * (size_t)total);
    MPI_Allgatherv(mine, counts[me], MPI_LONG, all, counts, at, MPI_LONG, comm);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < counts[k]; i++)
            CHECK(all[at[k] + i] == value(k, i));
    free(all);
    /* member i sends i + k elements to member k */
    for (int k = 0; k < n; k++) {
        counts[k] = to[k] = me + k;
        at[k] = k * (2 * n + 1);
        to_at[k] = (n - 1 - k) * (2 * n);
    }
    all = calloc((size_t)n * (size_t)(2 * n + 1), sizeof(long));
    other = calloc((size_t)n * (size_t)(2 * n), sizeof(long));
    for (int k = 0; k < n; k++)
        fill(all + at[k], me * n + k, counts[k]);
    MPI_Alltoallv(all, counts, at, MPI_LONG, other, to, to_at, MPI_LONG, comm);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < to[k]; i++)
            CHECK(other[to_at[k] + i] == value(k * n + me, i));
    free(all);
    free(other);
    free(counts);
}

/* A column of a matrix is gathered, broadcast and scattered as a type with gaps. */
static void gaps(void)
{
    long matrix[20][30], columns[20 * 30];
    MPI_Datatype column, spread;

    MPI_Type_vector(20, 1, 30, MPI_LONG, &column);
    MPI_Type_create_resized(column, 0, sizeof(long), &spread);
    MPI_Type_commit(&spread);
    MPI_Type_commit(&column);
    memset(matrix, 0, sizeof(matrix));
    for (int i = 0; i < 20; i++)
        matrix[i][3] = value(me, i);
    MPI_Bcast(&matrix[0][3], 1, column, 0, comm);
    for (int i = 0; i < 20; i++)
        CHECK(matrix[i][3] == value(0, i) && matrix[i][4] == 0);
    for (int i = 0; i < 20; i++)
        columns[i] = value(me, i);
    if (n <= 30) {
        MPI_Allgather(columns, 20, MPI_LONG, matrix, 1, spread, comm);
        for (int k = 0; k < n; k++)
            for (int i = 0; i < 20; i++)
                CHECK(matrix[i][k] == value(k, i));
        memset(columns, 0, sizeof(columns));
        MPI_Scatter(matrix, 1, spread, columns, 20, MPI_LONG, 0, comm);
        for (int i = 0; i < 20; i++)
            CHECK(columns[i] == value(me, i));
    }
    MPI_Type_free(&column);
    MPI_Type_free(&spread);
}

static void in_flight(void)
{
    long in[3][2000], out[3][2000], all[64];
    MPI_Request r[5];

    for (int k = 0; k < 3; k++)
        fill(in[k], me + k, 2000);
    for (int k = 0; k < 3; k++)
        MPI_Iallreduce(in[k], out[k], 2000, MPI_LONG, MPI_SUM, comm, &r[k]);
    MPI_Ibarrier(comm, &r[3]);
    all[0] = me == 0 ? 4711 : 0;
    MPI_Ibcast(all, 1, MPI_LONG, 0, comm, &r[4]);
    MPI_Waitall(5, r, MPI_STATUSES_IGNORE);
    CHECK(all[0] == 4711);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 2000; i++) {
            long sum = 0;

            for (int j = 0; j < n; j++)
                sum += value(j + k, i);
            CHECK(out[k][i] == sum);
        }
}

static void all_of_them(MPI_Comm c)
{
    static const int counts[] = {0, 1, 3, 64, 513, 9000};

    comm = c;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        reductions(counts[i]);
        blocks(counts[i]);
        MPI_Barrier(comm);
    }
    scattered_reductions();
    operators();
    different_blocks();
    gaps();
    in_flight();
}

int main(int argc, char **argv)
{
    MPI_Comm reverse, part;

    check_begin(&argc, &argv);
    all_of_them(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &reverse);
    all_of_them(reverse);
    MPI_Comm_split(reverse, check_rank % 2, 0, &part);
    all_of_them(part);
    all_of_them(MPI_COMM_SELF);
    MPI_Comm_free(&part);
    MPI_Comm_free(&reverse);
    return check_end("collectives");
}
