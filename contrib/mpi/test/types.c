/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * types.c: types made at random are packed and unpacked, sent and received; compared with a list of the bytes that they have. Also
 * sizes, extents, counts of short messages. The seed is printed; the argument is another one.
 */
#include "check.h"

#include <stddef.h>

#define MOST_BYTES 6000 /* of the list */
#define MEMORY 100000
#define ORIGIN 40000 /* displacements may be negative */

struct model {
    MPI_Datatype type;
    int bytes; /* in the list */
    int *at;
};

static unsigned state;

static int below(int n) { return (int)(check_random(&state) % (unsigned)n); }

static struct model model_basic(void)
{
    static const int sizes[] = {1, 2, 4, 8};
    MPI_Datatype types[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE};
    int k = below(4);
    struct model m = {.bytes = sizes[k], .at = malloc(MOST_BYTES * sizeof(int))};

    MPI_Type_dup(types[k], &m.type);
    for (int i = 0; i < m.bytes; i++)
        m.at[i] = i;
    return m;
}

/* Adds `of` at a displacement. */
static void model_add(struct model *m, const struct model *of, long disp)
{
    for (int i = 0; i < of->bytes; i++)
        m->at[m->bytes++] = of->at[i] + (int)disp;
}

static struct model model_make(int depth)
{
    struct model of, m = {.at = malloc(MOST_BYTES * sizeof(int))};
    int n = 1 + below(4), length = 1 + below(3), kind = below(6), lengths[4], disps[4], back;
    MPI_Aint lb, extent, bytes[4];
    MPI_Datatype types[4];

    if (depth == 0) {
        free(m.at);
        return model_basic();
    }
    of = model_make(depth - 1);
    MPI_Type_get_extent(of.type, &lb, &extent);
    if (of.bytes * n * length * 2 > MOST_BYTES || extent > 500 || extent < 0)
        n = length = 1;
    back = below(2) == 0 ? below(9) : 0; /* displacements that begin below 0 */
    for (int i = 0; i < n; i++) {
        lengths[i] = kind == 2 ? length : below(length + 1);
        disps[i] = i * (length + below(2)) - back;
        bytes[i] = disps[i] * extent + 8 * i;
        types[i] = of.type;
    }
    if (back > 4) { /* and descend */
        int first = disps[0];

        disps[0] = disps[n - 1];
        disps[n - 1] = first;
        if (kind != 2 && n > 1) {
            int one = lengths[0];

            lengths[0] = lengths[n - 1];
            lengths[n - 1] = one;
        }
    }
    switch (kind) {
    case 0:
        MPI_Type_contiguous(n, of.type, &m.type);
        for (int i = 0; i < n; i++)
            model_add(&m, &of, i * extent);
        break;
    case 1: {
        int stride = back > 0 ? -length - below(3) : length + below(3);

        MPI_Type_vector(n, length, stride, of.type, &m.type);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < length; k++)
                model_add(&m, &of, (i * stride + k) * extent);
        break;
    }
    case 2:
        MPI_Type_create_indexed_block(n, length, disps, of.type, &m.type);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < lengths[i]; k++)
                model_add(&m, &of, (disps[i] + k) * extent);
        break;
    case 3:
        MPI_Type_indexed(n, lengths, disps, of.type, &m.type);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < lengths[i]; k++)
                model_add(&m, &of, (disps[i] + k) * extent);
        break;
    case 4:
        MPI_Type_create_struct(n, lengths, bytes, types, &m.type);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < lengths[i]; k++)
                model_add(&m, &of, bytes[i] + k * extent);
        break;
    default:
        MPI_Type_create_resized(of.type, lb - 8 * below(2), extent + 8 * below(3), &m.type);
        model_add(&m, &of, 0);
    }
    MPI_Type_free(&of.type);
    free(of.at);
    return m;
}

static void use(struct model *m)
{
    static unsigned char from[MEMORY], into[MEMORY], want[MEMORY], packed[3 * MOST_BYTES];
    int count = 1 + below(2), size, position = 0, got, partner = check_size - 1 - check_rank;
    MPI_Aint lb, extent, true_extent;
    MPI_Status status;

    MPI_Type_commit(&m->type);
    MPI_Type_size(m->type, &size);
    MPI_Type_get_extent(m->type, &lb, &extent);
    CHECK(size == m->bytes);
    MPI_Type_get_true_extent(m->type, &lb, &true_extent);
    if (extent > 12000 || lb < -ORIGIN / 2 || lb + true_extent > ORIGIN)
        return;
    for (int i = 0; i < MEMORY; i++) {
        from[i] = (unsigned char)check_random(&state);
        into[i] = want[i] = 0xee;
    }
    MPI_Pack(from + ORIGIN, count, m->type, packed, (int)sizeof(packed), &position, MPI_COMM_WORLD);
    CHECK(position == count * size);
    for (int k = 0, p = 0; k < count; k++)
        for (int i = 0; i < m->bytes; i++, p++) {
            CHECK(packed[p] == from[ORIGIN + k * extent + m->at[i]]);
            want[ORIGIN + k * extent + m->at[i]] = packed[p];
        }
    position = 0;
    MPI_Unpack(packed, count * size, &position, into + ORIGIN, count, m->type, MPI_COMM_WORLD);
    CHECK(memcmp(into, want, MEMORY) == 0);
    /* sent as elements, received as elements */
    memset(into, 0xee, MEMORY);
    MPI_Sendrecv(from + ORIGIN, count, m->type, partner, 1, into + ORIGIN, count, m->type, partner,
                 1, MPI_COMM_WORLD, &status);
    CHECK(memcmp(into, want, MEMORY) == 0);
    if (size == 0)
        return;
    MPI_Get_count(&status, m->type, &got);
    CHECK(got == count);
    /* a message of one element for a receive of two */
    memset(into, 0xee, MEMORY);
    MPI_Sendrecv(from + ORIGIN, 1, m->type, partner, 2, into + ORIGIN, 2, m->type, partner, 2,
                 MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, m->type, &got);
    CHECK(got == 1);
    for (int i = 0; i < m->bytes; i++)
        CHECK(into[ORIGIN + m->at[i]] == from[ORIGIN + m->at[i]]);
}

/* What is known beforehand. */
static void known(void)
{
    struct {
        double d;
        char c;
    } s[2] = {{1.5, 'a'}, {2.5, 'b'}}, t[2];
    int lengths[2] = {1, 1}, count, sizes[2] = {6, 8}, part[2] = {2, 3}, start[2] = {3, 4};
    MPI_Aint at[2] = {0, 8}, lb, extent, base, first;
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_CHAR}, type;
    MPI_Status status;
    int block[6], matrix[6][8];

    MPI_Type_create_struct(2, lengths, at, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_get_extent(type, &lb, &extent);
    CHECK(lb == 0 && extent == sizeof(s[0]));
    memset(t, 0, sizeof(t));
    MPI_Sendrecv(s, 2, type, check_rank, 0, t, 2, type, check_rank, 0, MPI_COMM_WORLD, &status);
    CHECK(t[1].d == 2.5 && t[1].c == 'b' && t[0].c == 'a');
    MPI_Get_elements(&status, type, &count);
    CHECK(count == 4);
    MPI_Sendrecv(s, 1, MPI_DOUBLE, check_rank, 0, t, 2, type, check_rank, 0, MPI_COMM_WORLD,
                 &status);
    MPI_Get_elements(&status, type, &count);
    CHECK(count == 1);
    MPI_Get_count(&status, type, &count);
    CHECK(count == MPI_UNDEFINED);
    MPI_Type_free(&type);
    CHECK(type == MPI_DATATYPE_NULL);
    MPI_Get_address(s, &base);
    MPI_Get_address(&s[1], &first);
    CHECK(first - base == sizeof(s[0]));
    /* absolute addresses */
    at[0] = first;
    MPI_Type_create_struct(1, lengths, at, types, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(MPI_BOTTOM, 1, type, check_rank, 0, &t[0].d, 1, MPI_DOUBLE, check_rank, 0,
                 MPI_COMM_WORLD, &status);
    CHECK(t[0].d == 2.5);
    MPI_Type_free(&type);
    MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 8; k++)
            matrix[i][k] = 10 * i + k;
    MPI_Sendrecv(matrix, 1, type, check_rank, 0, block, 6, MPI_INT, check_rank, 0, MPI_COMM_WORLD,
                 &status);
    for (int i = 0; i < 6; i++)
        CHECK(block[i] == 10 * (3 + i / 3) + 4 + i % 3);
    MPI_Type_free(&type);
}

/* Limits that were set hide those of the other parts, and what the alignment would add. */
static void marked(void)
{
    int lengths[2] = {1, 1};
    MPI_Aint at[2] = {0, 20}, lb, extent;
    MPI_Datatype types[2], resized, type, twice;

    MPI_Type_create_resized(MPI_INT, -4, 13, &resized);
    types[0] = resized;
    types[1] = MPI_CHAR;
    MPI_Type_create_struct(2, lengths, at, types, &type);
    MPI_Type_get_extent(type, &lb, &extent);
    CHECK(lb == -4 && extent == 13);
    MPI_Type_contiguous(2, type, &twice);
    MPI_Type_get_extent(twice, &lb, &extent);
    CHECK(lb == -4 && extent == 26);
    MPI_Type_free(&twice);
    MPI_Type_free(&type);
    types[0] = MPI_DOUBLE; /* as wide as in C */
    at[1] = 8;
    MPI_Type_create_struct(2, lengths, at, types, &type);
    MPI_Type_dup(type, &twice);
    types[0] = twice; /* of a copy too */
    MPI_Type_create_struct(1, lengths, at, types, &type);
    MPI_Type_get_extent(type, &lb, &extent);
    CHECK(lb == 0 && extent == 16);
    at[0] = -8;
    types[0] = MPI_DOUBLE;
    MPI_Type_create_struct(2, lengths, at, types, &type);
    MPI_Type_get_extent(type, &lb, &extent);
    CHECK(lb == -8 && extent == 24);
    MPI_Type_free(&resized);
}

int main(int argc, char **argv)
{
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 20261126;

    check_begin(&argc, &argv);
    if (check_rank == 0)
        printf("seed %u\n", seed);
    state = seed;
    known();
    marked();
    for (int i = 0; i < 400; i++) {
        struct model m = model_make(i % 4);

        use(&m);
        MPI_Type_free(&m.type);
        free(m.at);
    }
    return check_end("types");
}
