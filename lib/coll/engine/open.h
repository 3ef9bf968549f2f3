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

int team_open(struct rteam **team, const rcoll_team_config_t *cfg, const int *ranks, int n,
              struct error *err);

#endif
