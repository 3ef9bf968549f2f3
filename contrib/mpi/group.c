/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c: groups: lists of ranks of the job. */
#include "rmpi.h"

struct rmpi_group rmpi_group_empty = {.rank = MPI_UNDEFINED};

struct rmpi_group *rmpi_group_make(int size)
{
    struct rmpi_group *g = malloc(sizeof(*g) + (size_t)size * sizeof(g->ranks[0]));

    if (g == NULL)
        return NULL;
    g->refs = 1;
    g->size = size;
    g->rank = MPI_UNDEFINED;
    return g;
}

static int group_find(const struct rmpi_group *g, int rank)
{
    for (int i = 0; i < g->size; i++)
        if (g->ranks[i] == rank)
            return i;
    return MPI_UNDEFINED;
}

/* A list that was collected, `n` ranks of the job: the group, in which the own rank is found. */
static int group_result(const char *call, const int *ranks, int n, MPI_Group *group)
{
    struct rmpi_group *made;

    if (n == 0) {
        *group = MPI_GROUP_EMPTY;
        return MPI_SUCCESS;
    }
    made = rmpi_group_make(n);
    if (made == NULL)
        return rmpi_fail(NULL, MPI_ERR_NO_MEM, call, "no memory");
    memcpy(made->ranks, ranks, (size_t)n * sizeof(*ranks));
    made->rank = group_find(made, rmpi.rank);
    *group = made;
    return MPI_SUCCESS;
}

static int group_check(const char *call, MPI_Group a, MPI_Group b)
{
    rmpi_check_running(call);
    return a != NULL && b != NULL ? MPI_SUCCESS
                                  : rmpi_fail(NULL, MPI_ERR_GROUP, call, "the group is null");
}

int MPI_Group_size(MPI_Group group, int *size)
{
    int rc = group_check("MPI_Group_size", group, group);

    if (rc == MPI_SUCCESS)
        *size = group->size;
    return rc;
}

int MPI_Group_rank(MPI_Group group, int *rank)
{
    int rc = group_check("MPI_Group_rank", group, group);

    if (rc == MPI_SUCCESS)
        *rank = group->rank;
    return rc;
}

int MPI_Group_translate_ranks(MPI_Group from, int n, const int *ranks, MPI_Group to, int *there)
{
    int rc = group_check("MPI_Group_translate_ranks", from, to);

    for (int i = 0; i < n && rc == MPI_SUCCESS; i++) {
        if (ranks[i] == MPI_PROC_NULL)
            there[i] = MPI_PROC_NULL;
        else if (ranks[i] < 0 || ranks[i] >= from->size)
            rc = rmpi_fail(NULL, MPI_ERR_RANK, "MPI_Group_translate_ranks", "rank %d of %d",
                           ranks[i], from->size);
        else
            there[i] = group_find(to, from->ranks[ranks[i]]);
    }
    return rc;
}

int MPI_Group_compare(MPI_Group a, MPI_Group b, int *result)
{
    int rc = group_check("MPI_Group_compare", a, b);

    if (rc != MPI_SUCCESS)
        return rc;
    *result = a->size == b->size ? MPI_IDENT : MPI_UNEQUAL;
    for (int i = 0; i < a->size && *result != MPI_UNEQUAL; i++)
        if (a->ranks[i] != b->ranks[i])
            *result = group_find(b, a->ranks[i]) >= 0 ? MPI_SIMILAR : MPI_UNEQUAL;
    return MPI_SUCCESS;
}

/* Of a: those in b (there) or not in b; then all of b that are not in a, if `more`. */
static int group_combine(const char *call, MPI_Group a, MPI_Group b, bool all, bool there,
                         bool more, MPI_Group *group)
{
    int rc = group_check(call, a, b), n = 0, *ranks;

    if (rc != MPI_SUCCESS)
        return rc;
    ranks = malloc((size_t)(a->size + b->size + 1) * sizeof(*ranks));
    if (ranks == NULL)
        return rmpi_fail(NULL, MPI_ERR_NO_MEM, call, "no memory");
    for (int i = 0; i < a->size; i++)
        if (all || (group_find(b, a->ranks[i]) >= 0) == there)
            ranks[n++] = a->ranks[i];
    for (int i = 0; more && i < b->size; i++)
        if (group_find(a, b->ranks[i]) < 0)
            ranks[n++] = b->ranks[i];
    rc = group_result(call, ranks, n, group);
    free(ranks);
    return rc;
}

int MPI_Group_union(MPI_Group a, MPI_Group b, MPI_Group *group)
{
    return group_combine("MPI_Group_union", a, b, true, true, true, group);
}

int MPI_Group_intersection(MPI_Group a, MPI_Group b, MPI_Group *group)
{
    return group_combine("MPI_Group_intersection", a, b, false, true, false, group);
}

int MPI_Group_difference(MPI_Group a, MPI_Group b, MPI_Group *group)
{
    return group_combine("MPI_Group_difference", a, b, false, false, false, group);
}

/* ---- parts: a mark for each rank of the group that is named ---- */

static int group_part(const char *call, MPI_Group of, int n, int ranges[][3], bool inside,
                      MPI_Group *group)
{
    int rc = group_check(call, of, of), found = 0, *ranks;
    char *named;

    if (rc != MPI_SUCCESS)
        return rc;
    ranks = malloc(((size_t)of->size + 1) * sizeof(*ranks));
    named = calloc((size_t)of->size + 1, 1);
    if (ranks == NULL || named == NULL)
        rc = rmpi_fail(NULL, MPI_ERR_NO_MEM, call, "no memory");
    for (int i = 0; i < n && rc == MPI_SUCCESS; i++) {
        int step = ranges[i][2];

        if (step == 0)
            rc = rmpi_fail(NULL, MPI_ERR_ARG, call, "the stride of range %d is 0", i);
        for (int r = ranges[i][0];
             rc == MPI_SUCCESS && (step > 0 ? r <= ranges[i][1] : r >= ranges[i][1]); r += step) {
            if (r < 0 || r >= of->size || named[r] != 0) {
                rc = rmpi_fail(NULL, MPI_ERR_RANK, call, "rank %d %s", r,
                               r < 0 || r >= of->size ? "does not exist" : "occurs twice");
                break;
            }
            named[r] = 1;
            if (inside)
                ranks[found++] = of->ranks[r];
        }
    }
    for (int r = 0; !inside && rc == MPI_SUCCESS && r < of->size; r++)
        if (named[r] == 0)
            ranks[found++] = of->ranks[r];
    if (rc == MPI_SUCCESS)
        rc = group_result(call, ranks, found, group);
    free(ranks);
    free(named);
    return rc;
}

static int group_list(const char *call, MPI_Group of, int n, const int *ranks, bool inside,
                      MPI_Group *group)
{
    int(*ranges)[3] = malloc((size_t)(n > 0 ? n : 1) * sizeof(*ranges)), rc;

    if (ranges == NULL)
        return rmpi_fail(NULL, MPI_ERR_NO_MEM, call, "no memory");
    for (int i = 0; i < n; i++) {
        ranges[i][0] = ranges[i][1] = ranks[i];
        ranges[i][2] = 1;
    }
    rc = group_part(call, of, n, ranges, inside, group);
    free(ranges);
    return rc;
}

int MPI_Group_incl(MPI_Group of, int n, const int *ranks, MPI_Group *group)
{
    return group_list("MPI_Group_incl", of, n, ranks, true, group);
}

int MPI_Group_excl(MPI_Group of, int n, const int *ranks, MPI_Group *group)
{
    return group_list("MPI_Group_excl", of, n, ranks, false, group);
}

int MPI_Group_range_incl(MPI_Group of, int n, int ranges[][3], MPI_Group *group)
{
    return group_part("MPI_Group_range_incl", of, n, ranges, true, group);
}

int MPI_Group_range_excl(MPI_Group of, int n, int ranges[][3], MPI_Group *group)
{
    return group_part("MPI_Group_range_excl", of, n, ranges, false, group);
}

int MPI_Group_free(MPI_Group *group)
{
    int rc = group_check("MPI_Group_free", *group, *group);

    if (rc != MPI_SUCCESS)
        return rc;
    if ((*group)->refs > 0 && --(*group)->refs == 0)
        free(*group);
    *group = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}
