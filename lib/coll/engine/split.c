/* SPDX-License-Identifier: BSD-3-Clause */
/* split.c: rcoll_split. */
#include "coll/engine/fail.h"
#include "coll/engine/open.h"
#include "coll/engine/team_call.h"
#include "util/hash.h"

#include <errno.h>
#include <stdlib.h>

struct split_member {
    int color, key, member;
};

static int split_compare(const void *a, const void *b)
{
    const struct split_member *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->member > y->member) - (x->member < y->member);
}

/* The team of those that have the color of this member. */
static int split_open(rteam_t *team, struct rteam *of, struct split_member *list, int color,
                      struct error *err)
{
    uint64_t key[] = {of->name, of->splits};
    rcoll_team_config_t cfg = {.context =
                                   hash_words(HASH_BASIS, key, sizeof(key) / sizeof(*key)) >> 4,
                               .heap_bytes = of->heap_bytes,
                               .mem_bytes = of->mem_bytes,
                               .depth = of->depth,
                               .flags = team_flags(of),
                               .timeout_ms = of->timeout_ms == 0 ? R_AT_ONCE : of->timeout_ms,
                               .backend = of->backend,
                               .stream = of->stream};
    int *ranks = malloc((size_t)of->size * sizeof(*ranks)), n = 0, rc;

    if (ranks == NULL)
        return error_set(err, -ENOMEM, "no memory for %d ranks", of->size);
    qsort(list, (size_t)of->size, sizeof(*list), split_compare);
    for (int i = 0; i < of->size; i++)
        if (list[i].color == color && list[i].member >= 0 && list[i].member < of->size)
            ranks[n++] = of->rank[list[i].member];
    rc = team_open(team, &cfg, ranks, n, err);
    free(ranks);
    return rc;
}

static int split_run(rteam_t *team, rteam_t of, int color, int key)
{
    struct split_member mine, *list;
    struct error err = {""};
    int rc;

    if (team == NULL || of == NULL || color < -1)
        return coll_fail(-EINVAL,
                         "rcoll_split: team is %s, of is %s, color is %d; it must be -1 or more",
                         team == NULL ? "NULL" : "given", of == NULL ? "NULL" : "given", color);
    *team = NULL;
    list = calloc((size_t)of->size, sizeof(*list));
    if (list == NULL)
        return coll_fail(-ENOMEM, "rcoll_split: no memory for %d members", of->size);
    mine = (struct split_member){.color = color, .key = key, .member = of->me};
    rc = rcoll_allgather(of, &mine, list, sizeof(mine));
    of->splits++;
    if (rc == 0 && color >= 0) {
        rc = split_open(team, of, list, color, &err);
        if (rc != 0)
            (void)coll_fail(rc, "rcoll_split: %s", err.text);
    }
    free(list);
    return rc;
}

int rcoll_split(rteam_t *team, rteam_t of, int color, int key)
{
    struct team_call call;

    team_enter_counted(&call, "rcoll_split");
    return team_leave(&call, split_run(team, of, color, key));
}
