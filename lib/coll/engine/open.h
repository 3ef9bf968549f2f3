/* SPDX-License-Identifier: BSD-3-Clause */
/* open.h: opening a team, for rcoll_team and what makes teams of teams. */
#ifndef COLL_ENGINE_OPEN_H
#define COLL_ENGINE_OPEN_H

#include "coll/engine/team.h"

/* What a team of members of this one has for flags. */
static inline uint32_t team_flags(const struct rteam *t)
{
    return (t->threads ? RCOLL_THREADS : 0) | (t->with_async ? RCOLL_ASYNC : 0);
}

/*
 * An attempt of rcoll_shrink is two agreements: on the dead, after which each member opens the team of those that live, and on whether all have
 * opened it. The deadline of a call may pass in either, and the next call goes on with the same one: so what comes between them is
 * kept, until the team is closed at the latest.
 */
struct shrink {
    bool asks;      /* the first agreement is over, and the second one is not */
    rteam_t living; /* what this member has opened; NULL: nothing */
    int opening;    /* 0, or why it has not */
    int died;       /* members, by the attempt before; -1: there was none */
    struct error err;
};

/* Closes what has been opened. */
void team_close_shrunk(struct shrink *s);
/* And forgets the attempt; there may be none. */
void team_forget_shrink(struct rteam *t);

int team_open(struct rteam **team, const rcoll_team_config_t *cfg, const int *ranks, int n,
              struct error *err);

#endif
