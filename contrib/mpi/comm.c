/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.c: communicators: their index, spaces and teams.
 *
 * An index is free at a process until one of its communicators has it. To make a communicator the members of the parent combine
 * their free indices, and take the lowest one that all have: first among those that none of them has had, so that a message which
 * no receive took does not meet the next user of its space; then among all. Parts of one split have the same index: no process
 * is in two of them.
 *
 * That reduction is also what makes the opening of the team safe: once a member leaves it, all members are in the same call,
 * and no one of them waits for messages. Opening a team does not progress any.
 */
#include "rmpi.h"

#define COMM_WORDS (RMPI_COMMS / 64)
#define COMM_TEAMS "rmpi teams"

struct rmpi_comm rmpi_comm_world, rmpi_comm_self;

static uint64_t comm_free_index[COMM_WORDS]; /* bits: no communicator of this process has it */
static uint64_t comm_new_index[COMM_WORDS];  /* bits: none has had it */

/* ---- indices ---- */

static void comm_take(uint32_t index)
{
    comm_free_index[index / 64] &= ~(UINT64_C(1) << index % 64);
    comm_new_index[index / 64] &= ~(UINT64_C(1) << index % 64);
}

static int comm_lowest(const uint64_t *words)
{
    for (int i = 0; i < COMM_WORDS; i++)
        if (words[i] != 0)
            return i * 64 + __builtin_ctzll(words[i]);
    return -1;
}

/* Collective over comm: an index that is free at all members. */
static int comm_agree(struct rmpi_comm *comm, uint32_t *index)
{
    uint64_t mine[2 * COMM_WORDS], all[2 * COMM_WORDS] = {0};
    rcoll_params_t p = {.kind = RCOLL_ALLREDUCE,
                        .from = mine,
                        .into = all,
                        .count = 2 * COMM_WORDS,
                        .type = RGROUP_UINT64,
                        .op = RGROUP_BAND};
    int rc, found;

    memcpy(mine, comm_new_index, sizeof(comm_new_index));
    memcpy(mine + COMM_WORDS, comm_free_index, sizeof(comm_free_index));
    rc = rmpi_run(comm, &p, sizeof(mine), sizeof(all));
    if (rc != 0)
        return rc;
    found = comm_lowest(all);
    if (found < 0) {
        memcpy(comm_new_index, comm_free_index, sizeof(comm_new_index));
        found = comm_lowest(all + COMM_WORDS);
    }
    if (found < 0)
        return -EMFILE;
    *index = (uint32_t)found;
    return 0;
}

/* ---- one communicator ---- */

static int comm_open_team(struct rmpi_comm *comm, const int *ranks, int n)
{
    rcoll_team_config_t cfg = {.context = rpipe_context(COMM_TEAMS) + comm->space / 2,
                               .timeout_ms = R_FOREVER};

    return rcoll_team(&comm->team, &cfg, ranks, n);
}

/* Ranks in the job and back; none where they are the same. */
static bool comm_number(struct rmpi_comm *comm, const int *ranks, int n)
{
    int *peers, *index;
    bool same = n == rmpi.size;

    comm->size = n;
    for (int i = 0; i < n; i++) {
        same = same && ranks[i] == i;
        if (ranks[i] == rmpi.rank)
            comm->rank = i;
    }
    if (same)
        return true;
    peers = malloc(((size_t)n + (size_t)rmpi.size) * sizeof(*peers));
    if (peers == NULL)
        return false;
    index = peers + n;
    memset(index, 0xff, (size_t)rmpi.size * sizeof(*index));
    for (int i = 0; i < n; i++) {
        peers[i] = ranks[i];
        index[ranks[i]] = i;
    }
    comm->peers = peers;
    comm->index = index;
    return true;
}

int rmpi_comm_make(struct rmpi_comm *comm, const int *ranks, int n, struct rmpi_comm **made,
                   const char *call)
{
    struct rmpi_comm *c;
    uint32_t index = 0;
    int rc = comm_agree(comm, &index);

    *made = NULL;
    if (rc == -EMFILE)
        return rmpi_fail(comm, MPI_ERR_OTHER, call, "no number below %d is free at all members",
                         RMPI_COMMS);
    if (rc != 0)
        return rmpi_fail_rc(comm, rc, call);
    if (ranks == NULL)
        return MPI_SUCCESS;
    c = calloc(1, sizeof(*c));
    if (c == NULL || !comm_number(c, ranks, n)) {
        free(c);
        return rmpi_fail(comm, MPI_ERR_NO_MEM, call, "no memory");
    }
    c->space = 2 * index;
    c->refs = 1;
    comm_take(index);
    c->errhandler = comm->errhandler;
    rmpi_errhandler_keep(c->errhandler);
    rc = comm_open_team(c, ranks, n);
    if (rc != 0) {
        rmpi_comm_drop(c);
        return rmpi_fail_rc(comm, rc, call);
    }
    *made = c;
    return MPI_SUCCESS;
}

static void comm_close_team(struct rmpi_comm *comm)
{
    rmpi_plans_free(comm);
    if (comm->team != NULL)
        (void)rcoll_close(comm->team);
    comm->team = NULL;
}

void rmpi_comm_drop(struct rmpi_comm *comm)
{
    if (comm == NULL || --comm->refs > 0)
        return;
    comm_close_team(comm);
    comm_free_index[comm->space / 128] |= UINT64_C(1) << comm->space / 2 % 64;
    rmpi_errhandler_drop(comm->errhandler);
    rmpi_cart_free(comm);
    free((void *)(uintptr_t)comm->peers);
    free(comm);
}

static int comm_predefined(struct rmpi_comm *comm, uint32_t index, const int *ranks, int n,
                           const char *name)
{
    comm->space = 2 * index;
    comm->refs = 1;
    comm_take(index);
    comm->errhandler = MPI_ERRORS_ARE_FATAL;
    (void)MPI_Comm_set_name(comm, name);
    return comm_number(comm, ranks, n) ? comm_open_team(comm, ranks, n) : -ENOMEM;
}

int rmpi_comm_open_world(void)
{
    int *ranks = malloc((size_t)rmpi.size * sizeof(*ranks));
    int rc = ranks == NULL ? -ENOMEM : 0;

    for (int i = 0; rc == 0 && i < rmpi.size; i++)
        ranks[i] = i;
    memset(comm_free_index, 0xff, sizeof(comm_free_index));
    memset(comm_new_index, 0xff, sizeof(comm_new_index));
    rmpi.initialized = true; /* for the checks of what follows */
    if (rc == 0)
        rc = comm_predefined(&rmpi_comm_world, 0, ranks, rmpi.size, "MPI_COMM_WORLD");
    if (rc == 0)
        rc = comm_predefined(&rmpi_comm_self, 1, &rmpi.rank, 1, "MPI_COMM_SELF");
    rmpi.initialized = false;
    free(ranks);
    return rc;
}

void rmpi_comm_close_world(void)
{
    comm_close_team(&rmpi_comm_self);
    comm_close_team(&rmpi_comm_world);
    free((void *)(uintptr_t)rmpi_comm_self.peers);
    rmpi_comm_self.peers = rmpi_comm_self.index = NULL;
}

/* ---- public ---- */

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    int rc = rmpi_check_comm("MPI_Comm_rank", comm);

    if (rc == MPI_SUCCESS)
        *rank = comm->rank;
    return rc;
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    int rc = rmpi_check_comm("MPI_Comm_size", comm);

    if (rc == MPI_SUCCESS)
        *size = comm->size;
    return rc;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
    int rc = rmpi_check_comm("MPI_Comm_dup", comm);
    int *ranks;

    if (rc != MPI_SUCCESS)
        return rc;
    ranks = malloc((size_t)comm->size * sizeof(*ranks));
    if (ranks == NULL)
        return rmpi_fail(comm, MPI_ERR_NO_MEM, "MPI_Comm_dup", "no memory");
    for (int i = 0; i < comm->size; i++)
        ranks[i] = rmpi_peer(comm, i);
    rc = rmpi_comm_make(comm, ranks, comm->size, copy, "MPI_Comm_dup");
    free(ranks);
    if (rc == MPI_SUCCESS)
        rc = rmpi_cart_copy(comm, *copy);
    if (rc == MPI_SUCCESS)
        rc = rmpi_attrs_copy(comm, *copy);
    return rc;
}

struct member {
    int color, key, rank;
};

static int member_order(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank - y->rank;
}

/* Those of my color, in order of their keys, become the ranks (of the job) at `ranks`. */
static int split_members(MPI_Comm comm, int color, struct member *all, int *ranks)
{
    int n = 0;

    for (int i = 0; i < comm->size; i++)
        if (all[i].color == color)
            all[n++] = all[i];
    qsort(all, (size_t)n, sizeof(*all), member_order);
    for (int i = 0; i < n; i++)
        ranks[i] = rmpi_peer(comm, all[i].rank);
    return n;
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *part)
{
    int rc = rmpi_check_comm("MPI_Comm_split", comm), n = 0, *ranks;
    struct member mine, *all;

    if (rc != MPI_SUCCESS)
        return rc;
    if (color < 0 && color != MPI_UNDEFINED)
        return rmpi_fail(comm, MPI_ERR_ARG, "MPI_Comm_split", "color is %d", color);
    mine = (struct member){color, key, comm->rank};
    all = malloc((size_t)comm->size * (sizeof(*all) + sizeof(*ranks)));
    if (all == NULL)
        return rmpi_fail(comm, MPI_ERR_NO_MEM, "MPI_Comm_split", "no memory");
    ranks = (int *)(void *)(all + comm->size);
    rc = MPI_Allgather(&mine, (int)sizeof(mine), MPI_BYTE, all, (int)sizeof(mine), MPI_BYTE, comm);
    if (rc == MPI_SUCCESS && color != MPI_UNDEFINED)
        n = split_members(comm, color, all, ranks);
    if (rc == MPI_SUCCESS)
        rc = rmpi_comm_make(comm, n > 0 ? ranks : NULL, n, part, "MPI_Comm_split");
    free(all);
    return rc;
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *part)
{
    int rc = rmpi_check_comm("MPI_Comm_create", comm);

    if (rc != MPI_SUCCESS)
        return rc;
    if (group == NULL)
        return rmpi_fail(comm, MPI_ERR_GROUP, "MPI_Comm_create", "the group is null");
    return rmpi_comm_make(comm, group->rank >= 0 ? group->ranks : NULL, group->size, part,
                          "MPI_Comm_create");
}

int MPI_Comm_free(MPI_Comm *comm)
{
    int rc = rmpi_check_comm("MPI_Comm_free", *comm);

    if (rc != MPI_SUCCESS)
        return rc;
    if (*comm == MPI_COMM_WORLD || *comm == MPI_COMM_SELF)
        return rmpi_fail(*comm, MPI_ERR_COMM, "MPI_Comm_free", "the communicator is predefined");
    rc = rmpi_attrs_free(*comm);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = MPI_Barrier(*comm); /* what others have started is over before the team is closed */
    rmpi_comm_drop(*comm);
    *comm = MPI_COMM_NULL;
    return rc;
}

int MPI_Comm_compare(MPI_Comm a, MPI_Comm b, int *result)
{
    MPI_Group ga, gb;
    int rc = rmpi_check_comm("MPI_Comm_compare", a);

    if (rc == MPI_SUCCESS)
        rc = rmpi_check_comm("MPI_Comm_compare", b);
    if (rc != MPI_SUCCESS)
        return rc;
    if (a == b) {
        *result = MPI_IDENT;
        return MPI_SUCCESS;
    }
    rc = MPI_Comm_group(a, &ga);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_group(b, &gb);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = MPI_Group_compare(ga, gb, result);
    if (*result == MPI_IDENT)
        *result = MPI_CONGRUENT;
    (void)MPI_Group_free(&ga);
    (void)MPI_Group_free(&gb);
    return rc;
}

int MPI_Comm_group(MPI_Comm comm, MPI_Group *group)
{
    int rc = rmpi_check_comm("MPI_Comm_group", comm);
    struct rmpi_group *made;

    if (rc != MPI_SUCCESS)
        return rc;
    made = rmpi_group_make(comm->size);
    if (made == NULL)
        return rmpi_fail(comm, MPI_ERR_NO_MEM, "MPI_Comm_group", "no memory");
    for (int i = 0; i < comm->size; i++)
        made->ranks[i] = rmpi_peer(comm, i);
    made->rank = comm->rank;
    *group = made;
    return MPI_SUCCESS;
}

int MPI_Comm_test_inter(MPI_Comm comm, int *flag)
{
    *flag = 0;
    return rmpi_check_comm("MPI_Comm_test_inter", comm);
}

int MPI_Comm_set_name(MPI_Comm comm, const char *name)
{
    strncpy(comm->name, name, sizeof(comm->name) - 1);
    return MPI_SUCCESS;
}

int MPI_Comm_get_name(MPI_Comm comm, char *name, int *len)
{
    int rc = rmpi_check_comm("MPI_Comm_get_name", comm);

    if (rc != MPI_SUCCESS)
        return rc;
    memcpy(name, comm->name, sizeof(comm->name));
    *len = (int)strlen(name);
    return rc;
}
