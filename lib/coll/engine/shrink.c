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

/* ---- attempts ---- */

/* Flags of the second agreement: what is true of the opening at all members. */
#define SHRINK_OPENED 1u
#define SHRINK_DEATHS                                                                              \
    2u /* it is over, or has failed as a member has died: once more, without that one */
#define SHRINK_DEADLINES 4u /* the same, or its deadline has passed: at all members, then */

static uint64_t shrink_flags(int opening)
{
    switch (opening) {
    case 0:
        return SHRINK_OPENED | SHRINK_DEATHS | SHRINK_DEADLINES;
    case -ECONNRESET:
        return SHRINK_DEATHS | SHRINK_DEADLINES;
    case -ETIMEDOUT:
    case -EPIPE: /* of another member, which has closed its board by now */
        return SHRINK_DEADLINES;
    default:
        return 0;
    }
}

/* The first agreement, and the team of those that live. 0, or how the agreement has ended. */
static int shrink_begin(struct rteam *t, struct shrink *s)
{
    const uint64_t *dead = NULL;
    uint64_t flags = 0;
    int rc = agree_decide(t, &flags, &dead, t->timeout_ms), died;

    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("rcoll_shrink: the dead agreed on");
    died = shrink_count(t, dead);
    if (died <= s->died)
        return coll_fail(-EPROTO, "a member that lives has not opened the team");
    s->died = died;
    s->err.text[0] = '\0';
    s->opening = shrink_open(&s->living, t, dead, &s->err);
    s->asks = true;
    RPIPE_FAILPOINT("rcoll_shrink: team open, or not");
    return 0;
}

/* What has failed is the same at all members, but for an opening that fails for another reason. */
static int shrink_failed(const struct rteam *t, struct shrink *s, uint64_t flags)
{
    s->died = -1; /* a next call begins anew */
    if ((flags & SHRINK_DEADLINES) != 0)
        return coll_fail(-ETIMEDOUT, "not all members have opened the team within %d ms%s%s",
                         t->timeout_ms, s->opening != 0 ? ": " : "", s->err.text);
    if (s->opening != 0)
        return coll_fail(s->opening, "%s", s->err.text);
    return coll_fail(-EPROTO, "a member that lives has not opened the team");
}

/* The second agreement. 0: all have opened it, and s->living is it; R_PENDING: once more; or a failure. */
static int shrink_ask(struct rteam *t, struct shrink *s)
{
    const uint64_t *dead = NULL;
    uint64_t flags = shrink_flags(s->opening);
    int rc = agree_decide(t, &flags, &dead, t->timeout_ms);

    if (rc == -ETIMEDOUT)
        return rc;
    s->asks = false;
    if (rc == 0 && (flags & SHRINK_OPENED) != 0)
        return 0;
    team_close_shrunk(s);
    if (rc != 0)
        return rc;
    return (flags & SHRINK_DEATHS) != 0 ? R_PENDING : shrink_failed(t, s, flags);
}

/* Each further attempt needs one more death. */
static int shrink_run(rteam_t *living, rteam_t team)
{
    struct shrink *s;
    int rc = coll_check_job("rcoll_shrink");

    if (rc != 0)
        return rc;
    if (living == NULL || team == NULL)
        return coll_fail(-EINVAL, "rcoll_shrink: living is %s, the team is %s",
                         living == NULL ? "NULL" : "given", team == NULL ? "NULL" : "given");
    *living = NULL;
    if (team->shrink == NULL) {
        team->shrink = calloc(1, sizeof(*team->shrink));
        if (team->shrink == NULL)
            return coll_fail(-ENOMEM, "rcoll_shrink: no memory for a team of the living");
        team->shrink->died = -1;
    }
    s = team->shrink;
    do {
        rc = s->asks ? 0 : shrink_begin(team, s);
        if (rc == 0)
            rc = shrink_ask(team, s);
    } while (rc == R_PENDING);
    if (rc == 0) {
        *living = s->living;
        s->living = NULL;
    }
    if (rc != -ETIMEDOUT)
        team_forget_shrink(team);
    return rc == 0 ? 0 : coll_fail_named("rcoll_shrink", rc);
}

int rcoll_shrink(rteam_t *living, rteam_t team)
{
    struct team_call call;

    team_enter_counted(&call, "rcoll_shrink");
    return team_leave(&call, shrink_run(living, team));
}
