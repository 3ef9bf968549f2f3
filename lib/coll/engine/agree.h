/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agree.h: agreement of the living members of a team, also of one that has failed.
 *
 * Every member contributes flags. Then there is a round for each member, in their order: the member of the round has an
 * estimate, which is what it has taken over in an earlier round, or, if it has none, the flags of all that live, combined, and the
 * members of which it has found that they are dead. It publishes that; all others wait for it, or for its death, and take
 * it over. After the last round the estimate is the decision.
 *
 * It is the same at all: a member that lives to the end has had its round, in which all others took over its estimate, and later
 * rounds only repeat it. (Rotating coordinators, Chandra and Toueg 1996, for a failure detector that makes no mistake.) On one
 * host the first round with a living member decides, since what a member has published stays readable after its death.
 *
 * Within a host contributions and estimates are words of the board; between hosts messages of a pipe for each two members. One set of
 * words is enough for all agreements: no member publishes an estimate before all that live have contributed to that agreement, and so have
 * ended the one before. (model/agree.pml has both, with deaths at any step.)
 */
#ifndef COLL_ENGINE_AGREE_H
#define COLL_ENGINE_AGREE_H

#include "coll/engine/team.h"

/* The number of the last agreement; 0: there was none. */
uint64_t agree_number(const struct rteam *t);
/*
 * *flags becomes the decision, and dead a bit for each member. 0; -ETIMEDOUT: call again, with any flags; -ENOTCONN; -ENOMEM;
 * -ECONNRESET: this member is among the dead.
 */
int agree_decide(struct rteam *t, uint64_t *flags, const uint64_t **dead, int timeout_ms);
void agree_close(struct rteam *t);

#endif
