/* SPDX-License-Identifier: BSD-3-Clause */
/* shrink.h: rcoll_agree and rcoll_shrink (shrink.c), for the end of a team. */
#ifndef COLL_ENGINE_SHRINK_H
#define COLL_ENGINE_SHRINK_H

#include "coll/engine/team.h"

/* Closes what a call of rcoll_shrink has left whose deadline has passed. */
void shrink_forget(struct rteam *t);

#endif
