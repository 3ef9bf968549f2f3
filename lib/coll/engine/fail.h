/* SPDX-License-Identifier: BSD-3-Clause */
/* fail.h: messages of calls, and failures of teams, which stay. */
#ifndef COLL_ENGINE_FAIL_H
#define COLL_ENGINE_FAIL_H

#include "coll/engine/team.h"

/* Sets the last error of this thread; returns code. */
int coll_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* Lets the last error of this thread begin with the name of the call. Returns code. */
int coll_fail_named(const char *call, int code) __attribute__((cold));
/* 0, or -ENOTCONN: before rinit, after rexit, in the child of a fork. */
int coll_check_job(const char *call);
/* The first failure of the team stays, and is reported to the other members. Returns the code that the team has. */
int team_fail(struct rteam *t, int code, int member, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
/* -EPROTO: a member does another operation as this number. */
int team_fail_other(struct rteam *t, const struct operation *o, int member) __attribute__((cold));
/*
 * Before an operation that has failed is over: memory that is lent to other members is the program's again. For a call that is counted,
 * as each call of a team that lends is; else it does nothing.
 */
void team_withdraw(struct rteam *t, int code);
/* Whether the team has failed, here or at another member; then t->lost is the code. */
bool team_is_lost(struct rteam *t);
/* The code, and its message. */
int team_lost_error(const struct rteam *t, const char *call) __attribute__((cold));

#endif
