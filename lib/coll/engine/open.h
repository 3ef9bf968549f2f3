/* SPDX-License-Identifier: BSD-3-Clause */
/* open.h: opening a team, for rcoll_team and what makes teams of teams. */
#ifndef COLL_ENGINE_OPEN_H
#define COLL_ENGINE_OPEN_H

#include "coll/engine/team.h"

int team_open(struct rteam **team, const rcoll_team_config_t *cfg, const int *ranks, int n,
              struct error *err);

#endif
