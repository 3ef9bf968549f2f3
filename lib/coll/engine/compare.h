/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare.h: members that wait for each other in different operations find it before their deadlines (doc/collectives.md "The engine", "Probes").
 */
#ifndef COLL_ENGINE_COMPARE_H
#define COLL_ENGINE_COMPARE_H

#include "coll/engine/team.h"

/*
 * For a pass that has made no step; lock held, in a counted call where the team has several hosts. Fails the team if another member has begun another
 * operation as one of the same number that is in flight here. May sleep then.
 */
void team_compare_operations(struct rteam *t);

#endif
