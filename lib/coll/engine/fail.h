/* SPDX-License-Identifier: BSD-3-Clause */
/* fail.h: messages of calls, and failures of teams, which stay. */
#ifndef COLL_ENGINE_FAIL_H
#define COLL_ENGINE_FAIL_H

#include "coll/engine/team.h"

/* Lets the last error of this thread begin with the name of the call. Returns code. */
int coll_fail_named(const char *call, int code) __attribute__((cold));
/* 0, or -ENOTCONN: before rinit, after rexit, in the child of a fork. */
int coll_check_job(const char *call);
/* Whether the team has failed, here or at another member; then t->lost is the code. */
bool team_is_lost(struct rteam *t);
/* The code, and its message. */
int team_lost_error(const struct rteam *t, const char *call) __attribute__((cold));

#endif
