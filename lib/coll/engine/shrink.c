/* SPDX-License-Identifier: BSD-3-Clause */
/* shrink.c: rcoll_agree and rcoll_shrink. */
#include "coll/engine/agree.h"
#include "coll/engine/fail.h"
#include "coll/engine/open.h"
#include "coll/engine/team_call.h"
#include "util/hash.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdlib.h>

static bool shrink_is_dead(const uint64_t *dead, int member)
{
    return (dead[member / 64] >> member % 64 & 1) != 0;
}

static int shrink_agree(rteam_t team, uint64_t *flags, int *dead, int most)
{
    const uint64_t *bits = NULL;
    int rc, n = 0;

    if (team == NULL || flags == NULL || (dead == NULL && most > 0) || most < 0)
        return coll_fail(-EINVAL,
                         "rcoll_agree: the team or flags is NULL, or dead is NULL, and most is %d",
                         most);
    rc = coll_check_job("rcoll_agree");
    if (rc != 0)
        return rc;
    rc = agree_decide(team, flags, &bits, team->timeout_ms);
    if (rc != 0)
        return coll_fail_named("rcoll_agree", rc);
    for (int i = 0; i < team->size; i++)
        if (shrink_is_dead(bits, i)) {
            if (n < most)
                dead[n] = i;
            n++;
        }
    return n;
}

int rcoll_agree(rteam_t team, uint64_t *flags, int *dead, int most)
{
    struct team_call call;

    team_enter_counted(&call, "rcoll_agree");
    return team_leave(&call, shrink_agree(team, flags, dead, most));
}

/* A team of those that live by the last agreement. */
static int shrink_open(rteam_t *living, struct rteam *t, const uint64_t *dead, struct error *err)
{
    uint64_t key[] = {t->name, agree_number(t), 0x736872};
    rcoll_team_config_t cfg = {.context =
                                   hash_words(HASH_BASIS, key, sizeof(key) / sizeof(*key)) >> 4,
                               .heap_bytes = t->heap_bytes,
                               .mem_bytes = t->mem_bytes,
                               .depth = t->depth,
                               .flags = team_flags(t),
                               .timeout_ms = t->timeout_ms == 0 ? R_AT_ONCE : t->timeout_ms,
                               .backend = t->backend,
                               .stream = t->stream};
    int *ranks = malloc((size_t)t->size * sizeof(*ranks)), n = 0, rc;

    if (ranks == NULL)
        return error_set(err, -ENOMEM, "no memory for %d ranks", t->size);
    for (int i = 0; i < t->size; i++)
        if (!shrink_is_dead(dead, i))
            ranks[n++] = t->rank[i];
    rc = team_open(living, &cfg, ranks, n, err);
    free(ranks);
    return rc;
}

static int shrink_count(const struct rteam *t, const uint64_t *dead)
{
    int n = 0;

    for (int i = 0; i < t->size; i++)
        n += shrink_is_dead(dead, i);
    return n;
}

/* Once more where a member has died meanwhile: that all have opened the team is agreed on, too. Each attempt needs one more death. */
static int shrink_run(rteam_t *living, rteam_t team)
{
    const uint64_t *dead = NULL;
    int rc = coll_check_job("rcoll_shrink");

    if (rc != 0)
        return rc;
    if (living == NULL || team == NULL)
        return coll_fail(-EINVAL, "rcoll_shrink: living is %s, the team is %s",
                         living == NULL ? "NULL" : "given", team == NULL ? "NULL" : "given");
    *living = NULL;
    for (;;) {
        struct error err = {""};
        uint64_t flags = 0, opened;
        int opening, died;

        rc = agree_decide(team, &flags, &dead, team->timeout_ms);
        if (rc != 0)
            return coll_fail_named("rcoll_shrink", rc);
        died = shrink_count(team, dead);
        opening = shrink_open(living, team, dead, &err);
        opened = opening == 0;
        rc = agree_decide(team, &opened, &dead, team->timeout_ms);
        if (rc == 0 && opened != 0)
            return 0;
        if (opening == 0)
            (void)rcoll_close(*living);
        *living = NULL;
        if (rc != 0)
            return coll_fail_named("rcoll_shrink", rc);
        if (opening != 0 && opening != -ECONNRESET)
            return coll_fail(opening, "rcoll_shrink: %s", err.text);
        if (shrink_count(team, dead) <= died)
            return coll_fail(-EPROTO, "rcoll_shrink: a member that lives has not opened the team");
    }
}

int rcoll_shrink(rteam_t *living, rteam_t team)
{
    struct team_call call;

    team_enter_counted(&call, "rcoll_shrink");
    return team_leave(&call, shrink_run(living, team));
}
