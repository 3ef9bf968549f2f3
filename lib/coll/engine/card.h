/* SPDX-License-Identifier: BSD-3-Clause */
/* card.h: what the members of a team agree on when it is opened, in its first operation. */
#ifndef COLL_ENGINE_CARD_H
#define COLL_ENGINE_CARD_H

#include "coll/engine/team.h"

/*
 * Verifies that all members have the same configuration; takes the settings of the lowest member, and the smallest number of
 * processors. 0; -EINVAL: a setting is wrong, or they differ; or the failure of the operation.
 */
int card_exchange(struct rteam *t, struct error *err);

#endif
